"""Data sets of an experiment, computed and written as HDF5 and CSV.

The HDF5 file follows BioSimulators' conventions for reports: a dataset ``[data set, repeat, time]``
(without repeats ``[data set, time]``) at the place of the SED-ML file and the output, and
attributes that name the rows.
"""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError, OutputError
from tauslab.base.files.drafts import replacing, require_no_link
from tauslab.base.option_names import opt
from tauslab.exchange.sedml.archive import places_of_archive, unpack
from tauslab.exchange.sedml.document import OutputData, SedmlDocument, Variable, read_experiment
from tauslab.exchange.sedml.execute import Runner, evaluated, expression_of_mathml, with_aggregates
from tauslab.store.results.tables import plain_text

if TYPE_CHECKING:
    import h5py

REPORTS = "reports.h5"


def run_archive(
    path: Path, folder: Path, options: Mapping[str, Any], *, overwrite: bool = False
) -> list[str]:
    """Run all experiments of a COMBINE archive; returns a line for each output.

    Parameters
    ----------
    path
        The archive, ``.omex``.
    folder
        Where `REPORTS` and a CSV file of each output go.
    options
        Of `tauslab.run`, for every task: ``device``, ``seed``.
    overwrite
        Replace results that are there.

    Raises
    ------
    ConfigError, ModelError
        The archive, an experiment or a model asks for what is not supported; nothing is written.
    OutputError
        The results cannot be written, or are there already.
    """
    if not overwrite and (folder / REPORTS).exists():
        raise OutputError(f"{folder / REPORTS} exists; {opt('overwrite')} replaces it")
    computed: list[tuple[PurePosixPath, str, OutputData, list[FloatArray]]] = []
    notes: list[str] = []
    with tempfile.TemporaryDirectory() as unpacked:
        root = Path(unpacked)
        for place in unpack(path, root):
            with places_of_archive(root):
                experiment = read_experiment(root / place, str(place))
                values = _data(experiment, place, root, options)
            for name, data in values.items():
                computed.append((place, name, experiment.outputs[name], data))
            notes += [
                f"{place}: {name}: no picture is drawn, its data are written"
                if output.sets
                else f"{place}: {name}: a figure is not drawn"
                for name, output in experiment.outputs.items()
                if output.kind != "SedReport"
            ]
    if not computed:
        raise ConfigError(f"{path}: its experiments have no outputs")
    try:
        return [*write_outputs(folder, computed), *notes]
    except OSError as error:
        raise OutputError(f"{folder} cannot be written: {error.strerror or error}") from None


def _data(
    experiment: SedmlDocument, place: PurePosixPath, root: Path, options: Mapping[str, Any]
) -> dict[str, list[FloatArray]]:
    """Values of the data sets of every output, each task run once."""
    where = str(place)
    for error in experiment.refused.values():
        raise error
    runner = Runner(experiment, place, root, options)
    values: dict[str, FloatArray] = {}
    for task, variables in variables_of_tasks(experiment, where).items():
        values |= runner.run(task, variables).values
    names = {name for output in experiment.outputs.values() for _, _, name in output.sets}
    result = {name: generated(experiment, name, values, where) for name in sorted(names)}
    return {
        name: [result[generator] for _, _, generator in output.sets]
        for name, output in experiment.outputs.items()
        if output.sets
    }


def variables_of_tasks(experiment: SedmlDocument, where: str) -> dict[str, dict[str, Variable]]:
    """Variables that outputs ask for, of each task, by generator and variable.

    Raises
    ------
    ConfigError
        An output names a generator that is not there.
    """
    used: dict[str, dict[str, Variable]] = {}
    for output in experiment.outputs.values():
        for _, _, name in output.sets:
            if name in experiment.refused:
                raise experiment.refused[name]
            if name not in experiment.generators:
                raise ConfigError(f"{where}: there is no data generator {name!r}")
            for key, variable in experiment.generators[name].variables.items():
                used.setdefault(variable.task, {})[f"{name}/{key}"] = variable
    return used


