"""Which public names stand on which page of docs/reference."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tauslab as ts
from tauslab import dbn, geometry, petab, shapes
from tauslab.analysis.dbn.results import network as dbn_network
from tauslab.api import api
from tauslab.api.lattice import run_on_lattice
from tauslab.base import errors
from tauslab.store.results import modes, result
from tauslab.store.results.array_result import ArrayResult


@dataclass(frozen=True)
class Entry:
    """A public function or class.

    `title` is its heading and `call` what a user types, `signature` all of it where not every
    parameter is for users; `made_by_user` False leaves out how a class is made that only tauslab
    makes, `parameters` False what other entries of the page say of parameters.
    """

    object: Any
    title: str
    call: str
    made_by_user: bool = True
    signature: str = ""
    parameters: bool = True


@dataclass(frozen=True)
class Page:
    """A page: its file's stem, and what it holds."""

    stem: str
    title: str
    intro: str
    entries: tuple[Entry, ...]


def _entries(*things: Any, home: str = "tauslab", made_by_user: bool = True) -> tuple[Entry, ...]:
    names = [f"{home}.{thing.__name__}" for thing in things]
    return tuple(Entry(x, n, n, made_by_user) for x, n in zip(things, names, strict=True))


def _class(made: Any) -> Entry:
    """A class that a function of the page makes."""
    name = f"tauslab.{made.__name__}"
    return Entry(made, f"{name}, a class", name, made_by_user=False)


def _of(module: Any, home: str) -> tuple[Entry, ...]:
    """Public names of a module, in its order."""
    made = ("Beliefs", "DynamicNetwork", "Estimate")
    return tuple(
        entry
        for name in module.__all__
        for entry in _entries(getattr(module, name), home=home, made_by_user=name not in made)
    )


# Members that other classes share, and that are described with these alone.
HOMES = (ts.Result, ArrayResult, ts.Chain)
# What a result of an analysis has for its file and for the command line.
FILE_ONLY = ("arrays", "axes_of", "digest_lines", "facts", "lines", "table")

# What other modules of tauslab use of a class, and its users do not.
HIDDEN: Mapping[str, tuple[str, ...]] = {
    "Result": ("block", "completed_blocks", "state", "swept"),
    "LatticeResult": (
        "attributes", "data", "frames", "replica_samples_of", "samples_of", "state", "swept",
        "values", "whole_sweep",
    ),
    "LatticeView": ("changed", "finish"),
    "Lattice": ("sites_of_no_mask", "type_number"),
    "Network": (
        "add_feature", "constant_species", "counts_nothing", "drawn_amounts", "real_species",
        "require_the_time", "rule_expressions", "set_by_events",
    ),
    "Ensemble": (
        "advance_while", "ancestors_on_host", "backend", "begin_copy", "expect", "given", "go_on",
        "go_on_by", "halve", "in_groups", "joined", "lay", "lift", "none_ended", "own_counts",
        "own_values", "put", "save_with", "settle_objects", "shares", "stored", "stream", "types_of",
    ),
    "Hybrid": ("acting", "intervals", "linked", "of_links", "tick"),
    "CmeResult": ("snapshot",),
    "FilterResults": ("part",),
    "ODE": ("settings", "settled"),
    "Partitioned": ("marks",),
    "Dask": ("settings",),
    "Output": ("plain",),
    "Structure": ("families",),
    "DynamicNetwork": ("known",),
    "BeadTrack": ("time", "positions", "advance", "sites", "mask", "move_genes"),  # as of Polymer
}  # fmt: skip

