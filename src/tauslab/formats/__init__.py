"""Formats of models, read and written: SBML, Antimony, BioNetGen, TOML, Lattice Microbes, HDF5."""
