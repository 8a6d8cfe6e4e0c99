"""PEtab problems: the official test suite, a published objective and gradient, exact solutions."""

from __future__ import annotations

import copy
import importlib.util
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from sampling import ordinary

import tauslab as ts
from tauslab.base.errors import ConfigError, ModelError
from tauslab.cli.main import main

DATA = Path(__file__).resolve().parents[3] / "data" / "petab"
CASES = sorted(path.name for path in DATA.glob("0*"))
needs_petab = pytest.mark.skipif(
    importlib.util.find_spec("petab") is None, reason="the petab extra is not installed"
)


def test_without_petab_the_command_to_install_it_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "petab.v1", None)
    with pytest.raises(ConfigError, match=r"pip install .petab"):
        ts.petab.load(tmp_path / "problem.yaml")


def table(path: Path) -> list[dict[str, str]]:
    head, *rows = path.read_text(encoding="utf-8").splitlines()
    return [dict(zip(head.split("\t"), row.split("\t"), strict=True)) for row in rows]


def agrees(name: str) -> None:
    """A case of the PEtab test suite, within a thousandth of its own tolerances."""
    solution = dict(
        line.split(": ")
        for line in (DATA / name / f"_{name}_solution.yaml").read_text().splitlines()
        if ": " in line
    )
    problem = ts.petab.load(DATA / name / f"_{name}.yaml", device="cpu")
    assert problem.log_likelihood() == pytest.approx(float(solution["llh"]), abs=1e-6)
    assert problem.chi2() == pytest.approx(float(solution["chi2"]), abs=1e-6)
    exact = [float(row["simulation"]) for row in table(DATA / name / "_simulations.tsv")]
    assert problem.simulate().tolist() == pytest.approx(exact, abs=1e-6)
    assert problem.simulation_table()["simulation"].tolist() == problem.simulate().tolist()


@needs_petab
@pytest.mark.parametrize("name", ordinary(["0010", "0015"], "0015"))
def test_a_case_of_the_test_suite(name: str) -> None:
    agrees(name)


@needs_petab
@pytest.mark.validate
@pytest.mark.parametrize("name", CASES)
def test_every_case_of_the_test_suite(name: str) -> None:
    assert len(CASES) == 18
    agrees(name)


# Of the same problem, as pyPESTO's example has them: a vector on its scales, objective, gradient.
VECTOR = [-1.665827601408055, -4.999704893599998, -2.2096987817000167, -1.78600654750001,
          4.9901140088, 4.1977354885, 0.5857552705999998, 0.8189828191999999,
          0.49868440400000047]  # fmt: skip
OBJECTIVE = 149.05022585636098
GRADIENT = [-226.01431847863805, 0.03263295726678998, 0.05074978988074719, -273.3251522968395,
            -4.9353233689552945e-5, 85.33308210815652, -57.82373022138993, 6.47910944243548,
            1.5327970845176904]  # fmt: skip


@needs_petab
def test_a_published_objective_and_gradient() -> None:
    problem = ts.petab.load(DATA / "boehm" / "boehm.yaml", device="cpu")
    assert len(problem.names) == 9
    assert set(problem.scales) == {"log10"}
    assert problem.objective() == pytest.approx(138.221997, abs=2e-6)
    vectors = np.array([VECTOR, problem.nominal])
    both = problem.objective(vectors)
    assert both[0] == pytest.approx(OBJECTIVE, abs=1e-6)
    assert both[1] == problem.objective()  # one at a time or together: the same bits
    assert problem.gradient(VECTOR) == pytest.approx(GRADIENT, rel=2e-6, abs=2e-5)
    assert problem.gradient(vectors).shape == (2, 9)
    assert problem.objective(np.empty((0, 9))).shape == (0,)


@needs_petab
def test_copies_have_the_same_objective() -> None:
    """As pyPESTO copies an objective, and sends it to processes."""
    problem = ts.petab.load(DATA / "boehm" / "boehm.yaml", device="cpu")
    for made in (copy.deepcopy(problem), pickle.loads(pickle.dumps(problem))):
        assert made.objective(VECTOR) == problem.objective(VECTOR)


# ---------------------------------------------------------------- exact solutions

