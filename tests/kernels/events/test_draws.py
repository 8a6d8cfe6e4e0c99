"""Random numbers in events and initial values: every distribution against its law."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats as st
from event_models import noisy
from sampling import ordinary

import tauslab as ts
from tauslab.model.network.diagnosis.check import without_missing
from tauslab.store.results.digest import digest_lines
from tauslab.store.results.samples import column_of

N = 20_000
INF = np.inf
E = float(np.e)

# What is drawn, the law, and bounds. Bounds are chosen so that each way of drawing is taken.
CONTINUOUS = {
    "normal(3, 2)": (st.norm(3, 2),),
    "normal(0, 1, -0.5, 0.5)": (st.norm(), -0.5, 0.5),
    "normal(0, 1, -0.2, 3)": (st.norm(), -0.2, 3),
    "normal(0, 1, 8, 9)": (st.norm(), 8, 9),
    "normal(1, 2, -inf(), -9)": (st.norm(1, 2), -INF, -9),
    "normal(0, 1, 5, 5.01)": (st.norm(), 5, 5.01),
    "uniform(-2, 5)": (st.uniform(-2, 7),),
    "cauchy(2)": (st.cauchy(0, 2),),
    "cauchy(1, 2)": (st.cauchy(1, 2),),
    "cauchy(1, 2, 1.1, 10)": (st.cauchy(1, 2), 1.1, 10),
    "cauchy(0, 1, 1e12, inf())": (st.cauchy(), 1e12, INF),
    "chisquare(1)": (st.chi2(1),),
    "chisquare(7, 2, 8)": (st.chi2(7), 2, 8),
    "exponential(3)": (st.expon(0, 1 / 3),),
    "exponential(2, 50, inf())": (st.expon(0, 0.5), 50, INF),
    "gamma(0.2, 3)": (st.gamma(0.2, scale=3),),
    "gamma(50, 0.1)": (st.gamma(50, scale=0.1),),
    "gamma(0.2, 1, 0.01, 20)": (st.gamma(0.2), 0.01, 20),
    "gamma(0.2, 1, 5, 20)": (st.gamma(0.2), 5, 20),
    "gamma(1, 1, 0, 0.5)": (st.gamma(1), 0, 0.5),
    "gamma(4, 1, 0, 0.3)": (st.gamma(4), 0, 0.3),
    "gamma(4, 1, 12, inf())": (st.gamma(4), 12, INF),
    "gamma(4, 1, 2, 4)": (st.gamma(4), 2, 4),
    "gamma(30, 2, 10, 40)": (st.gamma(30, scale=2), 10, 40),
    "laplace(2)": (st.laplace(0, 2),),
    "laplace(1, 2, -3, 2)": (st.laplace(1, 2), -3, 2),
    "laplace(0, 1, -9, -4)": (st.laplace(), -9, -4),
    "lognormal(1, 0.5)": (st.lognorm(0.5, scale=E),),
    "lognormal(1, 2, 3, 10)": (st.lognorm(2, scale=E), 3, 10),
    "rayleigh(2)": (st.rayleigh(scale=2),),
    "rayleigh(2, 3, 5)": (st.rayleigh(scale=2), 3, 5),
}
WHOLE = {
    "bernoulli(0.23)": (st.bernoulli(0.23), 0, 1),
    "binomial(1000, 0.7)": (st.binom(1000, 0.7), 0, 1000),
    "binomial(100, 0.2, 15, 32)": (st.binom(100, 0.2), 15, 32),
    "binomial(100, 0.2, 40, 200)": (st.binom(100, 0.2), 40, 100),
    "binomial(1000, 0.9, 0, 880)": (st.binom(1000, 0.9), 0, 880),
    "poisson(1.5)": (st.poisson(1.5), 0, INF),
    "poisson(1.5, 2, 18)": (st.poisson(1.5), 2, 18),
    "poisson(0.01, 1, inf())": (st.poisson(0.01), 1, INF),
    "poisson(400, 390, 500)": (st.poisson(400), 390, 500),
    "poisson(30, 0, 12)": (st.poisson(30), 0, 12),
}
# Of all laws together: a false alarm in one of 250 seeds.
P_SMALLEST = 1e-4


def one_event() -> ts.Network:
    """Every law is drawn once, in one event."""
    net = ts.Network("draws")
    laws = [*CONTINUOUS, *WHOLE]
    for k in range(len(laws)):
        net.add_species(f"X{k}", 0)
    net.add_event("all", time=1, assignments={f"X{k}": law for k, law in enumerate(laws)})
    return net


def run(net, **options):
    given = {"n": N, "times": [0, 2], "seed": 2, "device": "cpu", "record": "trajectories"}
    return ts.run(net, **{**given, **options})


@pytest.fixture(scope="module")
def drawn():
    return run(one_event())


def values(result, name):
    return np.concatenate(list(column_of(result, name).pieces()))[:, -1]


def share(law, x, low, high):
    """Cumulative probability of a law cut to (low, high]."""
    if low >= law.median():
        return (law.sf(low) - law.sf(x)) / (law.sf(low) - law.sf(high))
    return (law.cdf(x) - law.cdf(low)) / (law.cdf(high) - law.cdf(low))


@pytest.mark.parametrize("what", CONTINUOUS)
def test_a_continuous_law(drawn, what):
    law, *bounds = CONTINUOUS[what]
    low, high = bounds or (-INF, INF)
    actual = values(drawn, f"X{list(CONTINUOUS).index(what)}")
    assert low <= actual.min()
    assert actual.max() <= high
    assert st.kstest(actual, lambda x: share(law, x, low, high)).pvalue > P_SMALLEST


@pytest.mark.parametrize("what", WHOLE)
def test_a_law_of_whole_numbers(drawn, what):
    law, low, high = WHOLE[what]
    actual = values(drawn, f"X{len(CONTINUOUS) + list(WHOLE).index(what)}")
    assert (actual == np.round(actual)).all()
    assert low <= actual.min()
    assert actual.max() <= high
    k = np.arange(actual.min(), actual.max() + 1)
    expected = N * np.diff([0.0, *share(law, k, low - 1, high)])
    observed = np.bincount((actual - actual.min()).astype(int))
    enough = expected >= 5
    bins = np.append(expected[enough], N - expected[enough].sum())
    seen = np.append(observed[enough], observed[~enough].sum())
    bins, seen = bins[bins > 1e-6], seen[bins > 1e-6]
    assert st.chisquare(seen, bins * seen.sum() / bins.sum()).pvalue > P_SMALLEST


@pytest.fixture(scope="module")
def varied():
    return run(noisy(), times=[0, 0.5, 3, 4])


def test_initial_values_are_drawn_once_for_each_trajectory(varied):
    x, k = varied.counts("X"), np.concatenate(list(column_of(varied, "k").pieces()))
    assert (varied.counts("Y")[:, 0] == 2 * x[:, 0] + 1).all()
    assert (k == k[:, :1]).all()
    assert st.kstest(k[:, 0], st.lognorm(0.5).cdf).pvalue > P_SMALLEST
    edges = np.arange(12, 30)
    expected = N * np.diff([0, *st.poisson(20).cdf(edges), 1])
    observed = np.bincount(np.searchsorted(edges, x[:, 0]), minlength=len(expected))
    assert st.chisquare(observed, expected).pvalue > P_SMALLEST
    # Each molecule survives with exp(-k t): the mean over k by quadrature.
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    alive = (weights * np.exp(-np.exp(0.5 * nodes) * 0.5)).sum() / weights.sum()
    left = x[:, 1]
    assert abs(left.mean() - 20 * alive) < 4 * left.std() / np.sqrt(N)


def test_delays_priorities_and_two_draws_of_one_formula(varied):
    done = int(varied.counts("Z")[:, 2].sum())
    assert st.binomtest(done, N, 1 - np.exp(-1)).pvalue > P_SMALLEST
    # Half of all pairs of priorities are equal, and then drawn.
    firsts = int((varied.counts("A")[:, 2] == 1).sum())
    assert st.binomtest(firsts, N).pvalue > P_SMALLEST
    apart = values(varied, "B").astype(int) - 100
    difference = np.convolve(np.full(9, 1 / 9), np.full(9, 1 / 9))
    observed = np.bincount(apart + 8, minlength=17)
    assert st.chisquare(observed, N * difference).pvalue > P_SMALLEST


def test_bits_depend_on_the_trajectory_alone(varied):
    lines = digest_lines(varied, None)
    again = run(noisy(), times=[0, 0.5, 3, 4], device=ts.CPU(threads=2))
    assert digest_lines(again, None) == lines
    few = run(noisy(), times=[0, 0.5, 3, 4], n=100)
    assert (few.counts("X") == varied.counts("X")[:100]).all()


@pytest.mark.gpu
def test_a_gpu_gives_the_bits_of_the_cpu(drawn, varied):
    assert digest_lines(run(one_event(), device="cuda"), None) == digest_lines(drawn, None)
    cuda = run(noisy(), times=[0, 0.5, 3, 4], device="cuda")
    assert digest_lines(cuda, None) == digest_lines(varied, None)


def test_what_a_distribution_has_no_meaning_for_ends_the_trajectory():
    net = ts.Network("wrong")
    net.add_parameter("what", 0)
    net.add_species("X", 0)
    wrong = ["normal(0, -1)", "normal(0, 1, 2, 1)", "gamma(0, 1)", "bernoulli(2)", "poisson(-1)",
             "binomial(2.5, 0.1)", "exponential(0)", "uniform(2, 1)"]  # fmt: skip
    for k, law in enumerate(wrong):
        net.add_event(f"e{k}", trigger=f"time >= 1 && what == {k}", assignments={"X": law})
    with pytest.warns(UserWarning, match="nan"):
        result = run(net, n=2, sweep={"what": list(range(len(wrong) + 1))})
    ends = np.asarray(result.status)
    assert (ends[:-1] == 4).all()
    assert (ends[-1] < 2).all()


@pytest.mark.parametrize(
    ("add", "where"),
    [
        (lambda net: net.add_reaction("X ->", law="normal(1, 1) * X", name="R"), "reaction R"),
        (lambda net: net.add_rule("r", "poisson(3)"), "rule for r"),
        (lambda net: net.add_event("e", trigger="normal(0, 1) > 0", assignments={"X": 1}),
         "trigger of event e"),
        (lambda net: net.add_event("e", time="exponential(1)", assignments={"X": 1}),
         "time of event e"),
    ],
)  # fmt: skip
def test_a_draw_that_would_be_another_at_each_moment_is_refused(add, where):
    net = ts.Network("wrong")
    net.add_species("X", 0)
    add(net)
    with pytest.raises(ts.ModelError, match=where):
        run(net)


def test_leaps_draw_the_same_numbers_and_equations_refuse_them_by_name():
    net = ts.Network("d")
    net.add_species("X", "poisson(3)")
    net.add_reaction("X ->", rate=1)
    few = {"n": 50, "times": [0.0]}
    exact, leaping = (run(net, method=method, **few).counts("X") for method in ("ssa", "tau"))
    assert len(np.unique(exact)) > 3
    assert (leaping == exact).all()
    with pytest.raises(ts.ModelError, match="species X: random numbers in formulas"):
        run(net, method="ode")
    net = ts.Network("k")
    net.add_parameter("k", "lognormal(0, 1)")
    net.add_species("X", 3)
    net.add_reaction("X ->", rate="k")
    with pytest.raises(ts.ModelError, match="parameter k: random numbers in formulas"):
        run(net, method="ode")


def test_a_drawn_value_may_be_set_and_its_mean_swept():
    net = ts.Network("swept")
    net.add_parameter("m", 3)
    net.add_species("X", "poisson(m)")
    net.add_reaction("X -> X", rate=1)
    swept = run(net, sweep={"m": [2, 50]})
    assert np.allclose(swept.mean("X")[:, 0], [2, 50], rtol=0.05)
    assert (run(net, n=5, set={"X": 7}).counts("X") == 7).all()
    assert [feature.kind for feature in net.features] == ["draw"]
    assert not without_missing(net, ["X"]).features  # what is given is not drawn


@pytest.mark.parametrize("selector", ordinary(["tree", "pdm", "rssa"], "rssa"))
def test_drawn_values_read_the_time_at_which_every_trajectory_begins(selector):
    net = ts.Network("early")
    net.add_species("X", "poisson(20) + 1000 * time")
    net.add_reaction("X ->", rate=1)
    device = ts.CPU(threads=1)  # which runs one trajectory after the other
    actual, expected = (
        run(net, n=20, method=ts.SSA(selector=one), device=device) for one in (selector, None)
    )
    assert (actual["X"][:, 0] == expected["X"][:, 0]).all()
    assert expected["X"][:, 0].max() < 100


def test_toml_holds_draws(tmp_path):
    net = noisy()
    again = ts.read(net.write(tmp_path / "noisy.toml"))
    again.name = net.name
    assert again == net
    made, wanted = (run(one, n=50, times=[0, 4]) for one in (again, net))
    assert digest_lines(made, None) == digest_lines(wanted, None)


SBML = """<sbml xmlns="http://www.sbml.org/sbml/level3/version2/core" level="3" version="2"
 xmlns:distrib="http://www.sbml.org/sbml/level3/version1/distrib/version1" distrib:required="true">
