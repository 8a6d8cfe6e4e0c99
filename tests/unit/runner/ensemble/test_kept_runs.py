"""Prepared runs that are kept: the same bits as without, never those of a model that changed."""

from __future__ import annotations

import copy
import gc
import math
import os
import pickle
import resource
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from generated_networks import cyclic_chain
from sampling import ordinary

import tauslab as ts
from tauslab.base.errors import ConfigError
from tauslab.model.expressions.expression import Number
from tauslab.model.network.parts import Feature
from tauslab.runner.ensemble import kept as kept_module
from tauslab.runner.ensemble import run as run_module
from tauslab.runner.ensemble import task as task_module
from tauslab.runner.ensemble.choices.outlook import Outlook
from tauslab.runner.ensemble.kept import Content, Setup, kept_runs
from tauslab.runner.ensemble.lane import Lane

pytestmark = pytest.mark.compiler

CPU = ts.CPU(threads=2)
TIMES = [0.0, 0.5, 2.0]


def enzyme(**values: float) -> ts.Network:
    net = ts.Network("enzyme")
    for name, count in {"S": 60, "E": 12, "ES": 0, "P": 0}.items():
        net.add_species(name, count)
    for name, value in ({"bind": 0.05, "leave": 0.1, "make": 1.0} | values).items():
        net.add_parameter(name, value)
    net.add_reaction("S + E -> ES", rate="bind")
    net.add_reaction("ES -> S + E", rate="leave")
    net.add_reaction("ES -> P + E", rate="make")
    net.add_rule("total", "S + ES + P")
    return net


def with_event() -> ts.Network:
    net = enzyme()
    net.add_event("refill", trigger="S < 30", assignments={"S": "S + 20"})
    net.add_event("dose", 1.0, {"S": "S + 5"})
    return net


def with_time() -> ts.Network:
    net = enzyme()
    net.add_reaction("-> S", law="5 * exp(-0.3 * time)")
    return net


def with_delay() -> ts.Network:
    net = enzyme()
    net.add_reaction("P -> S", rate=0.3, delay="gamma(3, 0.1)")
    return net


