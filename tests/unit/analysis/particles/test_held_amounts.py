"""Fixed species that are given values, whole or not, while particles are on their way."""

from __future__ import annotations

import numpy as np
import pytest
from sampling import ordinary

import tauslab as ts

N = 2000
NAMES = ("E", "X", "Z", "r", "F")
HALF = np.repeat([0.5, 1.0], N // 2)


def made(amount=3, *, events=False):
    net = ts.Network("held")
    net.add_parameter("s", 6.0)
    net.add_parameter("k", 2.0)
    net.add_species("E", amount, fixed=True)
    net.add_species("X", 0)
    net.add_species("Z", 0)
    net.add_species("F", 1.5, fixed=True)
    net.add_reaction("E -> E + X", rate="k")
    net.add_rule("r", "E * k")
    if events:
        net.add_event("never", trigger="X > 10000", assignments={"X": 0})
    return net


def means(particles):
    return [particles.mean(name) for name in NAMES]


CHANGES = ((0.5, 4), (3, HALF), (3, 0.5), (0.5, 1.5), (3, 5), (HALF, 2))
WAYS = [(i, events, method) for i in range(len(CHANGES)) for events in (False, True)
        for method in ("ssa", "tau")]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "events", "method"),
    ordinary(WAYS, (0, False, "ssa"), (1, True, "ssa")),
)
def test_a_value_set_on_the_way_holds_from_then_on(change, events, method):
    before, after = CHANGES[change]
    with ts.Ensemble(
        made(events=events), N, seed=1, method=method, device="cpu", set={"E": before}
    ) as particles:
        particles.advance(0.5)
        x = particles.mean("X")
        particles.set(E=after)
        want = [np.mean(after), x, 0.0, 2 * np.mean(after), 1.5]
        assert means(particles) == want
        particles.advance(1.0)
        x = np.mean(before) + np.mean(after)
        actual = means(particles)
        assert abs(actual[1] - x) < 4.5 * np.sqrt((x + 1) / N)
        assert [*actual[:1], *actual[2:]] == [*want[:1], *want[2:]]
        assert np.array_equal(particles.values("E"), np.broadcast_to(after, N))
        particles.take(np.arange(N)[::-1])
        assert np.array_equal(particles.values("E"), np.broadcast_to(after, N)[::-1])


@pytest.mark.parametrize("events", [False, True])
def test_an_amount_that_follows_a_parameter(events):
    with ts.Ensemble(made("s / 2", events=events), N, seed=1, device="cpu") as particles:
        particles.advance(0.5)
        particles.set(s=1)
        particles.advance(1.0)
        assert abs(particles.mean("X") - 3.5) < 4.5 * np.sqrt(3.5 / N)
        assert particles.mean("E") == 0.5


@pytest.mark.parametrize("events", [False, True])
@pytest.mark.parametrize(("before", "after"), [(3, 0.5), (0.5, 4), (3, 5)])
def test_reset_gives_what_a_new_ensemble_has(before, after, events):
    net = made(events=events)
    given = {"seed": 1, "device": "cpu"}
    with (
        ts.Ensemble(net, N, set={"E": before}, **given) as old,
        ts.Ensemble(net, N, set={"E": after}, **given) as new,
    ):
        old.advance(0.5)
        old.reset(set={"E": after})
        for one in (old, new):
            one.advance(1.0)
        assert old.species == new.species
        assert all(np.array_equal(old.values(name), new.values(name)) for name in NAMES)


@pytest.mark.parametrize("events", [False, True])
def test_a_saved_ensemble_keeps_the_new_value(tmp_path, events):
    path = tmp_path / "held.h5"
    with ts.Ensemble(made(events=events), 50, seed=1, device="cpu") as particles:
        particles.advance(0.5)
        particles.set(E=0.5)
        particles.save(path)
        with ts.Ensemble.load(path, device="cpu") as loaded:
            for one in (particles, loaded):
                one.advance(1.0)
            assert all(np.array_equal(loaded.values(n), particles.values(n)) for n in NAMES)


def test_filters_are_told_the_amount():
    net = made(3.5)
    data, observe = {"time": [1.0], "E": [3.5]}, {"E": "normal(sd=1)"}
    drawn = ts.particle_filter(net, data, observe=observe, n=50, seed=1, device="cpu")
    exact = ts.exact_filter(net, data, observe=observe)
    for actual in (drawn, exact):
        assert actual.log_likelihood == pytest.approx(-0.5 * np.log(2 * np.pi))
    assert exact.mean[0, exact.species.index("E")] == pytest.approx(3.5)
