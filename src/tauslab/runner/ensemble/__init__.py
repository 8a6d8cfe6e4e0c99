"""Running an ensemble: the task, lanes of launches, the driver, growth and convergence.

A run begins in `entry`; pilots choose in `choices`.
"""
