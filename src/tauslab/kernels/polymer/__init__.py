"""Brownian steps of bead chains, with cell lists; bits do not depend on the order of threads."""
