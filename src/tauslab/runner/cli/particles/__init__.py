"""Commands of walkers, particles and pairs: ``tauslab rare``, ``filter``, ``sensitivity``."""
