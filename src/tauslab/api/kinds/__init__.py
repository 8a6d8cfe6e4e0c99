"""The kinds of result files, and the operations on each.

`kind` says what an operation is; `ensembles`, `lattices`, `networks` and `analyses` hold the kinds;
`registry` finds the kind of a file and imports its module. To open a file is not to load what draws
it.
"""
