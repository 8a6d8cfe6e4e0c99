"""Which public names stand on which page of docs/reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import tauslab as ts
from tauslab import dbn, geometry, petab
from tauslab.analysis.dbn.results import network as dbn_network
from tauslab.api import api
from tauslab.api.lattice import run_on_lattice
from tauslab.base import errors
from tauslab.model.network import network
from tauslab.store.results import modes, result


@dataclass(frozen=True)
class Entry:
    """A public function or class.

    `title` is its heading and `call` what a user types, `signature` all of it where not every
    parameter is for users; `made_by_user` False leaves out how a class is made that only tauslab
    makes.
    """

    object: Any
    title: str
    call: str
    made_by_user: bool = True
    signature: str = ""


@dataclass(frozen=True)
class Page:
    """A page: its file's stem, and what it holds."""

    stem: str
    title: str
    intro: str
    entries: tuple[Entry, ...]


def _entry(thing: Any, home: str = "tauslab", *, made_by_user: bool = True) -> Entry:
    name = f"{home}.{thing.__name__}"
    return Entry(thing, name, name, made_by_user)


def _of(module: Any, home: str) -> tuple[Entry, ...]:
    """All that a module says it has, in its order."""
    made = ("Beliefs", "DynamicNetwork", "Estimate", "Verdict")
    return tuple(
        _entry(getattr(module, name), home, made_by_user=name not in made)
        for name in module.__all__
    )


# What other modules of tauslab use of a class, and its users do not.
HIDDEN: Mapping[str, tuple[str, ...]] = {
    "Result": ("block", "completed_blocks"),
    "LatticeResult": ("frames",),
    "Lattice": ("type_number",),
    "Structure": ("families",),
    "DynamicNetwork": ("known",),
}  # fmt: skip

