"""SBML Level 2 and 3 into a `Network`: units, rules, events, stoichiometry.

`reader` is the entry; what cannot be honoured is refused by name. Numbers are taken as the file has
them: a parameter's own unit is not read. The unit of amounts is, in `document`: counts of molecules
run as they are, moles only by `tauslab.model.network.molecules.in_molecules` (``--molecules``).
"""
