"""Checks of a result before anything else reads it.

`opening` opens a file and says what it is; one that was cut short is an `InputFileError`, "is
truncated". `ensemble` and `lattice` compare what the file of an ensemble or of a lattice says of
itself with what it holds. `tauslab.store.results.verified` compares blocks of rows with their
checksums as they are read; checksums of all else are `tauslab.base.files.seals`.
"""
