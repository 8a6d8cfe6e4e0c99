"""Arithmetic expressions of models: trees, their infix text, their values, what is found in them.

Nothing here knows networks or lattices.
"""
