"""The contents of a result file: datasets, types, axes, statistics as integers.

A pure function of the job; this package writes nothing.
"""
