"""Pieces of a job: blocks and slabs as integers, ranks, halos, the steps of a slab."""

if __name__ != "tauslab.decomposition":  # through the link at the root: it would be a second copy
    raise ImportError("decomposition is a part of tauslab: write `import tauslab.decomposition`")
