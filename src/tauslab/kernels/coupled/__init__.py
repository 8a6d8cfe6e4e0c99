"""Exact trajectories that share random numbers, for derivatives of means by parameters.

`engines` has three: in pairs, one by one with a stream for each reaction, and alone with likelihood
ratios; `codegen` writes what they need of a model. Kernels are in csrc/coupled.
"""
