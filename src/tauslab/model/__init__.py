"""Reaction networks: readers, expressions, checks; needs no device and no ranks."""
