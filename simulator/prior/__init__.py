"""Acceptance of a draft that does not exist yet, as a distribution: scaling law, shape, and excess loss to acceptance.

How it was fitted, and what it is worth on families that were held out, stands in docs/prior; every use prints
:attr:`simulator.prior.acceptance.AcceptancePrior.statement`.
"""
