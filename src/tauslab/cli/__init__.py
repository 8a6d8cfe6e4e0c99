"""The command line: one function a command, help, printing.

`main` is the entry; commands end in the same functions as the Python interface.
"""
