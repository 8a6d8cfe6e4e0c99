"""Well-mixed reaction networks: the builder `Network`, checks and canonical text.

Every engine of ensembles starts from a `Network`.
"""
