"""The Python interface: `run`, `read`, `open`, `simulator`, and `dbn.build`.

`tauslab/__init__` and `tauslab/dbn` are what users import.
"""
