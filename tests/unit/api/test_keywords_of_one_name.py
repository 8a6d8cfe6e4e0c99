"""Keywords that every function spells alike, and parts of a result by name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import tauslab as ts
from tauslab.base.errors import ConfigError, ModelError
from tauslab.cli.main import main


@pytest.fixture
def network():
    network = ts.Network("turnover")
    network.add_species("X", 100)
    network.add_species("Y", 0)
    network.add_parameter("k", 1.0)
    network.add_reaction("X -> Y", rate="k")
    return network


def run(network, **options):
    return ts.run(network, **{"t_end": 2, "points": 3, "seed": 1, "device": "cpu"} | options)


def test_trajectories_start_from_the_last_states_of_a_result(network, tmp_path):
    first = run(network, n=7, output=tmp_path / "first.h5")
    for initial in (first, tmp_path / "first.h5"):
        second = run(network, initial=initial, seed=2)
        assert second.n == 7
        for name in ("X", "Y"):
            assert (second[name][:, 0] == first.final(name)).all()


def test_set_overrides_initial_amounts(network):
    first = run(network, n=3)
    second = run(network, initial=first, set={"Y": 5}, seed=2)
    assert (second["Y"][:, 0] == 5).all()
    assert (second["X"][:, 0] == first.final("X")).all()


@pytest.mark.parametrize("table", [{"X": [3, 4]}, pd.DataFrame({"X": [3, 4]})], ids=type)
def test_a_table_holds_initial_amounts(network, table):
    assert run(network, initial=table)["X"][:, 0].tolist() == [3, 4]


def test_a_table_and_set_exclude_each_other(network):
    with pytest.raises(ConfigError, match=r'initial\["X"\]: X is also set: choose one'):
        run(network, initial={"X": [3, 4]}, set={"X": 5})


@pytest.mark.parametrize(
    "given", [{"initial": {"X": [3.5, 4]}}, {"n": 2, "sweep": {"X": [3, 4.5]}}]
)
def test_rounded_amounts_are_reported_once(network, given):
    with pytest.warns(UserWarning, match="not whole were rounded: X") as caught:
        run(network, **given)
    assert len(caught) == 1


def test_equations_go_on_from_their_last_amounts(network):
    first = run(network, method="ode")
    whole = run(network, method="ode", t_end=4, points=5)
    rest = run(network, method="ode", initial=first)
    np.testing.assert_allclose(rest["X"][0], whole["X"][0, 2:], rtol=1e-5)


def test_a_seed_that_repeats_the_noise_is_warned_of(network):
    first = run(network, n=3)
    with pytest.warns(UserWarning, match="same seed, 1: .* give another seed"):
        run(network, initial=first)


@pytest.mark.parametrize(
    ("initial", "message"),
    [
        ({"Z": 1}, r'initial\["Z"\]: not a species of turnover; it has X, Y'),
        (3, "takes a result, its path or amounts by species, not int"),
    ],
)
def test_other_initial_states_are_refused(network, initial, message):
    with pytest.raises(ConfigError, match=message):
        run(network, initial=initial)


def test_a_result_without_all_last_states_is_refused(network):
    with pytest.raises(ConfigError, match="has no last amounts of Y"):
        run(network, initial=run(network, n=3, species="X"))
    with pytest.raises(ConfigError, match="is a sweep"):
        run(network, initial=run(network, n=3, sweep={"k": [1, 2]}))


def test_points_of_a_sweep_are_selected_by_value(network):
    swept = run(network, n=4, sweep={"k": [1, 2, 3], "X": [10, 20]})
    assert swept.sel(k=2, X=20)["counts"].dims == ("trajectory", "time", "species")
    counts = swept.counts()
    assert (swept.sel(k=2, X=20)["counts"].to_numpy() == counts[3]).all()
    assert swept.sel(k=2)["counts"].sizes["X"] == 2
    table = run(network, n=4, table={"k": [1, 2, 1]})
    assert (table.sel(k=1)["counts"].to_numpy() == table.counts()[[0, 2]]).all()
    for values, message in (({"k": 7}, "no point with k=7"), ({"z": 1}, "'z' was not swept")):
        with pytest.raises(ConfigError, match=message):
            swept.sel(**values)


def test_distributions_are_given_by_name(network):
    named = run(network, n=5, method="ode", sample={"k": "uniform(0,1)"})
    text = run(network, n=5, method="ode", sample="k=uniform(0,1)")
    assert named.digest() == text.digest()


def test_the_master_equation_takes_an_end_and_points(network):
    by_end, by_times = ts.cme(network, t_end=2, points=3), ts.cme(network, [0, 1, 2])
    assert (by_end.mean("X") == by_times.mean("X")).all()


def test_particles_are_placed_in_several_types():
    lattice = ts.Lattice("two", shape=(4, 4, 4), spacing=1e-8, step=1e-6)
    lattice.add_species("A")
    lattice.add_site_type("a")
    lattice.add_site_type("b", np.arange(64).reshape(4, 4, 4) < 32)
    lattice.place("A", count=3, site_types=["a", "b"])
    assert [one.site_type for one in lattice.placements] == ["a", "b"]
    with pytest.raises(ModelError, match="give site_type= or site_types=, not both"):
        lattice.place("A", count=3, site_type="a", site_types=["b"])


def test_tables_are_written_as_parquet(network, tmp_path):
    result = run(network, n=5, output=tmp_path / "out.h5")
    assert main(["export", str(tmp_path / "out.h5"), "-o", str(tmp_path / "out.parquet")]) == 0
    read = pd.read_parquet(tmp_path / "out.parquet")
    assert (read["X"].to_numpy().reshape(5, 3) == result.counts("X")).all()
