"""Protocols of BioNetGen: the actions of a .bngl file, run one after another.

`protocol` runs them, `command` writes their reports.
"""
