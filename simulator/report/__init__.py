"""A comparison -> one HTML file that needs nothing else: no network, no server, no other file.

page.py      the frame: head, style, plotly once, the script that draws
sections.py  what stands on the page, from the question to the provenance
validation.py  the page of a validation
page.css, page.js
"""

from simulator.report.page import rendered, report
from simulator.report.validation import validation_page

__all__ = ["rendered", "report", "validation_page"]
