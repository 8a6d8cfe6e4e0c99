"""Options that several jobs have, each said once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tauslab.options.values.checks import number, whole
from tauslab.options.values.definition import option
from tauslab.options.values.texts import assignments, by_name


def quiet_option() -> bool | None:
    """Silence of a job; in Python by default of one that is over within two seconds."""
    return option(
        None, "show no progress and no summary",
        flag="--quiet", group="output", action="store_true",
        command_default=False,
        doc="``True``: show no progress. ``False``: show progress and choices from the start, as "
        "the command does. By default progress is shown after two seconds.",
    )  # fmt: skip


def comm_option() -> Any:
    """The ranks that make a call together."""
    return option(
        "world", group="cluster",
        doc='Ranks that make this call together, all with the same arguments: ``"world"``, all '
        'ranks of the launch; ``"self"``, this rank alone; or a communicator of mpi4py.',
    )  # fmt: skip


def seed_option() -> int | None:
    """The seed of a job that writes no result file by default, and so prints it."""
    return option(
        None, "64-bit seed; drawn and printed by default",
        flag="--seed", group="sampling", type=int,
        metavar="S", check=whole(0, 2**64 - 1),
        doc="64-bit seed; drawn by default.",
    )  # fmt: skip


def set_option(doc: str = "", *, python: bool = True) -> Mapping[str, float] | None:
    """Values of parameters and amounts, one number each."""
    return option(
        None, "value of a parameter or initial amount", flag="--set", group="model",
        action="append", metavar="NAME=VALUE", read=assignments, doc=doc, python=python,
    )  # fmt: skip


def initial_option() -> Any:
    """Probability distributions of initial counts."""
    return option(
        None, "distribution of an initial count: poisson(50), uniform(0,10)", flag="--initial",
        group="model", action="append", metavar="NAME=FORM",
        read=by_name("initial", 'NAME=FORM, such as "X=poisson(50)"', str),
        doc="As of `tauslab.Ensemble`.",
    )  # fmt: skip


def output_option(doc: str = "", *, python: bool = True) -> Any:
    """The file of a job that writes none by default."""
    return option(
        None, "result file (none)", flag=("-o", "--output"), group="output", type=Path,
        metavar="OUT.h5", doc=doc, python=python,
    )  # fmt: skip


def task_option(what: str) -> str | tuple[int, int] | None:
    """The task of an array; all its tasks share `what`."""
    return option(
        None, f"only the {what} of task I of N tasks, I from 0", flag="--task",
        group="cluster", metavar="I/N",
        doc=f'``"I/N"``: only the {what} of task I of an array of N, I from 0; ``tauslab merge`` '
        "joins the files. Needs `seed`.",
    )  # fmt: skip


def checkpoint_option(doc: str) -> Any:
    """A file from which an analysis that was ended goes on."""
    return option(
        None, "file of the saved state, from which the command continues; needs --seed",
        flag="--checkpoint",
        group="output", type=Path, metavar="FILE",
        doc=f"HDF5 file, written every `checkpoint_every` seconds{doc}",
    )  # fmt: skip


def checkpoint_every_option() -> float:
    """Interval at which the checkpoint file is written."""
    return option(
        60.0, check=number(lambda x: x >= 0, "seconds, 0 or more"),
        doc="Seconds between two checkpoints.",
    )  # fmt: skip
