"""Declaration, spelling, reading and checks of options, on the command line and in Python.

`definition` says what an option is; no module of this package knows a particular option.
"""
