"""A comparison -> one HTML file that needs nothing else: no network, no server, no other file.

page.py      the frame: head, style, plotly once, the script that draws
sections.py  what stands on the page, from the question to the provenance
validation.py  the page of a validation
publications.py   the page of a validation against published values
plan.py       the page of a plan
page.css, page.js
"""

from simulator.report.page import rendered, report
from simulator.report.plan import plan_page
from simulator.report.publications import published_page
from simulator.report.validation import validation_page

__all__ = ["plan_page", "published_page", "rendered", "report", "validation_page"]
