"""What a newcomer types, and the answer: an error or a warning that names what is meant."""

import numpy as np
import pytest
from lattice_run_factory import run as run_lattice

import tauslab as ts
from tauslab.analysis.filters.chains import Chain
from tauslab.analysis.filters.smc2.result import Smc2Result


def network(law="k"):
    net = ts.Network("birth")
    net.add_species("X", 10)
    net.add_parameter("k", 2.0)
    net.add_reaction("-> X", law=law)
    net.add_reaction("X ->", rate=0.1)
    return net


def run(net=None, **options):
    return ts.run(net or network(), **{"n": 2, "t_end": 1, "device": "cpu", "seed": 1, **options})


# ---------------------------------------------------------------- methods


def test_check_names_the_methods_that_run():
    moved = network("k * (1 + sin(time))")
    assert 'methods that can run it: ssa, tau, ode, hybrid with jump="*"' in moved.check()
    assert run(moved, method=ts.Partitioned(jump="*")).n == 2
    refused = (
        'supported by hybrid beside reactions by the Langevin equation; .*; jump="\\*" simulates '
        'all reactions as events; method="ssa", tau or ode can run it'
    )
    with pytest.raises(ts.ModelError, match=refused):
        run(moved, method="hybrid")
    with pytest.raises(ts.ModelError, match=r'by cle; .*; method="ssa", tau or ode can run it'):
        run(moved, method="cle")
    assert "ssa, tau, ode, hybrid, cle" in network().check()


@pytest.mark.parametrize(("option", "message"), [
    ({"threads": 2}, r"ts\.CPU\(threads=\.\.\.\), for device="),
    ({"max_time": "1:0:0"}, "until= or max_steps="),
    ({"epsilon": 0.1}, r"ts\.TauLeaping\(epsilon=.*, for method="),
    ({"rtol": 1e-6}, r"ts\.ODE\(rtol=\.\.\.\), for method="),
    ({"ode_solver": "dopri5"}, r"method=ts\.ODE\(solver="),
    ({"selector": "linear"}, r"ts\.SSA\(selector=\.\.\.\), for method="),
    ({"compress": True}, r"ts\.Output\(compress=\.\.\.\), for output="),
    ({"writer": "parts"}, r"ts\.Output\(writer=\.\.\.\), for output="),
    ({"json": True}, "the attributes of the result"),
    ({"molecules": True}, r"ts\.in_molecules\(model\)"),
    ({"net_laws": True}, r"ts\.with_net_laws\(model\)"),
])  # fmt: skip
def test_flags_of_the_command_have_a_place_in_python(option, message):
    with pytest.raises(ts.UnknownKeyword, match=message):
        run(**option)


def test_a_pair_in_a_sweep_is_two_points():
    with pytest.warns(UserWarning, match=r'\(1, 10\) is two points; .* "lin:1:10:N"'):
        assert run(sweep={"k": (1, 10)}).n_points == 2
    assert run(sweep={"k": [1, 10]}).n_points == 2


# ---------------------------------------------------------------- networks


@pytest.mark.parametrize(("law", "message"), [
    ("sin(2*pi*time)", r"'pi' is not defined in birth: the constant is pi\(\)"),
    ("e^X", r"'e' is not defined in birth: write exp\(x\)"),
    ("k(1+X)", r"'k' is no function; a product is written k \* \(\.\.\.\)"),
    ("if(X>3,1)", "'if' takes 3 arguments, not 2"),
    ("min(X)", "'min' takes 2 or more arguments, not 1"),
    ("exp(X, 2)", "'exp' takes 1 argument, not 2"),
    ("foo(X)", "functions: abs, .* ln, .* pi, piecewise"),
])  # fmt: skip
def test_laws(law, message):
    with pytest.raises(ts.ModelError, match=message) as error:
        run(network(law))
    assert " mul," not in str(error.value)


def test_attributes_of_a_network():
    net = network()
    with pytest.raises(AttributeError, match=r"no attribute 'run': use ts\.run\(network"):
        net.run()
    with pytest.raises(AttributeError, match=r'network\.parameters\["k"\] = 3 sets its value'):
        net.k = 3
    with pytest.raises(AttributeError, match=r'network\.species\["X"\] = 3 sets'):
        net.X = 3
    net.t_end = 3.0
    assert net.t_end == 3.0


@pytest.mark.parametrize("name", ["Time", "t", "TIMES"])
def test_a_column_of_times_has_another_name(name):
    with pytest.raises(ts.ConfigError, match=f"rename its column '{name}' to \"time\""):
        ts.exact_filter(network(), {name: [1.0], "X": [3]}, observe={"X": "poisson()"})


def test_a_rate_that_is_no_number_is_refused_at_once():
    with pytest.raises(ts.ModelError, match="reaction R3: rate=nan is not allowed"):
        network().add_reaction("X -> 2 X", rate=float("nan"))


# ---------------------------------------------------------------- times


def test_a_stationary_distribution_is_that_of_a_late_time():
    for times in (np.inf, [1.0, np.inf]):
        with pytest.raises(ts.ConfigError, match="stationary distribution give a time after which"):
            ts.cme(network(), times)
    exact = ts.cme(network(), [1.0, 2.0])
    assert exact.times is exact.time
    filtered = ts.exact_filter(network(), {"time": [1.0], "X": [9]}, observe={"X": "poisson()"})
    assert filtered.times.tolist() == [1.0]


