"""A dynamic Bayesian network as a file: HDF5, group ``/dbn``; see ``docs/dbn.md``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tauslab.analysis.dbn.results.network import CountTable, DynamicNetwork, Structure
from tauslab.base.arrays import Array, BoolArray, FloatArray
from tauslab.base.errors import InputFileError, reason_of
from tauslab.base.files.opening import reading
from tauslab.base.files.seals import SealedFile, safe_attributes
from tauslab.base.files.text import plain, put_attributes
from tauslab.base.option_names import opt
from tauslab.store.checking.opening import (
    METHOD_OF_DBNS,
    ended_by_signals,
    kind_of,
    known_attributes,
    open_hdf5,
)
from tauslab.store.format.versions import head_of_file
from tauslab.store.results.array_result import digest_of
from tauslab.store.results.columns import texts
from tauslab.store.state import write_sealed

if TYPE_CHECKING:
    import h5py  # imported where it is used: an h5py that was built with MPI starts MPI

METHOD = METHOD_OF_DBNS
_CHUNK = 1 << 16  # entries
_PARTS = ("offsets", "bins", "counts")


def is_network(path: str | os.PathLike[str]) -> bool:
    """Return whether a file holds a dynamic Bayesian network; False also for what is not HDF5."""
    return kind_of(path) == METHOD


def save(network: DynamicNetwork, path: Path, blocks: BoolArray | None = None) -> None:
    """Write a network under a temporary name and rename it.

    Parameters
    ----------
    blocks
        Blocks of trajectories that are counted, of a stopped build; None: all.

    Raises
    ------
    OutputError
        The file cannot be written.
    """
    attributes = {**network.attributes, **head_of_file(), "method": METHOD}
    if "seed" in network.attributes:
        attributes["seed"] = np.uint64(network.attributes["seed"])
    arrays: dict[str, Any] = {"progress/complete": np.uint8(blocks is None or bool(blocks.all()))}
    if blocks is not None:
        arrays["progress/blocks"] = blocks.astype(np.uint8)
    arrays |= {f"model/{name}": text for name, text in network.model.items()}
    packed: dict[str, Array] = {}
    for name, array in datasets(network):
        large = name.startswith("dbn/tables/") and len(array) > _CHUNK
        (packed if large else arrays)[name] = array

    def extend(file: h5py.File) -> None:
        for name, array in packed.items():
            chunks = (_CHUNK, *array.shape[1:])
            file.create_dataset(
                name, data=array, chunks=chunks, compression="gzip", compression_opts=1
            )
        if "source" in network.model:
            name = str(network.attributes.get("model", ""))
            put_attributes(file["model/source"], {"name": name})
        _scales(file, network)

    write_sealed(path, attributes, arrays, extend)


def _scales(file: h5py.File, network: DynamicNetwork) -> None:
    """Name the axes: times, variables, and the digits of an entry."""
    for name in ("time", "dbn/variables", "dbn/parameters"):
        if name in file:
            file[name].make_scale(name.split("/")[-1])
    if network.nominal is not None:
        file["dbn/nominal"].dims[0].attach_scale(file["time"])
        file["dbn/nominal"].dims[1].attach_scale(file["dbn/variables"])
    for name in network.variables:
        file[f"dbn/marginals/{name}"].dims[0].attach_scale(file["time"])
        file[f"dbn/outside/{name}"].dims[0].attach_scale(file["time"])


def datasets(network: DynamicNetwork) -> Iterator[tuple[str, Array]]:
    """Names and contents of a file's datasets, in the order of the digest."""
    yield "time", network.times
    yield "dbn/variables", np.array(network.variables)
    if network.parameters:
        yield "dbn/parameters", np.array(network.parameters)
    for name in network.structure.names:
        yield f"dbn/intervals/{name}", np.asarray(network.edges[name])
    for name in network.variables:
        yield f"dbn/parents/{name}", np.array(network.structure.parents[name])
    for name in network.structure.names:
        yield f"dbn/marginals/{name}", network.marginals[name]
        yield f"dbn/outside/{name}", network.outside[name]
    for name in network.variables:
        table = network.tables[name]
        for part in _PARTS:
            yield f"dbn/tables/{name}/{part}", getattr(table, part)
        yield f"dbn/tables/{name}/probabilities", table.probabilities()
    if network.nominal is not None:
        yield "dbn/nominal", network.nominal


def load(path: str | os.PathLike[str], *, unfinished: bool = False) -> DynamicNetwork:
    """Read a network.

    Parameters
    ----------
    unfinished
        Also read an unfinished network.

    Raises
    ------
    InputFileError
        The file is missing, holds no network, lacks a dataset, or is unfinished.
    """
    if not Path(path).is_file():
        raise InputFileError(f"{path}: there is no such file")
    if not is_network(path):
        raise InputFileError(f"{path} holds no dynamic Bayesian network: tauslab dbn makes one")
    with reading(path, InputFileError):
        return _load(path, unfinished)


def _load(path: str | os.PathLike[str], unfinished: bool) -> DynamicNetwork:  # noqa: FBT001
    try:
        with _checked(Path(path)) as file:
            if not unfinished and not file["progress/complete"][()]:
                raise InputFileError(f"{path} is unfinished: complete it with {opt('resume')}")
            return _read(file)
    except (KeyError, ValueError) as error:
        raise InputFileError(f"{path} is not a whole network: {reason_of(error)}") from None


def _read(file: h5py.File) -> DynamicNetwork:
    group = file["dbn"]
    variables = texts(group["variables"])
    parameters = texts(group["parameters"]) if "parameters" in group else ()
    parents = {name: texts(group[f"parents/{name}"]) for name in variables}
    structure = Structure(tuple(variables), tuple(parameters), parents)
    names = structure.names
    tables = {
        name: CountTable(*(group[f"tables/{name}/{part}"][()] for part in _PARTS))
        for name in variables
    }
    nominal: FloatArray | None = group["nominal"][()] if "nominal" in group else None
    return DynamicNetwork(
        structure, file["time"][()], {name: group[f"intervals/{name}"][()] for name in names},
        tables, {name: group[f"marginals/{name}"][()] for name in names},
        {name: group[f"outside/{name}"][()] for name in names}, nominal, safe_attributes(file),
        {name: plain(file["model"][name][()]) for name in file.get("model", ())},
    )  # fmt: skip


def counted_blocks(path: Path) -> BoolArray:
    """Return the blocks of trajectories that a stopped build has counted."""
    with reading(path, InputFileError), _checked(path) as file:
        if "progress/blocks" not in file:
            return np.ones(0, bool)
        result: BoolArray = file["progress/blocks"][()].astype(bool)
        return result


def network_digest_lines(path: Path) -> list[tuple[str, str]]:
    """Name and SHA-256 of every dataset that counts; nominal values and probabilities do not.

    Raises
    ------
    InputFileError
        As `load`.
    """
    result = dict(datasets(load(path)))
    return digest_of(
        {n: a for n, a in result.items() if not n.endswith(("/probabilities", "/nominal"))}
    )


@contextmanager
def _checked(path: Path) -> Iterator[h5py.File]:
    """The open file, all of which agrees with its checksums."""
    with open_hdf5(path) as file:
        with ended_by_signals():
            known_attributes(path, file, InputFileError)
            sealed = SealedFile(path, file)
            for name in sealed.names:
                sealed.require(name)
        for name in ("progress/complete", "time", "dbn/variables"):
            if name not in sealed.names:
                raise sealed.damaged(f"it has no /{name}")
        yield file
