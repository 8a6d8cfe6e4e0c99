"""Shared parts of the commands of particles, pairs and cells: model, device, file, answer."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

from tauslab.api.model_reading import read_with_progress
from tauslab.cli.options import given_options
from tauslab.cli.pipes import model_given
from tauslab.cli.tools import ignored, warnings_on_stderr
from tauslab.decomposition.ranks.all_ranks import ranks
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.formats import read as readers
from tauslab.kernels.backends import choose_backend
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.network.network import Network
from tauslab.options.places import CPU, Device
from tauslab.store.locks import writing_result
from tauslab.store.results.array_result import ArrayResult

# A result, what a file and JSON say beside it, and what is said last.
Answer = tuple[ArrayResult, Mapping[str, Any], list[str]]
Keywords = TypeVar("Keywords")


def answering(
    work: Callable[[argparse.Namespace, Communicator], Answer],
) -> Callable[[argparse.Namespace], None]:
    """Make a command of `work`, which all ranks do; its result is written, and printed."""

    @wraps(work)
    def command(arguments: argparse.Namespace) -> None:
        comm = ranks()
        arguments.quiet = arguments.quiet or arguments.json
        with (
            warnings_on_stderr(comm.rank),
            writing_result(arguments.output, comm, overwrite=arguments.overwrite) as write,
        ):
            result, settings, last = work(arguments, comm)
            write(lambda path: result.save(path, settings, overwrite=True))

        def say() -> None:
            if arguments.json:
                print(json.dumps({**settings, **result.facts()}, indent=2, ensure_ascii=False))
            elif not arguments.quiet:
                print("\n".join([*result.lines(), *last]))

        on_root(comm, say)

    return command


def keywords_given(arguments: argparse.Namespace, kind: type[Keywords]) -> Keywords:
    """Keywords of a function, with the device; the command writes the file."""
    given = given_options(arguments, kind)
    given |= {"quiet": arguments.quiet, "output": None, "device": device_of(arguments)}
    return kind(**given)


def network_given(arguments: argparse.Namespace) -> Network:
    """The network that a command names; on one rank."""
    with model_given(arguments):
        return read_with_progress(arguments.model, ignored if arguments.quiet else print)


def model_named(arguments: argparse.Namespace) -> Network | Lattice:
    """The network or lattice that a command names; on one rank."""
    with model_given(arguments):
        if arguments.model.suffix.lower() == ".bngl":
            return read_with_progress(arguments.model, ignored if arguments.quiet else print)
        return readers.read(arguments.model)


def device_of(arguments: argparse.Namespace) -> Device:
    """The device, and the threads where it is a CPU."""
    name: Device = arguments.device
    if arguments.threads and choose_backend(arguments.device) == CPU.word:
        return CPU(threads=arguments.threads)
    return name
