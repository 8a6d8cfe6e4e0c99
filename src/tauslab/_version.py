"""The version of the package, which every layer may ask for."""

__version__ = "0.1.0"