def large() -> ts.Network:
    return cyclic_chain(60)


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names of the networks that were prepared with kernels of their own."""
    actual: list[str] = []
    compiled = run_module._compiled

    def noted(task: Any, *given: Any) -> Any:
        actual.append(task.network.name)
        return compiled(task, *given)

    monkeypatch.setattr(run_module, "_compiled", noted)
    return actual


def digest(model: ts.Network, **options: Any) -> str:
    options = {"n": 7, "times": TIMES, "device": CPU, **options}
    return ts.run(model, **options).digest()


def alone(model: ts.Network, **options: Any) -> str:
    """Digest of a run for which nothing is kept."""
    kept_runs.forget()
    return digest(copy.deepcopy(model), **options)


CASES: dict[str, tuple[Callable[[], ts.Network], dict[str, Any]]] = {
    "ssa": (enzyme, {}),
    "one": (enzyme, {"n": 1}),
    "many": (enzyme, {"n": 300, "record": "statistics"}),
    "set": (enzyme, {"set": {"make": 0.7}}),
    "rows": (enzyme, {"set": {"make": np.linspace(0.1, 2, 7)}}),
    "amounts": (enzyme, {"set": {"S": 33}}),
    "initial": (enzyme, {"initial": {"S": [20, 30, 40], "P": 5}, "n": 3}),
    "common": (enzyme, {"common": True}),
    "reduced": (enzyme, {"record": "summary:first-passage:P:10,histogram:P:0:50:10"}),
    "species": (enzyme, {"species": ["P", "total"]}),
    "tau": (enzyme, {"method": "tau"}),
    "checked leaps": (enzyme, {"method": ts.TauLeaping(epsilon=0.1, post_leap_check=True)}),
    "auto": (enzyme, {"method": "auto"}),
    "ode": (enzyme, {"method": "ode", "n": 1}),
    "stiff": (enzyme, {"method": ts.ODE(solver="rosenbrock"), "n": 1}),
    "sampled": (enzyme, {"method": "ode", "sample": "make=uniform(0.1,2)"}),
    "hybrid": (enzyme, {"method": "hybrid"}),
    "cle": (enzyme, {"method": "cle"}),
    "tree": (large, {"method": ts.SSA(selector="tree")}),
    "pdm": (large, {"method": ts.SSA(selector="pdm", presimulation=500)}),
    "rssa": (large, {"method": ts.SSA(selector="rssa", presimulation=0)}),
    "events": (with_event, {}),
    "leaps with events": (with_event, {"method": "tau"}),
    "thinned": (with_time, {}),
    "delayed": (with_delay, {}),
    "swept": (enzyme, {"sweep": {"make": [0.5, 1.5]}}),
    "designed": (enzyme, {"sweep": {"make": (0.5, 1.5)}, "design": ("sobol", 4)}),
}


@pytest.mark.parametrize("case", ordinary(list(CASES), "set", "tau", "events"))
def test_a_run_after_another_has_the_bits_of_one_alone(case: str) -> None:
    make, options = CASES[case]
    expected = [alone(make(), seed=seed, **options) for seed in (1, 2, 3)]
    kept_runs.forget()
    model = make()
    assert [digest(model, seed=seed, **options) for seed in (1, 2, 3)] == expected


def test_a_model_is_prepared_once(prepared: list[str]) -> None:
    model = enzyme()
    for seed in range(4):
        digest(model, seed=seed)
    assert prepared == ["enzyme"]
    digest(model, seed=0, n=8)
    digest(model, seed=0, times=[0, 1])
    digest(model, seed=0, method="tau")
    assert len(prepared) == 4
    digest(model, seed=9)
    assert len(prepared) == 4


@pytest.mark.parametrize(("seconds", "times"), [(None, 1), (1.0, 1), (1e4, 3)])
def test_the_length_of_a_run_is_estimated_again_only_to_tell_of_a_long_one(
    seconds: float | None, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def estimated(*given: Any) -> Outlook:
        asked.append(given)
        return Outlook(2e8, seconds)

    monkeypatch.setattr(run_module, "announce_long_run", estimated)
    model = enzyme()
    assert len({digest(model, seed=5, n=200) for _ in range(3)}) == 1
    assert len(asked) == times


LENGTHS: list[dict[str, Any]] = [
    {},
    {"n": 9},
    {"n": 9, "times": [0.0, 1.0]},
    {"n": 70},
    {"n": 8, "times": [0.0, 3.0]},
]


@pytest.mark.parametrize("case", ordinary(list(CASES), "set", "pdm", "events", "thinned"))
def test_a_run_of_another_length_has_the_bits_of_one_alone(case: str) -> None:
    make, options = CASES[case]
    given = LENGTHS if "n" not in options and case != "rows" else LENGTHS[::2]
    lengths = [{**options, **length} for length in given if case != "rows" or "n" not in length]
    expected = [alone(make(), seed=seed, **own) for own in lengths for seed in (1, 2)]
    kept_runs.forget()
    model = make()
    assert [digest(model, seed=seed, **own) for own in lengths for seed in (1, 2)] == expected


def test_a_run_of_another_length_lowers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered: list[str] = []
    lower = task_module.lower

    def noted(network: ts.Network, **given: Any) -> Any:
        lowered.append(network.name)
        return lower(network, **given)

    monkeypatch.setattr(task_module, "lower", noted)
    model = cyclic_chain(300)
    for length in LENGTHS:
        for seed in (1, 2):
            digest(model, seed=seed, **length)
    assert len(lowered) == 1
    model.add_reaction("S1 ->", rate=0.5)
    actual = digest(model, seed=1, n=11)
    assert len(lowered) == 2
    assert actual == alone(model, seed=1, n=11)


def test_other_values_of_another_length_have_their_own_bits() -> None:
    wanted = [(5, 0.3), (6, 0.3), (6, 2.0), (5, 2.0), (9, 1.0)]
    expected = [alone(enzyme(make=value), seed=1, n=n) for n, value in wanted]
    kept_runs.forget()
    model = enzyme()
    assert [digest(model, seed=1, n=n, set={"make": v}) for n, v in wanted] == expected


def test_the_end_of_a_run_decides_what_is_lowered_where_the_time_does() -> None:
    def model() -> ts.Network:
        net = enzyme()
        net.add_reaction("-> S", law="5 * piecewise(1, time < 1.5, 3)")
        return net

    ends = [[0.0, 1.0], [0.0, 2.0], [0.0, 1.2]]
    expected = [alone(model(), seed=1, times=times) for times in ends]
    kept_runs.forget()
    net = model()
    assert [digest(net, seed=1, times=times) for times in ends] == expected


def test_other_values_take_the_same_kernels_and_have_their_own_bits(prepared: list[str]) -> None:
    values = [0.3, 0.3, 2.0, 1e-3, 0.0, 2.0]
    expected = [alone(enzyme(), seed=1, set={"make": value}) for value in values]
    written = [alone(enzyme(make=value), seed=1) for value in values]
    assert expected == written
    prepared.clear()
    model = enzyme()
    assert [digest(model, seed=1, set={"make": value}) for value in values] == expected
    assert prepared == ["enzyme"]
    with pytest.raises(ts.ModelError, match="rate constant is -1"):
        digest(model, seed=1, set={"make": -1.0})
    assert digest(model, seed=1, set={"make": 0.3}) == expected[0]


def test_values_that_no_law_reads_take_the_same_kernels(prepared: list[str]) -> None:
    net = enzyme(unread=1.0)
    assert digest(net, seed=1, set={"unread": 2.0}) == digest(net, seed=1, set={"unread": 3.0})
    assert prepared == ["enzyme"]


@pytest.mark.parametrize(
    "amounts", ordinary([[5, 50_000], [50_000, 5], [50_000, 60_000]], [5, 50_000])
)
def test_other_amounts_choose_a_method_of_their_own(amounts: list[int]) -> None:
    def model() -> ts.Network:
        net = ts.Network("dimers")
        net.add_species("S", 10)
        net.add_species("P", 0)
        net.add_reaction("2 S <-> P", rate=(0.001, 1.0))
        return net

    def seen(net: ts.Network, amount: int) -> tuple[str, Any, Any]:
        options: dict[str, Any] = {"n": 50, "times": TIMES, "device": CPU, "method": "auto"}
        actual = ts.run(net, seed=1, set={"S": amount}, **options)
        return actual.digest(), actual.attributes["method"], actual.attributes["method_choice"]

    expected = []
    for amount in amounts:
        kept_runs.forget()
        expected.append(seen(model(), amount))
    net = model()
    assert [seen(net, amount) for amount in amounts] == expected


def test_amounts_that_follow_a_value_are_computed_anew() -> None:
    def model() -> ts.Network:
        net = enzyme()
        net.add_species("R", "100 * make")
        net.add_reaction("R ->", rate="make")
        net.add_parameter("twice", "2 * make")
        net.add_reaction("-> R", rate="twice")
        return net

    values = [0.25, 0.5, 1.0]
    expected = [alone(model(), seed=1, set={"make": value}) for value in values]
    kept_runs.forget()
    net = model()
    assert [digest(net, seed=1, set={"make": value}) for value in values] == expected


def test_results_are_stored_with_their_own_values_and_notes(tmp_path: Any) -> None:
    model = enzyme()
    hashes = set()
    for i in range(3):
        path = tmp_path / f"{i}.h5"
        options = {"n": 3, "times": TIMES, "device": CPU, "output": path, "note": f"run {i}"}
        with ts.run(model, seed=i, set={"make": 1.0 + i}, **options) as result:
            hashes.add(result.attributes["model_sha256"])
            assert result.attributes["note"] == f"run {i}"
            assert result.seed == i
    assert len(hashes) == 3


def _changes() -> dict[str, Callable[[ts.Network], object]]:
    """Everything by which a network can be changed in place."""

    def replaced_reaction(net: ts.Network) -> None:
        net.reactions[0] = enzyme(bind=0.3).reactions[1]

    def doubled_product(net: ts.Network) -> None:
        net.reactions[2].products["P"] = 2  # type: ignore[index]

    def other_assignment(net: ts.Network) -> None:
        net.events[0].assignments["S"] = Number(90.0)  # type: ignore[index]

    return {
        "parameter": lambda net: net.parameters.update(make=Number(3.0)),
        "negative zero": lambda net: net.parameters.update(leave=Number(-0.0)),
        "amount": lambda net: net.species.update(S=enzyme().species["E"]),
        "species": lambda net: net.add_species("X", 5),
        "new parameter": lambda net: net.add_parameter("other", 1),
        "reaction": lambda net: net.add_reaction("P -> S", rate=0.2),
        "both ways": lambda net: net.add_reaction("P <-> S", rate=(0.2, 0.1)),
        "reaction in place": replaced_reaction,
        "removed reaction": lambda net: net.reactions.pop(),
        "order of reactions": lambda net: net.reactions.reverse(),
        "product in place": doubled_product,
        "event": lambda net: net.add_event("more", 0.7, {"P": 0}),
        "removed event": lambda net: net.events.pop(0),
        "event in place": other_assignment,
        "rule": lambda net: net.add_rule("rest", "S / 60"),
        "removed rule": lambda net: net.rules.pop("total"),
        "rate": lambda net: (net.add_species("V", 1), net.add_rate("V", "0.1 * V")),
        "feature": lambda net: net.add_feature(
            Feature("net law", "reaction R1", "may be negative")
        ),
        "end": lambda net: setattr(net, "t_end", 1.0),
        "time unit": lambda net: setattr(net, "time_unit", "min"),
        "amount unit": lambda net: setattr(net, "amount_unit", "nmol"),
        "unit of counts": lambda net: setattr(net, "count_unit", "particles"),
        "molecules": lambda net: setattr(net, "molecules_per_unit", 600.0),
        "label": lambda net: net.labels.update(S="S()"),
        "note": lambda net: net.notes.append("seen"),
        "name": lambda net: setattr(net, "name", "other"),
        "volume": lambda net: net.species.update(
            S=type(net.species["S"])("S", Number(60.0), compartment="make")
        ),
    }


def told(model: ts.Network) -> tuple[str, dict[str, Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = ts.run(model, n=7, times=TIMES, device=CPU, seed=3)
    own = {"run_id", "created", "run"}
    return result.digest(), {k: v for k, v in result.attributes.items() if k not in own}


@pytest.mark.parametrize("change", ordinary(_changes(), *list(_changes())[::4]))
def test_a_model_that_was_changed_is_prepared_anew(change: str, prepared: list[str]) -> None:
    model = with_event()
    told(model)
    before = Content.of(model)
    _changes()[change](model)
    assert not before.same(Content.of(model))
    prepared.clear()
    actual = told(model)
    assert len(prepared) == 1
    kept_runs.forget()
    fresh = with_event()
    _changes()[change](fresh)
    expected = told(fresh)
    assert actual[0] == expected[0]
    assert actual[1].keys() == expected[1].keys()
    for name in ("model_sha256", "t_end", "method", "name"):
        assert actual[1].get(name) == expected[1].get(name)


def test_every_field_of_a_network_counts() -> None:
    """A field that is added to networks is compared without a change here."""
    names = {name for name in vars(ts.Network()) if not name.startswith("_")}
    assert set(kept_module._PARTS) == names


def test_warnings_are_repeated() -> None:
    model = enzyme()
    model.add_species("half", 0.5)

    def sentences(seed: int, **length: Any) -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            digest(model, seed=seed, **length)
        return [str(one.message) for one in caught]

    first = sentences(1)
    assert first
    assert sentences(2) == sentences(3) == first
    assert sentences(1, n=8) == sentences(2, times=[0.0, 1.0]) == first


def test_warnings_of_other_values_are_repeated() -> None:
    """Kernels that were made for values without a warning."""
    model = enzyme()

    def sentences(amount: float, **length: Any) -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            digest(model, seed=1, set={"S": amount}, **length)
        return [str(one.message) for one in caught]

    assert sentences(33) == []
    first = sentences(33.5)
    assert first
    assert sentences(33.5, n=8) == sentences(33.5, n=8) == first
    assert sentences(33, n=9) == []


def test_what_is_kept_ends_with_its_model() -> None:
    kept_runs.forget()
    model = enzyme()
    digest(model, seed=1)
    assert len(kept_runs) == 1
    del model
    gc.collect()
    assert len(kept_runs) == 0


def test_no_more_is_kept_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_module, "MOST_KEPT", 3)
    model = enzyme()
    for n in range(1, 7):
        digest(model, seed=1, n=n)
    assert len(kept_runs) == 3
    monkeypatch.setattr(run_module, "MOST_BYTES", 10)
    kept_runs.forget()
    digest(model, seed=1)
    assert len(kept_runs) == 0


def test_a_run_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = enzyme()
    expected = digest(model, seed=1)
    with monkeypatch.context() as patch:
        patch.setattr("tauslab.runner.ensemble.lane.Lane.wait", _fails)
        with pytest.raises(ts.DeviceFailed, match="broken"):
            digest(model, seed=1)
    assert len(kept_runs) == 0
    assert digest(model, seed=1) == expected


def test_a_failure_after_many_runs_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many runs have passed on what is kept, closing it takes no deeper stack."""
    model = enzyme()
    for seed in range(60):
        digest(model, seed=seed)
    kept = kept_runs._held[-1]
    callbacks = list(kept.opened._exit_callbacks)  # type: ignore[attr-defined]
    assert not any(isinstance(one.__self__, ExitStack) for _, one in callbacks)
    with pytest.raises(ts.ModelError, match="rate constant is -1"):
        digest(model, seed=1, set={"make": -1.0})


