"""A run of a hybrid: its pilot, its checkpoints and its result."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from tauslab._version import BITS_VERSION
from tauslab.analysis.hybrids.clock import edges_of, groups_of
from tauslab.analysis.hybrids.driver import HybridRun, joined_parts
from tauslab.analysis.hybrids.hybrid import Hybrid
from tauslab.analysis.hybrids.links import Dividing, Shaping
from tauslab.analysis.hybrids.parts import PartModel
from tauslab.analysis.hybrids.pilot import pilot_of
from tauslab.analysis.hybrids.result import HybridResult, Pilot, Series
from tauslab.analysis.hybrids.view import HybridView
from tauslab.analysis.particles.store import StateCheckpoint, digest_of
from tauslab.analysis.polymers.polymer import Polymer, chain_of
from tauslab.base.errors import ConfigError, one_of
from tauslab.base.option_names import assigned, opt, warn
from tauslab.decomposition.ranks.job import agreed_seed
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.decomposition.ranks.progress import Progress
from tauslab.decomposition.ranks.stopping import in_order, stopping_on_sigterm
from tauslab.model.lattice.canonical import lattice_canonical_text
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.network.canonical import canonical_text
from tauslab.model.network.network import Network
from tauslab.options.hybrid import SPLITTINGS, HybridKeywords
from tauslab.options.methods import given_in, method_of
from tauslab.options.places import file_settings
from tauslab.options.values.definition import check_values
from tauslab.store.checking.opening import HYBRID, kind_of
from tauslab.store.locks import writing_result, written_by_us
from tauslab.store.state import StateFile

_KIND = "hybrid", "checkpoint of a hybrid"
_SHORT = 1e-3  # units: by so much less than nothing a pool has by rounding
_OF_PILOT = ("name", "mean", "halved", "error")


def run_hybrid(hybrid: Hybrid, given: HybridKeywords, comm: Communicator) -> HybridResult:
    """Run n cells of a hybrid; under ``mpirun`` on all ranks together. Collective.

    Raises
    ------
    ConfigError, ModelError
        A part, a link or an option is not allowed.
    DeviceError, OutputError
        The machine lacks something, or failed.
    """
    check_values(given)
    one_of("splitting", given.splitting, SPLITTINGS)
    if not hybrid.parts:
        raise ConfigError(f"hybrid {hybrid.name} has no parts")
    given = replace(given, t_end=hybrid.t_end if given.t_end is None else given.t_end)
    if given.t_end is None:
        raise ConfigError(f"hybrid {hybrid.name} has no end: give {assigned('t_end')}")
    file = file_settings(given.output)
    output: Path | None = file["output"]
    if given.resume and output is None:
        raise ConfigError(f"{opt('resume')} completes a file: give {opt('output')} too")
    beside = None if output is None else output.with_name(f"{output.name}.checkpoint")
    requested = given.seed if given.seed is not None else hybrid.seed
    seed = agreed_seed(requested, lambda: _seed_in(beside, resume=given.resume), comm)
    overwrite = file.get("overwrite", False)
    written = output if given.resume and not overwrite else None
    noting = _noting_what_functions_change(hybrid)
    with stopping_on_sigterm(None, comm, output) as stop, in_order(stop), noting:
        if on_root(comm, lambda: _are_there(written, beside)):
            with written_by_us(output, comm):
                result = _result(hybrid, given, seed, beside, comm, written=written)
        else:
            on_root(comm, lambda: _refuse_complete(written))
            with writing_result(output, comm, overwrite=overwrite) as write:
                result = _result(hybrid, given, seed, beside, comm)
                write(lambda path: result.save(path, overwrite=True))
    if beside is not None:
        on_root(comm, lambda: beside.unlink(missing_ok=True))
    return result


def _result(
    hybrid: Hybrid, given: HybridKeywords, seed: int, beside: Path | None, comm: Communicator,
    *, written: Path | None = None,
) -> HybridResult:  # fmt: skip
    """Run, from the checkpoint if there is one and it is asked for.

    The file `written` is that of a run that was ended before it removed its checkpoint.

    Raises
    ------
    ConfigError
        It is not: it holds another result than the checkpoint leads to.
    """
    assert given.t_end is not None
    how: dict[str, Any] = {
        "seed": seed, "splitting": given.splitting, "device": given.device, "comm": comm,
    }  # fmt: skip
    file = StateCheckpoint(
        beside, given.checkpoint_every, _digest(hybrid, given, seed), comm, *_KIND,
        how=f"{opt('resume')} continues from {{path}}",
    )  # fmt: skip
    if beside is not None and not given.resume:
        on_root(comm, lambda: beside.unlink(missing_ok=True))
    kept = file.take_up()
    if kept:
        own = kept.below("pilot")
        names = tuple(own["name"].astype(str).tolist())
        pilot = Pilot(names, *(own[one] for one in _OF_PILOT[1:]))
    else:
        pilot = pilot_of(hybrid, given.pilot, given.n, given.t_end, **how)
        if comm.rank == 0 and (large := pilot.large()):
            warn(f"half the interval changes hybrid {hybrid.name}: {'; '.join(large[:4])}")
    looks = [every for every, _ in given.hooks or ()]
    run = HybridRun(hybrid, n=given.n, t_end=given.t_end, hooks=looks, **how)
    try:
        if comm.rank == 0:
            begun = [] if kept else run.board.begun_otherwise()
            begun += [] if kept or run.divider is None else run.divider.undivided_species()
            for sentence in run.lags() + begun:
                warn(f"hybrid {hybrid.name}: {sentence}")
        if kept:
            run.take_up(kept)
        else:
            _call(given, run)
        if written is not None and not run.ended:
            raise _another(written)

        done, rounds = run.rounds
        with Progress(
            rounds, comm.rank, quiet=given.quiet, description=hybrid.name, unit="exchanges",
            started_at=done,
        ) as progress:  # fmt: skip

            def keep(now: HybridRun, last: bool) -> None:  # noqa: FBT001 - called by position
                more = {"seed": np.uint64(seed), **_of_pilot(pilot)}
                _call(given, now)
                file.save(lambda: {**now.stored(), **more}, last=last)
                progress.update(now.rounds[0], 0)

            run.run(keep)
        if comm.rank == 0:
            _warn_of(run)
        parts = {
            name: Series(run.times(name), run.recorded[name], run.series[name])
            for name in run.parts
        }
        divisions = None if run.divider is None else run.divider.divisions
    finally:
        run.close()
    result = HybridResult(
        hybrid.name, parts, pilot, tuple(hybrid.check()), seed, hybrid.tick, given.splitting,
        divisions,
    )  # fmt: skip
    if written is not None:
        on_root(comm, lambda: _require_same(result, written))
    return result


def _call(given: HybridKeywords, run: HybridRun) -> None:
    """Call the hooks that are due."""
    view = HybridView(run)
    for every, hook in given.hooks or ():
        if run.is_due(every):
            hook(view)


def _are_there(*paths: Path | None) -> bool:
    return all(path is not None and path.exists() for path in paths)


def _refuse_complete(written: Path | None) -> None:
    """Refuse to resume what is complete; a file of another kind is refused later."""
    if written is None or not written.exists() or kind_of(written) != HYBRID:
        return
    end = max(float(one.time[-1]) for one in HybridResult.load(written).parts.values())
    raise ConfigError(
        f"{written} is complete, to t = {end:g}, and the result of a hybrid has no state to "
        f"continue from: use {opt('overwrite')} or another {opt('output')}"
    )


def _require_same(result: HybridResult, written: Path) -> None:
    if HybridResult.load(written).digest() != result.digest():
        raise _another(written)


def _another(written: Path) -> ConfigError:
    return ConfigError(
        f"{written} exists, and is not of the run that {opt('resume')} goes on with: use "
        f"{opt('overwrite')} or another {opt('output')}"
    )


def _warn_of(run: HybridRun) -> None:
    """Warn of what values do not show."""
    name = run.hybrid.name
    if ended := int((~run.alive).sum()):
        large, below = ", ".join(run.board.overflowed), "; ".join(run.negative)
        others = (f"{word} in {part} at t = {t:g}" for (word, part), t in run.endings.items())
        warn(
            f"{ended} of {run.n} cells of hybrid {name} ended early, and their values are NaN"
            + f": more than can be held of {large}" * bool(large)
            + f": negative rate constants by {below}" * bool(below)
            + "".join(f": {one}" for one in others)
        )
    board = run.board
    # Parts with counts may read, and take, half a unit more than a pool holds.
    rounded = {
        board.number(key): 0.5 for key in board.pool_of if run.hybrid.parts[key[0]].whole(key[1])
    }
    if short := [
        f"{'.'.join(key)} by up to {-least:g}"
        for (key, number), least in zip(board.pools.items(), board.ledger.least, strict=True)
        if least < -_SHORT - rounded.get(number, 0.0)
    ]:
        warn(
            f"hybrid {name}: parts took more from pools than they held: {'; '.join(short)}; later "
            "gains cover it first: let rates vanish with what they use"
        )
    if early := [
        f"of {part} at t = {run.times(part)[-1]:g}"
        for part, one in run.intervals.items()
        if run.recorded[part] and run.end % one.sample
    ]:
        warn(
            f"hybrid {name}: the last samples are before {assigned('t_end')}"
            f"{run.end * run.tick / 2:g}, {', '.join(early)}: {opt('sample')} does not divide it"
        )
    if held := list(run.not_finite):
        warn(f"hybrid {name}: not finite at times, where the last value stayed: {'; '.join(held)}")


def _of_pilot(pilot: Pilot) -> dict[str, Any]:
    names = np.array([name.encode() for name in pilot.names], np.bytes_)
    return {
        "pilot/name": names if len(names) else np.zeros(0, "S1"),
        **{f"pilot/{one}": getattr(pilot, one) for one in _OF_PILOT[1:]},
    }


def _seed_in(beside: Path | None, *, resume: bool) -> int | None:
    """The seed of the checkpoint to resume, if there is one."""
    if beside is None or not (resume and beside.exists()):
        return None
    return StateFile(beside, *_KIND).read().whole("seed")


def _digest(hybrid: Hybrid, given: HybridKeywords, seed: int) -> bytes:
    """A digest of all that decides the result."""
    parts = [_described(made) for made in hybrid.parts.values()]
    links = [str(one) for one in (*hybrid.drives, *hybrid.shares, *hybrid.bills)]
    amounts = [[(str(p), a.tolist()) for p, a in one.amounts.items()] for one in hybrid.bills]
    over = [one.over for one in hybrid.drives]
    groups = groups_of(hybrid.intervals(), edges_of(hybrid.acting()))
    # Hooks look between half steps, which then are not joined.
    looks = [every for every, _ in given.hooks or ()]
    looks = looks if joined_parts(hybrid, groups, given.splitting) else []
    return digest_of(
        BITS_VERSION, seed, given.n, given.t_end, given.splitting, given.pilot, *parts, links,
        amounts, over, sorted(hybrid.intervals().items()), hybrid.tick,
        sorted(hybrid.record.items()), *map(_shape_described, hybrid.shapes.values()),
        *map(repr, hybrid.confined.values()),
        *([] if hybrid.dividing is None else [_division_described(hybrid.dividing)]), *looks,
    )  # fmt: skip


def _described(made: PartModel) -> bytes:
    """A digest of a part: its model, its method and its values."""
    options = dict(made.options)
    method = method_of(options.pop("method", None))
    model: str | bytes
    if isinstance(made.model, Network):
        model = canonical_text(made.model)
    elif isinstance(made.model, Lattice):
        model = lattice_canonical_text(made.model)
    elif isinstance(made.model, Polymer):
        chain = chain_of(made.model)
        model = digest_of(chain.numbers, chain.ring, chain.stored())
    else:
        model = _text_of(made.model)
    return digest_of(made.name, model, method.word, repr(given_in(method)), options)


def _shape_described(one: Shaping) -> bytes:
    """A digest of a shape of a part: its functions, and what they use."""
    used = inspect.getclosurevars(one.shape.make).nonlocals
    reported = {name: _text_of(v) if callable(v) else repr(v) for name, v in used.items()}
    return digest_of(
        str(one),
        sorted(one.particles.items()),
        one.reach,
        _text_of(one.shape.make),
        sorted(reported.items()),
    )


def _division_described(one: Dividing) -> str:
    return f"{one} {one.axis} {one.at} {one.fraction} {list(one.partition.items())}"


def _text_of(function: Any) -> str:
    """Source of a function, or its byte code without one, and the values that it uses."""
    if isinstance(function, partial):
        given = f"{_value_text(function.args)} {_value_text(function.keywords)}"
        return f"{_text_of(function.func)} {given}"
    if inspect.ismethod(function):
        return f"{_text_of(function.__func__)} {_value_text(_held_by(function.__self__))}"
    if not inspect.isfunction(function):
        call = type(function).__call__
        own = _value_text(_held_by(function))
        return f"{_text_of(call)} {own}" if inspect.isfunction(call) else ""
    left = _LEFT.get(function, {})
    used = [
        str([(name, left[name].begun if left.get(name) and left[name].ended == text else text)
             for name, text in own.items()])
        for own in _texts_used_by(function)
    ]  # fmt: skip
    more = str([*map(_value_text, (function.__defaults__, function.__kwdefaults__)), *used])
    try:
        return inspect.getsource(function) + more
    except OSError:
        return f"{function.__code__.co_code.hex()} {function.__code__.co_names}{more}"


@dataclass(frozen=True)
class _Left:
    """A value that a function uses, such as a memo, as text: when a run began and at its end."""

    begun: str
    ended: str


# Values that runs of this process changed, by function and name: a run may continue with them.
_LEFT: WeakKeyDictionary[Any, dict[str, _Left]] = WeakKeyDictionary()


@contextmanager
def _noting_what_functions_change(hybrid: Hybrid) -> Iterator[None]:
    """Keep, for the next digest in this process, which values of functions a run changed itself."""
    functions = [one.model for one in hybrid.parts.values() if inspect.isfunction(one.model)]
    begun = [_texts_used_by(function) for function in functions]
    try:
        yield
    finally:
        for function, before in zip(functions, begun, strict=True):
            own = _LEFT.setdefault(function, {})
            for texts, old in zip(_texts_used_by(function), before, strict=True):
                for name, ended in texts.items():
                    if name in old and ended != old[name]:
                        known = own.get(name)
                        first = known.begun if known and known.ended == old[name] else old[name]
                        own[name] = _Left(first, ended)


def _texts_used_by(function: Any) -> list[dict[str, str]]:
    return [{name: _value_text(v) for name, v in own.items()} for own in _used_by(function)]


def _held_by(one: Any) -> dict[str, Any]:
    """Attributes of an object, also of those that its class has slots for."""
    slots = [getattr(kind, "__slots__", ()) for kind in type(one).__mro__]
    names = [name for own in slots for name in ((own,) if isinstance(own, str) else own)]
    result = {name: getattr(one, name) for name in names if hasattr(one, name)}
    result = {name: value for name, value in result.items() if not name.startswith("__")}
    return {**getattr(one, "__dict__", {}), **result}


def _used_by(function: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Variables that a function closes over, and globals that it names."""
    code, cells, used = function.__code__, {}, function.__globals__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # of a name that has no value yet
            cells[name] = cell.cell_contents
    return cells, {name: used[name] for name in code.co_names if name in used}


def _value_text(value: Any, around: tuple[int, ...] = ()) -> str:
    """Numbers and texts in a value; of other objects the type. It is the same in each process."""
    held = (*around, id(value))
    if isinstance(value, Mapping | list | tuple) and id(value) in around:
        return "itself"
    if isinstance(value, Mapping):
        return str([(str(name), _value_text(one, held)) for name, one in value.items()])
    if isinstance(value, list | tuple):
        return str([_value_text(one, held) for one in value])
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {value.tobytes().hex()}"
    plain = value is None or isinstance(value, bool | int | float | complex | str | np.generic)
    return repr(value) if plain else type(value).__qualname__
