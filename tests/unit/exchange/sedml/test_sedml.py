"""SED-ML in COMBINE archives: what is run, what is written, what is refused."""

from __future__ import annotations

import csv
import importlib.util
import tempfile
import warnings
import zipfile
from pathlib import Path, PurePosixPath

import h5py
import numpy as np
import pytest

from tauslab.base.errors import ConfigError, ModelError, OutputError
from tauslab.cli.main import main
from tauslab.exchange.sedml.archive import places_of_archive
from tauslab.exchange.sedml.execute import (
    EQUATIONS,
    EXACT,
    LEAPS,
    evaluated,
    expression_of_mathml,
    method_of,
    with_aggregates,
)
from tauslab.exchange.sedml.reports import run_archive, table_path
from tauslab.exchange.sedml.targets import target_of
from tauslab.options.methods import ODE, SSA, TauLeaping

needs_sedml = pytest.mark.skipif(
    importlib.util.find_spec("libsedml") is None, reason="the sedml extra is not installed"
)

_MODEL = """<?xml version="1.0" encoding="UTF-8"?>
<sbml xmlns="http://www.sbml.org/sbml/level3/version1/core" level="3" version="1">
<model id="decay" substanceUnits="item">
<listOfCompartments><compartment id="c" spatialDimensions="3" size="2" constant="true"/></listOfCompartments>
<listOfSpecies><species id="X" compartment="c" initialAmount="100" hasOnlySubstanceUnits="false"
boundaryCondition="false" constant="false"/></listOfSpecies>
<listOfParameters><parameter id="k" value="1" constant="true"/></listOfParameters>
<listOfReactions><reaction id="R" reversible="false" fast="false"><listOfReactants>
<speciesReference species="X" stoichiometry="1" constant="true"/></listOfReactants>
<kineticLaw><math xmlns="http://www.w3.org/1998/Math/MathML"><apply><times/><ci>c</ci><ci>k</ci><ci>X</ci>
</apply></math></kineticLaw></reaction></listOfReactions></model></sbml>
"""  # noqa: E501
_AT = "/sbml:sbml/sbml:model/sbml:listOf"
_X = f"{_AT}Species/sbml:species[@id='X']"
_R = f"{_AT}Reactions/sbml:reaction[@id='R']"
_K = f"{_AT}Parameters/sbml:parameter[@id='k']"
_MATH = '<math xmlns="http://www.w3.org/1998/Math/MathML">'
_SPACES = (
    'xmlns="http://sed-ml.org/sed-ml/level1/version4" '
    'xmlns:sbml="http://www.sbml.org/sbml/level3/version1/core" level="1" version="4"'
)


