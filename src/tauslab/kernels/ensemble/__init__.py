"""Parts that all engines of ensembles share: their base, launches, statistics and summaries.

Its kernels are in csrc/ensemble.
"""
