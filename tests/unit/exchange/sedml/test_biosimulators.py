"""BioSimulators' interface: what is written, what the log says, exit codes, the specification."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from tauslab.cli.biosimulators import main
from tauslab.cli.main import main as run_command
from tauslab.exchange.sedml.execute import EQUATIONS, EXACT, LEAPS

ROOT = Path(__file__).resolve().parents[4]
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("libsedml") is None, reason="the sedml extra is not installed"
)

_spec = importlib.util.spec_from_file_location(
    "sedml_cases", Path(__file__).with_name("test_sedml.py")
)
assert _spec is not None
assert _spec.loader is not None
cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cases)


def run(folder: Path, sedml: str, code: int, **parts: str) -> dict:
    """Run an archive; its log."""
    archive = cases._archive(folder, sedml, **parts)
    assert main(["-i", str(archive), "-o", str(folder / "out"), "--seed", "3", "-q"]) == code
    log = json.loads((folder / "out" / "log.yml").read_text())
    assert log["status"] == ("FAILED" if code else "SUCCEEDED")
    assert (log["exception"] is None) == (code == 0)
    assert log["duration"] > 0
    return log


def statuses(parts: list[dict]) -> dict[str, str]:
    return {part["id"]: part["status"] for part in parts}


_PLOT = (
    '<plot2D id="plot"><listOfCurves><curve id="c" xDataReference="time" yDataReference="x" '
    'logX="false" logY="false"/></listOfCurves></plot2D>'
)


def test_an_archive_that_runs(tmp_path: Path) -> None:
    sedml = cases._sedml(cases._PLAIN).replace("</listOfOutputs>", f"{_PLOT}</listOfOutputs>")
    (document,) = run(tmp_path, sedml, 0)["sedDocuments"]
    assert (document["location"], document["status"]) == ("run.sedml", "SUCCEEDED")
    (task,) = document["tasks"]
    assert (task["id"], task["status"], task["algorithm"]) == ("main", "SUCCEEDED", "KISAO_0000087")
    report, plot = document["outputs"]
    assert set(statuses(report["dataSets"]).values()) == {"SUCCEEDED"}
    assert (plot["id"], plot["status"]) == ("plot", "SKIPPED")
    assert statuses(plot["curves"]) == {"c": "SKIPPED"}
    with h5py.File(tmp_path / "out" / "reports.h5") as file:
        assert file["run.sedml"].attrs["combineArchiveLocation"] == "run.sedml"
        dataset = file["run.sedml/report"]
        assert dataset.shape == (4, 3)
        assert dataset.attrs["_type"] == "SedReport"
        assert dataset.attrs["uri"] == "run.sedml/report"
        assert dataset.attrs["sedmlDataSetIds"][0] == "set_time"
        assert file["run.sedml/plot"].attrs["_type"] == "SedPlot2D"
        assert dataset[1] == pytest.approx(cases._EXACT, rel=1e-5)


def test_what_fails_is_logged_and_the_rest_is_run(tmp_path: Path) -> None:
    """A second task without a model, and a report of it."""
    sedml = (
        cases._sedml(
            cases._PLAIN + '<task id="lost" modelReference="none" simulationReference="course"/>'
        )
        .replace(
            "</listOfDataGenerators>",
            '<dataGenerator id="y"><listOfVariables><variable id="v" taskReference="lost" '
            f'target="{cases._X}"/></listOfVariables>{cases._MATH}<ci>v</ci></math></dataGenerator>'
            "</listOfDataGenerators>",
        )
        .replace(
            "</listOfOutputs>",
            '<report id="second"><listOfDataSets><dataSet id="a" label="a" dataReference="x"/>'
            '<dataSet id="b" label="b" dataReference="y"/></listOfDataSets></report>'
            "</listOfOutputs>",
        )
    )
    (document,) = run(tmp_path, sedml, 1)["sedDocuments"]
    assert statuses(document["tasks"]) == {"main": "SUCCEEDED", "lost": "FAILED"}
    assert statuses(document["outputs"]) == {"report": "SUCCEEDED", "second": "FAILED"}
    assert statuses(document["outputs"][1]["dataSets"]) == {"a": "SUCCEEDED", "b": "FAILED"}
    assert "is no file of the archive" in document["tasks"][1]["exception"]["message"]
    with h5py.File(tmp_path / "out" / "reports.h5") as file:
        assert list(file["run.sedml"]) == ["report"]


def test_draws_and_their_seed(tmp_path: Path) -> None:
    sedml = cases._sedml(cases._PLAIN, algorithm="KISAO_0000029")  # as BioSimulators spells it
    (document,) = run(tmp_path, sedml, 0)["sedDocuments"]
    (task,) = document["tasks"]
    assert task["algorithm"] == "KISAO_0000029"
    assert task["simulatorDetails"] == [{"key": "seed", "value": 3}]
    with h5py.File(tmp_path / "out" / "reports.h5") as file:
        counts = 2 * file["run.sedml/report"][1]
    assert (counts == np.round(counts)).all()


def test_archives_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = run(tmp_path, "<sedML", 1)
    assert log["sedDocuments"][0]["status"] == "FAILED"
    assert not (tmp_path / "out" / "reports.h5").exists()
    assert "run.sedml, line" in capsys.readouterr().err
    assert main(["-i", str(tmp_path / "none.omex"), "-o", str(tmp_path / "out")]) == 1
    assert json.loads((tmp_path / "out" / "log.yml").read_text())["status"] == "FAILED"
    with pytest.raises(SystemExit) as left:
        main([])
    assert left.value.code == 2


def test_no_report_of_an_earlier_run_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path, cases._sedml(cases._PLAIN), 0)
    report = tmp_path / "out" / "run.sedml" / "report.csv"
    assert report.exists()
    archive = tmp_path / "work.omex"
    assert main(["-i", str(archive), "-o", str(tmp_path / "out"), "--seed", "-1"]) == 1
    assert not report.exists()
    assert "--seed -1 is not allowed" in capsys.readouterr().err


def test_the_specification_has_every_algorithm() -> None:
    path = ROOT / "scripts" / "container" / "specification.py"
    spec = importlib.util.spec_from_file_location("specification", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    message = json.loads(json.dumps(module.specification()))
    keys = [one["kisaoId"]["id"].replace("_", ":") for one in message["algorithms"]]
    assert keys == [*EXACT, *LEAPS, *EQUATIONS]


@pytest.mark.parametrize("option", ["-n 5", "--rtol 1e-9", "--precision single", "--writer parts"])
def test_a_run_of_an_archive_ignores_no_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    archive = cases._archive(tmp_path, cases._sedml(cases._PLAIN))
    assert run_command(["run", str(archive), "-o", str(tmp_path / "out"), *option.split()]) == 2
    assert f"tauslab: {option.split(maxsplit=1)[0]} is not for" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
