"""Building a dynamic Bayesian network: plan, launches, counts in parts, their merging.

`build` is the entry.
"""
