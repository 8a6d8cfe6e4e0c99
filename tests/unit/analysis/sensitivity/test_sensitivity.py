"""Derivatives of means: against exact ones, and models that are chosen to break the estimate."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from generated_networks import cyclic_chain
from reference_ensembles import case, network

import tauslab as ts
from tauslab.analysis.sensitivity import summing
from tauslab.analysis.sensitivity.certainty import errors_of
from tauslab.analysis.sensitivity.steps import chosen_names
from tauslab.base.errors import ConfigError
from tauslab.kernels.backends.base import Style
from tauslab.kernels.backends.cpu import CpuBackend

# Numbers of pairs are small here; `test_few_pairs_...` are about what is said of them.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*give the same of the derivative", "ignore:.*determine the derivative"
)
METHODS = ("coupled", "likelihood-ratio")


def turnover(k=2.0, x=0, decay=1.0):
    """Immigration and death; beside them a parameter that nothing depends on."""
    net = ts.Network("turnover")
    net.add_species("X", x)
    net.add_parameter("k", k)
    net.add_parameter("decay", decay)
    net.add_parameter("unused", 3.0)
    net.add_reaction("-> X", rate="k")
    net.add_reaction("X ->", rate="decay")
    return net


# Asked for together, so that one kernel serves most tests.
BOTH = ["k", "decay"]


def found_by(net, *names, **options):
    return ts.sensitivity(
        net, *names, **{"t": 2.0, "n": 2000, "seed": 1, "device": "cpu"} | options
    )


def near(found, exact, parameter, output="X", errors=4.0):
    """Within `errors` standard errors at the last time; 4 are a false alarm of 6e-5."""
    error = found.error(parameter, output)[-1]
    assert error > 0
    assert abs(found[parameter, output][-1] - exact) < errors * error


@pytest.mark.parametrize(
    "name",
    ["dimerisation_sens", pytest.param("gene_expression_sens", marks=pytest.mark.validate)],
)
def test_exact_derivatives(name):
    """Six derivatives within four standard errors: false alarms 8e-4 together."""
    exact = case(name)
    output = next(iter(exact["exact"].values()))["output"]
    actual = found_by(network(exact), None, [output], t=exact["t"], n=2000)
    for one in exact["exact"].values():
        near(actual, one["central_difference_2_percent"], one["parameter"], output)
        independent = one["variance_of_one_independent_difference_2_percent"]
        row = actual.parameters.index(one["parameter"])
        assert actual.variance_reduction[row, 0, 0] > 20
        widened = 1 + actual.informative[row, 0, 0] ** -0.5
        own = (actual.error(one["parameter"], output)[0] / widened) ** 2 * actual.n
        assert independent / own == pytest.approx(actual.variance_reduction[row, 0, 0], rel=0.2)
    assert actual.mean[0, 0] == pytest.approx(exact["mean_var"][output][0], rel=0.01)


@pytest.mark.validate
@pytest.mark.parametrize("name", ["gene_expression_sens", "dimerisation_sens"])
def test_likelihood_ratios_have_no_bias(name):
    exact = case(name)
    output = next(iter(exact["exact"].values()))["output"]
    actual = found_by(network(exact), None, [output], t=exact["t"], method="likelihood-ratio")
    for one in exact["exact"].values():
        near(actual, one["value"], one["parameter"], output)
    assert np.isnan(actual.variance_reduction).all()


@pytest.mark.parametrize("method", METHODS)
def test_what_nothing_depends_on_has_derivative_zero(method):
    actual = found_by(turnover(), ["unused", *BOTH], method=method)
    assert actual["unused", "X"] == actual.error("unused", "X") == 0
    if method != "likelihood-ratio":  # whose outputs vary
        assert actual.variance_reduction[0] == np.inf


def test_a_rate_of_zero_needs_a_step_and_is_a_forward_difference():
    with pytest.raises(ts.ConfigError, match=r"k is 0.*step\[.k.\]=0.01"):
        found_by(turnover(k=0.0), BOTH)
    actual = found_by(turnover(k=0.0), BOTH, step={"k": 0.5})
    assert (actual.low[0], actual.high[0]) == (0.0, 0.5)
    near(actual, 1 - math.exp(-2), "k")


@pytest.mark.parametrize("method", ["coupled", "likelihood-ratio"])
def test_products_probabilities_and_several_times(method):
    outputs = ["X * X", "X == 0", "k * X"]
    actual = found_by(turnover(), BOTH, outputs, t=[0.0, 0.5, 2.0], method=method)
    p = 1 - np.exp(-actual.time)  # X is Poisson with mean k p
    exact = {"X * X": p + 4 * p**2, "X == 0": -p * np.exp(-2 * p), "k * X": 4 * p}
    for output, values in exact.items():
        assert actual["k", output][0] == actual.error("k", output)[0] == 0
        errors = (actual["k", output] - values)[1:] / actual.error("k", output)[1:]
        assert np.abs(errors).max() < 4.5  # false alarms 4e-5 for all six
    assert actual.elasticity[0, 2, 2] == pytest.approx(2, abs=0.5)


def test_initial_amounts_begin_apart():
    for x, sides in ((0, (0, 1)), (100, (98, 102))):
        actual = found_by(turnover(x=x), ["X", *BOTH])
        assert (actual.low[0], actual.high[0]) == sides
        near(actual, math.exp(-2), "X")


def test_initial_amounts_that_follow_a_parameter():
    net = ts.Network("decay")
    net.add_parameter("N", 50)
    net.add_species("X", "N")
    net.add_reaction("X ->", rate=1.0)
    near(found_by(net, ["N"], n=500), math.exp(-2), "N")
    with pytest.raises(ts.ConfigError, match=r"initial amount of X to 49.5 and 50.5"):
        found_by(net, ["N"], step=0.01)


def test_absorbed_pairs_keep_their_state():
    net = ts.Network("decay")
    net.add_species("X", 10)
    net.add_parameter("g", 1.0)
    net.add_reaction("X ->", rate="g")
    with pytest.warns(
        UserWarning, match="all 2000 pairs give the same of the derivative of X by g"
    ):
        actual = found_by(net, t=[1.0, 60.0])
    assert actual["g", "X"][1] == 0
    assert np.isnan(actual.error("g", "X")[1])  # the derivative is -600 exp(-60)
    assert abs(actual["g", "X"][0] + 10 / math.e) < 4 * actual.error("g", "X")[0]


def test_huge_counts():
    """Differences of 1e8 molecules are exact; 100 million events a second would follow."""
    actual = found_by(turnover(k=1e8, x=10**8), BOTH, t=1e-5, n=40)
    near(actual, -(1e8) * 1e-5, "decay")
    near(actual, 1e-5, "k")


@pytest.mark.validate
def test_a_stiff_network():
    net = ts.Network("stiff")
    net.add_species("A", 20)
    for name in "BC":
        net.add_species(name)
    net.add_parameter("fast", 2000.0)
    net.add_parameter("slow", 1.0)
    net.add_reaction("A -> B", rate="fast")
    net.add_reaction("B -> A", rate="fast")
    net.add_reaction("B -> C", rate="slow")
    actual = found_by(net, ["fast", "slow"], ["C"], t=0.5, n=400)
    near(actual, 20 * 0.25 * math.exp(-0.25), "slow", "C")
    assert abs(actual["fast", "C"][0]) < 1e-3


@pytest.mark.validate
@pytest.mark.parametrize("method", METHODS)
def test_a_parameter_in_several_reactions_and_a_law(method):
    net = ts.Network("loop")
    net.add_species("X", 5)
    net.add_parameter("k", 2.0)
    net.add_reaction("-> X", law="6 * k / (1 + X / k)")
    net.add_reaction("X ->", rate="k")
    actual = found_by(net, ["k"], n=4000, method=method)
    pytest.importorskip("scipy")
    means = [ts.cme(net, 2.0, set={"k": k}).mean("X")[0] for k in (2.04, 1.96)]
    near(actual, (means[0] - means[1]) / 0.08, "k")


def test_all_numbers_but_0_are_the_default():
    assert found_by(turnover(), n=1).parameters == ("k", "decay", "unused")
    assert chosen_names(turnover(k=0.0), None) == ("decay", "unused")


def test_one_pair():
    actual = found_by(turnover(), BOTH, n=1)
    assert np.isfinite(actual.value).all()
    assert np.isnan(actual.standard_error).all()
    assert np.isnan(actual.variance_reduction).all()


@pytest.mark.parametrize("method", METHODS)
def test_outputs_that_are_not_finite_are_reported(method):
    """In silence derivatives would be those of the others, which are not like all."""
    few = turnover(k=0.0, x=2)
    with pytest.warns(UserWarning, match=r"turnover: \d+ of 200 have an output that is not finite"):
        actual = found_by(few, ["decay"], ["log(X)"], t=1.0, n=200, method=method)
    assert 0 < actual.valid[0, 0] < 200


def test_pairs_that_end_early_are_reported():
    growing = turnover(k=3.0, x=2**31 - 5, decay=1e-12)
    with pytest.warns(UserWarning, match=r"ended early.*by overflow"):
        actual = found_by(growing, BOTH, t=[0.1, 1.0], n=100)
    assert actual.valid[0, 1] < actual.valid[0, 0] <= 100
    with pytest.raises(ts.ModelError, match=r"turnover: all trajectories ended early: \d+ by step"):
        found_by(turnover(k=1e4), BOTH, n=3, max_steps=3)


def test_a_negative_propensity_is_reported():
    negative = ts.Network("negative")
    negative.add_species("X", 5)
    negative.add_parameter("a", 2.0)
    negative.add_reaction("X ->", law="a - X")
    with pytest.raises(ts.ModelError, match="by nan"):
        found_by(negative, n=3)


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        (["k", "k"], {}, "each once"),
        ([], {}, "one name or more"),
        (["q"], {}, "'q' is neither a parameter nor a species of turnover; it has k, decay"),
        (["k"], {"outputs": ["q"]}, "'q', which is neither a species nor an observable"),
        (["k"], {"outputs": []}, "outputs=: one name"),
        (["k"], {"step": 2}, "step=2 is not allowed"),
        (["k"], {"step": {"decay": 0.1}}, r'step\["decay"\]: it is not among the parameters k'),
        (["k"], {"step": {"k": 1e-20}}, "is the same number"),
        (["k"], {"step": {"k": math.nan}}, "step of k: nan is not allowed"),
        (["X"], {"step": {"X": 0.5}}, "a whole number of molecules"),
        (["k"], {"difference": "both"}, "centred, forward, backward"),
        (["k"], {"method": "pathwise"}, "coupled, likelihood-ratio"),
        (["k"], {"n": 0}, "n=0 is not allowed"),
    ],
)
def test_what_is_refused(names, options, message):
    with pytest.raises(ts.ConfigError, match=message):
        found_by(turnover(), names, **options)


def test_what_likelihood_ratios_refuse():
    ratio = {"method": "likelihood-ratio", "n": 10}
    with pytest.raises(ts.ConfigError, match=r'X: .*no derivatives by initial amounts.*"coupled"'):
        found_by(turnover(), ["X"], **ratio)
    with pytest.raises(ts.ModelError, match=r'by nan.*0 where its derivative is not.*"coupled"'):
        found_by(turnover(k=0.0), BOTH, **ratio)
    with pytest.raises(ts.ConfigError, match='need method="coupled"'):
        found_by(turnover(), BOTH, step=0.1, **ratio)


def test_sums_beyond_memory_are_refused(monkeypatch):
    monkeypatch.setattr(CpuBackend, "free_memory", lambda _: 1 << 20)
    with pytest.raises(ts.DeviceError, match="sums of 4 numbers at 9000 times take"):
        found_by(turnover(), ["k"], t=np.arange(9000.0), n=2)


def test_models_that_are_refused():
    net = turnover()
    net.add_event("dose", 1.0, {"X": 0})
    with pytest.raises(ts.ModelError, match=r"event.*a sensitivity does not support"):
        found_by(net, ["k"])
    chain = cyclic_chain(200)
    with pytest.raises(ts.ConfigError, match="1 to 128 reactions, not 200"):
        found_by(chain, [next(iter(chain.species))])


def test_sides_of_one_sided_differences():
    for difference, sides in (("forward", (2.0, 2.04)), ("backward", (1.96, 2.0))):
        actual = found_by(turnover(), BOTH, difference=difference)
        np.testing.assert_allclose((actual.low[0], actual.high[0]), sides)
        near(actual, 1 - math.exp(-2), "k")


def digest(method="coupled", device="cpu"):
    names = ["k", "decay"] if method == "likelihood-ratio" else ["k", "X", "decay"]
    actual = found_by(turnover(x=3), names, ["X", "X / 3"], t=[0.5, 2.0], n=500,
                     method=method, device=device)  # fmt: skip
    return actual.digest()


@pytest.mark.parametrize(
    "method", ["coupled", pytest.param("likelihood-ratio", marks=pytest.mark.validate)]
)
def test_neither_launches_nor_code_change_bits(method, monkeypatch):
    before = digest(method)
    monkeypatch.setattr(summing, "_MOST_ROWS", 200)
    assert digest(method) == before
    monkeypatch.setattr(summing, "_MOST_BYTES", 300)  # one parameter after the other
    assert digest(method) == before
    monkeypatch.setattr(CpuBackend, "style", Style(branches=False))
    assert digest(method) == before


def test_a_parameter_has_the_same_bits_among_others():
    alone, many = (found_by(turnover(), names, n=50) for names in (["decay"], BOTH))
    assert alone["decay", "X"] == many["decay", "X"]


def test_bits_stay_what_they_are():
    assert digest() == "9eb57c9a454c45a9c10527c0c311f22143b74482856b230affc9b44f772a291f"

    assert digest("likelihood-ratio") == (
        "b91699654cb680dc2c34b494b3db89aeea543f506cd7ebb339348d45ba24812c"
    )


@pytest.mark.gpu
@pytest.mark.parametrize("method", METHODS)
def test_the_same_bits_on_a_gpu(method):
    assert digest(method, "cuda") == digest(method, "cpu")


@pytest.mark.validate
def test_tables():
    pytest.importorskip("xarray")
    actual = found_by(turnover(), BOTH, t=[1.0, 2.0], n=10)
    data = actual.to_xarray()
    assert data["value"].dims == ("parameter", "time", "output")
    assert data["value"].sel(parameter="k", output="X").values.tolist() == actual["k", "X"].tolist()
    pytest.importorskip("pandas")
    assert list(actual.to_pandas().columns) == [
        "parameter", "time", "output", "value", "standard_error", "elasticity",
    ]  # fmt: skip
    assert re.fullmatch(
        r"<SensitivityResult of turnover: 1 outputs by 2 parameters.*>", repr(actual)
    )
    first, *lines = str(actual).splitlines()
    assert first.endswith(" at 2:")
    assert re.match(r"d X / d k: [-\d.e]+ \+- [\d.e-]+$", lines[0])
    assert len(lines) == 2
    with pytest.raises(ts.ConfigError, match="'q' is not among k, decay"):
        actual["q", "X"]


def test_times_have_one_name_everywhere():
    options = {"n": 20, "seed": 1, "device": "cpu"}
    actual = ts.sensitivity(turnover(), ["k"], times=2.0, **options)
    assert actual.digest() == ts.sensitivity(turnover(), ["k"], t=[2.0], **options).digest()
    one, other = (ts.expectation(turnover(), ["k"], **{t: 2.0}, **options) for t in ("t", "times"))
    assert one([2.0]).tolist() == other([2.0]).tolist()
    for function in (ts.sensitivity, ts.expectation):
        with pytest.raises(ConfigError, match="two names of one thing"):
            function(turnover(), ["k"], times=1.0, t=1.0, **options)
        with pytest.raises(ConfigError, match="times= is missing"):
            function(turnover(), ["k"], **options)
        with pytest.raises(TypeError, match="did you mean times="):
            function(turnover(), ["k"], t_end=1.0, **options)
    for function in (ts.cme, ts.population):
        with pytest.raises(TypeError, match="did you mean times="):
            function(turnover(), t=1.0)


@pytest.mark.parametrize("method", METHODS)
def test_a_probability_that_no_trajectory_saw_is_reported(method):
    """P(X > 9) is 5e-5 here, so that 200 pairs see it once in 50 seeds; this seed does not."""
    with pytest.warns(UserWarning, match=r"the same of the derivative of X > 9 by k at t = 3"):
        actual = ts.sensitivity(
            turnover(), ["k"], ["X > 9", "X"], times=[0, 3.0], n=200, seed=1, method=method,
            device="cpu",
        )  # fmt: skip
    assert not actual.value[0, :, 0].any()
    assert np.isnan(actual.standard_error[0, 1, 0])
    assert not actual.standard_error[0, 0].any()  # nothing is by chance at time 0


def test_a_sum_that_reactions_keep_has_no_error():
    net = ts.Network("kept")
    net.add_species("A", 20)
    net.add_species("B")
    net.add_parameter("k", 1.0)
    net.add_reaction("A -> B", rate="k")
    net.add_reaction("B -> A", rate=0.5)
    net.add_rule("total", "A + B")
    net.add_rule("more", "A + 2 * B")
    actual = ts.sensitivity(net, ["k"], ["total", "more"], times=[1.0], n=200, seed=1, device="cpu")
    assert (actual["k", "total"][0], actual.error("k", "total")[0]) == (0, 0)
    assert actual.error("k", "more")[0] > 0


@pytest.mark.parametrize("method", METHODS)
def test_few_pairs_that_differ_are_told_and_no_error_is_0(method):
    """The derivative of E[X] by p is 1000; one of 5,000,000 pairs of 2 % differs."""
    net = ts.Network("rare")
    net.add_species("S", 1)
    net.add_species("X")
    net.add_parameter("p", 1e-5)
    net.add_parameter("q", 1.0)
    net.add_reaction("S -> S + 1000 X", rate="p")
    common = {"times": [0.0, 1.0], "seed": 1, "method": method, "device": "cpu"}
    with pytest.warns(UserWarning, match="all 1000 .* give the same of the derivative of X by p"):
        actual = ts.sensitivity(net, ["p", "q"], ["X", "S", "q * S"], n=1000, **common)
    assert np.isnan(actual.error("p", "X")[1])
    assert actual.error("p", "X")[0] == 0
    for parameter, output in (("q", "X"), ("p", "S"), ("q", "S"), ("q", "q * S")):
        assert actual.error(parameter, output)[1] == 0, (parameter, output)  # by proof
    assert actual["q", "q * S"][1] == pytest.approx(1)
    assert "by p: 0 +- nan, no two differ" in "".join(actual.lines())
    net.add_species("Y")
    net.add_reaction("-> Y", rate="q")
    few = {"n": 20 if method == "likelihood-ratio" else 100}
    with pytest.warns(UserWarning, match="determine the derivative of Y by q"):
        actual = ts.sensitivity(net, ["q"], ["Y"], **few, **common)
    assert 0 < actual.informative[0, 1, 0] < 8


@pytest.mark.parametrize(("chance", "sign"), [(0.06, 1), (0.3, 1), (0.1, -1)])
def test_errors_of_few_pairs_hold_what_they_say(chance, sign):
    """Over 400 seeds of 1,000 pairs of which few differ, 1.96 errors hold the mean in 92 to 98 %.

    Those with a warning do not count. Seeds are fixed.
    """
    random, n = np.random.default_rng(3), 1000
    differ = random.random((400, n)) < chance
    signs = np.where(random.random((400, n)) < 0.5, sign, 1)
    x = differ * signs * random.geometric(0.5, (400, n)).astype(float)
    exact = chance * 2 * (1 + sign) / 2
    column = [part[:, None, None] for part in (x.var(1, ddof=1), (x * x).mean(1))]
    spread, n_all = (x * x).var(1, ddof=1)[:, None, None], np.full((400, 1, 1), n)
    error, informative = errors_of(*column, spread, n_all, np.zeros((400, 1, 1), bool))
    counts = informative.ravel() >= 8
    held = np.abs(x.mean(1) - exact) <= 1.96 * error.ravel()
    assert 0.92 <= held[counts].mean() <= 0.985
    assert counts.mean() > (0.3 if chance == 0.06 else 0.99)


def test_a_rate_that_jumps_with_a_parameter_is_reported():
    """The exact mean is 4.36 for thresholds from 4 to 5, and 5.15 above: no number is its slope."""
    net = ts.Network("threshold")
    net.add_species("X", 0)
    net.add_parameter("most", 5.0)
    net.add_parameter("k", 10.0)
    net.add_rule("open", "X < most")
    net.add_reaction("-> X", law="k * open", name="make")
    net.add_reaction("X ->", rate=1.0)
    given = {"times": [2.0], "n": 100, "seed": 1, "device": "cpu"}
    with pytest.warns(UserWarning, match="the rate of make jumps with most.*depends on step="):
        ts.sensitivity(net, ["most", "k"], ["X"], **given)
    ts.sensitivity(net, ["k", "X"], ["X"], **given)  # warnings are errors


@pytest.mark.parametrize("method", ["coupled", "likelihood-ratio"])
def test_a_derivative_includes_what_the_parameter_defines_whatever_else_is_asked(method):
    net = ts.Network("defined")
    net.add_parameter("a", 1.0)
    net.add_parameter("c", "2 * a")
    net.add_parameter("n", 500.0)
    net.add_species("A", "2 * n")
    net.add_reaction("A ->", rate="c")
    coupled = method == "coupled"
    names = ["a", "c", "n", "A"] if coupled else ["a", "c"]
    step = {"step": {"n": 50}} if coupled else {}
    found = ts.sensitivity(
        net, names, ["A"], times=0.5, n=2000, seed=1, method=method, device="cpu", **step
    )
    left = math.exp(-1)
    for name, exact in (("a", -1000 * left), ("c", -500 * left), ("n", 2 * left), ("A", left)):
        if name in names:  # 4.5 standard errors: 4e-5 false alarms of 6 derivatives; bias 4e-4
            error = 4.5 * found.error(name, "A")[0] + 4e-4 * abs(exact)
            assert abs(found[name, "A"][0] - exact) < error
