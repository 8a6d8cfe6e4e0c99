"""Results of analyses that are arrays: each kind is saved, opened, told, drawn and exported."""

from __future__ import annotations

import pickle

import pytest

import tauslab as ts
from tauslab.cli.main import main

DATA = {"time": [1.0, 2.0], "X": [11.0, 9.0]}
LATER = {"time": [5.0, 10.0, 15.0], "X": [17.0, 24.0, 19.0]}
NOISE = {"observe": {"X": "normal(2)"}, "device": "cpu"}


def _unbounded():
    """A fit to molecules that all are gone: nothing bounds how fast they went."""
    net = ts.Network("gone")
    net.add_species("X", 10)
    net.add_parameter("k", 4.0)
    net.add_reaction("X ->", rate="k")
    with pytest.warns(UserWarning, match="did not converge to a maximum"):
        return ts.fit(net, {"time": [1.0], "X": [0]}, n=20, swarm=50, iterations=2, seed=1, **NOISE)


@pytest.fixture(scope="module")
def found():
    net = ts.Network("births")
    net.add_species("X", 10)
    net.add_parameter("k", 4.0)
    net.add_rule("twice", "2 * X")
    net.add_reaction("-> X", rate="k")
    net.add_reaction("X ->", rate=0.2)
    walk = {"n": 5, "steps": 4, "warm_up": 2, "seed": 0, **NOISE}
    return {
        "filter": ts.particle_filter(net, DATA, n=20, seed=1, **NOISE),
        "exact": ts.exact_filter(net, DATA, observe=NOISE["observe"]),
        "filters": ts.particle_filters(net, DATA, filters=3, n=20, seed=1, **NOISE),
        "chain": ts.pmmh(net, DATA, {"k": "uniform(1,8)"}, **walk),
        "chains": ts.pmmh(net, DATA, {"k": "uniform(1,8)"}, chains=2, **walk),
        "abc": ts.abc_smc(
            net, DATA, {"k": "uniform(1,8)"}, n=9, generations=2, device="cpu", seed=0
        ),
        "smc2": ts.smc2(net, DATA, {"k": "uniform(1,8)"}, draws=9, n=5, **NOISE, seed=0),
        "fit": ts.fit(net, LATER, n=20, swarm=50, iterations=5, seed=1, **NOISE),
        "unbounded": _unbounded(),
        "law": ts.cme(net, [1.0, 2.0]),
    }


KINDS = ["filter", "exact", "filters", "chain", "chains", "abc", "smc2", "fit", "unbounded", "law"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_with_other_contents_is_replaced_only_on_request(found, kind, tmp_path):
    one, path = found[kind], tmp_path / "one.h5"
    other = found["exact" if kind == "law" else "law"]
    other.save(path)
    with pytest.raises(ts.OutputError, match=r"one\.h5 exists; overwrite=True replaces it"):
        one.save(path)
    assert ts.open(path).digest() == other.digest()
    assert one.save(path, overwrite=True) == path
    assert one.save(path) == path  # as another rank does
    assert ts.open(path).digest() == one.digest()


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_the_result(found, kind, tmp_path, capsys):
    one, path = found[kind], tmp_path / "one.h5"
    one.save(path)
    again = ts.open(path)
    assert type(again) is type(one)
    assert repr(again) == repr(one)
    assert again.facts() == one.facts()
    assert again.digest() == one.digest()
    assert main(["digest", str(path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"{one.digest()} total"
    assert main(["info", str(path)]) == 0
    assert capsys.readouterr().out == "\n".join(one.lines()) + "\n"
    for what in one._tables():
        assert main(["export", str(path), "-o", "-", "--what", what]) == 0
    assert main(["export", str(path), "-o", "-", "--what", "moons"]) == 2
    assert f"has the tables {', '.join(one._tables())}" in capsys.readouterr().err
    page = again._repr_html_()
    assert one.lines()[-1] in page.replace("&gt;", ">")
    assert ">method</th><td" in page
    assert again != one
    assert len({one, again}) == 2
    pytest.importorskip("matplotlib")
    assert main(["plot", str(path)]) == 0
    assert path.with_suffix(".png").is_file()
    with pytest.raises(ts.InputFileError, match="no result of weighted_ensemble"):
        ts.RareResult.load(path)


def test_a_law_from_a_file_answers_what_was_not_stored(found, tmp_path):
    law, path = found["law"], tmp_path / "law.h5"
    law.save(path)
    again = ts.open(path)
    for name in ("twice > 20", "X == 10 && twice < 30"):
        assert again.probability(name).tolist() == law.probability(name).tolist()
    assert again.covariance("X", "twice").tolist() == law.covariance("X", "twice").tolist()
    assert again.log_likelihood({"X": [9, 11]}) == law.log_likelihood({"X": [9, 11]})


@pytest.mark.parametrize("kind", ["filter", "filters", "chain", "fit", "law"])
def test_other_processes_get_the_result(found, kind, tmp_path):
    one, path = found[kind], tmp_path / "one.h5"
    one.save(path)
    for sent in (one, ts.open(path)):
        assert pickle.loads(pickle.dumps(sent)).digest() == one.digest()


def test_an_exact_filter_tells_its_bound_and_of_no_particles(found):
    message = "\n".join(found["exact"].lines())
    assert f"too small by {found['exact'].bound:.2g} at most" in message
    assert "particles" not in message
    assert found["exact"].facts()["bound"] == found["exact"].bound
    assert "bound" not in found["filter"].facts()


def test_results_of_runs_have_the_same_names_for_the_same_things():
    both = {
        "complete", "counts", "grid", "keys", "mean", "method", "name", "plot", "profile",
        "quantile", "save", "seed", "std", "swept", "to_pandas", "to_xarray", "variance",
    }  # fmt: skip
    assert both <= {*dir(ts.Result)}
    assert both <= {*dir(ts.LatticeResult)}