def test_another_end_keeps_the_number_of_points_of_a_file(tmp_path):
    path = tmp_path / "b.h5"
    run(points=11, output=path)
    assert ts.run(path, t_end=5, device="cpu").times.tolist() == np.linspace(0, 5, 11).tolist()
    assert len(ts.run(path, t_end=5, points=3, device="cpu").times) == 3
    run(t_end=None, times=[0.0, 0.1, 1.0], output=ts.Output(path, overwrite=True))
    assert len(ts.run(path, t_end=5, device="cpu").times) == 101


# ---------------------------------------------------------------- results


def test_a_formula_is_computed_from_arrays():
    hint = r"it has .*A.*; a formula is computed from arrays such as result\[\"A\"\]"
    net = network()
    net.add_species("A")
    for result in (run(net), run_lattice()):
        for asked in (result.mean, result.counts, result.__getitem__):
            with pytest.raises(ts.ConfigError, match=hint):
                asked("A + B")


def test_verbs_of_tables_and_files():
    result = run()
    with pytest.raises(AttributeError, match="did you mean to_pandas or to_xarray or save"):
        result.export("x.csv")
    with pytest.raises(AttributeError, match="did you mean to_pandas"):
        result.to_csv("x.csv")
    with pytest.raises(AttributeError, match="did you mean save"):
        result.write("x.h5")


# ---------------------------------------------------------------- lattices


def test_sizes_name_their_unit_and_their_order():
    message = "frame_every=0.1 is not allowed: a whole number of time steps from 0"
    with pytest.raises(ts.ConfigError, match=message):
        run_lattice(frame_every=0.1)
    with pytest.raises(ts.ModelError, match="sites along z, y and x, in this order"):
        ts.Lattice("sheet", shape=(8, 8), spacing=1e-8)


def test_a_slice_is_at_a_plane(tmp_path):
    pytest.importorskip("matplotlib")
    result = run_lattice()
    name, nz = result.species[0], result.shape[0]
    planes = []
    for at in range(nz):
        axes = result.plot(name, kind="slice", axis="z", at=at).axes[0]
        planes.append(axes.images[0].get_array())
        assert f"z = {(at + 0.5) * result.spacing * 1e6:.3g}" in axes.get_title()
    assert np.sum(planes) == result.counts(name)[-1]
    middle = result.plot(name, kind="slice", axis="z").axes[0].images[0].get_array()
    assert (middle == planes[nz // 2]).all()
    with pytest.raises(ts.ConfigError, match=f"at={nz} is not in the lattice: 0 to {nz - 1}"):
        result.plot(name, kind="slice", axis="z", at=nz)
    with pytest.raises(ts.ConfigError, match="at=1 is the number of a plane across axis="):
        result.plot(name, at=1)


def test_a_profile_in_space_is_a_kymograph():
    result = run_lattice()
    with pytest.raises(ts.ConfigError, match=r"kymograph\(name, axis\)\[frame\]"):
        result.profile(result.species[0], "z")
    assert len(result.profile) == 1


def test_counts_that_end_before_the_run():
    """Of 60 steps."""
    with pytest.warns(UserWarning, match="the last counts are made 4 steps before the end"):
        run_lattice(count_every=7)


# ---------------------------------------------------------------- posteriors


def chain():
    values = np.random.default_rng(1).normal(size=(4, 50, 2))
    still = np.zeros((4, 50), bool)
    return Chain(("k", "g"), values, np.zeros((4, 50)), still)


def test_chains_have_intervals_and_draws():
    actual = chain()
    low, high = np.quantile(actual["k"], [0.025, 0.975])
    assert actual.interval("k") == pytest.approx((low, high))
    assert actual.interval("k", 0.5) == pytest.approx(np.quantile(actual["k"], [0.25, 0.75]))
    several = actual.quantile("g", [[0.1], [0.5]])
    assert several.tolist() == [[actual.quantile("g", 0.1)], [actual.quantile("g", 0.5)]]
    assert isinstance(actual.quantile("g", 0.1), float)
    for wrong in (1.5, [0.1, -1], np.nan):
        with pytest.raises(ts.ConfigError, match="numbers from 0 to 1"):
            actual.quantile("g", wrong)
    with pytest.raises(ts.ConfigError, match="between 0 and 1"):
        actual.interval("g", 1)
    pytest.importorskip("pandas")
    assert actual.summary().loc["g"]["mean"] == actual.mean("g")


def test_draws_are_values_of_trajectories():
    actual = chain()
    assert actual.draws()["k"].tolist() == actual["k"].ravel().tolist()
    few = actual.draws(8)
    assert few["g"].tolist() == actual["g"].ravel()[::25].tolist()
    for wrong in (0, 201):
        with pytest.raises(ts.ConfigError, match="from 1 to 200"):
            actual.draws(wrong)
    result = run(n=8, set={"k": np.exp(few["k"])})
    assert result.n == 8
    with pytest.raises(ts.ConfigError, match=r"draws\(\) of a result of inference"):
        run(set={"k": actual["k"]})


def test_weighted_draws_are_copied_by_their_weights():
    values = np.array([[[1.0], [2.0], [3.0], [4.0]]])
    weights = np.array([[0.5, 0.0, 0.25, 0.25]])
    one = np.ones(1)
    actual = Smc2Result(("k",), values, weights, one, one, one, np.ones(1, np.int64))
    assert sorted(actual.draws()["k"].tolist()) == [1.0, 1.0, 3.0, 4.0]
    assert actual.interval("k", 0.5) == (1.0, 3.0)


def test_subclasses_of_networks_have_attributes_of_their_own():
    class Noted(ts.Network):
        def __init__(self, name: str) -> None:
            self.before = 1
            super().__init__(name)
            self.note = "x"

    assert (Noted("m").note, Noted("m").before) == ("x", 1)
