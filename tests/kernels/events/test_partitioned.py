"""Networks of jumps and equations: exact laws of both, amounts that jumps change too, and zero."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import scipy.stats
from event_models import growing
from kernel_headers import lowered_events

import tauslab as ts
from tauslab.base.errors import ConfigError, ModelError
from tauslab.kernels.network.lowering import jumps_within
from tauslab.store.results.digest import digest_lines

N = 4000


@pytest.fixture(autouse=True, scope="module")
def _no_pilots():
    """Pilots compile exact kernels too; one test makes one."""
    patch = pytest.MonkeyPatch()
    patch.setattr("tauslab.runner.ensemble.choices.hybrid_error.FEWEST", 10**9)
    yield
    patch.undo()


def gene():
    """A gene that switches, and its mRNA as an amount: M / 500 has the law Beta(2, 3)."""
    net = ts.Network("gene")
    net.add_species("off", 1)
    net.add_species("on", 0)
    net.add_species("M", 0)
    net.add_reaction("off -> on", rate=0.02, name="switch_on")
    net.add_reaction("on -> off", rate=0.03, name="switch_off")
    net.add_reaction("on -> on + M", rate=5, name="make")
    net.add_reaction("M ->", rate=0.01, name="decay")
    return net


SPLIT = ts.Partitioned(ode=["make", "decay"], jump="*")


def run(net, method=SPLIT, **options):
    defaults = {"n": N, "times": [0, 500, 1000], "seed": 1, "device": "cpu", "quiet": True}
    return ts.run(net, method=method, **{**defaults, **options})


@pytest.fixture(scope="module")
def genes():
    return run(gene())


def test_a_gene_that_switches_gives_the_beta_law(genes):
    """Kolmogorov's test of each time, 500 and 1,000: a false alarm in one of 5,000 seeds."""
    for time in (1, 2):
        actual = scipy.stats.kstest(genes.amounts("M")[:, time] / 500, scipy.stats.beta(2, 3).cdf)
        assert actual.pvalue > 1e-4


@pytest.mark.validate
def test_variance_of_a_gene_is_that_of_no_interval():
    """Variance 10,000 within 1 %, of which sampling has 0.26 %: a false alarm in 7,000 seeds."""
    result = run(gene(), n=50_000, times=np.arange(500, 2001, 500), record="statistics")
    assert result.variance("M").mean() == pytest.approx(10_000, rel=0.01)
    assert result.mean("M").mean() == pytest.approx(200, rel=0.005)


def test_rates_between_jumps_are_integrated():
    """Births at 0.05 x while x' = -x: a Poisson number of mean 50 (1 - exp(-2)); chi-square."""
    net = ts.Network("driven")
    net.add_species("x", 1000)
    net.add_species("P", 0)
    net.add_reaction("x ->", rate=1, name="fall")
    net.add_reaction("x -> x + P", rate=0.05, name="birth")
    result = run(net, ts.Partitioned(ode="fall", jump="*"), times=[2.0])
    law = scipy.stats.poisson(50 * (1 - np.exp(-2)))
    edges = np.unique(law.ppf(np.linspace(0, 1, 21)[1:-1]))
    expected = np.diff([0.0, *law.cdf(edges), 1.0]) * N
    actual = np.searchsorted(edges, result.amounts("P")[:, 0])
    observed = np.bincount(actual, minlength=len(expected))
    assert scipy.stats.chisquare(observed, expected).pvalue > 1e-4
    assert result.amounts("x") == pytest.approx(1000 * np.exp(-2), rel=1e-6)


@pytest.mark.parametrize(
    "method", [ts.Partitioned(ode="fall", jump="*"), "ode", ts.ODE(solver="rosenbrock")]
)
def test_no_step_passes_over_a_window_of_a_law(method):
    """Births at 100 while x, which falls as 100 exp(-0.1 t), is between 60 and 60.6: 9.95.

    A step is twenty times as long. Within five standard errors; by equations to 1e-3.
    """
    net = ts.Network("window")
    net.add_species("x", 100)
    net.add_species("P", 0)
    net.add_reaction("x ->", rate=0.1, name="fall")
    net.add_reaction("x -> x + P", law="piecewise(100, (x > 60) && (x < 60.6), 0)", name="birth")
    jumps = isinstance(method, ts.Partitioned)
    p = run(net, method, n=500 if jumps else 1, times=[10.0]).amounts("P")[..., -1]
    within = 5 * np.sqrt(9.95 / 500) if jumps else 0.01
    assert p.mean() == pytest.approx(1000 * np.log(60.6 / 60), abs=within)


