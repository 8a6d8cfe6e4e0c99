"""Counting tables of dynamic Bayesian networks on a device (Hagiescu et al. 2013).

Its kernels are in csrc/dbn.
"""
