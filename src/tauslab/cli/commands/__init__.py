"""What each sub-command does: calls the library and prints.

A module is imported when one of its commands is given.
"""
