"""Lattice reaction-diffusion (MPD-RDME): code generation, memory, steps, messages of a halo.

`engine` is the entry; its kernels are in csrc/lattice.
"""