def generated(
    experiment: SedmlDocument, name: str, values: Mapping[str, FloatArray], where: str
) -> FloatArray:
    """Values of a data generator, whose variables `values` holds by generator and variable."""
    generator = experiment.generators[name]
    known: dict[str, FloatArray | float] = {
        key: values[f"{name}/{key}"] for key in generator.variables
    }
    known = {**generator.parameters, **known}
    text, aggregates = with_aggregates(generator.math, known)
    tree = expression_of_mathml(text, f"{where}: data generator {name}")
    return evaluated(tree, {**known, **aggregates}, where)


def write_outputs(
    folder: Path, computed: list[tuple[PurePosixPath, str, OutputData, list[FloatArray]]]
) -> list[str]:
    """Write everything; the HDF5 file comes last, under its name when it is whole."""
    import h5py

    lines = []
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / REPORTS) as draft, h5py.File(draft, "w", locking=False) as file:
        for place, name, output, data in computed:
            target = table_path(folder, place, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shape = _write_csv(target, output, data)
            _write_dataset(file, str(place), name, output, data)
            lines.append(f"{target}: {len(data)} data sets of {' x '.join(map(str, shape))} values")
        for group in {str(place) for place, _, _, _ in computed}:
            for path in (PurePosixPath(group), *PurePosixPath(group).parents):
                if path.name:
                    file[str(path)].attrs["uri"] = str(path)
                    file[str(path)].attrs["combineArchiveLocation"] = str(path)
    return [*lines, f"{folder / REPORTS}: all of them"]


def table_path(folder: Path, place: PurePosixPath, name: str) -> Path:
    """The CSV file of an output, in `folder`.

    Raises
    ------
    ConfigError
        The name of the output is not that of a file.
    InputFileError
        A link is at the place of a folder.
    """
    if name in ("", ".", "..") or any(one in name for one in "/\\\0"):
        raise ConfigError(f"{place}: the output {name!r:.80} has no plain file name")
    for below in (*place.parents[:-1], place):
        require_no_link(folder / below)
    return folder / place / f"{name}.csv"


def _common(data: list[FloatArray]) -> tuple[int, ...]:
    """Shape that holds every data set."""
    most = max([1, *(own.ndim for own in data)])
    shapes = [(1,) * (most - own.ndim) + own.shape for own in data]
    return tuple(max(sizes) for sizes in zip(*shapes, strict=True))


def _write_csv(path: Path, output: OutputData, data: list[FloatArray]) -> tuple[int, ...]:
    """A column for each data set, and one for the repeat where there are some."""
    shape = _common(data)
    columns = [_padded(own, shape).reshape(-1) for own in data]
    labels = [label for _, label, _ in output.sets]
    with replacing(path) as draft, draft.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        repeats = len(shape) > 1
        writer.writerow([*(["repeat"] if repeats else []), *map(plain_text, labels)])
        for index, row in enumerate(zip(*columns, strict=True)):
            numbers = [repr(float(value)) for value in row]
            writer.writerow([*([index // shape[-1]] if repeats else []), *numbers])
    return shape


def _padded(own: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """A data set in the shape of all, with NaN where it has no value."""
    if own.ndim < len(shape):
        own = own.reshape((1,) * (len(shape) - own.ndim) + own.shape)
    whole = np.full(shape, np.nan)
    whole[tuple(slice(size) for size in own.shape)] = own
    return whole


def _write_dataset(
    file: h5py.File, place: str, name: str, output: OutputData, data: list[FloatArray]
) -> None:
    import h5py

    shape = _common(data)
    rows = np.stack([_padded(own, shape) for own in data])
    dataset = file.create_dataset(f"{place}/{name}", data=rows)
    text = h5py.string_dtype()
    for key, value in {
        "_type": output.kind,
        "uri": f"{place}/{name}",
        "sedmlId": name,
        "sedmlName": output.name or name,
    }.items():
        dataset.attrs[key] = value
    identifiers, labels, _ = zip(*output.sets, strict=True)
    dataset.attrs["sedmlDataSetIds"] = np.array(identifiers, dtype=text)
    dataset.attrs["sedmlDataSetLabels"] = np.array(labels, dtype=text)
    dataset.attrs["sedmlDataSetNames"] = np.array(labels, dtype=text)
    dataset.attrs["sedmlDataSetDataTypes"] = np.array(["float64"] * len(data), dtype=text)
    shapes = [",".join(map(str, own.shape)) for own in data]
    dataset.attrs["sedmlDataSetShapes"] = np.array(shapes, dtype=text)
