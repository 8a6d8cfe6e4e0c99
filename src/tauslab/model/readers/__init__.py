"""Files into models: one module or room for each format, chosen in `read`.

A reader ends with a `Network` or a `Lattice`, or with one sentence.
"""
