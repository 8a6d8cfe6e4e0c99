"""The kinds of result files, and the operations on each.

`kind` says what an operation is, `recorded` holds the kinds of runs, `arrays` those of estimates,
`registry` finds the kind of a file: a new one is one more entry there. An operation imports what
it needs, so that to open a file is not to load what draws it.
"""