def test_equations_alone_are_those_of_ode():
    net = dimers()
    flows, equations = (run(net, m, n=1, times=[1, 5]) for m in (ts.Partitioned(ode="*"), "ode"))
    assert flows.amounts("M") == pytest.approx(equations.amounts("M"), rel=1e-5)


def test_jumps_alone_are_exact():
    """The mean of births and deaths: within five standard errors, 6e-7."""
    net = ts.Network("births")
    net.add_species("X", 0)
    net.add_reaction("-> X", rate=5)
    net.add_reaction("X ->", rate=0.5)
    result = run(net, ts.Partitioned(jump="*"), times=[3.0])
    x = result.amounts("X")[:, 0]
    assert abs(x.mean() - 10 * (1 - np.exp(-1.5))) < 5 * x.std() / np.sqrt(N)
    assert (x == np.rint(x)).all()


def dimers():
    """Molecules that pair fast, and pairs that bind to a gene one by one."""
    net = ts.Network("dimers")
    for name, initial in (("M", 61), ("D", 0), ("G", 3), ("B", 0)):
        net.add_species(name, initial)
    net.add_reaction("2 M -> D", rate=0.5, name="pair")
    net.add_reaction("D -> 2 M", rate=10, name="part")
    net.add_reaction("D + G -> B", rate=0.3, name="bind")
    net.add_reaction("B -> D + G", rate=0.5, name="leave")
    return net


@pytest.mark.validate
def test_jumps_on_amounts_keep_what_is_conserved():
    result = run(dimers(), ts.Partitioned(ode="pa*", jump="*"), times=np.linspace(0, 20, 41))
    m, d, g, b = (result.amounts(name) for name in "MDGB")
    assert m + 2 * d + 2 * b == pytest.approx(61, abs=1e-6)
    assert (g + b == 3).all()
    assert (g == np.rint(g)).all()
    assert min(one.min() for one in (m, d, g, b)) >= 0
    exact = run(dimers(), "ssa", times=[20.0], n=20_000)
    # What binds follows the amount of pairs, of which equations have no noise: close, not equal.
    assert b[:, -1].mean() == pytest.approx(exact.mean("B")[0], rel=0.02)


def test_nothing_is_taken_where_less_than_a_molecule_is_left():
    """A jump takes two of what flows: it stops below two, and no amount falls below zero."""
    net = ts.Network("rest")
    net.add_species("A", 7.5)
    net.add_species("B", 0)
    net.add_reaction("A -> B", rate=0.5, name="flow")
    net.add_reaction("2 A -> 2 B", rate=2, name="take")
    result = run(net, ts.Partitioned(ode="flow", jump="take"), times=np.linspace(0, 30, 31))
    a, b = result.amounts("A"), result.amounts("B")
    assert a.min() >= 0
    assert a[:, 0] == pytest.approx(7.5)
    assert a + b == pytest.approx(7.5, abs=1e-6)
    assert (np.diff(b, axis=1) >= -1e-9).all()


def test_an_amount_that_a_law_takes_below_zero_ends_the_trajectory():
    net = ts.Network("wrong")
    net.add_species("A", 5)
    net.add_species("P", 0)
    net.add_reaction("A ->", law="2.0", name="take")
    net.add_reaction("-> P", rate=1, name="make")
    with pytest.warns(UserWarning, match="20 ended with status nan"):
        run(net, ts.Partitioned(ode="take", jump="*"), n=20, times=[1.0, 10.0])


def test_a_stiff_pair_follows_its_balance():
    net = ts.Network("stiff")
    net.add_species("A", 100)
    net.add_species("B", 0)
    net.add_species("P", 0)
    net.add_reaction("A <-> B", rate=(2e4, 1e4), name="fast")
    net.add_reaction("B -> P", rate=0.1, name="slow")
    result = run(net, ts.Partitioned(ode="fast*", jump="slow"), times=[1.0, 5.0], n=100)
    a, b, p = (result.amounts(name) for name in "ABP")
    assert a + b + p == pytest.approx(100, abs=1e-5)
    assert b == pytest.approx(2 * a, rel=1e-3)
    left = 100 * np.exp(-0.1 * 2 / 3 * np.array([1.0, 5.0]))
    assert (np.abs(p.mean(axis=0) - (100 - left)) < 5 * p.std(axis=0) / np.sqrt(100)).all()


