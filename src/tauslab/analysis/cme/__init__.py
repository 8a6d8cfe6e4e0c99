"""The chemical master equation of a small network, solved with a proved bound of its error.

States and generator, the finite state projection in time, and the distribution that it gives.
"""
