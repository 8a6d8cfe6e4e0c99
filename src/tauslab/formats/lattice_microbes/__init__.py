"""Files of Lattice Microbes (.lm): lattices and networks.

The fields of the format are in `fields`.
"""
