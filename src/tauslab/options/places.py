"""Devices and workers that compute, and files of results."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from tauslab.base.errors import ConfigError
from tauslab.base.files.opening import at_home
from tauslab.base.option_names import assigned, opt
from tauslab.options.dask import EXECUTORS, DaskOptions, dask_options
from tauslab.options.values.checks import whole, word
from tauslab.options.values.definition import check_values, declared, option, settings
from tauslab.options.values.result_name import require_result_name

DeviceWord: TypeAlias = Literal["auto", "cpu", "cuda"]
Writer: TypeAlias = Literal["auto", "parts", "mpio"]
WRITERS: tuple[str, ...] = get_args(Writer)
Name: TypeAlias = str | os.PathLike[str]
check_threads, check_compress, check_writer = whole(0, 4096), whole(0, 9), word(*WRITERS)


@settings
@dataclass(frozen=True)
class CPU:
    """The cores of this machine."""

    word: ClassVar[DeviceWord] = "cpu"
    threads: int = option(
        0, "number of CPU threads per rank (all cores)",
        flag="--threads", group="cluster", type=int, metavar="N",
        check=check_threads,
        doc="Number of CPU threads per rank; 0: all available cores.",
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Check the number."""
        check_values(self)


@declared
@dataclass(frozen=True, kw_only=True)
class GPU:
    """A GPU for each rank, by CUDA.

    Parameters
    ----------
    {options}
    """

    word: ClassVar[DeviceWord] = "cuda"
    share: bool = option(
        False, "allow ranks to share a GPU",
        flag="--share-gpu", group="cluster", action="store_true",
        doc="Lattices: allow several ranks to use one GPU. For networks this is always allowed.",
    )  # fmt: skip


Device: TypeAlias = DeviceWord | CPU | GPU


