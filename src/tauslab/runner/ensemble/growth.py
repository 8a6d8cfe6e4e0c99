"""Runs that grow: trajectories added to a finished result, or until statistics converge.

Each portion is a run of its own in a file beside the result, written and resumed as any other; its
trajectories have the numbers that follow. In the end all are joined, by a rename.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.errors import ConfigError, StoppedEarly
from tauslab.base.option_names import assigned, opt, warn
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.decomposition.ranks.stopping import in_order
from tauslab.decomposition.ranks.together import agree
from tauslab.model.network.network import Network
from tauslab.options.ensemble import Options, Portion
from tauslab.runner.ensemble.convergence import (
    FEWEST_INFORMATIVE,
    FIRST_GROUP,
    Convergence,
    ConvergenceSums,
    UntilSpec,
    half_width,
)
from tauslab.runner.ensemble.from_file import left_open
from tauslab.runner.ensemble.kept import Setup
from tauslab.runner.ensemble.run import layout_of, opened, run_portion
from tauslab.runner.ensemble.task import Task
from tauslab.store.format.layout import Accumulators, Layout
from tauslab.store.format.schema import root_attributes
from tauslab.store.format.statistics import (
    add_accumulators,
    add_groups,
    stored_accumulators,
    zero_accumulators,
)
from tauslab.store.format.versions import BITS
from tauslab.store.hdf5.disk import Disk
from tauslab.store.results.approximation import OF_SAMPLING
from tauslab.store.results.open import open_result
from tauslab.store.results.result import Result
from tauslab.store.targets import portions, remove_parts, remove_portions
from tauslab.store.writers.admission import (
    existing_attributes,
    require_same_run,
    warn_of_other_bits,
)
from tauslab.store.writers.join import ResultPiece, join_files, join_memory

Stop = Callable[[], bool]


def grow(network: Network, options: Options, comm: Communicator, stop: Stop) -> Result:
    """Run ``--append`` or ``--until`` on all ranks; as `entry.run_network`. Collective."""
    with in_order(stop):  # a portion that ended is not the result yet
        make = _append if options.grows else _until
        return make(network, options, comm, stop)


# --- append


@dataclass(frozen=True)
class _Base:
    """Values that the portion takes over from the finished result."""

    n: int
    run: str
    storage: str
    block: int
    parts_n: int
    format_version: int
    bits: int
    chosen: dict[str, Any]


def _append(network: Network, options: Options, comm: Communicator, stop: Stop) -> Result:
    path = options.output
    assert path is not None
    base = on_root(comm, lambda: _base(path, options, network))
    added = agree(comm, lambda: _missing(path, options, base.n))
    beside = path.with_name(f"{path.name}.append")
    n = added or base.n
    whole = replace(options, **base.chosen, given=None, n=n, append=None, append_to=None)
    first = whole.first + base.n
    on_root(comm, lambda: _look_at_portion(beside, first, added))
    chosen = replace(whole, first=first, output=beside, resume=True, portion=Portion(run=base.run))
    with opened(network, chosen, comm) as setup:
        layout = layout_of(setup.task, comm)
        layout = _whole(layout, base.n + added, base.block, whole.first)
        layout = replace(layout, format_version=base.format_version)
        layout.attributes.update({"parts_n": base.parts_n, BITS: base.bits})
        on_root(comm, lambda: require_same_run(path, replace(layout, n=base.n), "append"))
        on_root(comm, lambda: warn_of_other_bits(path, existing_attributes(path), layout))
        if not added:
            return agree(comm, lambda: open_result(path))
        with _stop_reworded(f"of the {added} trajectories to add; the same command adds to {path}"):
            run_portion(setup, setup.task, comm, stop).close()

    def join() -> None:
        with open_result(path) as first, open_result(beside) as second:
            pieces = [_piece(first, base.n), _piece(second, added)]
            totals = zero_accumulators(layout)
            for piece in pieces:
                add_accumulators(totals, stored_accumulators(layout, piece.data))
            join_files(path, layout, pieces, totals, base.run, Disk(), options.compress)
        _remove(beside)

    on_root(comm, join)
    return agree(comm, lambda: open_result(path))


def _missing(path: Path, options: Options, n: int) -> int:
    """Trajectories to add to a result of `n`."""
    if options.append_to is None:
        assert options.append is not None
        return options.append
    if options.append_to < n:
        raise ConfigError(
            f"{opt('append_to', options.append_to)}: {path} has {n} trajectories already"
        )
    return options.append_to - n


@contextmanager
def _stop_reworded(what: str, how: str = "") -> Iterator[None]:
    """Report a stopped portion in words of the whole run: its file is not the user's."""
    try:
        yield
    except StoppedEarly as stopped:
        raise StoppedEarly(f"{stopped.done} {what}", how) from None


