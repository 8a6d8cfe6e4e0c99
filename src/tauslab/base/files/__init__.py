"""HDF5 files of ours as bytes: fixed-length text, checksums (seals), and sentences for damage.

Both lattice models and results are kept in such files.
"""
