"""Models against data: filters and chains of `particles`, a `simulator` for samplers, gradients.

`sensitivity` holds derivatives of means and the expectation that fits descend.
"""
