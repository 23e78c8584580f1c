"""Many attacks on one release, and what they would have found."""
