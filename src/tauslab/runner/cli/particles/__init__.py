"""Commands of walkers and particles: ``tauslab rare`` and ``tauslab filter``."""
