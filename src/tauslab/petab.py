"""PEtab problems: read, simulate, and compute their objective for many parameter vectors at once.

>>> from tauslab import petab
>>> problem = petab.load("problem.yaml")  # doctest: +SKIP
>>> problem.objective()  # doctest: +SKIP
138.22
"""

from tauslab.exchange.petab.problem import Problem, load

__all__ = ["Problem", "load"]
