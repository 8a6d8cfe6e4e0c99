"""A pilot orders a large network and may choose the selector; files keep what it chose."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from places import TESTS
from sampling import ordinary

import tauslab as ts
from tauslab.cli.main import main
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.kernels.backends import get_backend
from tauslab.kernels.backends.base import BackendOptions
from tauslab.kernels.exact.owners import change_weights
from tauslab.kernels.exact.pilot import TRAJECTORIES
from tauslab.kernels.exact.selectors import (
    MOST_BOUNDS,
    MOST_CANDIDATES,
    SELECTORS,
    PilotCounts,
    pilot_selector,
    selector_after,
)
from tauslab.kernels.network.lowering import LoweredNetwork, LoweredReaction
from tauslab.model.expressions.expression import Number
from tauslab.options.ensemble import Options
from tauslab.runner.ensemble.choices import pilots as piloting
from tauslab.runner.ensemble.choices.method_choice import outlook
from tauslab.runner.ensemble.entry import run_network
from tauslab.runner.ensemble.task import prepare
from tauslab.store.results.digest import digest_lines

NET = TESTS / "data" / "net" / "multisite2.net"
BASE = "pdm"  # of this network


def chain(species: int, *, laws: int = 0) -> LoweredNetwork:
    """S0 -> S1 -> ... -> S0, the first of them by laws."""
    reactions = []
    for j in range(species):
        change = tuple(sorted(((j, -1), ((j + 1) % species, 1))))
        law = Number(1.0) if j < laws else None
        reactions.append(LoweredReaction(f"R{j}", change, Number(2.0), ((j, 1),), law, ()))
    names = tuple(f"S{i}" for i in range(species))
    return LoweredNetwork(names, tuple(reactions), (), tuple(range(species)), ())


def run(**options):
    settings = {"n": 70, "t_end": 0.05, "points": 3, "seed": 3, "device": ts.CPU(threads=2),
                "method": ts.SSA(presimulation=500)}  # fmt: skip
    chosen = {name: value for name, value in {**settings, **options}.items() if value is not None}
    return ts.run(NET, **chosen)


def prepared(network, **options):
    method = options.pop("method", None) or ts.SSA(
        **{name: options.pop(name) for name in ("selector", "presimulation") if name in options}
    )
    settings = {"times": np.array([0.05]), "n": 70, "seed": 3, "method": method}
    return prepare(network, Options(**{**settings, **options}))


def lines(result):
    with result:
        return digest_lines(result, None)


@pytest.fixture
def tree_favoured(monkeypatch):
    """A pilot that chooses another selector than the network alone does."""
    counted = []

    def favour(network, base, pilot):
        counted.append((base, pilot))
        return "tree"

    monkeypatch.setattr(piloting, "selector_after", favour)
    return counted


def test_weights_of_species_are_firings_of_the_reactions_that_change_them():
    network = chain(4)
    assert change_weights(network).tolist() == [2, 2, 2, 2]
    assert change_weights(network, np.array([5.0, 0, 1, 10])).tolist() == [15, 5, 1, 11]
    assert change_weights(replace(network, reactions=()), np.zeros(0)).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("candidates", "share", "pays"),
    [
        (1.0, 0.0, True),
        (MOST_CANDIDATES, 1.0, True),
        (MOST_CANDIDATES + 0.01, 0.0, False),
        (1.0, 1.01, False),
    ],
)
@pytest.mark.parametrize("base", ["tree", "pdm"])
def test_few_candidates_and_bounds_an_event_choose_rejection(candidates, share, pays, base):
    """Shares are of the bounds that are allowed."""
    bounds = share * MOST_BOUNDS[base]
    network, firings = chain(300), np.full(300, 1000.0)
    pilot = PilotCounts(firings, round(300_000 * candidates), round(300_000 * bounds))
    assert pilot.work == pytest.approx((candidates, bounds))
    assert selector_after(network, base, pilot) == ("rssa" if pays else base)
    assert selector_after(chain(300, laws=151), base, pilot) == base, "no pilot by rejection"
    assert selector_after(network, base, PilotCounts(0 * firings)) == base, "nothing fired"


def test_the_selector_of_a_pilot_follows_from_the_network():
    assert pilot_selector(chain(300)) == pilot_selector(chain(300, laws=150)) == "rssa"
    assert pilot_selector(chain(300, laws=151)) == "tree"
    assert pilot_selector(chain(10, laws=10)) == "tree", "unrolled code counts nothing"


@pytest.mark.parametrize("selector", ordinary([None, *SELECTORS[1:]], None, "rssa"))
def test_a_pilot_does_not_depend_on_the_selector_of_the_run(selector):
    """A run that takes its selector from a file must be ordered as the first one was."""
    backend = get_backend("cpu", BackendOptions(threads=2))
    network = ts.read(NET)
    try:
        task = prepared(network, presimulation=2000, selector=selector)
        actual = piloting.piloted(task, backend)
        wanted = piloting.piloted(prepared(network, presimulation=2000), backend)
    finally:
        backend.close()
    assert actual is not None
    assert wanted is not None
    assert actual.firings.sum() == TRAJECTORIES * 2000
    assert np.array_equal(actual.firings, wanted.firings)
    assert (actual.candidates, actual.bounds) == (wanted.candidates, wanted.bounds)
    if pilot_selector(task.lowered) == "rssa":
        assert actual.candidates >= TRAJECTORIES * 2000
    else:
        assert (actual.candidates, actual.bounds) == (0, 0)


def test_a_network_in_which_nothing_fires_is_piloted():
    net = ts.Network("nothing")
    net.add_species("X", 1)
    result = ts.run(net, n=2, times=[1.0], seed=1, device="cpu", method=ts.SSA(presimulation=10))
    assert result.counts().tolist() == [[[1]], [[1]]]


def test_what_a_pilot_chose_is_stored_and_gives_the_bits_of_a_given_selector(tree_favoured):
    chosen = run(method=ts.Auto(presimulation=500))
    assert (chosen.attributes["selector"], chosen.attributes["presimulation"]) == ("tree", 500)
    assert [base for base, _ in tree_favoured] == [BASE]
    assert lines(chosen) == lines(run(method=ts.SSA(selector="tree", presimulation=500)))


def test_a_selector_that_is_given_stays_and_none_is_chosen_without_a_pilot(tree_favoured):
    pilot, backend = PilotCounts(np.ones(288)), get_backend("cpu", BackendOptions(threads=1))
    network = ts.read(NET)
    task = prepared(network, selector="rssa")
    assert piloting.with_pilot(task, pilot, announce=True).selector == "rssa"
    for none in ({"presimulation": 0}, {"n": 10}, {"method": ts.TauLeaping()}):
        task = prepared(network, **none)
        assert piloting.piloted(task, backend) is None
        assert piloting.with_pilot(task, None, announce=True).selector == BASE
    assert not tree_favoured
    backend.close()


@pytest.mark.usefixtures("one_block_launches")
def test_files_keep_what_a_pilot_chose(tree_favoured, monkeypatch, tmp_path):
    """A rerun, a resumed run and one that is appended to ask no pilot again."""
    first, again, part = (tmp_path / f"{name}.h5" for name in ("first", "again", "part"))
    whole = lines(run(output=first))
    given = {"seed": 3, "device": "cpu", "quiet": True, "block": 10, "n": 70}
    options = Options(
        np.linspace(0, 0.05, 3), **given, method=ts.SSA(presimulation=500), output=part
    )
    requested, network = iter([False]), ts.read(NET)
    with pytest.raises(ts.StoppedEarly):
        run_network(network, options, Communicator(), lambda: next(requested, True))
    grown = tmp_path / "grown.h5"
    run(n=50, output=grown).close()
    monkeypatch.setattr(piloting, "selector_after", lambda *_: pytest.fail("asked again"))

    assert main(["run", str(first), "--quiet", "--device", "cpu", "-o", str(again)]) == 0
    assert lines(ts.open(again)) == whole
    resumed = replace(options, method=ts.SSA(), resume=True)
    assert lines(run_network(network, resumed, Communicator())) == whole
    assert lines(run(append=20, n=None, method=ts.SSA(presimulation=None), output=grown)) == whole


@pytest.mark.validate
def test_portions_of_a_growing_run_have_one_choice(tree_favoured):
    until = run(until="mean(S1) rel 0.01", t_end=0.01, n=1000)
    assert until.attributes["selector"] == "tree"
    assert len(tree_favoured) == 1
    given = run(method=ts.SSA(selector="tree", presimulation=500), t_end=0.01, n=until.n)
    assert np.array_equal(until.counts(), given.counts())


@pytest.mark.validate
def test_the_command_tells_what_a_pilot_chose(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(piloting, "selector_after", lambda *_: "tree")
    monkeypatch.setattr(
        piloting, "run_pilot", lambda *_, **__: PilotCounts(np.full(288, 10.0), 3000, 576)
    )
    command = ["run", str(NET), "--t-end", "0.01", "--points", "2", "-n", "70", "--seed", "3",
               "--method", "ssa", "--device", "cpu", "-o", str(tmp_path / "a.h5"),
               "--overwrite", "--verbose"]  # fmt: skip
    assert main(command) == 0
    message = [line for line in capsys.readouterr().out.splitlines() if line.startswith("selector")]
    assert message == ["selector: tree (1.04 candidates and 0.2 bounds an event in the pilot)"]
    assert main([*command, "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert main([*command, "--selector", "tree"]) == 0
    assert "selector:" not in capsys.readouterr().out


def test_check_tells_what_a_pilot_may_choose():
    message = outlook(ts.read(NET))[0]
    assert message.startswith(
        "selector of ssa: pdm, or rssa where the pilot of a run of 64 trajectories or more favours "
        "it, an event changes the inputs of 5"
    )
    small = ts.Network("small")
    small.add_species("X", 10)
    small.add_reaction("X ->", rate=1.0)
    assert outlook(small)[0].startswith("selector of ssa: linear, an event changes")
    laws = ts.Network("laws")  # half of which are not of mass action
    for i in range(300):
        laws.add_species(f"S{i}", 10)
        laws.add_reaction(f"S{i} ->", law=f"S{i} / (1 + S{i})")
    assert outlook(laws)[0].startswith("selector of ssa: tree, an event changes")
    moving = ts.Network("moving", t_end=2)  # a rate that thinning bounds
    for i in range(130):
        moving.add_species(f"S{i}", 10)
        moving.add_reaction(f"S{i} ->", rate="1 + 0.5 * sin(time)")
    assert outlook(moving)[0].startswith("selector of ssa: tree, an event changes")


def many_molecules() -> ts.Network:
    """A cycle of species with so many molecules that propensities hardly change."""
    net = ts.Network("cycle")
    for i in range(300):
        net.add_species(f"S{i}", 20_000)
    for i in range(300):
        net.add_reaction(f"S{i} -> S{(i + 1) % 300}", rate=1.0 + i % 7)
    return net


def few_molecules() -> ts.Network:
    """Two molecules of each species, each of which 39 reactions read."""
    net = ts.Network("pairs")
    for i in range(40):
        net.add_species(f"S{i}", 2)
    for i in range(40):
        for j in range(i):
            net.add_reaction(f"S{i} + S{j} -> S{i} + S{(j + 1) % 40}", rate=1.0)
    return net


@pytest.mark.parametrize(
    ("network", "t_end", "after"), [(many_molecules, 5e-5, "rssa"), (few_molecules, 0.1, "pdm")]
)
def test_large_counts_are_run_by_rejection_and_small_ones_are_not(device, network, t_end, after):
    options = {"n": 64, "times": [0.0, t_end], "seed": 2, "device": device, "method": "ssa",
               "species": ["S0"]}  # fmt: skip
    actual = ts.run(network(), **options)
    assert actual.attributes["selector"] == after
    assert digest_lines(actual) == digest_lines(
        ts.run(network(), **{**options, "method": ts.SSA(selector=after)})
    )
