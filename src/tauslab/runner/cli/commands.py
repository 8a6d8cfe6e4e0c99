"""What each sub-command does: calls the library and prints."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tauslab._version import __version__
from tauslab.model.errors import ConfigError
from tauslab.model.lattice.diagnosis.check import lattice_facts, lattice_report
from tauslab.model.lattice.diagnosis.time_step import MAX_HOP
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.network.check import check_facts, report
from tauslab.model.network.molecules import in_molecules
from tauslab.model.network.network import Network
from tauslab.model.readers import read as readers
from tauslab.runner.api.api import ranks, ranks_for
from tauslab.runner.api.executor import run_job
from tauslab.runner.api.kinds import MOVIE, View, kind_at
from tauslab.runner.api.model_reading import read_telling
from tauslab.runner.cli.bench import CASES, run_case, table
from tauslab.runner.cli.dbn_commands import build_and_tell
from tauslab.runner.cli.doctor.report import doctor_json, doctor_report
from tauslab.runner.cli.merge import merge
from tauslab.runner.cli.options import given_options
from tauslab.runner.cli.pipes import STANDARD, model_given, printed_table
from tauslab.runner.cli.rerun import own_output, taken_from_result
from tauslab.runner.cli.slurm import process_slurm  # noqa: F401 - the command line finds it here
from tauslab.runner.cli.tools import (
    ignored,
    mpi_hint,
    require_new,
    warn_on_rank_0,
)
from tauslab.runner.ensemble.choices.method_choice import outlook
from tauslab.runner.ensemble.request import ensemble_options
from tauslab.runner.lattice.run import run_lattice
from tauslab.runner.options.dask import dask_options
from tauslab.runner.options.ensemble import FloatArray, Options
from tauslab.runner.options.keywords import NetworkKeywords
from tauslab.runner.options.lattice import LatticeChoices, LatticeOptions, set_parameters
from tauslab.runner.options.methods import METHOD_CLASSES
from tauslab.runner.options.values.texts import assignments, names
from tauslab.runner.plots.report import write_page
from tauslab.runner.ranks.on_root import on_root
from tauslab.runner.ranks.stopping import PATIENCE, stop_in_order
from tauslab.runner.ranks.together import agree
from tauslab.runner.results.digest import digest_total
from tauslab.runner.results.info import facts
from tauslab.runner.results.lattice.info import lattice_summary
from tauslab.runner.results.lattice.result import is_lattice_result, stored_settings
from tauslab.runner.results.result import Result
from tauslab.runner.results.validity import warning_of
from tauslab.runner.sedml.command import run_experiments

_DASK = ("executor", "scheduler", "workers", "sbatch")
_PLACE = ("device", "threads", "overwrite", "writer", "compress", "verbose")
_READ_AGAIN = 64 << 20  # bytes of samples
_READ_POINTS = 256
_STATUS = (
    *("done", "absorbed", "overflow", "step_limit", "nan", "event_queue", "event_cascade"),
    *("halted", "delay_queue"),
)


def version_line() -> str:
    """Name and version."""
    return f"tauslab {__version__}"


def process_run(arguments: argparse.Namespace) -> None:
    """``tauslab run``: read, simulate, write, say what came out."""
    if arguments.model.suffix.lower() == ".omex":
        with warnings.catch_warnings():
            warnings.showwarning = warn_on_rank_0
            lines = run_experiments(arguments)
        if not arguments.quiet:
            print("\n".join(lines))
        return
    arguments.quiet = arguments.quiet or arguments.json
    comm = ranks_for(arguments.executor)
    stop = stop_in_order(arguments.max_time, comm)
    with warnings.catch_warnings():
        warnings.showwarning = warn_on_rank_0 if comm.rank == 0 else ignored
        # What reads models takes more memory than all else: rank 0 reads for all.
        network, options = on_root(comm, lambda: _job(arguments))
        result = run_job(network, options, comm, stop)
    if comm.rank == 0:
        _answer(arguments, result)
    with result:
        if (found := warning_of(result)) and comm.rank == 0:
            warn_on_rank_0(found)
        if arguments.cross_check:
            from tauslab.runner.api.cross_check import cross_check  # what it needs is seldom needed

            told = on_root(comm, lambda: cross_check(network, options, result))
            if comm.rank == 0:
                print(told, file=sys.stderr)


def _answer(arguments: argparse.Namespace, result: Result) -> None:
    """What a run prints in the end."""
    if arguments.json:
        print(json.dumps(facts_of_run(result), indent=2))
    elif not arguments.quiet:
        print("\n".join(summary(result, verbose=arguments.verbose)))


def facts_of_run(result: Result) -> dict[str, Any]:
    """What ``tauslab info --json`` tells, and what only a run knows: speed, ends, last means."""
    profile = {k: result.data[f"profile/{k}"][()] for k in ("events", "wall", "device", "compile")}
    ends = np.bincount(result.status.ravel(), minlength=len(_STATUS))
    return facts(result) | {
        "events": int(profile["events"].sum()),
        "seconds": float(profile["wall"].max()),
        "compile_seconds": float(profile["compile"].max()),
        "devices": [name.decode() for name in profile["device"]],
        "status": {name: int(n) for name, n in zip(_STATUS, ends, strict=False)},
        "last": {name: _last(result, name) for name in _cheap_names(result)},
    }


def _last(result: Result, name: str) -> dict[str, Any]:
    """Mean and standard deviation at the last sample time; of a sweep, a list of them."""
    means, sds = (v[..., -1] for v in (result.mean(name), result.std(name)))
    return {"mean": _plain(means), "sd": _plain(sds)}


def _plain(values: FloatArray) -> Any:
    """Numbers as JSON has them: what is not one is null."""
    found = np.asarray(values)
    return np.where(np.isfinite(found), found.astype(object), np.array(None)).tolist()


def _job(arguments: argparse.Namespace) -> tuple[Network, Options]:
    with model_given(arguments):
        return _read_job(arguments)


def _read_job(arguments: argparse.Namespace) -> tuple[Network, Options]:
    network = read_telling(arguments.model, ignored if arguments.quiet else print)
    network = in_molecules(network) if arguments.molecules else network
    return network, _options(arguments, network)


def process_rdme(arguments: argparse.Namespace) -> None:
    """``tauslab rdme``: read, simulate, write, say what came out."""
    comm = ranks()
    stop = stop_in_order(arguments.max_time, comm, PATIENCE)
    with warnings.catch_warnings():
        warnings.showwarning = warn_on_rank_0 if comm.rank == 0 else ignored
        model, options = agree(comm, lambda: _lattice_job(arguments))
        tell = ignored if arguments.quiet else print
        result = run_lattice(model, options, comm, stop, tell)
    if comm.rank == 0 and not arguments.quiet:
        print("\n".join(lattice_summary(result)))
    result.close()


def _lattice_job(arguments: argparse.Namespace) -> tuple[Lattice, LatticeOptions]:
    model = readers.read(arguments.model)
    if not isinstance(model, Lattice):
        raise ConfigError(f"{arguments.model} holds no lattice: run it with tauslab run")
    # A result file reruns from itself: what the command does not say is as in the file.
    stored = stored_settings(arguments.model) if is_lattice_result(arguments.model) else {}
    asked = given_options(arguments, LatticeChoices)
    asked["set"] = stored.get("set", {}) | assignments(arguments.set)
    return model, LatticeOptions(
        **{**stored, **asked, "quiet": arguments.quiet},
        **{name: getattr(arguments, name) for name in ("device", "threads", "overwrite")},
        share_gpu=arguments.share_gpu,
        output=arguments.output or Path(arguments.model.stem + ".h5"),
        command=shlex.join(["tauslab", *sys.argv[1:]]),
    )


def process_dbn(arguments: argparse.Namespace) -> None:
    """``tauslab dbn``: read, count, write, say what came out."""
    build_and_tell(arguments)


def _options(arguments: argparse.Namespace, network: Network) -> Options:
    if arguments.append is not None and arguments.n is not None:
        raise ConfigError("-n and --append exclude each other: --append says how many to add")
    asked = given_options(arguments, NetworkKeywords, *METHOD_CLASSES)
    asked["quiet"] = arguments.quiet
    stored, sweep = taken_from_result(arguments.model, asked)
    place = {
        **{name: getattr(arguments, name) for name in _PLACE},
        "output": arguments.output or own_output(arguments),
        "dask": dask_options(
            **{name: getattr(arguments, name) for name in _DASK},
            tls=[getattr(arguments, f"dask_tls_{name}") for name in ("ca", "cert", "key")],
        ),
        "hints": dict(mpi_hint(text) for text in arguments.mpi_hint),
        "command": shlex.join(["tauslab", *sys.argv[1:]]),
    }
    return ensemble_options(network, {**stored, **asked}, place, sweep)


def summary(result: Result, *, verbose: bool = False) -> list[str]:
    """Lines for the user after a run: what was done, how fast, what came out."""
    profile = {k: result.data[f"profile/{k}"][()] for k in ("events", "wall", "device", "compile")}
    events, wall = int(profile["events"].sum()), float(profile["wall"].max())
    devices = sorted({d.decode() for d in profile["device"]})
    n_ranks = len(profile["device"])
    on = f"{n_ranks} ranks, {', '.join(devices)}" if n_ranks > 1 else devices[0]
    rate = f"{events / wall:.3g} events/s" if wall > 0 else "nothing left to do"
    ready = f"kernels ready after {profile['compile'].max():.2f} s"
    where = f" at each of {result.n_points} points" if result.swept else ""
    many = "trajectory" if result.n == 1 else "trajectories"
    what = f"{result.path}: {result.n} {many}{where}, seed {result.seed}, {events:.4g} events"
    lines = [f"{what} in {wall:.2f} s ({rate}; {on}; {ready})"]
    if result.continuous:
        lines = [lines[0].replace("events", "steps")]
        # A file of an earlier version, which --resume finds complete, has none.
        known = verbose and "profile/layout" in result.data
        told = result.data["profile/layout"][()] if known else ()
        lines += [f"  layout {layout}" for layout in sorted({t.decode() for t in told} - {""})]
    if result.method == "tau":
        lines += [f"  {_leaps(result)}", f"  approximate: {result.approximate}"]
    ends = np.bincount(result.status.ravel(), minlength=len(_STATUS))
    for name, count in list(zip(_STATUS, ends, strict=False))[2:]:
        if count:
            early = f"  {count} of {result.n * result.n_points} trajectories ended early: {name}"
            lines.append(early + _why(name, result))
    return lines + _last_values(result) + _summaries(result)


def _why(status: str, result: Result) -> str:
    """What may have ended trajectories, where the selector has a limit of its own."""
    if status != "nan" or result.attributes.get("selector") != "cr":
        return ""
    return " (or a propensity larger than cr has groups for, which --selector tree and pdm take)"


def _summaries(result: Result, most: int = 8) -> list[str]:
    """Means of the recorded summaries, and for how many trajectories they are numbers."""
    lines = []
    for name in result.summaries[:most]:
        if result.data[f"summary/{name}"].nbytes > _READ_AGAIN:
            return []
        n, mean, std = result.summary_moments(name)
        shares = np.atleast_1d(100.0 * n / result.n)
        lines.append(
            f"  {name}: mean {_span(np.atleast_1d(mean))}, sd {_span(np.atleast_1d(std))}, "
            f"a number for {_span(shares)} % of trajectories"
        )
    more = len(result.summaries) - most
    return lines + ([f"  and {more} more summaries"] if more > 0 else [])


def _leaps(result: Result) -> str:
    """How the steps of tau-leaping divide, so that a model for which it is useless shows."""
    checked = "post_leap_check" in result.attributes
    names = ("leaps", "exact_events", "rejected" if checked else "halved")
    leaps, exact, again = (int(result.data[f"profile/{name}"][()].sum()) for name in names)
    share = 100 * exact / max(1, leaps + exact)
    exactly = f"{exact:.4g} exact events ({share:.1f} % of steps)"
    return f"{leaps:.4g} leaps ({again:.3g} {names[2]}), {exactly}"


def _cheap_names(result: Result) -> tuple[str, ...]:
    """Species whose means cost nothing: a large file is not read again for them."""
    samples = "amounts" if result.continuous else "counts"
    samples = samples if result.species else "observables"
    small = samples in result.data and result.data[samples].nbytes <= _READ_AGAIN
    small = small and result.n_points <= _READ_POINTS
    return result.foremost if small or "statistics/sum" in result.data else ()


def _last_values(result: Result, most: int = 8) -> list[str]:
    """Means at the end."""
    if not _cheap_names(result):
        return []
    lines = []
    for name in result.foremost[:most]:
        means, sds = (np.atleast_2d(v)[:, -1] for v in (result.mean(name), result.std(name)))
        found = f"mean {_span(means)}, sd {_span(sds)}" if result.n > 1 else _span(means)
        lines.append(f"  {name} at t = {result.times[-1]:g}: {found}")
    more = len(result.foremost) - most
    return lines + ([f"  and {more} more"] if more > 0 else [])


def _span(values: FloatArray) -> str:
    """A number, or the smallest and largest over the points of a sweep."""
    known = values[~np.isnan(values)]
    if len(values) == 1 or not len(known):
        return f"{values[0]:.6g}"
    return f"{known.min():.6g} to {known.max():.6g}"


def process_info(arguments: argparse.Namespace) -> None:
    """``tauslab info``: what a result file holds."""
    kind = kind_at(arguments.file)
    if arguments.json:
        print(json.dumps(kind.facts(arguments.file), indent=2))
    else:
        print("\n".join(kind.lines(arguments.file)))


def process_digest(arguments: argparse.Namespace) -> None:
    """``tauslab digest``: SHA-256 per dataset, the total last."""
    chosen = names(arguments.species) if arguments.species else None
    lines = kind_at(arguments.file).digest(arguments.file, chosen)
    total = digest_total(lines)
    if arguments.json:
        print(json.dumps({"datasets": dict(lines), "total": total}, indent=2))
    else:
        print("\n".join(f"{digest} {name}" for name, digest in [*lines, ("total", total)]))


def process_merge(arguments: argparse.Namespace) -> None:
    """``tauslab merge``: one file in place of a view of parts."""
    print(merge(arguments.file, arguments.compress))


def process_plot(arguments: argparse.Namespace) -> None:
    """``tauslab plot``: a picture of a result file."""
    suffix = ".gif" if arguments.kind == MOVIE else ".png"
    path = arguments.output or arguments.file.with_suffix(suffix)
    require_new(path, overwrite=arguments.overwrite)
    kind_at(arguments.file).plot(arguments.file, path, _view(arguments))
    print(path)


def process_report(arguments: argparse.Namespace) -> None:
    """``tauslab report``: a page of HTML about a result file."""
    path = arguments.output or arguments.file.with_suffix(".html")
    if path.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"{path}: a report is written as .html")
    require_new(path, overwrite=arguments.overwrite)
    write_page(path, kind_at(arguments.file).report(arguments.file))
    print(path)


def process_export(arguments: argparse.Namespace) -> None:
    """``tauslab export``: tables, frames of a lattice for ParaView or napari, networks as BIF."""
    kind = kind_at(arguments.file)
    if arguments.output == STANDARD:
        with printed_table(kind.suffix) as path:
            kind.export(arguments.file, path, _view(arguments))
        return
    path = arguments.output or arguments.file.with_suffix(kind.suffix)
    require_new(path, overwrite=arguments.overwrite)
    kind.export(arguments.file, path, _view(arguments))
    print(path)


def _view(arguments: argparse.Namespace) -> View:
    """What the options of ``plot`` or ``export`` choose."""
    given = {k: v for k, v in vars(arguments).items() if k in View.__dataclass_fields__}
    return View(**given | {"species": names(arguments.species) if arguments.species else ()})


def process_check(arguments: argparse.Namespace) -> None:
    """``tauslab check``: what the model holds, and which methods can run it."""
    with warnings.catch_warnings(), model_given(arguments):
        warnings.showwarning = warn_on_rank_0
        model = readers.read(arguments.model)
    if isinstance(model, Lattice):
        given = assignments(arguments.set)
        max_hop = MAX_HOP if arguments.max_hop is None else arguments.max_hop
        chosen = (model, max_hop, set_parameters(model, given))
        found, lines = lattice_facts(*chosen), lattice_report(*chosen)
    elif arguments.set or arguments.max_hop is not None:
        raise ConfigError(f"{arguments.model} holds no lattice: --set and --max-hop are for those")
    else:
        model = in_molecules(model) if arguments.molecules else model
        found, lines = check_facts(model), _network(model)
    print(json.dumps(found, indent=2) if arguments.json else "\n".join(lines))


def _network(network: Network) -> list[str]:
    return report(network) + outlook(network)


def process_doctor(arguments: argparse.Namespace) -> None:
    """``tauslab doctor``: what this machine offers."""
    comm = ranks()
    tell = doctor_json if arguments.json else doctor_report
    found = tell(comm, arguments.folder)
    if comm.rank == 0:
        print(json.dumps(found, indent=2) if isinstance(found, dict) else "\n".join(found))


def process_bench(arguments: argparse.Namespace) -> None:
    """``tauslab bench``: known models, timed."""
    comm = ranks()
    for name in arguments.case or ():
        if name not in CASES:
            raise ConfigError(f"--case {name} is not known; cases: {', '.join(CASES)}")
    measured = [
        run_case(
            CASES[name],
            comm,
            device=arguments.device,
            threads=arguments.threads,
            scale=arguments.scale,
            repeat=arguments.repeat,
        )
        for name in arguments.case or CASES
    ]
    if comm.rank == 0:
        print(json.dumps(measured, indent=2) if arguments.json else "\n".join(table(measured)))
