"""What a result file holds: datasets, types, axes, statistics as integers.

A pure function of the job; nothing here writes.
"""
