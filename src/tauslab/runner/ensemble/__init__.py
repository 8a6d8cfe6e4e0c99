"""Running an ensemble: the task, lanes of launches, the driver, growth and convergence.

`run` is the entry; what is chosen by pilots is in `choices`.
"""