def _base(path: Path, options: Options, network: Network) -> _Base:
    """Read the result to append to; what the options leave open is as there."""
    if not path.exists():
        raise ConfigError(f"{opt('append')}: {path} does not exist")
    with open_result(path) as result:
        stored = result.attributes
        if not result.complete:
            raise ConfigError(
                f"{opt('append')}: {path} is unfinished; {opt('resume')} completes it"
            )
        if result.continuous:
            raise ConfigError(
                f"{opt('append')}: {path} was made by {result.method}; it adds to runs of ssa and "
                "tau"
            )
        for name in result.species + result.observables:
            if name not in {**network.species, **network.rules}:
                raise ConfigError(
                    f"{path} holds another run: it has {name}, and {network.name} has not; "
                    f"{opt('append')} needs the same job"
                )
        chosen = left_open(options, result)
        block, storage = int(stored["block"]), str(stored["storage"])
        parts_n = int(stored.get("parts_n", result.n))  # trajectories when the parts were written
        version, bits = int(stored["format_version"]), int(stored.get(BITS, 1))
        return _Base(result.n, str(stored["run"]), storage, block, parts_n, version, bits, chosen)


def _look_at_portion(beside: Path, first: int, added: int) -> None:
    """Remove a portion that was joined already, by a run that was killed right after that."""
    if not beside.exists():
        return
    stored = existing_attributes(beside)
    if int(stored.get("before", 0)) < first:
        _remove(beside)
        return
    begun = int(stored["n"]) if added else 0
    if begun != added:
        raise ConfigError(
            f"{opt('append', added)}: {beside} holds the beginning of "
            f"{opt('append', begun)}; the same command completes that, or remove this "
            "file"
        )


def _whole(layout: Layout, n: int, block: int, first: int) -> Layout:
    """The layout of a portion as that of the whole result."""
    own = {k: v for k, v in layout.attributes.items() if k not in ("before", "group")}
    own |= {"before": first} if first else {}
    return replace(layout, n=n, attributes=own, group=0, block=block)


def _piece(result: Result, rows: int) -> ResultPiece:
    storage = str(result.attributes.get("storage", "memory"))
    return ResultPiece(result.data, rows, result.path, storage)


def _remove(path: Path) -> None:
    remove_parts(path, Disk())
    path.unlink(missing_ok=True)


# --- until


def _until(network: Network, options: Options, comm: Communicator, stop: Stop) -> Result:
    assert options.until is not None
    text, path = options.until, options.output
    until = agree(comm, lambda: UntilSpec.parse(text))
    done = None if path is None else on_root(comm, lambda: _finished(path, options))
    first = None if path is None else _portion_path(path, 0)
    requested = {**options.asked, "n": options.n}
    limited = replace(options, given=requested, until=None, output=path if done else first)
    limited = agree(comm, lambda: _refuse_varying(limited))
    with opened(network, limited, comm) as wanted:
        layout = agree(comm, lambda: layout_of(wanted.task, comm))
        if path is not None and done:
            same = replace(layout, n=done.n)
            on_root(comm, lambda: require_same_run(path, same, "resume"))
            if done.met or options.n <= done.n:
                return agree(comm, lambda: open_result(path))
        fixed = agree(comm, lambda: _with_sums(wanted, until))
        tests = Convergence(until, options.n)
        index = agree(comm, lambda: _time_index(until, fixed.task))
    with opened(network, fixed.task.options, comm) as setup:
        pieces: list[Result] = []
        try:
            if path is not None and done:  # with fewer trajectories than are allowed now
                pieces.append(agree(comm, lambda: open_result(path)))
                tests.done, tests.sums = done.n, done.sums
            while not tests.met and tests.done < options.n:
                run = str(pieces[0].attributes["run"]) if pieces else None
                task = _next_task(setup.task, tests, path, run, comm)
                n, how = task.options.n, "" if path is None else f"{opt('resume')} completes {path}"
                with _stop_reworded(f"of the next {n} trajectories, after {tests.done}", how):
                    pieces.append(run_portion(setup, task, comm, stop))
                size = task.options.portion.group
                tests.test(_tested(pieces[-1], until, index), task.options.n, size)
            return _joined(layout, pieces, tests, comm, options)
        finally:
            for piece in pieces:
                piece.close()


