"""Long filters and fits say how long they take, as soon as their pace shows it."""

import warnings

import pytest

import tauslab as ts
from tauslab.runner.ensemble.choices import outlook

HOW = {"observe": {"X": "normal(sd=2)"}, "n": 10, "seed": 1, "device": "cpu"}
DATA = {"time": [0.5, 1.0, 2.0], "X": [60, 38, 12]}


def decay() -> ts.Network:
    net = ts.Network("decay")
    net.add_species("X", 100)
    net.add_parameter("k", 1.0)
    net.add_reaction("X ->", rate="k")
    return net


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlook, "_PACE_SECONDS", 0.0)
    monkeypatch.setattr(outlook, "_LONG_CALL_SECONDS", 0.0)


def test_a_long_filter_says_once_how_long_it_takes() -> None:
    with pytest.warns(UserWarning, match="decay: the filter takes about") as message:
        ts.particle_filter(decay(), DATA, **HOW)
    assert len(message) == 1


def test_a_long_fit_says_how_long_its_search_takes() -> None:
    with warnings.catch_warnings(record=True) as message:
        warnings.simplefilter("always")
        ts.fit(decay(), DATA, swarm=20, iterations=2, **HOW)
    assert sum("the search of the fit takes about" in str(one.message) for one in message) == 1


def test_long_chains_say_how_long_they_take() -> None:
    with warnings.catch_warnings(record=True) as message:
        warnings.simplefilter("always")
        ts.pmmh(decay(), DATA, {"k": "loguniform(0.1,10)"}, steps=4, warm_up=4, chains=2, **HOW)
    assert sum("ts.pmmh takes about" in str(one.message) for one in message) == 1


def test_the_pace_of_a_call_that_goes_on_is_of_the_rest() -> None:
    pace = outlook.Pace("it", quiet=None, announces=True)
    pace.before = 0.5
    pace.reached(0.5)  # nothing yet
    with pytest.warns(UserWarning, match="it takes about"):
        pace.reached(0.75)
