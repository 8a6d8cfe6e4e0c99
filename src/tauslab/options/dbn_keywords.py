"""The options of `tauslab.dbn.build` and ``tauslab dbn``, each said once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tauslab.options.dbn import DEFAULT_INTERVALS, DbnChoices, parse_edges, parse_ranges
from tauslab.options.keywords import Numbers, device_option
from tauslab.options.methods import ODE
from tauslab.options.places import Device, Name, Output
from tauslab.options.values.definition import Stored, declared, option
from tauslab.options.values.recurring import comm_option
from tauslab.options.values.texts import assignments, count, drawn, read_times


@declared
@dataclass(frozen=True, kw_only=True)
class DbnKeywords(DbnChoices):
    """What `tauslab.dbn.build` takes."""

    unknown: Sequence[str] = option(
        (), "parameters, or initial amounts of species", flag="--unknown", group="model",
        metavar="A,B", stored=Stored(apart=True),
        doc="Parameters, and species whose initial amounts are unknown.",
    )  # fmt: skip
    ranges: Mapping[str, tuple[float, float]] | None = option(
        None, "where an unknown is drawn; what is cut into intervals", flag="--range",
        group="model", action="append", metavar="NAME=LO:HI",
        read=parse_ranges,
        doc="Of unknowns, which are drawn uniformly; half to twice the model's value by default. "
        "Of variables: what is cut into intervals, by default the range of a pilot of 4096 "
        "trajectories.",
    )  # fmt: skip
    sample: Sequence[str] = option(
        (), "drawn for each trajectory of ode: uniform(LO,HI), loguniform(LO,HI), "
        "normal(MEAN,SD), lognormal(MU,SIGMA) with mean and deviation of the logarithm, "
        "lognormal(median=M,sigma=S), table(FILE)", flag="--sample", group="model",
        action="append", metavar="NAME=FORM", stored=Stored(apart=True, read=drawn),
        doc='Other distributions of unknowns, such as ``["k1=lognormal(0,0.3)"]``.',
    )  # fmt: skip
    set: Mapping[str, float] | None = option(
        None, "value of a parameter or initial amount; @FILE: of many", flag="--set",
        group="model", action="append", metavar="NAME=VALUE", read=assignments,
        doc="Values by name.",
    )  # fmt: skip
    t_end: float | None = option(
        None, "last time point", flag="--t-end", group="sampling", type=float, metavar="T",
        unit="time of the model", doc="Last time point; by default the model's own end.",
    )  # fmt: skip
    points: int | None = option(
        None, "time points from 0 to T (101)", flag="--points", group="sampling", type=count,
        metavar="K", doc="Number of time points from 0 to `t_end`, both included (101).",
    )  # fmt: skip
    times: Numbers | None = option(
        None, "time points, one a line", flag="--times", group="sampling", type=Path,
        metavar="FILE", read=read_times, unit="time of the model",
        doc="Time points ``[time]``, in place of `t_end` and `points`.",
    )  # fmt: skip
    method: ODE | None = option(
        None, doc="How the equations are integrated, `tauslab.ODE`; by ``dopri5`` by default.",
    )  # fmt: skip
    intervals: int | Mapping[str, int] = option(
        DEFAULT_INTERVALS, "intervals of all nodes (5), or of one", flag="--intervals",
        group="method", action="append", metavar="[NAME=]K",
        doc="Intervals of every node, or by name (5 for the others).",
    )  # fmt: skip
    edges: Mapping[str, Numbers] | None = option(
        None, "intervals of a node", flag="--edges", group="method", action="append",
        metavar="NAME=a,b,c", read=parse_edges, doc="Increasing edges of intervals, by name.",
    )  # fmt: skip
    output: Name | Output | None = option(
        None, "(MODEL's stem + .dbn.h5)", flag=("-o", "--output"), group="output", type=Path,
        metavar="OUT.h5", doc="File to write, or `tauslab.Output`.",
    )  # fmt: skip
    device: Device = device_option()
    comm: Any = comm_option()
