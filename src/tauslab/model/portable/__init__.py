"""Host arithmetic and random words that are the same bits on every machine.

Kernels have the same functions in csrc/math and csrc/random.
"""
