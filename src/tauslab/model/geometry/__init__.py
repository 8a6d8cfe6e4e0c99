"""Masks of lattice sites: shapes, obstacles and volumes of labels.

`tauslab.geometry` is the face that users see.
"""
