"""Kernels for reaction networks: generated code, engines and the devices that run them."""
