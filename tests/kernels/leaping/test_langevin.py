"""Steps of the chemical Langevin equation: their order, zero, reactions that change their kind."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_usage import NEWEST, compile_usage, require_nvrtc
from sampling import ordinary

import tauslab as ts
from tauslab.base.errors import ConfigError, ModelError
from tauslab.kernels.backends.cache import csrc_texts
from tauslab.kernels.leaping.langevin import langevin_header
from tauslab.kernels.network.lowering import lower
from tauslab.store.results.digest import digest_lines

N = 4000


@pytest.fixture(autouse=True, scope="module")
def _no_pilots():
    """Pilots compile exact kernels too; one test makes one."""
    patch = pytest.MonkeyPatch()
    patch.setattr("tauslab.runner.ensemble.choices.hybrid_error.FEWEST", 10**9)
    yield
    patch.undo()


def run(net, method="cle", **options):
    defaults = {"n": N, "times": [1.0], "seed": 1, "device": "cpu", "quiet": True}
    return ts.run(net, method=method, **{**defaults, **options})


def births(rate, initial=0):
    net = ts.Network("births")
    net.add_species("X", initial)
    net.add_reaction("-> X", rate=rate, name="birth")
    net.add_reaction("X ->", rate=1, name="death")
    return net


def test_steps_are_of_weak_order_2():
    """Decay of 1,000,000, whose mean and variance under the Langevin equation are those of events.

    Samples cut steps, so that their distance is the length of all steps, and the error is known:
    the mean falls by 1 - h + h^2 / 2 in each. Errors of mean and variance fall fourfold with the
    length halved. Six checks within five standard errors: 3e-6.
    """
    n, initial, left = 40_000, 1e6, np.exp(-1.0)
    errors = []
    for steps in (2, 4):
        h = 1.0 / steps
        times = np.linspace(h, 1.0, steps)
        x = run(births(0, initial), ts.Langevin(epsilon=1), n=n, times=times).amounts("X")[:, -1]
        mean = initial * (1 - h + h * h / 2) ** steps
        assert abs(x.mean() - mean) < 5 * x.std() / np.sqrt(n)
        exact = initial * left
        errors.append((x.mean() / exact - 1, x.var() / (exact * (1 - left)) - 1))
    (mean, variance), (half_mean, half_variance) = errors
    assert mean / half_mean == pytest.approx(4, rel=0.25)
    sampling = 5 * np.sqrt(2 / n)
    assert abs(half_variance) < abs(variance) / 3 + sampling
    assert abs(half_variance) < 0.02 + sampling


def test_stationary_moments_are_those_of_events():
    """Mean and variance 1,000: within five standard errors, and 1 % for steps."""
    x = run(births(1000, 1000), times=[5.0]).amounts("X")[:, 0]
    assert abs(x.mean() - 1000) < 5 * x.std() / np.sqrt(N)
    assert abs(x.var() / 1000 - 1) < 0.01 + 5 * np.sqrt(2 / N)


@pytest.mark.parametrize("rate", ordinary([0.1, 1, 5], 1))
def test_no_amount_falls_below_zero(rate):
    """And so the mean is too large where there is next to nothing, which the page says."""
    result = run(births(rate), times=np.linspace(0, 10, 51))
    x = result.amounts("X")
    assert x.min() >= 0
    assert (result.data["status"][()] == 0).all()
    assert rate - 0.05 < x[:, -1].mean() < rate + 0.3


def dimers():
    net = ts.Network("dimers")
    net.add_species("M", 301)
    net.add_species("D", 0)
    net.add_species("W", 0)
    net.add_reaction("2 M -> D", rate=0.01, name="pair")
    net.add_reaction("D -> 2 M", rate=1, name="part")
    net.add_reaction("D -> W", rate=0.2, name="wash")
    return net


@pytest.mark.parametrize(
    "method",
    [
        pytest.param("cle", marks=pytest.mark.validate),
        pytest.param(ts.Partitioned(many=20), marks=pytest.mark.validate),
        ts.Partitioned(langevin="pa*", jump="wash"),
    ],
)
def test_what_reactions_conserve_stays(method):
    """Though pairs run out: channels are cut, not amounts."""
    result = run(dimers(), method, times=np.linspace(0, 40, 41), n=500)
    m, d, w = (result.amounts(name) for name in "MDW")
    assert m + 2 * d + 2 * w == pytest.approx(301, abs=1e-8)
    assert min(one.min() for one in (m, d, w)) >= 0


def test_chosen_reactions_are_exact_where_molecules_are_few():
    """Births of mean 5: counts are whole, and their law is Poisson's."""
    x = run(births(5), "hybrid", times=[10.0], n=20_000).amounts("X")[:, 0]
    assert (x == np.rint(x)).all()
    assert abs(x.mean() - 5) < 5 * np.sqrt(5 / 20_000)
    assert abs(x.var() / 5 - 1) < 5 * np.sqrt(2.2 / 20_000)


