"""Checks of a network (`check`): what an engine cannot honour, and what is likely not meant."""
