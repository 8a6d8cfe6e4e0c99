"""Particle filters and chains: observations, weights, parameters."""