def _sedml(
    tasks: str, *, algorithm: str = "KISAO:0000019", changes: str = "", more: str = ""
) -> str:
    """One model, one time course of 0, 1, 2; reports of the time, X, 2 X and the rate of R."""

    def variable(key: str, target: str) -> str:
        return f'<variable id="{key}" taskReference="main" {target}/>'

    def generator(key: str, variables: str, math: str) -> str:
        return (
            f'<dataGenerator id="{key}"><listOfVariables>{variables}</listOfVariables>'
            f"{_MATH}{math}</math></dataGenerator>"
        )

    x = variable("v", f'target="{_X}"')
    generators = (
        generator("time", variable("t", 'symbol="urn:sedml:symbol:time"'), "<ci>t</ci>")
        + generator("x", x, "<ci>v</ci>")
        + generator("twice", x, "<apply><times/><cn>2</cn><ci>v</ci></apply>")
        + generator(
            "flux", variable("v", f"target=\"{_AT}Reactions/sbml:reaction[@id='R']\""), "<ci>v</ci>"
        )
    )
    sets = "".join(
        f'<dataSet id="set_{key}" label="{key}" dataReference="{key}"/>'
        for key in ("time", "x", "twice", "flux")
    )
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<sedML {_SPACES}>
<listOfModels><model id="m" language="urn:sedml:language:sbml" source="decay.xml">
<listOfChanges>{changes}</listOfChanges></model></listOfModels>
<listOfSimulations><uniformTimeCourse id="course" initialTime="0" outputStartTime="0"
outputEndTime="2" numberOfSteps="2"><algorithm kisaoID="{algorithm}"/></uniformTimeCourse>
</listOfSimulations>
<listOfTasks>{tasks}</listOfTasks>
<listOfDataGenerators>{generators}</listOfDataGenerators>
<listOfOutputs><report id="report" name="all">
<listOfDataSets>{sets}</listOfDataSets></report></listOfOutputs></sedML>
"""


_PLAIN = '<task id="main" modelReference="m" simulationReference="course"/>'
_INNER = '<task id="once" modelReference="m" simulationReference="course"/>'


def _repeated(ranges: str, changes: str = "", reset: str = "true") -> str:
    return (
        f'{_INNER}<repeatedTask id="main" range="r" resetModel="{reset}">'
        f"<listOfRanges>{ranges}</listOfRanges><listOfChanges>{changes}</listOfChanges>"
        '<listOfSubTasks><subTask order="1" task="once"/></listOfSubTasks></repeatedTask>'
    )


_RANGE = '<uniformRange id="r" start="1" end="3" numberOfSteps="2" type="linear"/>'


def _set(target: str, math: str) -> str:
    attributes = f'target="{target}" range="r" modelReference="m"'
    return f"<setValue {attributes}>{_MATH}{math}</math></setValue>"


_SET_K = _set(_K, "<ci>r</ci>")
_C = f"{_AT}Compartments/sbml:compartment[@id='c']"


def _archive(folder: Path, sedml: str, **parts: str) -> Path:
    manifest = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<omexManifest xmlns="http://identifiers.org/combine.specifications/omex-manifest">'
        '<content location="." format="http://identifiers.org/combine.specifications/omex"/>'
        '<content location="./run.sedml" master="true" '
        'format="http://identifiers.org/combine.specifications/sed-ml.level-1.version-4"/>'
        "</omexManifest>"
    )
    files = {"manifest.xml": manifest, "run.sedml": sedml, "decay.xml": _MODEL, **parts}
    path = folder / "work.omex"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def _report(folder: Path) -> dict[str, np.ndarray]:
    with h5py.File(folder / "reports.h5") as file:
        dataset = file["run.sedml/report"]
        labels = [str(text) for text in dataset.attrs["sedmlDataSetLabels"]]
        return dict(zip(labels, dataset[()], strict=True))


_EXACT = 50 * np.exp(-np.array([0.0, 1.0, 2.0]))  # a concentration: 100 in a size of 2


@needs_sedml
def test_a_time_course(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _archive(tmp_path, _sedml(_PLAIN))
    out = tmp_path / "out"
    assert main(["run", str(path), "-o", str(out)]) == 0
    assert "report.csv: 4 data sets of 3 values" in capsys.readouterr().out
    actual = _report(out)
    assert actual["time"].tolist() == [0.0, 1.0, 2.0]
    assert actual["x"] == pytest.approx(_EXACT, rel=1e-5)
    assert actual["twice"] == pytest.approx(2 * _EXACT, rel=1e-5)
    assert actual["flux"] == pytest.approx(2 * _EXACT, rel=1e-5)  # c k X
    with (out / "run.sedml" / "report.csv").open(encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["time", "x", "twice", "flux"]
    assert [float(row[1]) for row in rows[1:]] == actual["x"].tolist()
    assert main(["run", str(path), "-o", str(out)]) != 0  # results are there
    assert main(["run", str(path), "-o", str(out), "--overwrite", "--quiet"]) == 0


@needs_sedml
def test_the_first_version(tmp_path: Path) -> None:
    """Level 1 Version 1 counts steps as points, and has no setValue."""
    text = _sedml(_PLAIN).replace("version4", "version1").replace('version="4"', 'version="1"')
    text = text.replace("http://sed-ml.org/sed-ml/level1/version1", "http://sed-ml.org/")
    path = _archive(tmp_path, text.replace("numberOfSteps", "numberOfPoints"))
    run_archive(path, tmp_path / "out", {})
    assert _report(tmp_path / "out")["x"] == pytest.approx(_EXACT, rel=1e-5)


@needs_sedml
def test_repeats_with_values_of_their_own(tmp_path: Path) -> None:
    sizes = _set(_X, "<cn>50</cn>") + _set(_C, "<ci>r</ci>")  # a concentration in a size of r
    path = _archive(tmp_path, _sedml(_repeated(_RANGE, _SET_K + sizes)))
    run_archive(path, tmp_path / "out", {})
    actual = _report(tmp_path / "out")["x"]
    expected = [50 * np.exp(-k * np.array([0.0, 1.0, 2.0])) for k in (1.0, 2.0, 3.0)]
    assert actual == pytest.approx(np.array(expected), rel=1e-4)


@needs_sedml
def test_repeats_of_draws_are_an_ensemble(tmp_path: Path) -> None:
    """500 trajectories of a death process: a count at t is binomial (100, exp(-t)).

    A mean misses 5 standard errors once in 1.7e6.
    """
    ranges = '<uniformRange id="r" start="1" end="500" numberOfSteps="499" type="linear"/>'
    path = _archive(tmp_path, _sedml(_repeated(ranges), algorithm="KISAO:0000029"))
    run_archive(path, tmp_path / "out", {"seed": 5, "device": "cpu"})
    counts = 2 * _report(tmp_path / "out")["x"]
    assert counts.shape == (500, 3)
    p = np.exp(-1.0)
    assert counts[:, 1].mean() == pytest.approx(100 * p, abs=5 * np.sqrt(100 * p * (1 - p) / 500))
    run_archive(path, tmp_path / "again", {"seed": 5, "device": "cpu"})
    assert np.array_equal(2 * _report(tmp_path / "again")["x"], counts)


@needs_sedml
def test_changes_of_a_model(tmp_path: Path) -> None:
    changes = (
        f'<changeAttribute target="{_K}/@value" newValue="0"/>'
        f'<changeAttribute target="{_X}/@initialAmount" newValue="30"/>'
    )
    run_archive(_archive(tmp_path, _sedml(_PLAIN, changes=changes)), tmp_path / "out", {})
    assert _report(tmp_path / "out")["x"].tolist() == [15.0, 15.0, 15.0]


@needs_sedml
@pytest.mark.parametrize(
    ("sedml", "why"),
    [
        (_sedml(_PLAIN, algorithm="KISAO:0000437"), "the algorithm KISAO:0000437 is none of ours"),
        (_sedml(_repeated(_RANGE, _SET_K, "false")), "resetModel is false"),
        (_sedml(_PLAIN).replace("decay.xml", "../decay.xml"), "is no file of the archive"),
        (_sedml(_PLAIN).replace("decay.xml", "http://a.b/c.xml"), "is no file of the archive"),
        (_sedml(_PLAIN.replace("course", "other")), "there is no simulation 'other'"),
        (_sedml(_PLAIN).replace("[@id='X']", "[@id='Y']"), "has no species 'Y'"),
        (_sedml(_PLAIN).replace('initialTime="0"', 'initialTime="1"'), "only 0 is supported"),
        (
            _sedml(_PLAIN).replace('numberOfSteps="2"', 'numberOfSteps="2000000000"'),
            "are more than",
        ),
        (_sedml(_repeated(_RANGE.replace('Steps="2"', 'Steps="2000000000"'))), "are more than"),
        (_sedml(_repeated(_RANGE.replace('Steps="2"', 'Steps="0"'))), "it has 0 steps"),
        (
            _sedml(_PLAIN).replace('<algorithm kisaoID="KISAO:0000019"/>', ""),
            "no algorithm is given",
        ),
        (
            _sedml(_PLAIN, changes=f'<removeXML target="{_K}"/>'),
            "model m: removeXML is not supported",
        ),
    ],
)
def test_what_is_refused(tmp_path: Path, sedml: str, why: str) -> None:
    with pytest.raises(ConfigError, match=r"run\.sedml") as caught:
        run_archive(_archive(tmp_path, sedml), tmp_path / "out", {})
    assert why in str(caught.value)
    assert not (tmp_path / "out").exists()


@needs_sedml
def test_errors_name_the_place_in_the_archive(tmp_path: Path) -> None:
    broken = _sedml(_PLAIN).replace('source="decay.xml"', 'source="sub/decay.xml"')
    path = _archive(
        tmp_path, broken, **{"sub/decay.xml": _MODEL.replace("<ci>k</ci>", "<ci>z</ci>")}
    )
    with pytest.raises(ModelError, match=r"^sub/decay\.xml.* 'z'") as caught:
        run_archive(path, tmp_path / "out", {})
    assert tempfile.gettempdir() not in str(caught.value)


def test_warnings_name_the_place_in_the_archive(tmp_path: Path) -> None:
    def reading() -> None:
        with places_of_archive(tmp_path):
            warnings.warn(f"{tmp_path}/sub/decay.xml, line 3: odd", stacklevel=1)
            raise ModelError(f"{tmp_path}/sub/decay.xml: wrong")

    def failing() -> None:
        with pytest.raises(ModelError, match=r"^sub/decay\.xml: wrong"):
            reading()

    with pytest.warns(UserWarning, match=r"^sub/decay\.xml, line 3: odd") as message:
        failing()
    assert len(message) == 1


@needs_sedml
def test_bad_archives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "no.omex").write_text("no zip", encoding="utf-8")
    with pytest.raises(ModelError, match="is no COMBINE archive"):
        run_archive(tmp_path / "no.omex", tmp_path / "out", {})
    with pytest.raises(ModelError, match="would lie outside"):
        run_archive(_archive(tmp_path, "", **{"../evil": "x"}), tmp_path / "out", {})
    assert not (tmp_path.parent / "evil").exists()
    path = _archive(tmp_path, "<sedML")
    with pytest.raises(ModelError, match=r"run\.sedml, line"):
        run_archive(path, tmp_path / "out", {})
    assert main(["run", str(path), "-n", "5"]) == 2
    assert "-n is not for" in capsys.readouterr().err
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "reports.h5").touch()
    with pytest.raises(OutputError, match="overwrite=True replaces it"):
        run_archive(path, tmp_path / "out", {})


def test_the_package_is_named_where_it_is_missing(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "libsedml", None)
    with pytest.raises(ConfigError, match=r"pip install .python-libsedml"):
        run_archive(_archive(tmp_path, _sedml(_PLAIN)), tmp_path / "out", {})


def test_methods_of_algorithms() -> None:
    assert all(method_of(key, {}, "here") == (SSA(), None) for key in EXACT)
    assert all(method_of(key, {}, "here") == (TauLeaping(), None) for key in LEAPS)
    message = {"KISAO:0000209": "1e-8", "KISAO:0000211": "1e-10", "KISAO:0000488": "7"}
    for key in EQUATIONS:
        assert method_of(key, message, "here") == (ODE(rtol=1e-8, atol=1e-10), 7)
    with pytest.raises(ConfigError, match="parameter KISAO:0000000 is not known"):
        method_of("KISAO:0000019", {"KISAO:0000000": "1"}, "here")
    copasi = {  # as COPASI 4.48 writes its LSODA and RADAU5
        "KISAO:0000209": "1e-06", "KISAO:0000211": "1e-12", "KISAO:0000216": "false",
        "KISAO:0000415": "100000", "KISAO:0000559": "0.001",
    }  # fmt: skip
    for key in ("KISAO:0000560", "KISAO:0000304"):
        assert method_of(key, copasi, "here") == (ODE(rtol=1e-6, atol=1e-12), None)
    with pytest.raises(ConfigError, match="the algorithm KISAO:0000561 is none of ours"):
        method_of("KISAO:0000561", {"KISAO:0000203": "800"}, "here")


@pytest.mark.parametrize(
    ("function", "value"), [("min", -2.0), ("max", 5.0), ("sum", 7.0), ("product", -30.0)]
)
def test_aggregates_are_of_all_values(function: str, value: float) -> None:
    """As in ``x / max(x)``, over repeats and times."""
    symbol = f'<csymbol encoding="text" definitionURL="http://sed-ml.org/#{function}"> f </csymbol>'
    math = f"{_MATH}<apply><divide/><ci> x </ci><apply>{symbol}<ci> x </ci></apply></apply></math>"
    known = {"x": np.array([[1.0, -2.0], [5.0, 3.0]]), f"{function}_of_x": 9.0}
    text, more = with_aggregates(math, known)
    assert more == {f"{function}_of_x_": value}
    actual = evaluated(expression_of_mathml(text, "here"), {**known, **more}, "here")
    assert (actual == known["x"] / value).all()


def test_aggregates_of_formulas_are_refused() -> None:
    symbol = '<csymbol encoding="text" definitionURL="http://sed-ml.org/#max"> max </csymbol>'
    inside = "<apply><times/><cn> 2 </cn><ci> x </ci></apply>"
    text, more = with_aggregates(f"{_MATH}<apply>{symbol}{inside}</apply></math>", {"x": 1.0})
    assert not more
    with pytest.raises(ConfigError, match="its math uses 'max'"):
        expression_of_mathml(text, "here")


def test_targets() -> None:
    law = f"{_AT}Reactions/sbml:reaction[@id='R']/sbml:kineticLaw/sbml:listOfParameters"
    actual = target_of(f'{law}/sbml:parameter[@id="k"]/@value', "here")
    assert (actual.kind, actual.name, actual.reaction, actual.attribute) == (
        "parameter",
        "k",
        "R",
        "value",
    )
    with pytest.raises(ConfigError, match="names no species"):
        target_of("/sbml:sbml/sbml:model", "here")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a", "../a", "a\\b", "a\0"])
def test_a_table_stays_in_its_folder(tmp_path: Path, name: str) -> None:
    place = PurePosixPath("run.sedml")
    assert table_path(tmp_path, place, "a (1)") == tmp_path / "run.sedml" / "a (1).csv"
    with pytest.raises(ConfigError, match="has no plain file name"):
        table_path(tmp_path, place, name)
