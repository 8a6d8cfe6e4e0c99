"""Arithmetic expressions of models: trees, their infix text, their values, and their analysis.

No module of this package knows networks or lattices.
"""