@dataclass(frozen=True)
class _Finished:
    """A result that there is, and what its last test was: see `Convergence`."""

    n: int
    met: bool
    sums: ConvergenceSums


def _finished(path: Path, options: Options) -> _Finished | None:
    """The result, if it is there; refuses to replace one that is not asked for."""
    if options.overwrite and not options.resume:
        remove_portions(path, Disk())  # of an earlier run, which may have come further
        return None
    begun = portions(path)
    if not options.resume and (path.exists() or begun):
        what = "exists" if path.exists() else f"was begun ({begun[0].name} is a portion of it)"
        raise ConfigError(
            f"{path} {what}; use {opt('overwrite')}, {opt('resume')} or another {opt('output')}"
        )
    if not path.exists():
        return None
    with open_result(path) as result:
        found = result.attributes.get("until")
        if not result.complete or found != options.until:
            raise ConfigError(
                f"{path} holds another run: its {opt('until')} is {found}, not {options.until}; "
                f"{opt('resume')} needs the same job"
            )
        text = str(result.attributes.get("until_sums", ""))
        met = bool(result.attributes["until_met"]) or not text  # an earlier version wrote none
        return _Finished(result.n, met, ConvergenceSums.parse(text))


def _portion_path(path: Path, before: int) -> Path:
    return path.with_name(f"{path.name}.until-{before}")


def _refuse_varying(options: Options) -> Options:
    if options.sweep is not None or any(np.ndim(v) for v in options.set.values()):
        raise ConfigError(f"{opt('until')} needs the same values for all trajectories, so no sweep")
    return options


def _with_sums(wanted: Setup, until: UntilSpec) -> Setup:
    """The run with the choices it would make with all trajectories, and the sums to be tested."""
    task, record = wanted.task, wanted.task.record
    if until.species not in task.species:
        raise ConfigError(
            f"{assigned('until')}{until.text!r}: {until.species} is not a recorded species; "
            f"recorded are {', '.join(task.species)}"
        )
    extra = until.histogram
    if extra is not None and any(h.species == until.species for h in record.histograms):
        raise ConfigError(
            f"{assigned('until')}{until.text!r} and "
            f"{opt('record', 'histogram:' + until.species)} exclude each other"
        )
    histograms = record.histograms if extra is None else (*record.histograms, extra)
    more = replace(record, statistics=True, histograms=histograms)
    chosen = replace(task.options, given=None, method=task.settled_method, record=more)
    return replace(wanted, task=replace(task, options=chosen))


def _time_index(until: UntilSpec, task: Task) -> int:
    times = task.options.times
    if until.t is None:
        return len(times) - 1
    nearest = int(np.argmin(np.abs(times - until.t)))
    if abs(times[nearest] - until.t) > 1e-9 * max(1.0, abs(float(times[-1]))):
        raise ConfigError(
            f"{assigned('until')}{until.text!r}: {until.t:g} is not a sample time; the nearest is "
            f"{times[nearest]:g}"
        )
    return nearest


def _next_task(
    task: Task, tests: Convergence, path: Path | None, run: str | None, comm: Communicator
) -> Task:
    """The next trajectories to run. Collective."""
    before, n = tests.done, tests.next_end() - tests.done
    portion = Portion(group=tests.group, run=run)
    first = task.options.first + before
    output: Path | None = None
    if path is not None:
        output = beside = _portion_path(path, before)
        begun = on_root(comm, lambda: existing_attributes(beside)).get("n")
        if begun is not None and int(begun) <= tests.limit - before:
            n = int(begun)  # where another limit may have cut it
    options = replace(task.options, n=n, first=first, output=output, portion=portion)
    return replace(task, options=options)


