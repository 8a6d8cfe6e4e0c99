"""Exact trajectories that share random numbers, for derivatives of means by parameters.

`pairs` runs them two by two, `common` one by one with a stream for each reaction, `scores` alone
with likelihood ratios; `codegen` writes what they need of a model. Kernels are in csrc/coupled.
"""
