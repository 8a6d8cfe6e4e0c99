"""The type of what `tauslab.open` gives."""

from __future__ import annotations

from typing import TypeAlias

from tauslab.runner.particles.filtering import FilterResult
from tauslab.runner.populations.result import PopulationResult
from tauslab.runner.rare.estimate import RareResult
from tauslab.runner.results.dbn.network import DynamicNetwork
from tauslab.runner.results.lattice.result import LatticeResult
from tauslab.runner.results.result import Result
from tauslab.runner.sensitivity.result import SensitivityResult

AnyResult: TypeAlias = (
    Result
    | LatticeResult
    | DynamicNetwork
    | RareResult
    | FilterResult
    | SensitivityResult
    | PopulationResult
)