@settings
@dataclass(frozen=True)
class Dask:
    """Workers of Dask, in place of the ranks of this launch; see docs/clusters.md."""

    scheduler: Any = option(
        None, "Dask scheduler: local (default), slurm, an address or a .json file",
        flag="--scheduler", group="cluster", metavar="WHERE",
        doc="``local`` (default) starts workers on this machine, ``slurm`` as SLURM jobs; or the "
        "address or file of a scheduler, or a `distributed.Client`.",
    )  # fmt: skip
    workers: int | str | None = option(
        None, "number of Dask workers, or minimum:maximum", flag="--workers",
        group="cluster", metavar="N|A:B",
        doc='``local`` and ``slurm``: number of workers, or minimum and maximum, ``"1:16"``.',
    )  # fmt: skip
    sbatch: str = option(
        "", "sbatch options for jobs of Dask workers", flag="--sbatch", group="cluster",
        metavar="OPTIONS",
        doc='``slurm``: options of jobs of workers, such as ``"--partition=gpu --gpus=1"``.',
    )  # fmt: skip
    tls: Sequence[Name] | None = option(
        None,
        doc="PEM files of the certificate authority, the certificate and its key, for TLS.",
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Check what needs no scheduler."""
        self.settings()

    def settings(self) -> DaskOptions:
        """For the executor."""
        result = dask_options("dask", self.scheduler, self.workers, self.sbatch, self.tls)
        assert result is not None
        return result


@declared
@dataclass(frozen=True, kw_only=True)
class OverwriteFlag:
    """The option of `Output` that every command with a result has."""

    overwrite: bool = option(
        False, "replace an existing file", flag="--overwrite", group="output",
        action="store_true",
        doc="Replace an existing file.",
    )  # fmt: skip


@declared
@dataclass(frozen=True)
class Output:
    """The file of a result (HDF5), and how it is written.

    Parameters
    ----------
    path
        The file.
    {options}

    Raises
    ------
    ConfigError
        A value outside what is allowed.
    """

    path: Name
    overwrite: bool = option(
        False, "replace an existing file", flag="--overwrite", group="output",
        action="store_true",
        doc="Replace an existing file.",
    )  # fmt: skip
    compress: int = option(
        0, "gzip level of samples (none)",
        flag="--compress", group="output", type=int, metavar="1-9",
        check=check_compress,
        doc="Networks: gzip level of the samples, 1 to 9; 0 for none.",
    )  # fmt: skip
    writer: Writer = option(
        "auto", "how several ranks write the file (auto)",
        flag="--writer", group="cluster", choices=WRITERS,
        check=check_writer,
        doc="Networks: how several ranks write: ``mpio`` (one file together), ``parts``, or "
        "``auto`` (docs/clusters.md).",
    )  # fmt: skip
    mpi_hints: Mapping[str, str] | None = option(
        None, "hint for MPI-IO", flag="--mpi-hint", group="cluster", action="append",
        metavar="NAME=VALUE",
        doc="``mpio``: hints to MPI-IO by name.",
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Check the values."""
        if not isinstance(self.path, str | os.PathLike):
            raise ConfigError(f"{assigned('output')}{self.path!r}: the name of a file is expected")
        check_values(self)

    @property
    def plain(self) -> bool:
        """Return whether it asks for nothing that only files of networks have."""
        return self == Output(self.path, overwrite=self.overwrite)


def device_settings(device: Device) -> dict[str, Any]:
    """A device as word and number of threads."""
    threads = device.threads if isinstance(device, CPU) else 0
    return {"device": device.word if isinstance(device, CPU | GPU) else device, "threads": threads}


def output_settings(output: Name | Output | None) -> dict[str, Any]:
    """An output by the names of `tauslab.options.ensemble.Options`."""
    if output is None:
        return {"output": None}
    chosen = output if isinstance(output, Output) else Output(output)
    if not os.fspath(chosen.path):
        raise ConfigError(f"{opt('output')} is empty: the name of a file is expected")
    path = at_home(chosen.path)
    require_result_name(path)
    return {
        "output": path,
        "overwrite": chosen.overwrite,
        "compress": chosen.compress,
        "writer": chosen.writer,
        "hints": dict(chosen.mpi_hints or {}),
    }


def file_settings(output: Name | Output | None) -> dict[str, Any]:
    """An output whose file has one layout and one writer: of a lattice, of tables of nodes.

    Raises
    ------
    ConfigError
        It asks for more than a path and `overwrite`.
    """
    if isinstance(output, Output) and not output.plain:
        raise ConfigError(
            "compress=, writer= and mpi_hints= of ts.Output are for results of networks"
        )
    result = output_settings(output)
    return {name: result[name] for name in ("output", "overwrite") if name in result}


def executor_settings(executor: Dask | None) -> DaskOptions | None:
    """Return the executor of the launches.

    Raises
    ------
    ConfigError
        It is neither None nor a `Dask`.
    """
    if executor is not None and not isinstance(executor, Dask):
        raise ConfigError(f"executor={executor!r} is not allowed: None, or ts.Dask(...)")
    return None if executor is None else executor.settings()


@declared
@dataclass(frozen=True)
class ExecutorFlags:
    """Flags of Dask that the command line spells in another way than Python."""

    executor: str = option(
        "mpi", "MPI ranks (default) or Dask workers", flag="--executor", group="cluster",
        choices=EXECUTORS,
        in_python=lambda v: "executor=ts.Dask()" if v == "dask" else "executor=" + "None" * bool(v),
    )  # fmt: skip
    dask_tls_ca: Path | None = option(
        None, "Dask with TLS: PEM file of the certificate authority", flag="--dask-tls-ca",
        group="cluster", type=Path, metavar="FILE", python=False, in_python=lambda _: "tls=",
    )  # fmt: skip
    dask_tls_cert: Path | None = option(
        None, "Dask with TLS: PEM file of the certificate", flag="--dask-tls-cert",
        group="cluster", type=Path, metavar="FILE", python=False, in_python=lambda _: "tls=",
    )  # fmt: skip
    dask_tls_key: Path | None = option(
        None, "Dask with TLS: PEM file of the private key", flag="--dask-tls-key", group="cluster",
        type=Path, metavar="FILE", python=False, in_python=lambda _: "tls=",
    )  # fmt: skip
