"""Hints at what may be meant, for keywords of models and attributes of results."""

from __future__ import annotations

import copy
import pickle

import pytest

import tauslab as ts
from tauslab.base.unknown import Hinting


@pytest.mark.parametrize(
    ("add", "hint"),
    [
        (lambda net: net.add_reaction("X ->", k=1.0), r"Network.add_reaction: did you mean rate="),
        (lambda net: net.add_reaction("X ->", propensity="X"), "did you mean law="),
        (lambda net: net.add_species("Y", initial_value=1), "did you mean initial="),
        (lambda net: net.add_parameter("k", valeu=1), "did you mean value="),
        (lambda net: net.add_event("e", when="X > 1"), "did you mean trigger="),
    ],
)
def test_methods_of_a_network_name_the_keyword_that_may_be_meant(add, hint):
    net = ts.Network("demo")
    net.add_species("X", 1)
    with pytest.raises(ts.UnknownKeyword, match=hint) as caught:
        add(net)
    assert isinstance(caught.value, TypeError)


def test_what_has_no_place_is_asked_for_by_name():
    with pytest.raises(
        ts.UnknownKeyword, match=r"takes only equation by position; give .* by name: rate=,"
    ):
        ts.Network("demo").add_reaction("X ->", "k")


def test_methods_of_a_lattice_name_the_keyword_that_may_be_meant():
    cube = ts.Lattice("cube", shape=(4, 4, 4), spacing=1e-8)
    for called, meant in (("timestep", "step"), ("latticeSpacing", "spacing"), ("dt", "step")):
        with pytest.raises(
            ts.UnknownKeyword, match=rf"option of ts.Lattice: did you mean {meant}="
        ):
            ts.Lattice("cube", shape=(4, 4, 4), **{called: 1e-8})
    cube.add_species("A")
    with pytest.raises(ts.UnknownKeyword, match=r"Lattice\.add_reaction: did you mean rate="):
        cube.add_reaction("A ->", k=1.0)
    with pytest.raises(ts.UnknownKeyword, match="did you mean site_type="):
        cube.place("A", count=1, site_typ="inside")


def test_models_name_the_method_that_may_be_meant():
    with pytest.raises(AttributeError, match="did you mean add_parameter"):
        ts.Network("demo").add_parameters({"k": 1.0})
    cube = ts.Lattice("cube", shape=(4, 4, 4), spacing=1e-8)
    with pytest.raises(AttributeError, match="did you mean add_site_type"):
        cube.add_region("inside")
    assert copy.deepcopy(cube).shape == pickle.loads(pickle.dumps(cube)).shape == cube.shape


class Found(Hinting):
    """A result with a property that fails by an attribute of its own."""

    def __init__(self):
        self.times = (0, 1)

    def variance(self):
        """Return nothing."""

    to_pandas = to_dask = variance

    @property
    def broken(self):
        """Ask for what is not there."""
        return self.times.shape


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("t", "times"),
        ("time", "times"),
        ("var", "variance"),
        ("vairance", "variance"),
        ("to_df", "to_pandas"),
        ("covariance", "to_pandas"),
    ],
)
def test_a_result_names_the_attribute_that_may_be_meant(name, hint):
    with pytest.raises(AttributeError, match=rf"attribute '{name}': did you mean {hint}\?$"):
        getattr(Found(), name)


def test_other_attributes_fail_as_they_do():
    actual = Found()
    for name, message in (("zzz", "no attribute 'zzz'$"), ("_t", "no attribute '_t'$")):
        with pytest.raises(AttributeError, match=message):
            getattr(actual, name)
    with pytest.raises(AttributeError, match="'tuple' object has no attribute 'shape'"):
        _ = actual.broken
    assert not hasattr(actual, "t")
    for again in (copy.deepcopy(actual), pickle.loads(pickle.dumps(actual))):
        assert again.times == (0, 1)


def test_every_result_has_hints():
    for name in ts.__all__:
        if name.endswith("Result") and name != "AnyResult":
            assert issubclass(getattr(ts, name), Hinting), name


@pytest.mark.parametrize(("name", "hint"), [("load", "open or read"), ("simulate", "run")])
def test_functions_of_other_programs_are_named(name, hint):
    with pytest.raises(AttributeError, match=rf"{name!r}: did you mean {hint}\?"):
        getattr(ts, name)


def test_a_lattice_says_where_numbers_of_particles_are_given():
    cube = ts.Lattice("cube", shape=(4, 4, 4), spacing=1e-8)
    with pytest.raises(ts.ModelError, match="takes names alone; place puts 800 particles into"):
        cube.add_species("A", 800)
    cube.add_species("A")
    cube.add_parameter("k", 1.0)
    cube.parameters["k"] = 3
    assert cube.parameter_values() == {"k": 3.0}
