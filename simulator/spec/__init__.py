"""The contract: everything that `runtime` may know of `simulator`.

Importing it loads neither SimPy, SciPy, plotly nor JAX.
"""
