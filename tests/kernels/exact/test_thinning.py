"""Rates that follow the time, by bounds: exact laws, and equal bits on lanes."""

from __future__ import annotations

import numpy as np
import pytest
from engine_runs import compiler
from event_models import forced
from sampling import ordinary

import tauslab as ts
from tauslab.base.errors import ConfigError
from tauslab.kernels.exact import selectors
from tauslab.kernels.network import thinning
from tauslab.kernels.network.thinning import thinned
from tauslab.model.expressions.host_math import evaluate
from tauslab.model.expressions.infix import parse
from tauslab.options.ensemble import Options
from tauslab.runner.ensemble import task as tasks
from tauslab.runner.ensemble.task import prepare, with_thinning
from tauslab.store.results.digest import digest_lines

TIMES = np.linspace(0.0, 8.0, 9)
FORCED = "20 * (1 + 0.9 * sin(2 * time)) * exp(-0.3 * time)"


def births(law, death="0.5 * X", start=0):
    net = ts.Network("births")
    net.add_parameter("k", 1.0)
    net.add_species("X", start)
    net.add_reaction("-> X", law=law)
    net.add_reaction("X ->", law=death)
    return net


def run(net, **options):
    given = {"n": 300, "times": TIMES, "seed": 1, "device": "cpu", "record": "trajectories"}
    return ts.run(net, **{**given, **options})


def task_of(net, times=TIMES, **options):
    return with_thinning(prepare(net, Options(np.asarray(times), n=10, **options)))


def tree_of(task):
    """Words of the nodes, the root first."""
    thinning = task.lowered.thinning
    table = task.constants[0, len(task.lowered.constants) : -thinning.places]
    return table.reshape(-1, thinning.words)


def test_what_is_thinned_and_what_is_integrated():
    assert task_of(births(FORCED)).lowered.thinning is not None
    assert task_of(births("k * exp(0.1 * time) * (5 + X) / (10 + X)")).lowered.thinning is not None
    assert task_of(births("20 * time / (1 + X * (1.5 + sin(time)))")).lowered.thinning is not None
    for law in ("10 * sin(time)", "sqrt(3 - time)", "1 / time", "if(time * X < 5, 1, 2)"):
        assert task_of(births(law)).lowered.thinning is None
    moved = births("V")
    moved.add_species("V", 1, fixed=True)
    moved.add_rate("V", "0.5 * V * sin(time)")
    assert task_of(moved).lowered.thinning is None
    assert task_of(births("if(time < 3, 1, 2)")).lowered.thinning is None  # it moves in steps


@pytest.mark.parametrize(
    ("law", "end"),
    [
        (FORCED, 8.0),
        ("1e-43 * exp(time)", 100.0),
        ("100 * exp(-time)", 1e9),
        ("50 * exp(-((time - 500) / 0.05)^2)", 1000.0),
        ("if(time - 24 * floor(time / 24) < 0.1, 100 * exp(-time / 1000), 0)", 1000.0),
        ("10 * (1 + sin(100 * time))", 1000.0),
        ("10 * sin(time)^2", 100.0),
        ("20 * time^4 / (5^4 + time^4)", 20.0),
        ("10 * (1 + tanh((time - 5) / 0.01))", 10.0),
    ],
)
def test_bounds_hold_the_rate_and_are_near_it(law, end):
    task = task_of(births(law), [end])
    assert task.lowered.thinning is not None
    tree = tree_of(task)
    leaves = (len(tree) + 1) // 2
    assert leaves <= 4096
    times = np.linspace(0, end, 2001)[1:]
    rate = [evaluate(parse(law), {"time": t}) for t in times.tolist()]
    assert task.lowered.thinning.slots == ((0, True),)
    for width in 2 ** np.arange(leaves.bit_length()):
        level = tree[width - 1 : 2 * width - 1]
        bound = level[np.searchsorted(level[:, 0], times), 2]
        assert (bound >= rate).all()
    assert np.isinf(level[:, 1]).all()
    assert np.isfinite(tree[: leaves - 1, 1]).all()
    if "100 * time" not in law:  # of which there are too many periods for the table
        assert np.sum(rate) >= 0.6 * np.sum(bound) - 1e-9


