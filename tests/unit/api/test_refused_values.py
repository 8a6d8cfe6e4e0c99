"""Values of a wrong kind end in one sentence that names them."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tauslab as ts
from tauslab.analysis.filters.chains import Chain
from tauslab.options.ensemble import Options
from tauslab.options.values.texts import read_times


@pytest.fixture
def net() -> ts.Network:
    """Molecules that leave."""
    made = ts.Network("decay")
    made.add_species("X", 9)
    made.add_reaction("X ->", rate=0.5)
    return made


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"record": [None]}, r"record= takes texts in a list or between commas, not \[None\]"),
        ({"until": 3}, r"until=3: a text is expected"),
        ({"times": np.ma.array([1.0, 2.0], mask=[False, True])}, "some of these are masked"),
        (
            {"times": np.array(["2020-01-01"], "datetime64[D]")},
            "not complex ones, dates or durations",
        ),
        ({"set": {"k": 1j}}, "k: values must be real numbers, not complex ones"),
        ({"quiet": "no"}, "quiet='no' is not allowed: True or False"),
        ({"output": ""}, "output= is empty: the name of a file is expected"),
        ({"n": np.array(5.5)}, "n=5.5 is not allowed: a whole number"),
    ],
)
def test_options(net: ts.Network, given: dict[str, Any], said: str) -> None:
    with pytest.raises(ts.ConfigError, match=said):
        ts.run(net, **{"times": [1.0], **given})


def test_whole_numbers_in_arrays_without_axes(net: ts.Network) -> None:
    result = ts.run(net, times=[1.0], n=np.array(5), seed=np.array(3), device="cpu")
    assert (result.n, result.seed) == (5, 3)


def test_what_a_result_is_asked_for(net: ts.Network) -> None:
    result = ts.run(net, times=[1.0], n=5, seed=1, device="cpu")
    with pytest.raises(ts.ConfigError, match="t='1' is not allowed: a sample time is a number"):
        result.histogram("X", t="1")  # type: ignore[arg-type]
    with pytest.raises(ts.ConfigError, match="species are named by texts, not 0"):
        result.counts(0)  # type: ignore[arg-type]
    with pytest.raises(ts.ConfigError, match=r"quantile levels are a number or a list of some"):
        result.quantile("X", [])
    with pytest.raises(ts.ConfigError, match="save takes the name of a file, not None"):
        result.save(None)  # type: ignore[arg-type]


def test_what_a_result_is_asked_for_of_a_wrong_kind(net: ts.Network) -> None:
    result: Any = ts.run(net, times=[1.0], n=5, seed=1, device="cpu")
    law: Any = ts.cme(net, times=[1.0])
    for call, said in [
        (lambda: result[["X"]], r"result\[NAME\] takes one name, not \['X'\]"),
        (lambda: result.histogram("X", bins=[]), r"bins=\[\] is not allowed"),
        (lambda: result.modes("X", alpha="0.1"), "alpha must be a number between 0 and 1"),
        (lambda: result.plot(3), "a name or a list of names is expected, not 3"),
        (lambda: result.plot("X", path=3), "the path of a file is expected, not 3"),
        (lambda: result.plot("X", ax=[None]), "the axes of one matplotlib panel, not list"),
        (lambda: result.to_pandas(names=3), "a name or a list of names is expected, not 3"),
        (lambda: result.points_with(3), "swept values: a mapping such as"),
        (lambda: law.joint(3), "a name or a list of names is expected, not 3"),
        (lambda: law.joint([]), "joint takes one species or more"),
        (lambda: law.states("1"), "t='1' is not one of the 1 times"),
    ]:
        with pytest.raises(ValueError, match=said) as caught:
            call()
        assert isinstance(caught.value, ts.TauslabError)


DATA = {"time": [1.0], "X": [3]}
NOISE = {"X": "normal(sd=1)"}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda net: ts.in_molecules("a.xml"), "in_molecules takes a network, not 'a.xml'; ts.re"),
        (lambda net: ts.in_molecules(net, "2"), r"in_molecules\(model, 2\) is not allowed: a n"),
        (lambda net: ts.with_net_laws("a.xml"), "with_net_laws takes a network, not 'a.xml'"),
        (lambda net: net.remove_reaction(0), "0 is not a reaction of decay"),
        (lambda net: net.remove_event(0), "0 is not a event of decay"),
        (lambda net: net.add_rate(["X"], 1), "the species of a rate rule must be text, not list"),
        (lambda net: net.with_parameters("k"), "values of parameters: a mapping such as"),
        (lambda net: net.parameter_values("k"), "values of parameters: a mapping such as"),
        (lambda net: net.initial_amounts({"k": 1}, "X"), "values by name: a mapping such as"),
        (lambda net: net.initial_amounts({}, {"X": "many"}), "X cannot be 'many': it must be a n"),
        (lambda net: net.write(3), "the path of a file is expected, not 3"),
        (lambda net: ts.run(net, t_end=1, design=3), r'design=: \("sobol", N\) or \("lhs", N\) is'),
        (lambda net: ts.run(net, t_end=1, species=[["X"]]), "species= takes texts in a list or "),
        (lambda net: ts.prepare(net, t_end=1).run(set="k"), "set=: give {NAME: value}, not 'k'"),
        (lambda net: ts.simulator(net, ["X"], 3, t_end=1), "a name or a list of names is expecte"),
        (lambda net: ts.Dask(sbatch=3), "sbatch=: a text is expected, not 3"),
        (lambda net: ts.Dask(tls="ca.pem"), "TLS needs three files"),
        (lambda net: ts.cme(net, [1], initial=3), "initial=: give {NAME: value}, not 3"),
        (lambda net: ts.cme(net, [1], set=3), "set=: give {NAME: value}, not 3"),
        (lambda net: ts.sensitivity(net, ["X"], 3, t=[1]), "outputs=: give names or expressions"),
        (lambda net: ts.sensitivity(net, [["X"]], t=[1]), "parameters= takes texts in a list"),
        (lambda net: ts.sensitivity(net, ["X"], t=[1], output=3), "the path of a file is expecte"),
        (lambda net: ts.expectation(net, ["X"], t=[1], conditions=3), "conditions=: give {NAME:"),
    ],
)
def test_arguments_of_a_wrong_kind(net: ts.Network, call: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        call(net)
    assert isinstance(caught.value, ts.TauslabError)


@pytest.mark.parametrize(
    ("function", "given", "said"),
    [
        (ts.exact_filter, {"tolerance": 0}, "tolerance=0 is not allowed"),
        (ts.particle_filter, {"checkpoint": 3, "seed": 1}, "the path of a file is expected, not 3"),
        (ts.particle_filter, {"set": "k"}, "set=: give {NAME: value}, not 'k'"),
        (ts.particle_filters, {"filters": []}, r"filters=\[\] is not allowed"),
        (ts.pmmh, {"start": {"k": "x"}}, "start k: values must be numbers, not 'x'"),
        (ts.pmmh, {"proposal": "wide"}, "proposal: values must be numbers, not 'wide'"),
        (ts.abc_smc, {"observe": 3}, "observe=: give {NAME: value}, not 3"),
        (ts.abc_smc, {"scale": ["x"]}, r"scale: values must be numbers, not \['x'\]"),
    ],
)
def test_arguments_of_filters(
    net: ts.Network, function: Any, given: dict[str, Any], said: str
) -> None:
    net.add_parameter("k", 1.0)
    priors = {"priors": {"k": "uniform(0,1)"}} if function in (ts.pmmh, ts.abc_smc) else {}
    with pytest.raises(ts.ConfigError, match=said):
        function(net, DATA, **{"observe": NOISE, **priors, **given})


def test_what_draws_are_asked_for() -> None:
    chain: Any = Chain(("k",), np.ones((2, 3, 1)), np.zeros((2, 3)), np.ones((2, 3), bool))
    for call, said in [
        (lambda: chain.quantile("k", "half"), "q='half' is not allowed: numbers from 0 to 1"),
        (lambda: chain.interval("k", "0.9"), "level='0.9' is not allowed: a number between 0"),
        (lambda: chain.draws(1.5), "n=1.5 is not allowed: from 1 to 6, the number of draws"),
        (lambda: chain.to_arviz({"X": [1]}), "data= must be a table with a column time"),
        (lambda: chain.plot(3), "a name or a list of names is expected, not 3"),
    ]:
        with pytest.raises(ts.ConfigError, match=said):
            call()


def test_messages_about_counts(net: ts.Network) -> None:
    net.add_event("out", time=0.5, assignments={"X": "X - 100"})
    with pytest.warns(UserWarning, match="at time 0.5, event out: it sets X to -9"):
        ts.run(net, times=[1.0], n=2, seed=1, device="cpu")
    net.add_species("Y", 1e12)
    with pytest.raises(ts.ModelError, match=r"ts.in_molecules\(model, F\) with a small number F"):
        ts.run(net, times=[1.0], n=2, seed=1, device="cpu")


def test_times_that_look_like_numbers_are_no_file() -> None:
    with pytest.raises(
        ts.ConfigError, match=r"times=.1,2,3.: there is no file of that name; it take"
    ):
        read_times(Path("1,2,3"))


def test_parts_of_a_network(net: ts.Network) -> None:
    with pytest.raises(ts.ModelError, match="event e: assignments: a mapping"):
        net.add_event("e", time=1, assignments=[("X", 1)])  # type: ignore[arg-type]
    with pytest.raises(ts.ModelError, match="species Y: fixed='yes' is not allowed: True or False"):
        net.add_species("Y", fixed="yes")  # type: ignore[arg-type]
    with pytest.raises(ts.ModelError, match="consuming='no' is not allowed: True or False"):
        net.add_reaction("X ->", rate=1, delay=2, consuming="no")  # type: ignore[arg-type]
    assert [*net.species] == ["X"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"set": 3}, "set=: give {NAME: value}, not 3"),
        ({"set": "k=3"}, "set=: give {NAME: value}, not 'k=3'"),
        ({"sample": {"X": 3}}, "sample=: give {NAME: \"uniform(0.1,2)\"}, not {'X': 3}"),
        ({"sample": 3}, 'sample=: give {NAME: "uniform(0.1,2)"}, not 3'),
    ],
)
def test_values_by_name(net: ts.Network, given: dict[str, object], said: str) -> None:
    with pytest.raises(ts.ConfigError) as caught:
        ts.run(net, t_end=1, **given)  # type: ignore[call-overload]
    assert str(caught.value) == said


def test_samples_of_a_lattice_are_counted_in_steps() -> None:
    cube = ts.Lattice("cube", shape=(4, 4, 4), spacing=1e-8)
    with pytest.raises(ts.UnknownKeyword, match=r"points= is no option .*: use count_every=, the"):
        ts.run(cube, t_end=1, points=11)


def test_names_of_parameters_are_no_values(net: ts.Network) -> None:
    said = re.escape("set=: give {NAME: value}, not ['k']")
    with pytest.raises(ts.ConfigError, match=said):
        ts.Ensemble(net, 4, set=["k"])  # type: ignore[arg-type]
    data = {"time": [1.0], "X": [3.0]}
    with pytest.raises(ts.ConfigError, match=said):
        ts.particle_filter(net, data, observe={"X": "normal(sd=1)"}, set=["k"])  # type: ignore[arg-type]
    with pytest.raises(ts.ConfigError, match=said):
        ts.Hybrid("h").add_part("p", net, set=["k"])  # type: ignore[arg-type]
    with pytest.raises(ts.ConfigError, match=re.escape("set=: give {NAME: value}, not ['k']")):
        ts.cme(net, times=[1.0], set=["k"])  # type: ignore[arg-type]
    with pytest.raises(ts.ConfigError, match=re.escape("initial=: give {NAME: value}, not 'X'")):
        ts.cme(net, times=[1.0], initial="X")  # type: ignore[arg-type]


def test_samples_of_a_master_equation_may_be_a_table(net: ts.Network) -> None:
    pandas = pytest.importorskip("pandas")
    law = ts.cme(net, times=[1.0])
    seen = {"X": [4, 5, 6]}
    assert law.log_likelihood(pandas.DataFrame(seen)) == law.log_likelihood(seen)
    with pytest.raises(ts.ConfigError, match="samples= maps species to counts, and is a list"):
        law.log_likelihood([4, 5])  # type: ignore[arg-type]


def test_without_h5py_a_file_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ts.ConfigError, match=r"a\.h5: HDF5 files need h5py, which is not install"):
        Options(times=np.ones(1), output=tmp_path / "a.h5")


def test_names_may_come_from_an_iterator():
    net = ts.Network("two")
    net.add_species("A", 4)
    net.add_species("B", 0)
    net.add_reaction("A -> B", rate=1.0)
    with ts.run(net, n=2, t_end=1, species=iter(["B"]), device="cpu", quiet=True) as result:
        assert result.species == ("B",)
