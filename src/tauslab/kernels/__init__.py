"""Kernels for reaction networks: generated code, engines and the devices that run them."""

if __name__ != "tauslab.kernels":  # through the link at the root: it would be a second copy
    raise ImportError("kernels is a part of tauslab: write `import tauslab.kernels`")