def test_many_jumps_within_a_step():
    """A step of the equations is as long as hundreds of jumps that leave it as it is.

    Births of P as above, and at 200 of Q, which dies at 1: Poisson numbers. Jumps add 10 to Z,
    which is drawn to 1e9: by 1,000 (1 - exp(-2)) with variance 5,000 (1 - exp(-4)), within the
    tolerance of a step for Z, 100. Means within five standard errors, variances within 12 %.
    """
    net = ts.Network("within")
    for name, initial in (("x", 1000), ("Z", 0), ("P", 0), ("Q", 0)):
        net.add_species(name, initial)
    net.add_reaction("x ->", rate=1, name="fall")
    net.add_reaction("Z ->", rate=1, name="fall_of_Z")
    net.add_reaction("-> Z", rate=1e9, name="fill")
    net.add_reaction("x -> x + P", rate=0.05)
    net.add_reaction("-> 10 Z", rate=100)
    net.add_reaction("-> Q", rate=200)
    net.add_reaction("Q ->", rate=1)
    result = run(net, ts.Partitioned(ode=["fall*", "fill"], jump="*"), times=[2.0])
    shift = result.amounts("Z")[:, 0] - 1e9 * (1 - np.exp(-2))
    laws = {"P": (50 * (1 - np.exp(-2)),) * 2, "Q": (200 * (1 - np.exp(-2)),) * 2}
    for name, (mean, variance) in laws.items():
        actual = result.amounts(name)[:, 0]
        assert abs(actual.mean() - mean) < 5 * np.sqrt(variance / N)
        assert actual.var() == pytest.approx(variance, rel=0.12)
    assert abs(shift.mean() - 1000 * (1 - np.exp(-2))) < 100
    assert shift.var() == pytest.approx(5000 * (1 - np.exp(-4)), rel=0.12)


def test_jumps_beside_stiff_balance_and_growth():
    """Exact moments of a fast pair and of growth, both of which jumps change.

    A <-> B at 1,000 and 500 with births of A at 200 and deaths of B at 1: N = A + B starts from
    300, its mean stays, and its variance is 300 (1 - exp(-4t/3)), to the 1/1,000 by which the
    exchange is not infinitely fast. x grows at 0.5 and loses molecules at 0.1: mean and variance of
    a linear process. Within five standard errors and 0.3, variances within 12 %.
    """
    net = ts.Network("balance")
    for name, initial in (("A", 100), ("B", 200), ("x", 100)):
        net.add_species(name, initial)
    net.add_reaction("A <-> B", rate=(1000, 500), name="fast")
    net.add_reaction("x -> 2 x", rate=0.5, name="grow")
    net.add_reaction("-> A", rate=200)
    net.add_reaction("B ->", rate=1)
    net.add_reaction("x ->", rate=0.1)
    t = 0.75
    result = run(net, ts.Partitioned(ode=["fast*", "grow"], jump="*"), n=2000, times=[t])
    a, b, x = (result.amounts(name)[:, 0] for name in "ABx")
    e = np.exp(0.4 * t)
    for actual, mean, variance, known in (
        (a + b, 300.0, 300 * (1 - np.exp(-4 * t / 3)), 0.3),
        (x, 100 * e, 0.1 * 100 * (e * e - e) / 0.4, 0.0),
    ):
        assert abs(actual.mean() - mean) < 5 * np.sqrt(variance / 2000) + known
        assert actual.var() == pytest.approx(variance, rel=0.16)
    assert np.median(b / a) == pytest.approx(2, rel=0.02)


def switched(law):
    """A grows at a constant rate, whatever the gene does, which makes M by a law of A."""
    net = ts.Network("switched")
    for name, initial in (("A", 0), ("off", 1), ("on", 0), ("M", 0)):
        net.add_species(name, initial)
    net.add_reaction("-> A", rate=1, name="grow")
    net.add_reaction("off -> on", rate=0.05)
    net.add_reaction("on -> on + M", law=law)
    return net


def taken():
    """Molecules come by an equation and are taken one by one, from 1 on."""
    net = ts.Network("taken")
    net.add_species("X", 0)
    net.add_species("M", 0)
    net.add_reaction("-> X", rate=0.8, name="grow")
    net.add_reaction("X -> M", rate=5)
    return net


