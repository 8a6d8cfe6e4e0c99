"""Models made by rule, of any size: networks, and systems of equations.

`networks` are public names of `tauslab`; `equations` serve benchmarks and tests.
"""
