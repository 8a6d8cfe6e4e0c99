"""One module for each sub-command: it calls the library and prints.

A module is imported when one of its commands is given.
"""
