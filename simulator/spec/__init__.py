"""The contract: everything that `runtime` may know of `simulator`.

Importing it loads neither SimPy, SciPy, plotly nor JAX.

    scenario model drafting hardware acceptance    what a file may say: one schema class a mapping
    fields describe explain schema                 kinds of value, and the schema in words, as help, for editors
    source document library base axes physics load text -> data with places -> named files -> base -> sweep -> points
    problems                                       what the validator found -> located mistakes in a planner's words
    terms record probe                             names of metrics, and what is written down about a run
"""
