"""Launches of an ensemble on Dask workers (``--executor dask``).

Dask and distributed are imported here alone.
"""
