"""Models made by rule, of any size: networks, and systems of equations.

They serve benchmarks and tests; nothing else in the package imports them.
"""
