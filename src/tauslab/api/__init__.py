"""The Python interface: `run`, `read`, `open`, `dbn.build`, and what else asks of a model.

Users import `tauslab` and `tauslab.dbn`. `inference` is of models against data; `cme`, `rare` and
`populations` are functions of users. `executor` and `kinds` serve the command line too.
"""