<model><listOfCompartments><compartment id="C" size="1" constant="true"/></listOfCompartments>
<listOfSpecies><species id="X" compartment="C" initialAmount="0" hasOnlySubstanceUnits="true"
 boundaryCondition="false" constant="false"/></listOfSpecies>
<listOfParameters><parameter id="k" constant="true"/><parameter id="twice" constant="true"/>
</listOfParameters>
<listOfInitialAssignments>{}</listOfInitialAssignments>
<listOfReactions><reaction id="R" reversible="false"><listOfReactants><speciesReference species="X"
 stoichiometry="1" constant="true"/></listOfReactants><kineticLaw>{}</kineticLaw></reaction>
</listOfReactions></model></sbml>"""


def math(inner: str) -> str:
    return f'<math xmlns="http://www.w3.org/1998/Math/MathML">{inner}</math>'


def symbol(name: str, arguments: str) -> str:
    url = f"http://www.sbml.org/sbml/symbols/distrib/{name}"
    csymbol = f'<csymbol encoding="text" definitionURL="{url}">{name}</csymbol>'
    return f"<apply>{csymbol}{arguments}</apply>"


def assigned(name: str, inner: str) -> str:
    return f'<initialAssignment symbol="{name}">{math(inner)}</initialAssignment>'


def test_initial_assignments_of_sbml(tmp_path):
    law = "<apply><times/><ci>k</ci><ci>X</ci></apply>"
    double = "<apply><times/><cn>2</cn><ci>k</ci></apply>"
    given = assigned("k", symbol("uniform", "<cn>1</cn><cn>3</cn>")) + assigned("twice", double)
    given += assigned("X", symbol("poisson", "<ci>twice</ci>"))
    path = tmp_path / "drawn.xml"
    path.write_text(SBML.format(given, math(law)))
    actual = run(ts.read(path), times=[0, 1], n=5000)
    k, twice = values(actual, "k"), values(actual, "twice")
    assert (twice == 2 * k).all()
    assert st.kstest(k, st.uniform(1, 2).cdf).pvalue > P_SMALLEST
    start, end = actual.counts("X")[:, 0], actual.counts("X")[:, 1]
    for counts, mean in ((start, 2 * k), (end, 2 * k * np.exp(-k))):
        z = (counts - mean).sum() / np.sqrt(mean.sum())
        assert abs(z) < 4

    path.write_text(SBML.format("", math(symbol("normal", "<cn>1</cn><cn>3</cn>"))))
    with pytest.raises(ts.ModelError, match="reaction R: functions outside the known ones"):
        run(ts.read(path))