def test_both_sides_of_a_narrow_pulse_have_bounds_near_it():
    """There is no space for all halves of its tail: those of the pulse come first."""
    tree = tree_of(task_of(births("1e7 * exp(-((time - 5) / 1e-6)^2)"), [10]))
    leaves = tree[len(tree) // 2 :]
    lengths = np.diff(np.minimum(leaves[:, 0], 10), prepend=0)
    assert np.sum(leaves[:, 2] * lengths) < 1.7 * 10 * np.pi**0.5


def cost_of(tree, end, scale, node=1):
    """Least cost of a node that may be halved, and that of its parts: ends, and rejections."""

    def excess(at):
        begin = 0 if at & (at - 1) == 0 else tree[at - 2, 0]
        return tree[at - 1, 2] * scale * (min(tree[at - 1, 0], end) - min(begin, end))

    def least(at):
        whole = thinning._BOUNDARY + excess(at)
        return whole if 2 * at > len(tree) else min(whole, least(2 * at) + least(2 * at + 1))

    return least(node)


@pytest.mark.parametrize(
    "law", [FORCED, "10 * (1 + 0.9 * sin(20 * time))", "exp(-(time - 4)^2 / 0.1)"]
)
@pytest.mark.parametrize("scale", [1e-2, 1.0, 1e2, 1e4])
def test_pieces_by_limits_cost_little_more_than_the_best(law, scale):
    """Of a rate of the time alone: the pieces that a trajectory moves through."""
    tree, node, cost = tree_of(task_of(births(law), [8.0])), 1, 0.0
    total = tree[:, 2] * scale
    begin = 0.0
    while begin < 8:
        while total[node - 1] > tree[node - 1, 1]:
            node *= 2
        while node % 2 == 0 and 2 * total[node // 2 - 1] <= tree[node // 2 - 1, 1]:
            node //= 2
        stop = min(tree[node - 1, 0], 8.0)
        cost += thinning._BOUNDARY + total[node - 1] * (stop - begin)
        begin, node = stop, node + 1
    assert cost <= 1.35 * cost_of(tree, 8.0, scale)


@compiler
def test_lanes_and_single_trajectories_have_equal_bits():
    """Few trajectories run one at a time, many on lanes, with other seeds of theirs the same."""
    pulses = births("if(sin(9 * time) > 0.9, 100, 0)")
    for net, method in ((forced(), "ssa"), (pulses, "ssa"), (switched(), "tau")):
        many, few = run(net, method=method), run(net, n=2, method=method)
        assert (many.counts("X")[:2] == few.counts("X")).all()
        assert (many.status[:2] == few.status).all()


def switched():
    """Few of one species, whose criticality ends leaps, make many of another."""
    net = births(f"100 * {FORCED}", "(0.5 + 0.4 * sin(3 * time)) * X")
    net.add_species("G", 5)
    net.add_species("H", 0)
    net.add_reaction("G -> H", law="(1 + sin(2 * time)) * G")
    net.add_reaction("H -> G", law="H * exp(-0.2 * time)")
    net.add_reaction("H -> H + X", law="200 * H")
    return net


@compiler
def test_leaps_follow_the_time():
    """Means, which linear equations give: within 1 % and 4.5 standard errors."""
    n, steps = 2000, 8000
    result = run(switched(), n=n, record="statistics", method="tau")

    def slope(t, y):
        x, g, h = y
        to, back = (1 + np.sin(2 * t)) * g, h * np.exp(-0.2 * t)
        born = 2000 * (1 + 0.9 * np.sin(2 * t)) * np.exp(-0.3 * t) + 200 * h
        return np.array([born - (0.5 + 0.4 * np.sin(3 * t)) * x, back - to, to - back])

    y, by = np.array([0.0, 5.0, 0.0]), TIMES[-1] / steps
    for step in range(steps):
        middle = y + 0.5 * by * slope(step * by, y)
        y = y + by * slope((step + 0.5) * by, middle)
        if (step + 1) % (steps // 8) == 0:
            k = 8 * (step + 1) // steps
            for name, mean in (("X", y[0]), ("H", y[2])):
                error = 4.5 * (result.variance(name)[k] / n) ** 0.5
                assert abs(result.mean(name)[k] - mean) < error + 0.01 * mean


def test_leaps_end_with_pieces_in_which_rates_change_little():
    for epsilon in (0.03, 0.01):
        lowered = task_of(births(FORCED), method=ts.TauLeaping(epsilon=epsilon)).lowered
        assert lowered.thinning is not None
        assert lowered.thinning.leaps
    checked = ts.TauLeaping(post_leap_check=True)
    assert task_of(births(FORCED), method=checked).lowered.thinning is None
    many_periods = task_of(births("10 * (1 + sin(1000 * time))"), method=ts.TauLeaping())
    assert many_periods.lowered.thinning is None


@compiler
def test_points_of_a_sweep_have_bounds_of_their_own():
    net = births("20 * (1 + sin(k * time))")
    swept = run(net, sweep={"k": [0.5, 1.0, 20.0]}, n=200)
    alone = run(net, sweep={"k": [0.5]}, n=200)
    assert (swept.counts("X")[0] == alone.counts("X")[0]).all()


@compiler
@pytest.mark.parametrize("most", [128, 2])
def test_births_and_deaths_have_poisson_laws(monkeypatch, most):
    """Mean and variance, 20,000 trajectories: within 5 standard errors.

    Networks of `most` reactions have the kernel of events.
    """
    monkeypatch.setattr(tasks, "LARGEST_UNROLLED", most)
    assert (task_of(births(FORCED)).lowered.dynamics is None) == (most > 2)
    n = 20_000
    result = run(births(FORCED), n=n, record="statistics")
    for k, t in enumerate(TIMES[1:].tolist(), 1):
        s = np.linspace(0, t, 100_001)
        born = 20 * (1 + 0.9 * np.sin(2 * s)) * np.exp(-0.3 * s) * np.exp(-0.5 * (t - s))
        mean = float(np.trapezoid(born, s))
        assert abs(result.mean("X")[k] - mean) < 5 * (mean / n) ** 0.5
        assert abs(result.variance("X")[k] - mean) < 5 * ((mean + 2 * mean**2) / n) ** 0.5


@compiler
@pytest.mark.filterwarnings("ignore:.*jumps or has pulses")  # what rounding makes of it
def test_events_go_with_rates_that_follow_the_time():
    """A rate that is constant, though bounds do not know it, against the same written as it is."""
    n, means = 4000, []
    for factor in ("1", "(exp(0.3 * time) * exp(-0.3 * time))"):
        net = births(f"20 * {factor}", f"0.5 * X * {factor}")
        net.add_species("Y", 0)
        assignments = {"X": "X / 2", "Y": "Y + 1"}
        net.add_event("halves", trigger="X > 15 && time > 1", assignments=assignments)
        result = run(net, n=n, seed=len(means))
        means.append((result.mean("Y"), result.variance("Y")))
    assert task_of(net).lowered.thinning is not None
    (a, v), (b, w) = means
    assert (np.abs(a - b) <= 4.5 * np.sqrt((v + w) / n)).all()


@compiler
def test_a_rate_that_is_negative_ends_a_trajectory():
    """Of a product with counts, which no bound can tell: by the law at the time."""
    with pytest.warns(UserWarning, match=r"45 of 50 .* its propensity \(1.5 - X\)"):
        result = run(births("(1.5 - X) * exp(-0.1 * time)", start=1), n=50)
    assert set(result.status.tolist()) == {0, 4}


@compiler
@pytest.mark.filterwarnings("ignore:.*no trajectory reached the last sample time")
@pytest.mark.parametrize("n", ordinary([2, 300], 2))
def test_a_rate_above_its_bound_ends_a_trajectory(monkeypatch, n):
    """Bounds halved behind the back of the kernel: events would be lost unseen."""
    packed = thinning._packed

    def halved(*given):
        table = packed(*given)
        table[..., 2:] *= 0.5
        return table

    monkeypatch.setattr(thinning, "_packed", halved)
    assert (run(births("20 * (2 + sin(time))"), n=n).status == 4).all()


@compiler
def test_growth_that_nothing_is_left_to_follow_ends_soon():
    """e^700 at the end, of a species that dies at once: bounds follow the growth."""
    result = run(births("1e-3 * X * exp(time)", "100 * X", 3), times=[0.0, 350.0, 700.0])
    assert (result.counts("X")[:, -1] == 0).all()


@compiler
@pytest.mark.gpu
def test_a_gpu_gives_the_bits_of_the_cpu():
    for net in (forced(), births("if(sin(9 * time) > 0.9, 100, 0)"), switched()):
        for method in ("ssa", "tau", ts.SSA(selector="tree")):
            actual = [run(net, device=device, method=method) for device in ("cuda", "cpu")]
            assert digest_lines(actual[0], None) == digest_lines(actual[1], None)


def test_no_kernel_takes_bounds_for_rates_in_larger_networks(monkeypatch):
    """Beyond the reactions of the kernel of events, tables would run at the bounds."""
    net = births(FORCED)
    net.add_event("at_2", trigger="time >= 2", assignments={"X": "X"})
    assert task_of(net).lowered.thinning is not None
    for module in (tasks, selectors):
        monkeypatch.setattr(module, "LARGEST_WITH_EVENTS", 1)
    with pytest.raises(ConfigError, match="up to 1 reactions, not 2"):
        run(net)


def test_bounds_are_refused_for_too_many_rows():
    task = prepare(births("sin(k * time)^2"), Options(TIMES, n=2, set={"k": np.array([1.0, 2.0])}))
    assert thinned(task.lowered, task.constants, 8.0, 128) is not None
    assert thinned(task.lowered, np.repeat(task.constants, 10_000, axis=0), 8.0, 128) is None


def test_many_rows_that_share_a_table_are_thinned_as_few_are():
    net = ts.Network("births")
    net.add_species("A", 0)
    net.add_parameter("s", 10.0)
    net.add_reaction("-> A", law="s * (1 + sin(time))")
    net.add_reaction("A ->", rate=1.0)
    values = np.linspace(9, 11, 100_000)
    options = {"t_end": 0.2, "points": 2, "n": 1, "seed": 1, "device": "cpu", "quiet": True}
    with ts.run(net, sweep={"s": values}, **options) as many:
        assert "thinned_rates" in many.attributes
        with ts.run(net, sweep={"s": values[:100]}, **options) as few:
            assert np.array_equal(many["A"][:100], few["A"])
