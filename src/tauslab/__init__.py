"""tauslab: stochastic chemistry on many GPUs, with the same bits for the same seed everywhere.

A public name is imported when it is first used: `import tauslab` alone loads next to nothing.
"""

import os as _os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tauslab._version import __version__ as __version__
from tauslab.base.door import fill_door as _fill_door
from tauslab.base.host import keep_environment as _keep_environment

if TYPE_CHECKING:  # for type checkers and editors; the same names as in _HOMES
    from tauslab import dbn as dbn
    from tauslab import geometry as geometry
    from tauslab import petab as petab
    from tauslab import shapes as shapes
    from tauslab.analysis.cme.result import CmeResult as CmeResult
    from tauslab.analysis.filters.abc.result import AbcResult as AbcResult
    from tauslab.analysis.filters.chains import Chain as Chain
    from tauslab.analysis.filters.fitting.result import FitResult as FitResult
    from tauslab.analysis.filters.result import FilterResult as FilterResult
    from tauslab.analysis.filters.result import FilterResults as FilterResults
    from tauslab.analysis.filters.smc2.result import Smc2Result as Smc2Result
    from tauslab.analysis.hybrids.hybrid import Hybrid as Hybrid
    from tauslab.analysis.hybrids.result import HybridResult as HybridResult
    from tauslab.analysis.hybrids.view import HybridView as HybridView
    from tauslab.analysis.particles.ensemble import Ensemble as Ensemble
    from tauslab.analysis.polymers.beads import BeadTrack as BeadTrack
    from tauslab.analysis.polymers.polymer import Polymer as Polymer
    from tauslab.analysis.populations.result import PopulationResult as PopulationResult
    from tauslab.analysis.rare.estimate import RareResult as RareResult
    from tauslab.analysis.sensitivity.expectation import Expectation as Expectation
    from tauslab.analysis.sensitivity.result import SensitivityResult as SensitivityResult
    from tauslab.api.any_result import AnyResult as AnyResult
    from tauslab.api.api import open as open
    from tauslab.api.api import read as read
    from tauslab.api.api import run as run
    from tauslab.api.cme import cme as cme
    from tauslab.api.inference.abc import abc_smc as abc_smc
    from tauslab.api.inference.fit import fit as fit
    from tauslab.api.inference.particles import exact_filter as exact_filter
    from tauslab.api.inference.particles import particle_filter as particle_filter
    from tauslab.api.inference.particles import particle_filters as particle_filters
    from tauslab.api.inference.particles import pmmh as pmmh
    from tauslab.api.inference.sensitivity import expectation as expectation
    from tauslab.api.inference.sensitivity import sensitivity as sensitivity
    from tauslab.api.inference.simulator import Simulator as Simulator
    from tauslab.api.inference.simulator import simulator as simulator
    from tauslab.api.inference.smc2 import smc2 as smc2
    from tauslab.api.populations import population as population
    from tauslab.api.prepared import Prepared as Prepared
    from tauslab.api.prepared import prepare as prepare
    from tauslab.api.rare import weighted_ensemble as weighted_ensemble
    from tauslab.base.errors import ConfigError as ConfigError
    from tauslab.base.errors import DecompositionError as DecompositionError
    from tauslab.base.errors import DeviceError as DeviceError
    from tauslab.base.errors import DeviceFailed as DeviceFailed
    from tauslab.base.errors import ExecutorError as ExecutorError
    from tauslab.base.errors import InputFileError as InputFileError
    from tauslab.base.errors import KernelCompileError as KernelCompileError
    from tauslab.base.errors import ModelError as ModelError
    from tauslab.base.errors import OutputError as OutputError
    from tauslab.base.errors import StoppedEarly as StoppedEarly
    from tauslab.base.errors import TauslabError as TauslabError
    from tauslab.base.errors import UnknownKeyword as UnknownKeyword
    from tauslab.model.lattice.lattice import Lattice as Lattice
    from tauslab.model.model import Model as Model
    from tauslab.model.network.molecules import in_molecules as in_molecules
    from tauslab.model.network.net_laws import with_net_laws as with_net_laws
    from tauslab.model.network.network import Network as Network
    from tauslab.options.hook_view import LatticeView as LatticeView
    from tauslab.options.methods import ODE as ODE
    from tauslab.options.methods import SSA as SSA
    from tauslab.options.methods import Auto as Auto
    from tauslab.options.methods import Langevin as Langevin
    from tauslab.options.methods import Partitioned as Partitioned
    from tauslab.options.methods import TauLeaping as TauLeaping
    from tauslab.options.places import CPU as CPU
    from tauslab.options.places import GPU as GPU
    from tauslab.options.places import Dask as Dask
    from tauslab.options.places import Output as Output
    from tauslab.store.results.lattice.result import LatticeResult as LatticeResult
    from tauslab.store.results.result import Result as Result

