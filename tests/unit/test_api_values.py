"""What calls from Python may be given, and what is refused in one sentence."""

from __future__ import annotations

import numpy as np
import pytest

import tauslab as ts
from tauslab.model.errors import ConfigError


@pytest.fixture
def decay():
    network = ts.Network("decay")
    network.add_species("A", 10)
    network.add_reaction("A ->", rate=1.0)
    return network


def test_whole_numbers_may_be_floats(decay):
    assert ts.run(decay, n=1e1, times=[0, 1], seed=1, device="cpu").n == 10
    assert ts.run(decay, n=np.float64(3), times=[0, 1], seed=1, device="cpu").n == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 1.5}, "-n 1.5 is not allowed"),
        ({"n": "many"}, "-n many is not allowed"),
        ({"t_end": "late"}, "--t-end 'late' is not allowed"),
        ({"set": {"A": "few"}}, "A: values must be numbers, not 'few'"),
        ({"set": {"A": [1, 2, 3]}}, r"one per trajectory \(2\)"),
    ],
)
def test_what_is_no_number_is_refused(decay, options, message):
    with pytest.raises(ConfigError, match=message):
        ts.run(decay, **{"n": 2, "t_end": 1, "device": "cpu", **options})


def test_messages_name_a_result_that_has_no_file(decay):
    result = ts.run(decay, n=2, times=[0, 1], seed=1, device="cpu")
    assert repr(result).startswith("<Result in memory: ssa, 2 trajectories")
    with pytest.raises(ConfigError, match="'B' is not recorded in the result in memory; it has A"):
        result.mean("B")


def test_a_plot_without_names_shows_what_changes(decay):
    decay.add_species("Still", 5)
    for record in ("trajectories", "statistics"):
        result = ts.run(decay, n=4, times=[0, 1], seed=1, device="cpu", record=record)
        assert [axes.get_ylabel() for axes in result.plot().axes] == ["A (molecules)"]
        both = result.plot(["Still", "A"], kind="mean")
        assert [axes.get_ylabel()[:1] for axes in both.axes] == ["S", "A"]
