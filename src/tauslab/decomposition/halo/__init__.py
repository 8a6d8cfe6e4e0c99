"""Halo exchange between slabs: how deep, which messages, over which links.

Links are peer copies, host memory that ranks share, or MPI.
"""
