"""Arithmetic expressions of models: trees, their infix text, and what is found in them.

Nothing here knows networks or lattices.
"""
