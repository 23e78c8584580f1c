"""What only the organiser runs: data sets, matches, utility verdicts, reports."""

__version__ = "0.2.0"
