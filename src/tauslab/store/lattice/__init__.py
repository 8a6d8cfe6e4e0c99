"""Writers of lattice results: frames, parts of slabs, their joining.

`writer` is the entry.
"""