PAGES = (
    Page(
        "running",
        "Reading, running, opening",
        "`import tauslab as ts` starts neither MPI nor a GPU. Arrays are NumPy's: `FloatArray` "
        "stands for float64, `IntArray` for int64, `UintArray` for uint64, `Array` for any type; "
        "shapes are told as `[trajectory, time]`. `tauslab.Model` is a `Network` or a `Lattice`, `tauslab.AnyResult` a "
        "`Result`, a `LatticeResult`, a `DynamicNetwork`, a `RareResult`, a `FilterResult`, a `SensitivityResult` or a `PopulationResult`. The [command line](command-line.md) has the same options.",
        (
            _entry(ts.read),
            _entry(ts.run),
            Entry(api.run_ensemble, "tauslab.run of a network", "tauslab.run"),
            Entry(run_on_lattice, "tauslab.run of a lattice", "tauslab.run"),
            _entry(ts.SSA),
            _entry(ts.TauLeaping),
            _entry(ts.Auto),
            _entry(ts.ODE),
            _entry(ts.CPU),
            _entry(ts.GPU),
            _entry(ts.Output),
            _entry(ts.Dask),
            _entry(ts.open),
            _entry(ts.simulator),
            Entry(
                ts.Simulator, "tauslab.Simulator, a class", "tauslab.Simulator", made_by_user=False
            ),
        ),
    ),
    Page(
        "laws",
        "Laws",
        "The chemical master equation of a small network; [master-equation.md](../master-equation.md) tells how it "
        "is solved.",
        (
            _entry(ts.cme),
            Entry(
                ts.CmeResult, "tauslab.CmeResult, a class", "tauslab.CmeResult", made_by_user=False
            ),
        ),
    ),
    Page(
        "sensitivities",
        "Sensitivities",
        "Derivatives of means by parameters; [sensitivities.md](../sensitivities.md) tells how they "
        "are estimated.",
        (
            _entry(ts.sensitivity),
            Entry(
                ts.SensitivityResult,
                "tauslab.SensitivityResult, a class",
                "tauslab.SensitivityResult",
                made_by_user=False,
            ),
            _entry(ts.expectation),
            Entry(
                ts.Expectation,
                "tauslab.Expectation, a class",
                "tauslab.Expectation",
                made_by_user=False,
            ),
        ),
    ),
    Page(
        "particles",
        "Particles and filters",
        "Ensembles that are advanced, weighted and resampled, and models against time courses; "
        "[particles.md](../particles.md) shows how.",
        (
            _entry(ts.Ensemble),
            _entry(ts.particle_filter),
            _entry(ts.particle_filters),
            _entry(ts.exact_filter),
            Entry(
                ts.FilterResult,
                "tauslab.FilterResult, a class",
                "tauslab.FilterResult",
                made_by_user=False,
            ),
            Entry(
                ts.FilterResults,
                "tauslab.FilterResults, a class",
                "tauslab.FilterResults",
                made_by_user=False,
            ),
            _entry(ts.pmmh),
            _entry(ts.population),
            Entry(
                ts.PopulationResult,
                "tauslab.PopulationResult, a class",
                "tauslab.PopulationResult",
                made_by_user=False,
            ),
            Entry(ts.Chain, "tauslab.Chain, a class", "tauslab.Chain", made_by_user=False),
        ),
    ),
    Page(
        "rare-events",
        "Rare events",
        "Probabilities and rates that plain runs hardly ever see; "
        "[rare-events.md](../rare-events.md) shows how.",
        (
            _entry(ts.weighted_ensemble),
            _entry(ts.multilevel_splitting),
            Entry(
                ts.RareResult,
                "tauslab.RareResult, a class",
                "tauslab.RareResult",
                made_by_user=False,
            ),
        ),
    ),
    Page(
        "networks",
        "Networks",
        "Models without space. `tauslab.read` makes one of a file ([SBML](../sbml.md), "
        "[BioNetGen](../bionetgen-net.md), [TOML](../model-toml.md)); here is how to make one in "
        "Python, and what can be asked of it.",
        (
            replace(
                _entry(ts.Network),
                signature='tauslab.Network(name: str = "network", *, t_end: float | None = None)',
            ),
            *(
                _entry(thing, network.__name__)
                for thing in (
                    network.Species,
                    network.Reaction,
                    network.Rule,
                    network.TimedEvent,
                    network.Event,
                    network.Feature,
                )
            ),
            _entry(ts.in_molecules),
            _entry(ts.with_net_laws),
            _entry(ts.random_network),
            _entry(ts.cyclic_chain),
            _entry(ts.colloidal_aggregation),
        ),
    ),
    Page(
        "results",
        "Results",
        "What a run of a network gives, in memory or from a file. "
        "[file-format.md](../file-format.md) tells what the file holds for other programs.",
        (
            _entry(ts.Result, made_by_user=False),
            _entry(result.Moments, result.__name__, made_by_user=False),
            _entry(modes.Modes, modes.__name__, made_by_user=False),
        ),
    ),
    Page(
        "lattices",
        "Lattices",
        "Particles that hop and react on a lattice: [lattices.md](../lattices.md) shows how a "
        "model is built, [rdme.md](../rdme.md) what a step does. Metres, seconds, m^2/s, mol/L; "
        "arrays and points are `[z, y, x]`. The functions of `tauslab.geometry` make a `Mask`, "
        "booleans `[z, y, x]`; their `grid` is a `tauslab.Lattice`, a `Point` is (z, y, x) in "
        "metres from the lattice's first corner, and a site is inside where its centre is. A "
        "`ModelError` names a length that is not above 0, or an axis that is not z, y or x. A "
        "`Value` is a number, or an expression of parameters as text; `Names` are one name or "
        "several.",
        (
            _entry(ts.Lattice),
            _entry(ts.LatticeResult),
            _entry(ts.LatticeView, made_by_user=False),
            *_of(geometry, "tauslab.geometry"),
        ),
    ),
    Page(
        "petab",
        "PEtab problems",
        "The objective of a fit, for many vectors at once; [petab.md](../petab.md) tells more.",
        (
            Entry(petab.load, "tauslab.petab.load", "tauslab.petab.load"),
            Entry(
                petab.Problem, "tauslab.petab.Problem", "tauslab.petab.Problem", made_by_user=False
            ),
        ),
    ),
    Page(
        "dbn",
        "Dynamic Bayesian networks",
        f"{dbn.__doc__}\n[dbn.md](../dbn.md) tells more.",
        (
            *_of(dbn, "tauslab.dbn"),
            _entry(dbn_network.Rows, dbn_network.__name__, made_by_user=False),
        ),
    ),
    Page(
        "errors",
        "Errors",
        "Every error that tauslab raises on purpose is a `tauslab.TauslabError`, and also a "
        "`ValueError`, `RuntimeError` or `OSError`. Its message is one sentence: what was given, "
        "and what is allowed.",
        tuple(
            _entry(thing, "tauslab", made_by_user=False)
            for thing in vars(errors).values()
            if isinstance(thing, type) and hasattr(ts, thing.__name__)
        ),
    ),
)
