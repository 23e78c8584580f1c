"""Run `python -m deid`."""

from deid.cli import main

main()
