"""What only the organiser runs: data sets, matches, utility verdicts, reports."""
