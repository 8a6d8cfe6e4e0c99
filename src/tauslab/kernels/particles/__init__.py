"""Weights of particles on the device: densities, sums, ancestors and moments."""