@pytest.mark.validate
def test_chosen_reactions_flow_among_many_and_end_whole():
    """A decay from 10,000 to nothing: real among many, whole among few, right in law.

    Means and variances within five standard errors: six checks, 4e-6.
    """
    times = [1.0, 5.0, 7.5]
    x = run(births(0, 10_000), "hybrid", times=times, n=20_000).amounts("X")
    whole = (x == np.rint(x)).mean(axis=0)
    assert whole[0] < 0.01
    assert whole[2] == 1
    for column, t in zip(x.T, times, strict=True):
        p = np.exp(-t)
        variance = 10_000 * p * (1 - p)
        assert abs(column.mean() - 10_000 * p) < 5 * np.sqrt(variance / 20_000) + 1e-3 * 10_000 * p
        assert abs(column.var() / variance - 1) < 5 * np.sqrt(2.3 / 20_000) + 0.01
    work = run(births(0, 10_000), "hybrid", times=times, n=50).data["profile/events"][()].sum()
    assert work < 50 * 500  # steps and events, where exact events are 10,000


def gene(kind):
    """H2: a gene that switches by jumps, and mRNA of 5 a unit of time."""
    net = ts.Network("gene")
    net.add_species("off", 1)
    net.add_species("on", 0)
    net.add_species("M", 0)
    net.add_reaction("off -> on", rate=0.02, name="switch_on")
    net.add_reaction("on -> off", rate=0.03, name="switch_off")
    net.add_reaction("on -> on + M", rate=5, name="make")
    net.add_reaction("M ->", rate=0.01, name="decay")
    return net, {
        "langevin": ts.Partitioned(langevin=["make", "decay"], jump="*"),
        "auto": ts.Partitioned(),
    }[kind]


def test_no_jump_is_lost_beside_channels():
    """Jumps at 0.5 X beside X of mean 50: 250 by t = 10, within five standard errors, 6e-7.

    Their integral is known at the ends of steps alone: what it exceeds there is 1.3 % of it, which
    is ten standard errors.
    """
    net = births(50, 50)
    net.add_species("P", 0)
    net.add_reaction("X -> X + P", rate=0.5, name="make")
    method = ts.Partitioned(langevin=["birth", "death"], jump="*")
    p = run(net, method, times=[10.0]).amounts("P")[:, 0]
    assert abs(p.mean() - 250) < 5 * p.std() / np.sqrt(N)


def test_rare_jumps_do_not_follow_what_becomes_a_jump():
    """C comes at 0.05 B, of mean 60, while both ways of a fast balance flow or not: 9 by t = 3.

    Within five standard errors, 6e-7: what a fast jump exceeds is no time of the slow one.
    """
    n, net = 1000, ts.Network("balance")
    for name, initial in (("A", 20_000), ("B", 60), ("C", 0)):
        net.add_species(name, initial)
    net.add_reaction("A <-> B", rate=(0.3, 100), name="fast")
    net.add_reaction("B -> B + C", rate=0.05, name="slow")
    c = run(net, ts.Partitioned(many=20), times=[3.0], n=n).amounts("C")[:, 0]
    assert abs(c.mean() - 9) < 5 * c.std() / np.sqrt(n)


