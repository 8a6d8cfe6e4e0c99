"""The Python interface: `run`, `read`, `open`, `simulator`, and `dbn.build`.

Users import `tauslab` and `tauslab.dbn`. `executor` and `kinds` serve the command line too.
"""
