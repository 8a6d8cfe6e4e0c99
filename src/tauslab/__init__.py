"""Exact stochastic simulation of reaction networks, the same bits on every device."""
