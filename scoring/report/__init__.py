"""The pages: the report of a match, the leaderboard, and their plots."""
