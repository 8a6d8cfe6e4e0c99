"""Likelihoods of PEtab problems by chance: against the forward algorithm."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path

import numpy as np
import pytest
from places import TESTS
from sampling import ordinary

import tauslab as ts
from tauslab.base.errors import ConfigError
from tauslab.cli.main import main

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("petab") is None, reason="the petab extra is not installed"
)
# Immigration at 4 / s, death at 0.2 / s from 10 molecules, each course measured with sd 2.5.
EXACT = json.loads((TESTS / "data" / "ensembles" / "immigration_death_normal.json").read_text())
_MATH = '<math xmlns="http://www.w3.org/1998/Math/MathML">'
_MODEL = f"""<?xml version="1.0" encoding="UTF-8"?>
<sbml xmlns="http://www.sbml.org/sbml/level3/version1/core" level="3" version="1">
<model id="flow"><listOfCompartments><compartment id="v" spatialDimensions="3" size="2" constant="true"/>
</listOfCompartments><listOfSpecies><species id="A" compartment="v" initialConcentration="5"
hasOnlySubstanceUnits="false" boundaryCondition="false" constant="false"/></listOfSpecies>
<listOfParameters><parameter id="k" value="9" constant="true"/><parameter id="f" value="9"
constant="true"/></listOfParameters><listOfReactions>
<reaction id="in" reversible="false" fast="false"><listOfProducts>
<speciesReference species="A" stoichiometry="1" constant="true"/></listOfProducts>
<kineticLaw>{_MATH}<apply><times/><ci>v</ci><ci>f</ci></apply></math></kineticLaw></reaction>
<reaction id="out" reversible="false" fast="false"><listOfReactants>
<speciesReference species="A" stoichiometry="1" constant="true"/></listOfReactants>
<kineticLaw>{_MATH}<apply><times/><ci>v</ci><ci>k</ci><ci>A</ci></apply></math></kineticLaw></reaction>
</listOfReactions></model></sbml>
"""  # noqa: E501
_YAML = """format_version: 1
parameter_file: parameters.tsv
problems:
- condition_files: [conditions.tsv]
  measurement_files: [measurements.tsv]
  observable_files: [observables.tsv]
  sbml_files: [model.xml]
