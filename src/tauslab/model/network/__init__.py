"""Well-mixed reaction networks: the builder `Network`, checks, canonical text, generated networks.

Every engine of ensembles starts from a `Network`.
"""
