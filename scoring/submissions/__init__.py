"""Submissions: find one, unpack it, check it, pack it, call it."""