@pytest.mark.validate
@pytest.mark.parametrize("kind", ["langevin", "auto"])
def test_jumps_beside_channels_give_the_variance_of_a_gene(kind):
    """Variance 10,000 of the gene and 200 of mRNA, within 3 %, of which sampling has 0.9 %."""
    net, method = gene(kind)
    result = run(net, method, times=[600.0, 900.0, 1200.0], n=4000)
    x = result.amounts("M")
    assert x.mean() == pytest.approx(200, rel=0.01)
    assert x.var(axis=0).mean() == pytest.approx(10_200, rel=0.03)
    assert set(np.unique(result.amounts("on"))) <= {0.0, 1.0}


def test_bits_do_not_depend_on_threads():
    one, three = (
        run(dimers(), ts.Partitioned(many=20), times=[1, 5, 20], n=300, device=ts.CPU(threads=k))
        for k in (1, 3)
    )
    assert digest_lines(one, None) == digest_lines(three, None)


@pytest.mark.gpu
@pytest.mark.parametrize("method", ["cle", ts.Partitioned(many=20)])
def test_a_gpu_gives_the_bits_of_the_cpu(method):
    cpu, cuda = (
        run(dimers(), method, times=[1, 5, 20], n=3000, device=device) for device in ("cpu", "cuda")
    )
    assert digest_lines(cpu, None) == digest_lines(cuda, None)


@pytest.mark.validate
def test_the_kernel_compiles_for_a_gpu():
    require_nvrtc()
    net = dimers()
    amounts = {name: round(x) for name, x in net.initial_amounts().items()}
    lowered = lower(net, parameters=net.parameter_values(), counts=amounts, flowing=())
    header = langevin_header(lowered, ("auto", "langevin", "ode"))
    texts = {**csrc_texts(), "model.h": header}
    assert set(compile_usage("leaping/langevin.cc", texts, NEWEST)) == {"langevin"}


def test_runs_state_what_they_are(tmp_path):
    path = tmp_path / "births.h5"
    run(births(5), ts.Langevin(epsilon=0.1), n=10, output=path)
    with ts.open(path) as result:
        assert result.method == "cle"
        assert result.attributes["epsilon"] == 0.1
        assert "2 of 2 reactions by the Langevin equation" in result.approximate


def test_a_pilot_tells_of_the_error(monkeypatch, capsys):
    """Where there is next to nothing the Langevin equation is wrong, and warns by how much."""
    monkeypatch.setattr("tauslab.runner.ensemble.choices.hybrid_error.FEWEST", 100)
    with pytest.warns(UserWarning, match="exact ones: the mean of X at t = 5 is off by"):
        few = run(births(0.5), times=[0.0, 5.0], n=1000, quiet=None).approximate
    assert "a pilot of 1000 trajectories, compared with as many exact ones: the mean of X" in few
    assert "X is extinct at t = 5 in" in few
    many = run(births(1000), times=[0.0, 5.0], n=1000, quiet=None).approximate
    assert "means, standard deviations and extinctions do not differ significantly" in many
    long = run(births(1e6), ts.Partitioned(), times=[0.0, 5.0], n=100).approximate
    assert "does not estimate the error: exact trajectories have more than 32,768 events" in long
    assert capsys.readouterr().out == ""


def test_events_beside_channels_are_refused_by_name():
    net = births(5)
    net.add_event("dose", time=0.5, assignments={"X": "X + 10"})
    for method in ("cle", "hybrid"):
        with pytest.raises(ModelError, match=f"event dose: events are not supported by {method}"):
            run(net, method)


def test_networks_that_are_too_large_are_refused():
    net = births(5)
    for k in range(160):
        net.add_reaction("X -> X", rate=k)
    with pytest.raises(ConfigError, match="up to 160 reactions, not 162"):
        run(net)
