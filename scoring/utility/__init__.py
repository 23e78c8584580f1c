"""Is the release of use: the challenge's checks, and what a researcher would recognise."""
