"""Exact trajectories that share random numbers, for derivatives of means by parameters.

`pairs` runs them two by two, `common` one by one with a stream for each reaction, `codegen` writes
what both need of a model. Their kernels are in csrc/coupled.
"""
