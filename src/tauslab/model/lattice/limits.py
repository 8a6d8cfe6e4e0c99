"""Numbers that bound a step of a lattice."""

MAX_HOP = 1 / 6  # probability at which a step of diffusion is Gaussian to fourth order
