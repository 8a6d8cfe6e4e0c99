"""Results of lattice runs: reading, exports, digests.

`result` is the entry.
"""