_HOMES = {  # public names by module
    "base.errors": (
        "ConfigError DecompositionError DeviceError DeviceFailed ExecutorError InputFileError "
        "KernelCompileError ModelError OutputError StoppedEarly TauslabError UnknownKeyword"
    ),
    "model.lattice.lattice": "Lattice",
    "model.model": "Model",
    "model.network.molecules": "in_molecules",
    "model.network.net_laws": "with_net_laws",
    "model.network.network": "Network",
    "api.api": "open read run",
    "api.cme": "cme",
    "api.inference.abc": "abc_smc",
    "api.inference.fit": "fit",
    "api.inference.particles": "exact_filter particle_filter particle_filters pmmh",
    "api.populations": "population",
    "api.prepared": "Prepared prepare",
    "api.rare": "weighted_ensemble",
    "api.inference.sensitivity": "expectation sensitivity",
    "api.inference.simulator": "Simulator simulator",
    "api.inference.smc2": "smc2",
    "api.any_result": "AnyResult",
    "analysis.cme.result": "CmeResult",
    "options.hook_view": "LatticeView",
    "options.methods": "Auto Langevin ODE Partitioned SSA TauLeaping",
    "options.places": "CPU Dask GPU Output",
    "analysis.filters.abc.result": "AbcResult",
    "analysis.filters.chains": "Chain",
    "analysis.filters.fitting.result": "FitResult",
    "analysis.hybrids.hybrid": "Hybrid",
    "analysis.hybrids.result": "HybridResult",
    "analysis.hybrids.view": "HybridView",
    "analysis.polymers.beads": "BeadTrack",
    "analysis.polymers.polymer": "Polymer",
    "analysis.particles.ensemble": "Ensemble",
    "analysis.filters.result": "FilterResult FilterResults",
    "analysis.filters.smc2.result": "Smc2Result",
    "analysis.populations.result": "PopulationResult",
    "analysis.rare.estimate": "RareResult",
    "store.results.lattice.result": "LatticeResult",
    "store.results.result": "Result",
    "analysis.sensitivity.expectation": "Expectation",
    "analysis.sensitivity.result": "SensitivityResult",
}
# Methods that show or write themselves by packages above their own (`tauslab.base.door`).
_FACES = {
    "Lattice.plot": "tauslab.views.lattice_preview:plot_geometry",
    "Lattice.view": "tauslab.views.scene:view_geometry",
    "LatticeResult.movie": "tauslab.views.movie:write_movie",
    "LatticeResult.plot": "tauslab.views.lattice:plot_lattice",
    "LatticeResult.view": "tauslab.views.scene:view_frame",
    "Network.check": "tauslab.runner.ensemble.choices.method_choice:description",
    "Network.to_antimony": "tauslab.formats.antimony:write_antimony",
    "Network.to_sbml": "tauslab.formats.sbml.writer:write_sbml",
    "Result.plot": "tauslab.views.ensemble:plot_result",
}
_fill_door(_FACES)
_keep_environment()

# One of several ranks: an exception before its first call of tauslab ends the others too.
if any(name.startswith(("PMI", "OMPI_COMM_", "MV2_COMM_")) for name in _os.environ):
    import_module("tauslab.decomposition.ranks.mpi").end_all_of_launch()

_HOME = {name: f"tauslab.{home}" for home, names in _HOMES.items() for name in names.split()}
_MODULES = ("dbn", "geometry", "petab", "shapes")

__all__ = [*sorted((*_HOME, *_MODULES)), "__version__"]  # noqa: PLE0604 - all of them texts


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return import_module(f"tauslab.{name}")
    near = (
        [] if name.startswith("_") else import_module("tauslab.base.unknown").nearest(name, __all__)
    )
    hint = f": did you mean {' or '.join(near)}?" if near else ""
    raise AttributeError(f"module 'tauslab' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return [*(name for name in globals() if name.startswith("__")), *__all__]