def test_a_model_that_ends_within_a_call_leaves_nothing() -> None:
    """Garbage may be collected while the list of what is kept is made."""
    model, other = enzyme(), enzyme()
    digest(model, seed=1)
    (ended,) = kept_runs._held
    del model
    gc.collect()
    kept_runs._held.append(ended)
    digest(other, seed=1)
    assert [one.model() for one in kept_runs._held] == [other]


def _fails(lane: object) -> None:
    raise OSError("broken")


def test_threads_run_one_model_side_by_side() -> None:
    model = enzyme()
    made = ts.prepare(model, n=5, times=TIMES, device=ts.CPU(threads=1))
    expected = [made.run(seed=seed).digest() for seed in range(12)]
    with ThreadPoolExecutor(4) as pool:
        actual = list(pool.map(lambda seed: made.run(seed=seed).digest(), range(12)))
    assert actual == expected
    expected = [made.run(seed=seed, n=1 + seed % 5).digest() for seed in range(12)]
    kept_runs.forget()
    with ThreadPoolExecutor(4) as pool:
        alike = list(pool.map(lambda seed: made.run(seed=seed, n=1 + seed % 5).digest(), range(12)))
    assert alike == expected


def test_calls_do_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither memory nor threads, with the same values or with others."""
    made = ts.prepare(enzyme(), n=2, times=TIMES, device=CPU)

    def calls(many: int) -> tuple[int, int]:
        for i in range(many):
            made.run(seed=i)
            made.run(seed=i, set={"make": 1 + i * 1e-3})
        gc.collect()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, threading.active_count()

    (memory, threads), (later, threads_later) = calls(60), calls(160)
    assert threads_later == threads
    assert later - memory < 4096  # KiB, of 320 calls


def test_streams_that_no_lane_uses_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that take long get lanes of their own, one after another."""
    monkeypatch.setattr(Setup, "was_short", property(lambda _: False))
    model = enzyme()

    def streams(many: int) -> int:
        for seed in range(many):
            digest(model, seed=seed, set={"make": 1 + seed * 1e-3})
        gc.collect()
        return len(kept_runs._held[-1].setup.engine.backend._streams)

    assert streams(3) == streams(12)


