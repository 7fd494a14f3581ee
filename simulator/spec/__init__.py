"""The contract: everything that `runtime` may know of `simulator`.

Importing it loads neither SimPy, SciPy, plotly nor JAX.

    scenario model drafting hardware acceptance    what a file may say: one schema class a mapping
    fields describe explain schema                 kinds of value, and the schema in words, as help, for editors
    source library base axes physics load          text -> places -> named files -> base -> sweep -> checked points
    problems                                       what the validator found -> located mistakes in a planner's words
    terms record probe                             names of metrics, and what is written down about a run
"""
