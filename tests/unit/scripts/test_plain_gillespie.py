"""A plain loop of exact simulation with events: known laws, and what it refuses."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest
from places import ROOT

import tauslab as ts

sys.path.insert(0, str(ROOT / "scripts" / "validation"))

from plain_gillespie import NegativeLawError, PlainModel

N = 400
SIGMAS = 4.5  # a mean is farther off once in 147,000 times


def written(network: ts.Network, folder: Path) -> Path:
    path = folder / "model.xml"
    network.to_sbml(path)
    return path


def means(path: Path, times: list[float], factor: float = 1.0) -> dict[str, np.ndarray]:
    model = PlainModel(path, factor)
    counts = np.array([model.run(times, seed) for seed in range(N)], float)
    return dict(zip(model.moved, counts.mean(axis=0).T, strict=True))


def test_poisson_with_a_wash_out(tmp_path: Path) -> None:
    net = ts.Network("wash-out")
    net.add_species("X", 0)
    net.add_reaction("-> X", rate=8)
    net.add_reaction("X ->", rate=0.5)
    net.add_event("wash", trigger="time >= 2", assignments={"X": 0})
    times = [0.0, 1.0, 2.0, 3.0]
    want = np.array([0, 1 - math.exp(-0.5), 0, 1 - math.exp(-0.5)]) * 16
    found = means(written(net, tmp_path), times)["X"]
    assert (np.abs(found - want) <= SIGMAS * np.sqrt(want / N)).all()


def test_a_rate_of_the_time_and_counts_of_a_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The integral of 3 t to t = 2 is 6, of which a unit has two counts."""
    monkeypatch.setattr("plain_gillespie.STEPS", 100)
    net = ts.Network("ramp")
    net.add_species("X", 0)
    net.add_reaction("-> X", law="3 * time")
    found = means(written(net, tmp_path), [0.0, 2.0], 2.0)["X"][1]
    assert abs(found - 12) <= SIGMAS * math.sqrt(12 / N)


SBML = """<?xml version="1.0"?>
<sbml xmlns="http://www.sbml.org/sbml/level3/version1/core" level="3" version="1"><model id="m">
<listOfCompartments><compartment id="c" size="1" constant="true"/></listOfCompartments>
<listOfSpecies>{}</listOfSpecies>
<listOfReactions><reaction id="r" reversible="{}" fast="false">
<listOfReactants><speciesReference species="A" stoichiometry="1" constant="true"/></listOfReactants>
<listOfProducts><speciesReference species="B" stoichiometry="1" constant="true"/></listOfProducts>
<kineticLaw><math xmlns="http://www.w3.org/1998/Math/MathML"><apply><minus/><ci>A</ci>
<apply><times/><cn>3</cn><ci>B</ci></apply></apply></math></kineticLaw></reaction></listOfReactions></model></sbml>"""
SPECIES = (
    '<species id="{}" compartment="c" initialAmount="{}" hasOnlySubstanceUnits="true" '
    'boundaryCondition="false" constant="false"/>'
)


def exchange(folder: Path, reversible: str, molecules: int = 40) -> Path:
    path = folder / "exchange.xml"
    species = SPECIES.format("A", molecules) + SPECIES.format("B", 0)
    path.write_text(SBML.format(species, reversible), encoding="utf-8")
    return path


def test_a_reversible_law_is_split_at_its_minus_sign(tmp_path: Path) -> None:
    """40 molecules, each in B with probability 1 / 4 once all is settled: variance 7.5."""
    path = exchange(tmp_path, "true")
    found = means(path, [0.0, 3.0])["B"][1]
    want = 10 * (1 - math.exp(-12))
    assert abs(found - want) <= SIGMAS * math.sqrt(7.5 / N)
    ours = ts.run(path, n=N, times=[0, 3], seed=1, device="cpu").mean("B")[1]
    assert abs(ours - want) <= SIGMAS * math.sqrt(7.5 / N)


def test_a_law_below_zero_is_told_by_name(tmp_path: Path) -> None:
    """41 molecules: A - 3 B is 1, and then -3."""
    model = PlainModel(exchange(tmp_path, "false", 41), 1.0)
    with pytest.raises(NegativeLawError, match=r"^r is -3 at"):
        model.run([0.0, 1000.0], 1)
