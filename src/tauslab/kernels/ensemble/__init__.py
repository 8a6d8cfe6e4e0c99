"""What all engines of ensembles share: their interface, launches, statistics and summaries.

Its kernels are in csrc/ensemble.
"""