PAGES = (
    Page(
        "running",
        "Reading, running, opening",
        "`import tauslab as ts` starts neither MPI nor a GPU. Arrays are NumPy's: `FloatArray` "
        "stands for float64, `IntArray` for int64, `UintArray` for uint64, `Array` for any type; "
        "shapes are given as `[trajectory, time]`. `Path` stands for `str` or `os.PathLike`. `tauslab.Model` is a `Network` or a `Lattice`, `tauslab.AnyResult` "
        "what `tauslab.open` returns. The [command line](command-line.md) has the same options.",
        (
            *_entries(ts.read),
            Entry(ts.run, "tauslab.run", "tauslab.run", parameters=False),
            Entry(api.run_ensemble, "tauslab.run of a network", "tauslab.run"),
            Entry(run_on_lattice, "tauslab.run of a lattice", "tauslab.run"),
            *_entries(
                ts.SSA,
                ts.TauLeaping,
                ts.Auto,
                ts.ODE,
                ts.Partitioned,
                ts.Langevin,
                ts.CPU,
                ts.GPU,
                ts.Output,
                ts.Dask,
                ts.open,
                ts.prepare,
            ),
            _class(ts.Prepared),
            *_entries(ts.simulator),
            _class(ts.Simulator),
        ),
    ),
    Page(
        "laws",
        "Distributions",
        "The chemical master equation of a small network; "
        "[master-equation.md](../master-equation.md) describes the method.",
        (
            *_entries(ts.cme),
            _class(ts.CmeResult),
        ),
    ),
    Page(
        "sensitivities",
        "Sensitivities",
        "Derivatives of means with respect to parameters; [sensitivities.md](../sensitivities.md) describes the "
        "methods.",
        (
            *_entries(ts.sensitivity),
            _class(ts.SensitivityResult),
            *_entries(ts.expectation),
            _class(ts.Expectation),
        ),
    ),
    Page(
        "particles",
        "Particles and filters",
        "Ensembles that are advanced, weighted and resampled ([particles.md](../particles.md)), and "
        "filters of time courses ([inference.md](../inference.md)).",
        (
            *_entries(ts.Ensemble, ts.particle_filter, ts.particle_filters, ts.exact_filter),
            _class(ts.FilterResult),
            _class(ts.FilterResults),
            *_entries(ts.fit),
            _class(ts.FitResult),
            *_entries(ts.pmmh, ts.smc2, ts.abc_smc),
            _class(ts.Smc2Result),
            _class(ts.AbcResult),
            *_entries(ts.population),
            _class(ts.PopulationResult),
            _class(ts.Chain),
        ),
    ),
    Page(
        "hybrids",
        "Hybrids",
        "Parts by several methods that step together; [hybrids.md](../hybrids.md) shows how.",
        (
            *_entries(ts.Hybrid),
            _class(ts.HybridResult),
            *_entries(ts.HybridView, made_by_user=False),
        ),
    ),
    Page(
        "rare-events",
        "Rare events",
        "Probabilities and rates of rare events; [rare-events.md](../rare-events.md) is the guide.",
        (
            *_entries(ts.weighted_ensemble),
            _class(ts.RareResult),
        ),
    ),
    Page(
        "networks",
        "Networks",
        "Models without space. `tauslab.read` reads one from a file ([SBML](../sbml.md), "
        "[BioNetGen](../bionetgen-net.md), [TOML](../model-toml.md)); `tauslab.Network` builds one.",
        (
            Entry(
                ts.Network,
                "tauslab.Network",
                "tauslab.Network",
                signature='tauslab.Network(name: str = "network", *, t_end: float | None = None)',
            ),
            *_entries(
                ts.in_molecules,
                ts.with_net_laws,
            ),
        ),
    ),
    Page(
        "results",
        "Results",
        "Results of networks, in memory or from a file. "
        "[file-format.md](../file-format.md) describes the file.",
        (
            *_entries(ts.Result, made_by_user=False),
            *_entries(result.Moments, home=result.__name__, made_by_user=False),
            *_entries(modes.Modes, home=modes.__name__, made_by_user=False),
            Entry(ArrayResult, "Results of analyses", "ArrayResult", made_by_user=False),
        ),
    ),
    Page(
        "lattices",
        "Lattices",
        "Particles that hop and react on a lattice: [lattices.md](../lattices.md) is the guide, "
        "[rdme.md](../rdme.md) describes the method. Units are metres, seconds, m^2/s and mol/L; "
        "arrays and points are `[z, y, x]`. A `Mask` of `tauslab.geometry` is a boolean array "
        "`[z, y, x]`, `grid` a `tauslab.Lattice`, and a `Point` (z, y, x) in metres from the lattice's first corner. A "
        "`Value` is a number, or an expression of parameters as text; `Names` are one name or "
        "several.",
        (
            *_entries(ts.Lattice, ts.LatticeResult),
            *_entries(ts.LatticeView, made_by_user=False),
            *_entries(ts.Polymer, ts.BeadTrack),
            *_of(geometry, "tauslab.geometry"),
            *_of(shapes, "tauslab.shapes"),
        ),
    ),
    Page(
        "petab",
        "PEtab problems",
        "The objective of a fit, for many vectors at once; [petab.md](../petab.md) is the guide.",
        (
            *_entries(petab.load, home="tauslab.petab"),
            *_entries(petab.Problem, home="tauslab.petab", made_by_user=False),
        ),
    ),
    Page(
        "dbn",
        "Dynamic Bayesian networks",
        "Dynamic Bayesian networks of rate equations; [dbn.md](../dbn.md) is the guide.",
        (
            *_of(dbn, "tauslab.dbn"),
            *_entries(dbn_network.ProbabilityRows, home=dbn_network.__name__, made_by_user=False),
        ),
    ),
    Page(
        "errors",
        "Errors",
        "Every error that tauslab raises on purpose is a `tauslab.TauslabError`, and also a "
        "`ValueError`, `RuntimeError` or `OSError`. Its message states what was given, and what is "
        "allowed. `help(ts.NAME)` lists the errors of a function.",
        _entries(
            *(
                x
                for x in vars(errors).values()
                if inspect.isclass(x) and issubclass(x, ts.TauslabError)
            ),
            made_by_user=False,
        ),
    ),
)
