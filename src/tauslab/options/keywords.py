"""The options of `tauslab.run` and ``tauslab run``, each said once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from tauslab.kernels.backends import backend_names
from tauslab.kernels.ensemble.launch import MAX_STEPS
from tauslab.options.methods import METHODS, Method, MethodWord
from tauslab.options.places import Dask, Device, DeviceWord, Name, Output
from tauslab.options.sweep import MOST_POINTS, parse_sweep
from tauslab.options.values.checks import line, unless_none, whole
from tauslab.options.values.definition import Stored, declared, option
from tauslab.options.values.recurring import comm_option, quiet_option, task_option
from tauslab.options.values.texts import assignments, count, counts_of_a_unit, drawn, read_times

FloatArray: TypeAlias = npt.NDArray[np.float64]
Numbers: TypeAlias = Sequence[float] | FloatArray
Values: TypeAlias = float | Numbers
Table: TypeAlias = Mapping[str, Numbers] | Name

DEVICES: tuple[str, ...] = ("auto", *sorted(backend_names()))
assert set(get_args(DeviceWord)) >= set(DEVICES)


def device_option() -> Device:
    """The device, an option of every job."""
    return option(
        "auto", "auto: a GPU if there is one", flag="--device", group="cluster",
        choices=DEVICES, doc="``auto``, ``cpu`` or ``cuda``; or `tauslab.CPU`, `tauslab.GPU`.",
    )  # fmt: skip


def sample_option(doc: str, *, follows: str = "") -> Any:
    """Distributions of what is drawn for each trajectory of equations."""
    return option(
        (), "distribution of a value for each trajectory (ode): uniform(LO,HI), loguniform(LO,HI), "
        "normal(MEAN,SD), lognormal(MU,SIGMA) with mean and sd of the logarithm, "
        "lognormal(median=M,sigma=S), table(FILE)", flag="--sample", group="model",
        action="append", metavar="NAME=FORM",
        stored=Stored(separate=True, read=drawn, follows=follows), doc=doc,
    )  # fmt: skip


_RECORD = (
    "trajectories,statistics,final,histogram:SPECIES:LO:HI:BINS,summary:KIND:SPECIES[:...]; "
    "sampled: sampled parameters; state: last state, from which a longer run continues"
)


@declared
@dataclass(frozen=True, kw_only=True)
class _Count:
    n: int | None = option(
        None, "number of trajectories, in a sweep per point (1000; 1 for ode without random "
        "values)", flag="-n",
        group="sampling", type=count, stored=Stored(separate=True),
        doc="Number of trajectories, in a sweep at each point. By default 1000, or 1 for ``ode`` "
        "without random values.",
    )  # fmt: skip


@declared
@dataclass(frozen=True, kw_only=True)
class Times:
    """Sample times, said in one of two ways."""

    t_end: float | None = option(
        None, "last sample time, in the unit of the model",
        flag="--t-end", group="sampling", type=float,
        metavar="T", unit="time of the model",
        doc="Last sample time; by default the model's end time.",
    )  # fmt: skip
    points: int | None = option(
        None, "number of sample times from 0 to T (101)",
        flag="--points", group="sampling", type=count,
        metavar="K", doc="Number of sample times from 0 to `t_end`, both included (101).",
    )  # fmt: skip
    times: Values | None = option(
        None, "file of sample times, one per line", flag="--times", group="sampling", type=Path,
        metavar="FILE", read=read_times, unit="time of the model",
        doc="Sample times ``[time]``, or a single time; instead of `t_end` and `points`.",
    )  # fmt: skip


@declared
@dataclass(frozen=True, kw_only=True)
class CommonChoices:
    """Options that a job of an ensemble takes as they are; `tauslab.simulator` has them too."""

    max_steps: int = option(
        MAX_STEPS, "maximum number of events per trajectory (2^48 - 1)",
        flag="--max-steps", type=count, metavar="N",
        stored=Stored(always=True), check=whole(1, MAX_STEPS),
        doc="Maximum number of events and leaps of a trajectory; if it needs more, it ends with "
        "status ``step_limit``.",
    )  # fmt: skip
    common: bool = option(
        False, "use common random numbers at all points (ssa)",
        flag="--common", group="sampling", action="store_true", stored=Stored(),
        doc="With ``ssa``: use common random numbers at all points, in all rows of values and in "
        "all runs with the same seed, so that differences have less variance (docs/sweeps.md).",
    )  # fmt: skip
    block: int | None = option(
        None, "trajectories per storage block (automatic)", flag="--block", type=int, metavar="N",
        check=whole(1, 2**31 - 1),
        doc="Number of trajectories per storage block, the unit of writing and resuming.",
    )  # fmt: skip
    quiet: bool | None = quiet_option()


@declared
@dataclass(frozen=True, kw_only=True)
class EnsembleChoices:
    """Options that a job of an ensemble takes as they are."""

    first: int = option(
        0, "number of the first trajectory (0)", flag="--first", group="sampling", type=count,
        metavar="N", stored=Stored(name="before", absent=0),
        doc="Number of the first trajectory at each point, to repeat some trajectories or to "
        "divide a run among jobs: ``n=10, first=90`` repeats the last ten of a run of 100.",
    )  # fmt: skip
    first_point: int = option(
        0, "number of the first point of a sweep (0)", flag="--first-point", group="sampling",
        type=count, metavar="N", stored=Stored(absent=0),
        check=unless_none(whole(0, MOST_POINTS - 1)),
        doc="Number of the first point of a sweep, to divide a table of points among runs with "
        "the bits of a single run.",
    )  # fmt: skip
    note: str = option(
        "", "remark to store in the file", flag="--note", group="output", metavar="TEXT",
        stored=Stored(decides=False), check=unless_none(line(1000)),
        doc="A remark of one line, stored in the file and shown by ``tauslab info``.",
    )  # fmt: skip
    seed: int | None = option(
        None, "64-bit seed; drawn and stored by default", flag="--seed", group="sampling", type=int,
        metavar="S", stored=Stored(always=True), check=whole(0, 2**64 - 1),
        doc="64-bit seed: the same seed gives the same bits on any device and any number of "
        "ranks. By default a seed is drawn and stored in the result.",
    )  # fmt: skip
    resume: bool = option(
        False, "complete an unfinished file", flag="--resume", group="output",
        action="store_true",
        doc="Complete an unfinished file.",
    )  # fmt: skip
    append: int | None = option(
        None, "add N trajectories to a finished file", flag="--append", group="sampling",
        type=count, metavar="N",
        doc="Add this many trajectories, at each point, to the finished result in `output`, with "
        "the bits of one larger run. `n` is not used; other settings are taken from the file.",
    )  # fmt: skip
    append_to: int | None = option(
        None, "add trajectories until a finished file has N", flag="--append-to", group="sampling",
        type=count, metavar="N",
        doc="As `append`, but until the file has this many trajectories; a repeated call adds "
        "nothing.",
    )  # fmt: skip
    until: str | None = option(
        None, "add trajectories, at most -n, until a precision is reached: 'mean(X) rel 0.01', "
        "'P(X>300 at 10) ci 0.001'", flag="--until",
        group="sampling", metavar="WHAT",
        doc="Add trajectories, at most `n`, until a 95 % confidence interval is narrow enough: "
        '``"mean(X) rel 0.01"``, ``"P(X>300 at 10) ci 0.001"`` (docs/run.md).',
    )  # fmt: skip


@declared
@dataclass(frozen=True, kw_only=True)
class _CommonKeywords:
    """The keywords that `tauslab.run` and `tauslab.simulator` share."""

    method: MethodWord | Method | None = option(
        None, "ssa: exact (default); tau: tau-leaping; auto: tau if faster, else ssa; ode: rate "
        "equations; hybrid: events with equations or noise; cle: chemical Langevin equation",
        flag="--method", group="method", choices=METHODS,
        stored=Stored(separate=True),
        doc="``ssa``: exact, the default; ``tau``: tau-leaping; ``auto``: leaps if they are "
        "faster and accurate; ``ode``: rate equations; ``hybrid``: some reactions as events, "
        "others as equations; ``cle``: the chemical Langevin equation. Or the settings of one: "
        "`tauslab.SSA`, `tauslab.TauLeaping`, `tauslab.Auto`, `tauslab.ODE`, "
        "`tauslab.Partitioned`, `tauslab.Langevin`.",
    )  # fmt: skip
    species: Sequence[str] | str | None = option(
        None, "record only these species", flag="--species", group="output", metavar="A,B",
        doc="Names to record; by default all.",
    )  # fmt: skip
    record: str | Sequence[str] | None = option(
        None, f"any of {_RECORD}", flag="--record", group="output", metavar="WHAT",
        stored=Stored(separate=True),
        doc="What to record, as a list or separated by commas: ``trajectories``, ``statistics``, "
        "``final``, ``histogram:SPECIES:LO:HI:BINS``, ``summary:KIND:SPECIES[:...]``, ``sampled`` "
        "(only ``ode``), ``state`` (only ``ssa``; `extend` continues from it). By default "
        "trajectories if they need less than 1 GiB, otherwise statistics and final.",
    )  # fmt: skip
    sample: Mapping[str, str] | Sequence[str] | str = sample_option(
        "With ``ode``: distributions from which a value is drawn for each trajectory, such as "
        '``{"k1": "uniform(0.1,2)"}``.',
        follows="method",
    )
    device: Device = device_option()
    executor: Dask | None = option(
        None, group="cluster",
        doc="`tauslab.Dask` runs on Dask workers; by default the MPI ranks or this process run.",
    )  # fmt: skip
    comm: Any = comm_option()


@declared
@dataclass(frozen=True, kw_only=True)
class PointsKeywords:
    """Points at which other values hold."""

    sweep: Mapping[str, str | tuple[float, float] | Numbers] | None = option(
        None, "values of a parameter or initial amount: lin:LO:HI:N, log:LO:HI:N, list:a,b,c; "
        "with --design lin:LO:HI, log:LO:HI",
        flag="--sweep", group="model", action="append", metavar="NAME=FORM", read=parse_sweep,
        doc="Values of parameters and initial amounts by name; the points are all combinations, "
        "and the first name varies slowest. Also as text: ``lin:LO:HI:N``, ``log:LO:HI:N``, "
        "``list:a,b,c``.",
    )  # fmt: skip
    design: tuple[str, int] | str | None = option(
        None, "N points in the ranges of --sweep: sobol:N, lhs:N", flag="--design", group="model",
        metavar="KIND:N",
        doc='``("sobol", N)`` or ``("lhs", N)``: N points, chosen by the seed, in the ranges of '
        '`sweep`: ``(LO, HI)``, ``"lin:LO:HI"`` or ``"log:LO:HI"``.',
    )  # fmt: skip
    table: Table | None = option(
        None, "table of points, one per row (CSV or Parquet)",
        flag="--table", group="model", type=Path,
        metavar="FILE",
        doc="Points of a sweep as a table: a column of values for each name, or a CSV or Parquet "
        "file.",
    )  # fmt: skip


@declared
@dataclass(frozen=True, kw_only=True)
class NetworkKeywords(
    PointsKeywords, _CommonKeywords, CommonChoices, EnsembleChoices, Times, _Count
):
    """The keywords of `tauslab.run` for a network."""

    set: Mapping[str, Values] | None = option(
        None, "value of a parameter or initial amount; @FILE: one per line", flag="--set",
        group="model", action="append", metavar="NAME=VALUE", read=assignments,
        doc="Values of parameters and initial amounts (molecules) by name: a number, or an array "
        "``[n]`` with one for each trajectory.",
    )  # fmt: skip
    initial: Any = option(
        None, "initial states: the last states of this result", flag="--initial", group="model",
        type=Path, metavar="FILE",
        doc="Initial amounts at t = 0: a `Result` or its path, whose last states are the initial "
        "states of the trajectories; or amounts by species, as numbers or arrays ``[n]`` (also a "
        "data frame). `set` overrides them.",
    )  # fmt: skip
    extend: Any = option(
        None, "continue this finished result to a later --t-end", flag="--extend",
        group="sampling", type=Path, metavar="FILE",
        doc="A finished `Result` or its path, to continue to a later `t_end` with the bits of one "
        "longer run (docs/run.md).",
    )  # fmt: skip
    task: str | tuple[int, int] | None = task_option("points")
    output: Name | Output | None = option(
        None, "result file (the name of MODEL with .h5)",
        flag=("-o", "--output"), group="output", type=Path,
        metavar="OUT.h5",
        doc="Result file (HDF5), or `tauslab.Output`; by default the result stays in memory.",
    )  # fmt: skip


@declared
@dataclass(frozen=True, kw_only=True)
class PrepareKeywords(_CommonKeywords, CommonChoices, Times, _Count):
    """The keywords of `tauslab.prepare`."""

    seed: int | None = option(
        None, doc="64-bit seed of runs without a seed; by default each run draws one."
    )
    set: Mapping[str, Values] | None = option(
        None, doc="Values of parameters and initial amounts by name, which runs may replace."
    )


@declared
@dataclass(frozen=True, kw_only=True)
class SimulatorKeywords(_CommonKeywords, CommonChoices, Times):
    """The keywords of `tauslab.simulator`."""

    seed: int | None = option(
        None,
        doc="64-bit seed, from which each call derives its own; drawn by default.",
    )  # fmt: skip


@declared
@dataclass(frozen=True, kw_only=True)
class MoleculesFlag:
    """`tauslab.in_molecules` and `tauslab.with_net_laws`, for the command line."""

    molecules: bool = option(
        False, "convert SBML amounts in moles to molecules",
        flag="--molecules", group="model", action="store_true", python=False,
        in_python=lambda _: "ts.in_molecules(model)",
    )  # fmt: skip
    amounts: float | None = option(
        None, "read one unit of amount as one count, or as F counts",
        flag="--amounts", group="model",
        type=counts_of_a_unit, metavar="counts|F", python=False,
        in_python=lambda v: f"ts.in_molecules(model, {1 if v == 'counts' else v or '...'})",
    )  # fmt: skip
    net_laws: bool = option(
        False, "run reactions backwards while their rate is negative", flag="--net-laws",
        group="model", action="store_true", python=False,
        in_python=lambda _: "ts.with_net_laws(model)",
    )  # fmt: skip


@declared
@dataclass(frozen=True, kw_only=True)
class AnswerFlags:
    """Flags for what the command line prints at the end of a run."""

    json: bool = option(
        False, "print only the summary, as JSON", flag="--json",
        group="output", action="store_true", python=False,
    )  # fmt: skip
    verbose: bool = option(
        False, "explain automatic choices", flag="--verbose", group="output",
        action="store_true", python=False,
    )  # fmt: skip


@declared
@dataclass(frozen=True, kw_only=True)
class ProtocolFlag:
    """Actions of a BioNetGen file, which the command line alone runs."""

    protocol: bool = option(
        False, "run the actions of a .bngl or .net file", flag="--protocol", group="model",
        action="store_true", python=False, in_python=lambda _: "tauslab run --protocol",
    )  # fmt: skip


@declared
@dataclass(frozen=True, kw_only=True)
class TimeLimitFlag:
    """A limit that the command line alone has."""

    max_time: str | None = option(
        None, "stop after this time; --resume continues", flag="--max-time", group="cluster",
        metavar="H:M:S", python=False,
    )  # fmt: skip
