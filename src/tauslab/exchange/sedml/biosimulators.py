"""Archives as BioSimulators runs them: what can be run is run, and a log says what became of it.

The layout is that of BioSimulators' conventions: ``reports.h5``, and ``log.yml``, which is written
as JSON, a part of YAML.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError
from tauslab.base.files.drafts import write_whole
from tauslab.exchange.sedml.archive import places_of_archive, unpack
from tauslab.exchange.sedml.document import OutputData, SedmlDocument, read_experiment
from tauslab.exchange.sedml.execute import Runner
from tauslab.exchange.sedml.reports import generated, table_path, variables_of_tasks, write_outputs

LOG = "log.yml"
_OK, _FAILED, _SKIPPED, _QUEUED = "SUCCEEDED", "FAILED", "SKIPPED", "QUEUED"
_NO_PICTURE = "tauslab draws no plots; the data of their curves are in reports.h5"

Entry: TypeAlias = dict[str, Any]
Computed: TypeAlias = tuple[PurePosixPath, str, OutputData, list[FloatArray]]


def execute(path: Path, folder: Path, options: Mapping[str, Any]) -> list[str]:
    """Run an archive; write ``reports.h5``, a CSV file of each report, and ``log.yml``.

    Parameters
    ----------
    path
        The archive, ``.omex``.
    folder
        Where results go; what is there under these names is replaced.
    options
        Of `tauslab.run`, for every task: ``device``, ``seed``.

    Returns
    -------
    What failed, a line for each; nothing where all went well.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = _entry(sedDocuments=[])
    computed: list[Computed] = []
    with _logged(log), tempfile.TemporaryDirectory() as unpacked:
        root = Path(unpacked)
        for place in unpack(path, root):
            document = _entry(location=str(place), tasks=[], outputs=[])
            log["sedDocuments"].append(document)
            with _logged(document), places_of_archive(root):
                requested = _Document(place, root, options)
                for name in requested.outputs:  # of an earlier run
                    table_path(folder, place, name).unlink(missing_ok=True)
                computed += requested.run(document)
        (folder / "reports.h5").unlink(missing_ok=True)
        if computed:
            write_outputs(folder, computed)
        if any(document["status"] == _FAILED for document in log["sedDocuments"]):
            raise ConfigError(f"{path}: an experiment failed")
    text = json.dumps(log, indent=2, ensure_ascii=True)
    write_whole(folder / LOG, text + "\n")
    return list(_failures(log))


def _entry(**more: Any) -> Entry:
    """Entry of a log for the archive, or for a part of it."""
    common = {"status": _QUEUED, "exception": None, "skipReason": None, "output": None}
    return common | {"duration": None} | more


@contextmanager
def _logged(entry: Entry) -> Iterator[None]:
    """Note how a part went; its exception ends in this block."""
    start = time.monotonic()
    try:
        yield
        entry["status"] = _OK if entry["status"] == _QUEUED else entry["status"]
    except Exception as error:  # noqa: BLE001 - a log tells any
        _fail(entry, error)
    finally:
        entry["duration"] = time.monotonic() - start


def _fail(entry: Entry, error: Exception) -> None:
    entry["status"] = _FAILED
    entry["exception"] = {"type": type(error).__name__, "message": str(error)}


def _skip(entry: Entry, why: str) -> None:
    entry["status"] = _SKIPPED
    entry["skipReason"] = {"type": "NotImplementedError", "message": why}


def _failures(entry: Entry) -> Iterator[str]:
    """Messages of the parts that failed, those of the whole where no part did."""
    parts = [part for key in ("sedDocuments", "tasks", "outputs") for part in entry.get(key) or ()]
    inner = [line for part in parts for line in _failures(part)]
    if inner:
        yield from dict.fromkeys(inner)
    elif entry["status"] == _FAILED:
        yield str(entry["exception"]["message"])


class _Document:
    """An experiment whose tasks and outputs succeed or fail each for itself."""

    def __init__(self, place: PurePosixPath, root: Path, options: Mapping[str, Any]) -> None:
        self._experiment: SedmlDocument = read_experiment(root / place, str(place))
        self._place, self._where, self._root = place, str(place), root
        self._runner = Runner(self._experiment, place, root, options)
        self._values: dict[str, FloatArray] = {}

    @property
    def outputs(self) -> tuple[str, ...]:
        """Identifiers of all outputs."""
        return (*self._experiment.outputs, *self._experiment.refused)

    def run(self, log: Entry) -> list[Computed]:
        """Run all tasks that outputs ask for; returns the outputs that could be computed."""
        experiment = self._experiment
        requested = variables_of_tasks(experiment, self._where)
        names = (*experiment.tasks, *(requested.keys() - experiment.tasks.keys()))
        tasks = {name: _entry(id=name, algorithm=None, simulatorDetails=None) for name in names}
        log["tasks"] = list(tasks.values())
        for name, entry in tasks.items():
            if name not in requested:
                _skip(entry, "no output asks for this task itself")
                continue
            with _logged(entry), places_of_archive(self._root):
                result = self._runner.run(name, requested[name])
                self._values |= result.values
                entry["algorithm"] = result.algorithm
                entry["simulatorDetails"] = [{"key": "seed", "value": result.seed}]
        computed = []
        for name, output in experiment.outputs.items():
            entry = _entry(id=name)
            log["outputs"].append(entry)
            with _logged(entry):
                data = self._output(output, entry)
                if data:
                    computed.append((self._place, name, output, data))
        for name, error in experiment.refused.items():
            entry = _entry(id=name)
            _fail(entry, error)
            log["outputs"].append(entry)
        entries = [*log["tasks"], *log["outputs"]]
        if any(entry["status"] == _FAILED for entry in entries):
            log["status"] = _FAILED
            reported = "; ".join(dict.fromkeys(line for e in entries for line in _failures(e)))
            log["exception"] = {"type": "ConfigError", "message": reported}
        return computed

    def _output(self, output: OutputData, entry: Entry) -> list[FloatArray]:
        """Values of the data sets of an output, none where one of them failed."""
        parts = []
        if output.kind == "SedReport":
            parts = [{"id": key, "status": _QUEUED} for key, _, _ in output.sets]
            entry["dataSets"] = parts
        else:
            _skip(entry, _NO_PICTURE)
            key = {"SedPlot2D": "curves", "SedPlot3D": "surfaces"}.get(output.kind)
            if key is not None:
                entry[key] = [{"id": curve, "status": _SKIPPED} for curve in output.curves]
        result, errors = [], []
        for number, (_, _, name) in enumerate(output.sets):
            try:
                result.append(generated(self._experiment, name, self._values, self._where))
                status = _OK
            except KeyError:
                errors.append(ConfigError(f"{self._where}: a task of {name} failed"))
                status = _FAILED
            except ConfigError as error:
                errors.append(error)
                status = _FAILED
            if parts:
                parts[number]["status"] = status
        if errors:
            raise errors[0]
        return result
