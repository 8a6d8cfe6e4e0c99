"""Values of a wrong kind end in one sentence that names them."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tauslab as ts
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
        ({"record": [None]}, "record= takes texts such as 'statistics', not None"),
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
    said = re.escape("parameters=: give {NAME: value}, not ['k']")
    with pytest.raises(ts.ConfigError, match=said):
        ts.Ensemble(net, 4, parameters=["k"])  # type: ignore[arg-type]
    data = {"time": [1.0], "X": [3.0]}
    with pytest.raises(ts.ConfigError, match=said):
        ts.particle_filter(net, data, observe={"X": "normal(sd=1)"}, parameters=["k"])  # type: ignore[arg-type]
    with pytest.raises(ts.ConfigError, match=said):
        ts.Hybrid("h").add_part("p", net, parameters=["k"])  # type: ignore[arg-type]
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
