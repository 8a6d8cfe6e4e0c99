"""Lattice models (RDME): the builder `Lattice`, its values as numbers, its canonical text and file.

What is asked of a lattice model before it runs is in `diagnosis`.
"""