def _tested(result: Result, until: UntilSpec, index: int) -> npt.NDArray[np.object_]:
    """Sums of every group, ``[group, 3]``: how many count, sum, sum of squares."""
    data = result.data
    n = data["statistics/n"][:, index].astype(object)
    column = result.species.index(until.species)
    if until.relation:
        cells = data[f"statistics/histogram/{until.species}"][:, index].astype(object)
        above, below = cells[:, 1] + cells[:, 2], cells[:, 0]
        share = above if until.relation in (">", ">=") else below
        return np.stack([n, share, share], axis=1)
    total, high, low = (
        data[f"statistics/{name}"][:, index, column].astype(object)
        for name in ("sum", "sumsq_hi", "sumsq_lo")
    )
    return np.stack([n, total, high * (1 << 64) + low], axis=1)


def _added(whole: Layout, results: Sequence[Result]) -> tuple[list[ResultPiece], Accumulators]:
    """The rows taken from each portion, and their sums."""
    pieces, left = [], whole.n
    totals = zero_accumulators(whole)
    for result in results:
        rows = min(result.n, left)
        pieces.append(_piece(result, rows))
        sums = stored_accumulators(whole, result.data)
        size = int(result.attributes.get("group", 0))
        if size:  # not of a result that a higher limit goes on from
            groups = -(-rows // size)
            add_groups(totals, {name: values[:groups] for name, values in sums.items()})
        else:
            add_accumulators(totals, sums)
        left -= rows
    return pieces, totals


def _missing_precision(tests: Convergence) -> str:
    """Describe how far a condition is from being met."""
    width = half_width(tests.until, tests.sums)
    if math.isfinite(width):
        return f"the half width is {width:.3g}"
    if tests.sums.informative > 0:
        return (
            f"only about {tests.sums.informative:.2g} of them determine the spread, and "
            f"{FEWEST_INFORMATIVE} are needed for an interval"
        )
    if tests.sums.groups < 2 <= tests.done // FIRST_GROUP:
        return "an earlier version began it and kept no sums of groups, so more are needed"
    if tests.sums.groups < 2:
        return f"a mean has no interval by fewer than {2 * FIRST_GROUP}"
    return "all of them gave the same, which bounds no error of a mean"


def _joined(
    layout: Layout,
    results: Sequence[Result],
    tests: Convergence,
    comm: Communicator,
    options: Options,
) -> Result:
    """The first `tests.done` trajectories of all portions. Collective."""
    if not tests.met and comm.rank == 0:
        warn(
            f"{assigned('until')}{tests.until.text!r} was not met by {options.n} trajectories: "
            f"{_missing_precision(tests)}"
        )
    attributes = {**layout.attributes, "until": tests.until.text, "until_met": int(tests.met)}
    if "approximate" in attributes:
        attributes["approximate"] = f"{attributes['approximate']}; {OF_SAMPLING}"
        if comm.rank == 0:
            warn(f"{assigned('until')}{tests.until.text!r}: {OF_SAMPLING}")
    attributes["n_limit"] = options.n
    attributes["until_sums"] = tests.sums.text()  # to go on from with a higher limit
    attributes[BITS] = int(results[0].attributes.get(BITS, 1))
    whole = replace(layout, n=tests.done, attributes=attributes)
    oldest = min(int(result.attributes["format_version"]) for result in results)
    whole = replace(whole, block=min(layout.block, whole.n), format_version=oldest)
    pieces, totals = _added(whole, results)
    run = str(results[0].attributes["run"])
    path = options.output
    if path is None:
        arrays = join_memory(whole, pieces, totals)
        return Result(
            arrays, root_attributes(whole, "memory", run), layout=whole, saves=comm.rank == 0
        )
    place = path

    def join() -> None:
        join_files(place, whole, pieces, totals, run, Disk(), options.compress)
        for result in results:
            if result.path not in (None, place):
                _remove(result.path)

    on_root(comm, join)
    return agree(comm, lambda: open_result(path))
