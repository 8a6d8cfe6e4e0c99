"""Commands of walkers, particles, pairs and cells.

``tauslab rare``, ``filter``, ``sensitivity`` and ``population``.
"""
