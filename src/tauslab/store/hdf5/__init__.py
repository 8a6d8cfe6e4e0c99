"""Bytes of HDF5 files: new ones, rows in place, views, buffers, the disk.

All writing to disk passes through this package.
"""
