"""The example lattices have the numbers of the models that they are named after."""

from __future__ import annotations

import importlib.util
import json

import numpy as np
import pytest
from places import ROOT

from tauslab.formats.read import read
from tauslab.kernels.lattice.lowering import lower_lattice
from tauslab.model.lattice.values import lattice_values
from tauslab.model.network.equations import parse_equation

EXAMPLES = ROOT / "examples"


@pytest.fixture
def reference(data):
    return lambda name: json.loads((data / "rdme" / f"{name}.json").read_text())


@pytest.fixture(scope="module")
def lac():
    spec = importlib.util.spec_from_file_location("lac", EXAMPLES / "lac_two_state.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.build()


def check_reactions(lattice, expected):
    """Equation, places and constant of a site: k, k N, k / N with N sites in the lattice."""
    values = lattice_values(lattice)
    sites = np.prod(lattice.shape)
    actual = {}
    for reaction, rates in zip(lattice.reactions, values.rates, strict=True):
        where = [n for n, rate in zip(lattice.type_names, rates, strict=True) if rate > 0]
        key = (frozenset(reaction.reactants.items()), frozenset(reaction.products.items()))
        actual[key] = (where, rates.max())
    for entry in expected:
        reactants, products = parse_equation(entry["eq"], "reference")
        key = (frozenset(reactants.items()), frozenset(products.items()))
        where, rate = actual.pop(key)
        region = entry["region"]
        names = list(lattice.type_names) if region == "default" else region.split(" and ")
        assert sorted(where) == sorted(names), entry
        order = sum(reactants.values())
        assert rate == pytest.approx(entry["k"] * float(sites) ** (order - 1)), entry
    assert actual == {}


def placed(lattice):
    values = lattice_values(lattice)
    return {
        (lattice.type_names[p.site_type], lattice.species[p.species]): p.count
        for p in values.placed
    }


def expected_start(reference):
    return {
        (region, name): count
        for region, counts in reference["initial"].items()
        for name, count in counts.items()
        if count
    }


def test_minde(reference):
    facts = reference("minde")
    lattice = read(EXAMPLES / "minde.toml")
    assert list(lattice.shape[::-1]) == facts["lattice"]["sites"]
    assert (lattice.spacing, lattice.step) == (facts["lattice"]["spacing_m"], facts["timestep_s"])
    check_reactions(lattice, facts["reactions"])
    assert placed(lattice) == expected_start(facts)
    values = lattice_values(lattice)
    radius, cylinder = 0.436e-6, 3e-6
    volume = np.pi * radius**2 * cylinder + 4 / 3 * np.pi * radius**3
    assert values.sites_of[1] * lattice.site_volume == pytest.approx(volume, rel=0.01)
    still, moving = [2, 4], [0, 1, 3]
    assert values.diffusion[0].max() == values.diffusion[:, 0].max() == 0
    assert (values.diffusion[1:, 1:, moving] == 2.5e-12).all()
    assert (values.diffusion[1:, 1:, still] == [[[0, 0], [0, 0]], [[0, 0], [1e-14, 1e-14]]]).all()
    assert lower_lattice(lattice).diffusion_substeps == 1


def test_michaelis_menten_cube(reference):
    facts = reference("michaelis_menten_rdme")
    lattice = read(EXAMPLES / "michaelis_menten_cube.toml")
    assert list(lattice.shape) == facts["lattice"]["sites"]
    assert lattice.spacing == facts["lattice"]["spacing_m"]
    check_reactions(lattice, facts["reactions"])
    start = {name: count for (_, name), count in placed(lattice).items()}
    assert start == {n: c for n, c in facts["initial"]["default"].items() if c}
    assert (lattice_values(lattice).diffusion == 1e-12).all()


def test_isomerisation_ball(reference):
    """A ball of 20 sites around a site: sites whose numbers are within 20 of [32, 32, 32]."""
    facts = reference("isomerisation_sphere")
    lattice = read(EXAMPLES / "isomerisation_ball.toml")
    check_reactions(lattice, facts["reactions"])
    assert placed(lattice) == {("cytoplasm", "A"): 1000}
    offsets = np.indices(lattice.shape) - 32
    ball = (offsets**2).sum(axis=0) <= 400
    assert ((lattice.site_array() == 1) == ball).all()
    values = lattice_values(lattice)
    assert (values.diffusion[1, 1] == 1e-14).all()
    assert values.diffusion.sum() == pytest.approx(2e-14)


@pytest.mark.validate
def test_lac_two_state(reference, lac):
    facts = reference("lac_two_state_rdme")
    assert list(lac.shape[::-1]) == facts["lattice"]["sites"]
    check_reactions(lac, facts["reactions"])
    assert placed(lac) == expected_start(facts)
    values = lattice_values(lac)
    sites = dict(zip(lac.type_names, values.sites_of.tolist(), strict=True))
    inner = sites["cytoplasm"] + sites["obstacle"]
    crowded = sum(o["volume_percent"] for o in facts["obstacles_cytoplasm"]) / 100
    assert sites["obstacle"] / inner == pytest.approx(crowded, abs=1e-3)
    assert values.diffusion[3].max() == values.diffusion[:, 3].max() == 0
    assert lower_lattice(lac).diffusion_substeps == 2