def test_one_launch_that_waited_for_a_processor_makes_no_run_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The times of launches are set here: those of a busy machine are long."""
    model = enzyme()

    def lanes(seed: int, seconds: float) -> Any:
        monkeypatch.setattr(Lane, "_last_seconds", property(lambda _: seconds))
        digest(model, seed=seed)
        return kept_runs._held[-1].setup.lanes

    for seed in range(4):
        short = lanes(seed, 1e-3)
    assert short.waited
    assert lanes(5, 1.0) is short
    assert lanes(6, 1.0) is not short
    monkeypatch.undo()
    assert 0 < kept_runs._held[-1].setup.lanes.seconds < math.inf


def test_a_forked_process_prepares_its_own() -> None:
    model = enzyme()
    expected = digest(model, seed=2)
    child = os.fork()
    if child == 0:
        os._exit(int(len(kept_runs) > 0 or digest(model, seed=2) != expected))
    assert os.waitpid(child, 0)[1] == 0
    assert digest(model, seed=2) == expected


# ---------------------------------------------------------------- tauslab.prepare


def test_a_prepared_run_has_the_bits_of_run(prepared: list[str]) -> None:
    made = ts.prepare(enzyme(), n=7, t_end=2.0, points=3, set={"make": 0.5}, device=CPU)
    assert prepared == ["enzyme"]
    own = {"t_end": 2.0, "points": 3, "set": {"make": 0.5}}
    expected = ts.run(enzyme(), n=7, seed=4, device=CPU, **own).digest()
    assert made.run(seed=4).digest() == expected
    prepared.clear()
    assert made.run(7, 4).digest() == expected
    assert not prepared
    own["set"] = {"make": 0.5, "bind": 0.1}
    other = ts.run(enzyme(), n=9, seed=5, device=CPU, **{**own, "t_end": 1.0}).digest()
    assert made.run(9, 5, set={"bind": 0.1}, t_end=1.0).digest() == other


def test_a_prepared_run_follows_its_model() -> None:
    model = enzyme()
    made = ts.prepare(model, n=7, times=TIMES, device=CPU)
    made.run(seed=1)
    model.add_reaction("P -> S", rate=0.2)
    assert made.run(seed=1).digest() == alone(model, seed=1)


def test_a_copy_in_another_process_runs_alike() -> None:
    made = ts.prepare(enzyme(), n=7, times=TIMES, device=CPU)
    copied = pickle.loads(pickle.dumps(made))
    assert copied.run(seed=1).digest() == made.run(seed=1).digest()
    assert repr(copied) == repr(made)
    made.options["comm"] = object()
    with pytest.raises(ConfigError, match="cannot be copied to another process"):
        pickle.dumps(made)


def test_what_prepare_cannot_keep_is_refused(data: Path) -> None:
    with pytest.raises(ConfigError, match="not of workers"):
        ts.prepare(enzyme(), executor=ts.Dask())
    with pytest.raises(ConfigError, match="takes a network"):
        ts.prepare(data.parent.parent / "examples" / "michaelis_menten_cube.toml")
    with pytest.raises(ts.UnknownKeyword, match="output"):
        ts.prepare(enzyme(), output="x.h5")  # type: ignore[call-arg]
