"""Logarithms of arrays and random words that are the same bits on every machine.

Values of expressions are `tauslab.model.expressions.host_math` and `array_math`.
Kernels have the same functions in csrc/math and csrc/random.
"""
