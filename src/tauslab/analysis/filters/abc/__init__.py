"""Approximate Bayesian computation: populations of parameters whose simulations come near data."""
