"""Networks with events: the exact engine that stops for them, and what all engines write of them.

Its kernels are in csrc/events; those of large networks, in csrc/tables, take events too.
"""
