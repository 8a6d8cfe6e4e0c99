"""The type of what `tauslab.open` gives."""

from __future__ import annotations

from typing import TypeAlias

from tauslab.analysis.cme.result import CmeResult
from tauslab.analysis.dbn.results.network import DynamicNetwork
from tauslab.analysis.filters.abc.result import AbcResult
from tauslab.analysis.filters.chains import Chain
from tauslab.analysis.filters.fitting.result import FitResult
from tauslab.analysis.filters.result import FilterResult, FilterResults
from tauslab.analysis.filters.smc2.result import Smc2Result
from tauslab.analysis.hybrids.result import HybridResult
from tauslab.analysis.populations.result import PopulationResult
from tauslab.analysis.rare.estimate import RareResult
from tauslab.analysis.sensitivity.result import SensitivityResult
from tauslab.store.results.lattice.result import LatticeResult
from tauslab.store.results.result import Result

AnyResult: TypeAlias = (
    Result
    | LatticeResult
    | DynamicNetwork
    | RareResult
    | FilterResult
    | FilterResults
    | Chain
    | AbcResult
    | FitResult
    | Smc2Result
    | SensitivityResult
    | PopulationResult
    | HybridResult
    | CmeResult
)