_MATH = '<math xmlns="http://www.w3.org/1998/Math/MathML">'
_MODEL = f"""<?xml version="1.0" encoding="UTF-8"?>
<sbml xmlns="http://www.sbml.org/sbml/level3/version1/core" level="3" version="1">
<model id="flow"><listOfCompartments><compartment id="v" spatialDimensions="3" size="2" constant="true"/>
</listOfCompartments><listOfSpecies><species id="A" compartment="v" initialConcentration="3"
hasOnlySubstanceUnits="false" boundaryCondition="false" constant="false"/></listOfSpecies>
<listOfParameters><parameter id="k" constant="true"/><parameter id="f" value="1" constant="true"/>
</listOfParameters><listOfReactions>
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
TABLES = {
    "conditions": "conditionId f\nfed 6\nstarved 0",
    "observables": "observableId observableFormula noiseFormula\n"
    "a s*A noiseParameter1_a+0.1*s*A\nbig observableParameter1_big*A+v 1",
    "measurements": "observableId preequilibrationConditionId simulationConditionId time "
    "measurement observableParameters noiseParameters\n"
    "a fed starved 0 6 NA sigma\na fed starved 2 1 NA 0.5\na NA fed inf 7 NA sigma\n"
    "big NA fed 1 4 7 NA\nbig fed fed inf 4 s NA",
    "parameters": "parameterId parameterScale lowerBound upperBound nominalValue estimate "
    "objectivePriorType objectivePriorParameters\n"
    "k log10 1e-3 1e3 1.5 1 normal 1;2\ns lin 0 10 2 1 NA NA\nsigma lin 0 1 0.4 0 NA NA",
}


def written(folder: Path, **changed: str) -> Path:
    """The problem of `TABLES`: A' = f - k A, from f / k of condition fed or from 3."""
    for name, text in (TABLES | changed).items():
        if name in TABLES:
            rows = [
                "\t".join("" if cell == "NA" else cell for cell in row.split(" "))
                for row in text.splitlines()
            ]
            (folder / f"{name}.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / "model.xml").write_text(changed.get("model", _MODEL), encoding="utf-8")
    path = folder / "problem.yaml"
    path.write_text(changed.get("yaml", _YAML), encoding="utf-8")
    return path


def exact(k: float, s: float) -> tuple[np.ndarray, np.ndarray]:
    """Values of the observables and their noise."""
    fed = 3 * np.exp(-k) + 6 / k * (1 - np.exp(-k))
    values = [s * 6 / k, s * 6 / k * np.exp(-2 * k), s * 6 / k, 7 * fed + 2, s * 6 / k + 2]
    noise = [0.4 + 0.1 * values[0], 0.5 + 0.1 * values[1], 0.4 + 0.1 * values[2], 1.0, 1.0]
    return np.array(values), np.array(noise)


@needs_petab
def test_steady_states_overrides_and_priors(tmp_path: Path) -> None:
    problem = ts.petab.load(written(tmp_path), device="cpu")
    assert problem.names == ("k", "s")
    assert problem.nominal == pytest.approx([np.log10(1.5), 2.0])
    measured = np.array([6.0, 1.0, 7.0, 4.0, 4.0])
    vectors = np.array([problem.nominal, [0.0, 1.0], [-0.5, 3.0]])
    actual, simulated = problem.log_likelihood(vectors), problem.simulate(vectors)
    for i, (k, s) in enumerate(zip(10 ** vectors[:, 0], vectors[:, 1], strict=True)):
        values, noise = exact(k, s)
        assert simulated[i] == pytest.approx(values, rel=1e-6)
        scores = (measured - values) / noise
        likelihood = np.sum(-0.5 * scores**2 - np.log(np.sqrt(2 * np.pi) * noise))
        assert actual[i] == pytest.approx(likelihood, abs=1e-5)
        prior = -0.5 * ((k - 1) / 2) ** 2 - np.log(2 * np.sqrt(2 * np.pi))
        assert problem.log_prior(vectors)[i] == pytest.approx(prior)
        assert problem.chi2(vectors)[i] == pytest.approx(np.sum(scores**2), rel=1e-5)
    assert problem.log_posterior() == problem.log_likelihood() + problem.log_prior()
    assert problem.objective(prior=True) == -problem.log_posterior()
    # At a bound the difference is one-sided, and still a slope.
    slope = problem.gradient([0.0, 10.0])
    ends = problem.objective([[0.0, 10.0 - 1e-3], [0.0, 10.0]])
    assert slope[1] == pytest.approx((ends[1] - ends[0]) / 1e-3, rel=1e-3)


@needs_petab
def test_what_has_no_steady_state_has_an_infinite_objective(tmp_path: Path) -> None:
    problem = ts.petab.load(written(tmp_path), device="cpu")
    vectors = [[-9.0, 1.0], [0.0, 1.0], [400.0, 1.0]]  # too slow; found; 10^400 is no number
    assert np.isfinite(problem.objective(vectors)).tolist() == [False, True, False]


@needs_petab
@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"yaml": "format_version: 2.0.0\n"}, "Version 2"),
        ({"yaml": "- 1\n"}, "no problem of PEtab"),
        ({"observables": TABLES["observables"].replace("s*A ", "s*A/0 ", 1)}, "has no value"),
        ({"parameters": TABLES["parameters"].replace("1;2", "1;0")}, "parameter k: .* sd is 0"),
        ({"parameters": TABLES["parameters"].replace("normal 1;2", "uniform 2;2")}, "low is 2"),
        ({"parameters": TABLES["parameters"].replace("1.5", "fast")}, "nominalValue of k: 'fast'"),
        ({"measurements": TABLES["measurements"].replace("2 1", "late 1")}, "time of a: 'late'"),
        ({"model": "<sbml/>"}, "problem.yaml"),
        ({"conditions": "conditionId f\nfed 6"}, "starved"),
        ({"observables": "observableId observableFormula noiseFormula\na (A 1"}, "problem.yaml"),
        (
            {"measurements": "observableId simulationConditionId time measurement\na fed -1 1"},
            "problem.yaml",
        ),
        *(({name: ""}, rf"{name}\.tsv is empty, and .*problem\.yaml names it") for name in TABLES),
    ],
)
def test_what_is_refused(tmp_path: Path, changed: dict[str, str], told: str) -> None:
    with pytest.raises((ConfigError, ModelError), match=told):
        ts.petab.load(written(tmp_path, **changed), device="cpu")


