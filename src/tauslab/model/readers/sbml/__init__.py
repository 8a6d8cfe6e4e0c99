"""SBML Level 2 and 3 into a `Network`: units, rules, events, stoichiometry.

`reader` is the entry; what cannot be honoured is refused by name.
"""
