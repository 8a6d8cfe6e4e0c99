"""How values of options are declared, spelled, read and checked, on the command line and in Python.

`definition` says what an option is; nothing here knows a particular option.
"""
