"""tauslab: stochastic chemistry on many GPUs, with the same bits for the same seed everywhere.

A public name is imported when it is first used: `import tauslab` alone loads next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tauslab._version import __version__ as __version__
from tauslab.model.door import fill_door as _fill_door

if TYPE_CHECKING:  # for type checkers and editors; the same names as in _HOMES
    from tauslab import dbn as dbn
    from tauslab import geometry as geometry
    from tauslab import petab as petab
    from tauslab.model.errors import ConfigError as ConfigError
    from tauslab.model.errors import DecompositionError as DecompositionError
    from tauslab.model.errors import DeviceError as DeviceError
    from tauslab.model.errors import DeviceFailed as DeviceFailed
    from tauslab.model.errors import ExecutorError as ExecutorError
    from tauslab.model.errors import InputFileError as InputFileError
    from tauslab.model.errors import KernelCompileError as KernelCompileError
    from tauslab.model.errors import ModelError as ModelError
    from tauslab.model.errors import OutputError as OutputError
    from tauslab.model.errors import StoppedEarly as StoppedEarly
    from tauslab.model.errors import TauslabError as TauslabError
    from tauslab.model.errors import UnknownKeyword as UnknownKeyword
    from tauslab.model.generators.networks import colloidal_aggregation as colloidal_aggregation
    from tauslab.model.generators.networks import cyclic_chain as cyclic_chain
    from tauslab.model.generators.networks import random_network as random_network
    from tauslab.model.lattice.lattice import Lattice as Lattice
    from tauslab.model.model import Model as Model
    from tauslab.model.network.molecules import in_molecules as in_molecules
    from tauslab.model.network.net_laws import with_net_laws as with_net_laws
    from tauslab.model.network.network import Network as Network
    from tauslab.runner.api.any_result import AnyResult as AnyResult
    from tauslab.runner.api.api import open as open
    from tauslab.runner.api.api import read as read
    from tauslab.runner.api.api import run as run
    from tauslab.runner.api.cme import cme as cme
    from tauslab.runner.api.inference.particles import exact_filter as exact_filter
    from tauslab.runner.api.inference.particles import particle_filter as particle_filter
    from tauslab.runner.api.inference.particles import particle_filters as particle_filters
    from tauslab.runner.api.inference.particles import pmmh as pmmh
    from tauslab.runner.api.inference.sensitivity import expectation as expectation
    from tauslab.runner.api.inference.sensitivity import sensitivity as sensitivity
    from tauslab.runner.api.inference.simulator import Simulator as Simulator
    from tauslab.runner.api.inference.simulator import simulator as simulator
    from tauslab.runner.api.populations import population as population
    from tauslab.runner.api.rare import multilevel_splitting as multilevel_splitting
    from tauslab.runner.api.rare import weighted_ensemble as weighted_ensemble
    from tauslab.runner.cme.law import CmeResult as CmeResult
    from tauslab.runner.options.hook_view import LatticeView as LatticeView
    from tauslab.runner.options.methods import ODE as ODE
    from tauslab.runner.options.methods import SSA as SSA
    from tauslab.runner.options.methods import Auto as Auto
    from tauslab.runner.options.methods import TauLeaping as TauLeaping
    from tauslab.runner.options.places import CPU as CPU
    from tauslab.runner.options.places import GPU as GPU
    from tauslab.runner.options.places import Dask as Dask
    from tauslab.runner.options.places import Output as Output
    from tauslab.runner.particles.chains import Chain as Chain
    from tauslab.runner.particles.ensemble import Ensemble as Ensemble
    from tauslab.runner.particles.result import FilterResult as FilterResult
    from tauslab.runner.particles.result import FilterResults as FilterResults
    from tauslab.runner.populations.result import PopulationResult as PopulationResult
    from tauslab.runner.rare.estimate import RareResult as RareResult
    from tauslab.runner.results.lattice.result import LatticeResult as LatticeResult
    from tauslab.runner.results.result import Result as Result
    from tauslab.runner.sensitivity.expectation import Expectation as Expectation
    from tauslab.runner.sensitivity.result import SensitivityResult as SensitivityResult

_HOMES = {
    "tauslab.model.errors": (
        "ConfigError",
        "DecompositionError",
        "DeviceError",
        "DeviceFailed",
        "ExecutorError",
        "InputFileError",
        "KernelCompileError",
        "ModelError",
        "OutputError",
        "StoppedEarly",
        "TauslabError",
        "UnknownKeyword",
    ),
    "tauslab.model.lattice.lattice": ("Lattice",),
    "tauslab.model.generators.networks": (
        "colloidal_aggregation",
        "cyclic_chain",
        "random_network",
    ),
    "tauslab.model.model": ("Model",),
    "tauslab.model.network.molecules": ("in_molecules",),
    "tauslab.model.network.net_laws": ("with_net_laws",),
    "tauslab.model.network.network": ("Network",),
    "tauslab.runner.api.api": ("open", "read", "run"),
    "tauslab.runner.api.cme": ("cme",),
    "tauslab.runner.api.inference.particles": (
        "exact_filter",
        "particle_filter",
        "particle_filters",
        "pmmh",
    ),
    "tauslab.runner.api.populations": ("population",),
    "tauslab.runner.api.rare": ("multilevel_splitting", "weighted_ensemble"),
    "tauslab.runner.api.inference.sensitivity": ("expectation", "sensitivity"),
    "tauslab.runner.api.inference.simulator": ("Simulator", "simulator"),
    "tauslab.runner.api.any_result": ("AnyResult",),
    "tauslab.runner.cme.law": ("CmeResult",),
    "tauslab.runner.options.hook_view": ("LatticeView",),
    "tauslab.runner.options.methods": ("Auto", "ODE", "SSA", "TauLeaping"),
    "tauslab.runner.options.places": ("CPU", "Dask", "GPU", "Output"),
    "tauslab.runner.particles.chains": ("Chain",),
    "tauslab.runner.particles.ensemble": ("Ensemble",),
    "tauslab.runner.particles.result": ("FilterResult", "FilterResults"),
    "tauslab.runner.populations.result": ("PopulationResult",),
    "tauslab.runner.rare.estimate": ("RareResult",),
    "tauslab.runner.results.lattice.result": ("LatticeResult",),
    "tauslab.runner.results.result": ("Result",),
    "tauslab.runner.sensitivity.expectation": ("Expectation",),
    "tauslab.runner.sensitivity.result": ("SensitivityResult",),
}
# Methods that show or write themselves by packages above their own (`tauslab.model.door`).
_FACES = {
    "Lattice.plot": "tauslab.runner.plots.preview:plot_geometry",
    "Lattice.view": "tauslab.runner.plots.preview:view_geometry",
    "LatticeResult.movie": "tauslab.runner.plots.movie:write_movie",
    "LatticeResult.plot": "tauslab.runner.plots.lattice:plot_lattice",
    "LatticeResult.view": "tauslab.runner.plots.view:view_frame",
    "Network.to_antimony": "tauslab.model.writers.antimony:write_antimony",
    "Network.to_sbml": "tauslab.model.writers.sbml:write_sbml",
    "Result.plot": "tauslab.runner.plots.ensemble:plot_result",
}
_fill_door(_FACES)

_HOME = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = ("dbn", "geometry", "petab")

__all__ = [*sorted((*_HOME, *_MODULES)), "__version__"]  # noqa: PLE0604 - all of them texts


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return import_module(f"tauslab.{name}")
    raise AttributeError(f"module 'tauslab' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*(name for name in globals() if name.startswith("__")), *__all__]
