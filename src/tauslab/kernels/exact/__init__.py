"""The exact stochastic simulation algorithm: generated code, or tables for large networks.

`ssa` is the engine, `selectors` how a reaction is chosen; kernels in csrc/ensemble and csrc/tables.
"""