@pytest.mark.parametrize(
    "model",
    [
        partial(switched, "on * 0.1 * A"),
        partial(switched, "on * 2 * exp(-((A - 80) / 5)^2)"),
        partial(switched, "on * 0.2 * (1 + sin(A))^2"),
        taken,
    ],
    ids=["grows", "has a pulse", "is periodic", "begins at one molecule"],
)
def test_jumps_within_a_step_are_those_that_end_steps(model):
    """The method has not seen rates as they are after a jump. The same numbers are drawn."""
    net, other = model(), model()
    other.add_event("never", trigger="M > 1e8", assignments={"M": "0"})
    assert [jumps_within(lowered_events(n, {"grow"})) for n in (net, other)] == [True, False]
    method = ts.Partitioned(ode=["grow"], jump="*")
    made, ended = (run(n, method, n=500, times=[100.0]).amounts("M")[:, 0] for n in (net, other))
    assert np.count_nonzero(made != ended) <= 1
    assert made.max() > 10


def test_what_ends_steps_lets_jumps_end_them_too():
    """Jumps happen within steps of jumps and equations alone: no event, no condition."""
    dosed, limited = gene(), gene()
    dosed.add_event("wash", time=400, assignments={"M": "0"})
    limited.add_reaction("on -> on + M", law="piecewise(on, M < 100, 0)", name="more")
    actual = [jumps_within(lowered_events(n, {"make", "decay"})) for n in (gene(), dosed, limited)]
    assert actual == [True, False, False]
    assert not jumps_within(lowered_events(growing()))  # equations of rate rules


def test_swept_amounts_and_constants_reach_equations():
    result = run(gene(), n=200, times=[3000.0], sweep={"M": [0, 1e6], "off": [1, 0]})
    assert result.amounts("M").shape == (4, 200, 1)
    assert result.amounts("on")[[1, 3]].max() == 0  # no gene there


def test_events_set_amounts_and_counts():
    net = gene()
    net.add_event("wash", time=400, assignments={"M": "0.5 * M", "off": "1", "on": "0"})
    result = run(net, times=[399.999, 400.0], n=300)
    before, after = result.amounts("M").T
    assert after == pytest.approx(0.5 * before, rel=1e-3)
    assert result.amounts("on")[:, 1].max() == 0


def test_a_file_runs_again_from_itself(tmp_path, genes):
    path = tmp_path / "gene.h5"
    written = run(gene(), output=path)
    assert digest_lines(written, None) == digest_lines(genes, None)
    again = ts.run(ts.read(path), n=N, times=[0, 500, 1000], method=SPLIT, seed=1, device="cpu")
    assert digest_lines(again, None) == digest_lines(genes, None)
    with ts.open(path) as opened:
        assert opened.method == "hybrid"
        assert opened.attributes["as_ode"] == "make,decay"
        assert opened.amounts("M").shape == (N, 3)


def test_bits_do_not_depend_on_threads(genes):
    assert digest_lines(run(gene(), device=ts.CPU(threads=3)), None) == digest_lines(genes, None)


@pytest.mark.gpu
def test_a_gpu_gives_the_bits_of_the_cpu(genes):
    assert digest_lines(run(gene(), device="cuda"), None) == digest_lines(genes, None)


def test_last_states_alone_are_amounts(genes):
    result = run(gene(), record="final")
    assert np.asarray(result.data["final"][()])[:, 2] == pytest.approx(genes.amounts("M")[:, -1])


@pytest.mark.parametrize(
    ("method", "said"),
    [
        (ts.Partitioned(ode="made", jump="*"), "no reaction of gene has such a name"),
        (ts.Partitioned(ode="make", jump="m*"), "marked jump and ode"),
        (ts.Partitioned(ode="made"), "no reaction of gene"),
        (ts.Partitioned(ode="*", jump="*"), "exclude each other"),
    ],
)
def test_marks_that_mean_nothing_are_refused(method, said):
    with pytest.raises(ConfigError, match=said):
        run(gene(), method)


def test_delays_are_refused_by_name():
    net = gene()
    net.add_reaction("M ->", rate=0.1, delay=3, name="late")
    with pytest.raises(ModelError, match="reaction late: delays of reactions are not supported"):
        run(net)