"""
HEAD = (
    "observableId preequilibrationConditionId simulationConditionId replicateId time measurement "
    "noiseParameters"
)


def written(folder: Path, rows: list[str]) -> Path:
    """A problem of the model above with these measurements; "-" is an empty cell."""
    tables = {
        "conditions": "conditionId f\nfed 2",
        "observables": "observableId observableFormula noiseFormula\nX v*A*s noiseParameter1_X",
        "parameters": "parameterId parameterScale lowerBound upperBound nominalValue estimate\n"
        "k log10 1e-3 1e3 0.2 1\nsigma lin 0 10 2.5 1\ns lin 0 10 1 0",
        "measurements": "\n".join([HEAD, *rows]),
    }
    for name, text in tables.items():
        cells = (
            "\t".join("" if cell == "-" else cell for cell in line.split(" "))
            for line in text.splitlines()
        )
        (folder / f"{name}.tsv").write_text("\n".join(cells) + "\n", encoding="utf-8")
    (folder / "model.xml").write_text(_MODEL, encoding="utf-8")
    (folder / "problem.yaml").write_text(_YAML, encoding="utf-8")
    return folder / "problem.yaml"


def measured(*replicates: str) -> list[str]:
    return [f"X - fed {name} {t} {x} sigma" for name in replicates for t, x in EXACT["data"]]


@pytest.mark.parametrize(
    ("n", "repeats", "errors"), ordinary([(2000, 20, 4), (300, 6, 12)], (300, 6, 12))
)
def test_the_likelihood_of_the_forward_algorithm(
    tmp_path: Path, n: int, repeats: int, errors: int
) -> None:
    """In concentrations, with a condition and two replicates; a false alarm below 1e-4 each.

    That is 4 standard errors of 20 estimates or 12 of 6, by Student's t.
    """
    problem = ts.petab.load(written(tmp_path, measured("one", "two")), device="cpu")
    other = problem.scaled({"k": 0.2, "sigma": 1.5})
    vectors = [problem.nominal] * repeats + [other]
    actual = problem.stochastic_log_likelihood(vectors, n=n, seed=5)
    error = actual[:repeats].std(ddof=1)
    assert 0.01 < error * np.sqrt(n / 2000) < 0.2
    # The logarithm of an estimate without bias is too small by half of its variance.
    mean = actual[:repeats].mean() + error**2 / 2
    assert mean == pytest.approx(2 * EXACT["exact"], abs=errors * error / np.sqrt(repeats))
    own = ts.exact_filter(
        _network(), {"time": [t for t, _ in EXACT["data"]], "X": [x for _, x in EXACT["data"]]},
        observe={"X": "normal(sd=1.5)"},
    )  # fmt: skip
    assert actual[-1] == pytest.approx(2 * own.log_likelihood, abs=2 * errors * error)
    # One vector alone, and the first of many: the same bits.
    assert problem.stochastic_log_likelihood(n=n, seed=5) == actual[0]


def _network() -> ts.Network:
    net = ts.Network("flow")
    net.add_species("X", 10)
    net.add_reaction("-> X", rate=4.0)
    net.add_reaction("X ->", rate=0.2)
    return net


def test_rows_of_one_time_are_of_one_course(tmp_path: Path) -> None:
    """Two looks at the same molecules say less than looks at two courses."""
    rows = [f"X - fed {name} 3.0 {x} sigma" for name in ("a", "b") for x in (10, 20)]
    problem = ts.petab.load(written(tmp_path, rows), device="cpu")
    actual = problem.stochastic_log_likelihood(n=20_000, seed=1)
    states, stay = np.arange(80), np.exp(-0.2 * 3.0)  # of 10 molecules, and Poisson of the new
    left = [math.comb(10, i) * stay**i * (1 - stay) ** (10 - i) for i in range(11)]
    mean = 4.0 / 0.2 * (1 - stay)
    new = [math.exp(-mean) * mean**i / math.factorial(i) for i in range(70)]
    weights = np.convolve(left, new)
    looks = [
        np.exp(-0.5 * ((x - states) / 2.5) ** 2) / (2.5 * np.sqrt(2 * np.pi)) for x in (10, 20)
    ]
    exact = 2 * np.log(np.sum(weights * looks[0] * looks[1]))
    assert actual == pytest.approx(exact, abs=0.1)


@pytest.mark.parametrize(
    ("row", "told"),
    [("X fed fed - 1 3 sigma", "preequilibration"), ("X - fed - inf 3 sigma", "time inf")],
)
def test_steady_states_are_refused(tmp_path: Path, row: str, told: str) -> None:
    problem = ts.petab.load(written(tmp_path, [row]), device="cpu")
    assert np.isfinite(problem.log_likelihood())
    with pytest.raises(ConfigError, match=told):
        problem.stochastic_log_likelihood(n=10)


def test_a_unit_of_amounts_is_a_number_of_molecules(tmp_path: Path) -> None:
    """1,000 for each unit: little noise, and the likelihood of the equations."""
    problem = ts.petab.load(written(tmp_path, measured("one")), device="cpu")
    large = problem.stochastic_log_likelihood(n=50, seed=1, amounts=1000)
    assert large == pytest.approx(problem.log_likelihood(), abs=0.3)
    small = problem.stochastic_log_likelihood(n=1000, seed=1, amounts=1)
    assert small == pytest.approx(EXACT["exact"], abs=0.3)
    assert abs(small - large) > 1
    with pytest.raises(ConfigError, match="two ways to count"):
        problem.stochastic_log_likelihood(molecules=True, amounts=1)


def test_nobody_can_explain_it(tmp_path: Path) -> None:
    problem = ts.petab.load(written(tmp_path, measured("one")), device="cpu")
    vectors = [problem.scaled({"k": 0.2, "sigma": 0.0}), problem.nominal]
    actual = problem.stochastic_log_likelihood(vectors, n=50, seed=1)
    assert actual[0] == -np.inf
    assert np.isfinite(actual[1])
    assert problem.stochastic_log_likelihood(np.empty((0, 2))).shape == (0,)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(written(tmp_path, measured("one")))
    command = ["petab", path, "--particles", "2e2", "--seed", "3", "--device", "cpu", "--json"]
    assert main(command) == 0
    actual = json.loads(capsys.readouterr().out)
    problem = ts.petab.load(path, device="cpu")
    assert actual["stochastic_llh"] == [problem.stochastic_log_likelihood(n=200, seed=3)]
    assert actual["llh"] == [problem.log_likelihood()]
    assert main(["petab", path, "--seed", "3"]) == 2
    assert "--particles" in capsys.readouterr().err
