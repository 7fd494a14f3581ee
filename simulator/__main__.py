"""`python -m simulator` is `sps`."""

from simulator.cli import main

main()