@needs_petab
@pytest.mark.parametrize("name", list(TABLES))
def test_a_table_that_is_not_there_is_named(tmp_path: Path, name: str) -> None:
    path = written(tmp_path)
    (tmp_path / f"{name}.tsv").unlink()
    with pytest.raises(ModelError, match=rf"problem\.yaml names .*{name}\.tsv, and there is no"):
        ts.petab.load(path, device="cpu")


@needs_petab
def test_vectors_are_checked(tmp_path: Path) -> None:
    problem = ts.petab.load(written(tmp_path), device="cpu")
    with pytest.raises(ConfigError, match="k, s"):
        problem.objective([1.0])
    with pytest.raises(ConfigError, match="sigma"):
        problem.scaled({"sigma": 1.0})
    with pytest.raises(ConfigError, match="not possible"):
        problem.scaled({"k": 0.0})
    with pytest.raises(ConfigError, match="equations"):
        ts.petab.load(tmp_path / "problem.yaml", method=ts.SSA())
    with pytest.raises(ConfigError, match="numbers"):
        problem.objective("k")  # type: ignore[arg-type]
    for value, message in (("NA", "is missing"), ("-1.5", "is not possible")):
        parameters = TABLES["parameters"].replace(" 1.5 1 ", f" {value} 1 ")
        problem = ts.petab.load(written(tmp_path, parameters=parameters), device="cpu")
        with pytest.raises(ConfigError, match=f"parameter k: .*{message}"):
            problem.objective()
        assert np.isfinite(problem.objective(np.array([0.0, 2.0])))
        assert problem.scaled({"k": 10}).tolist() == [1.0, 2.0]


@needs_petab
def test_a_vector_that_no_model_has_does_not_cost_the_others(tmp_path: Path) -> None:
    conditions = TABLES["conditions"].replace("f", "f A", 1).replace("0", "0 s")
    conditions = conditions.replace("6", "6 NA")
    problem = ts.petab.load(written(tmp_path, conditions=conditions), device="cpu")
    actual = problem.objective([[0.0, 2.0], [0.0, -1.0], [np.nan, 2.0]])
    assert actual[0] == problem.objective([0.0, 2.0])
    assert np.isfinite(actual[0])
    assert actual[1:].tolist() == [np.inf, np.inf]


@needs_petab
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = written(tmp_path), tmp_path / "out.tsv"
    assert main(["petab", str(path), "-o", str(out), "--device", "cpu"]) == 0
    problem = ts.petab.load(path, device="cpu")
    assert f"llh {problem.log_likelihood():.10g}" in capsys.readouterr().out
    assert [float(row["simulation"]) for row in table(out)] == problem.simulate().tolist()
    vectors = tmp_path / "vectors.csv"
    vectors.write_text("k,s\n1.5,2\n1,1\n", encoding="utf-8")
    command = ["petab", str(path), "--parameters", str(vectors), "-o", str(out), "--device", "cpu"]
    assert main(command) == 2  # the file is there
    assert main([*command, "--overwrite", "--json"]) == 0
    actual = json.loads(capsys.readouterr().out)
    assert actual["llh"][0] == problem.log_likelihood()
    assert [float(row["llh"]) for row in table(out)] == actual["llh"]
    for read in (vectors, tmp_path / "measurements.tsv", tmp_path / "parameters.tsv"):
        before = read.read_bytes()
        assert main([*command[:4], "-o", str(read), "--device", "cpu", "--overwrite"]) == 2
        assert read.read_bytes() == before
    capsys.readouterr()
    for text, message in (
        ("k,s\n1\n", "line 2"),
        ("k,s\n1,1,1\n", "line 2"),
        ("k,k\n1,1\n", "twice"),
        ("k,s\n1,1\n1,x\n", "line 3: s is 'x'"),
    ):
        vectors.write_text(text, encoding="utf-8")
        assert main([*command, "--overwrite"]) == 2
        assert message in capsys.readouterr().err
    vectors.write_text("k,other\n1,1\n", encoding="utf-8")
    assert main([*command, "--overwrite"]) == 2
    assert "other" in capsys.readouterr().err
    for option in ("--seed=1", "--molecules", "--amounts=5", "--particles=0"):
        assert main(["petab", str(path), option]) == 2
        assert option.partition("=")[0] in capsys.readouterr().err
