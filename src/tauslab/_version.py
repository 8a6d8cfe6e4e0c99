"""The version, which nothing else needs to be imported for."""

__version__ = "0.1.0"
