"""Dynamic Bayesian networks that were built: reading, inference, estimation.

`network` and `file` are the entries.
"""
