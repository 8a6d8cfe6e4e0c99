"""Checks of a result before anything else reads it, and while it is read.

`opening` opens a file and says what it is; one that was cut short is an `InputFileError`, "is
truncated". `ensemble` and `lattice` compare what the file of an ensemble or of a lattice says of
itself with what it holds, `verified` compares blocks of rows with their checksums as they are read.
Checksums of all else are `tauslab.base.files.seals`.
"""
