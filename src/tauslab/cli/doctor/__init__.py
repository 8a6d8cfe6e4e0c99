"""`tauslab doctor`: what this machine or cluster offers, and whether it works.

`report` is the entry.
"""
