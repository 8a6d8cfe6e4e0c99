"""Reaction networks: readers, expressions, checks; needs no device and no ranks."""

if __name__ != "tauslab.model":  # through the link at the root: it would be a second copy
    raise ImportError("model is a part of tauslab: write `import tauslab.model`")
