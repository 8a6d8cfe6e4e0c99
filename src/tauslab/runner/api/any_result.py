"""The type of what `tauslab.open` gives."""

from __future__ import annotations

from typing import TypeAlias

from tauslab.runner.cme.law import CmeResult
from tauslab.runner.particles.chains import Chain
from tauslab.runner.particles.result import FilterResult, FilterResults
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
    | FilterResults
    | Chain
    | SensitivityResult
    | PopulationResult
    | CmeResult
)
