"""Dynamic Bayesian networks that were built: reading, inference, estimation, model checking.

`network` and `file` are the entries.
"""
