"""The options of `tauslab.dbn.build` and ``tauslab dbn``, each said once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tauslab.kernels.ode.counting import COUNTINGS
from tauslab.runner.options.dbn import DEFAULT_INTERVALS, DEFAULT_SAMPLES, SPACINGS, Counts, Spacing
from tauslab.runner.options.keywords import DEVICES, Numbers
from tauslab.runner.options.methods import ODE
from tauslab.runner.options.places import Device, Name, Output
from tauslab.runner.options.values.definition import declared, option
from tauslab.runner.options.values.texts import count


@declared
@dataclass(frozen=True, kw_only=True)
class DbnKeywords:
    """What `tauslab.dbn.build` takes."""

    unknown: Sequence[str] = option(
        (), "parameters, or initial amounts of species", flag="--unknown", group="model",
        metavar="A,B", stored=True,
        doc="Parameters, and species whose initial amounts are unknown.",
    )  # fmt: skip
    ranges: Mapping[str, tuple[float, float]] | None = option(
        None, "where an unknown is drawn; what is cut into intervals", flag="--range",
        group="model", action="append", metavar="NAME=LO:HI",
        doc="Of unknowns, which are drawn uniformly; half to twice the model's value by default. "
        "Of variables: what is cut into intervals, by default the range of a pilot of 4096 "
        "trajectories.",
    )  # fmt: skip
    sample: Sequence[str] = option(
        (), "drawn for each trajectory of ode: uniform(LO,HI), loguniform(LO,HI), "
        "normal(MEAN,SD), lognormal(MEDIAN,SIGMA), table(FILE)", flag="--sample", group="model",
        action="append", metavar="NAME=FORM", stored=True,
        doc='Other distributions of unknowns, such as ``["k1=lognormal(1,0.3)"]``.',
    )  # fmt: skip
    set: Mapping[str, float] | None = option(
        None, "value of a parameter or initial amount; @FILE: of many", flag="--set",
        group="model", action="append", metavar="NAME=VALUE", doc="Values by name.",
    )  # fmt: skip
    samples: int = option(
        DEFAULT_SAMPLES, "trajectories (1e5)", flag="--samples", group="sampling", metavar="N",
        stored=True, doc="Number of trajectories.",
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
        metavar="FILE", unit="time of the model",
        doc="Time points ``[time]``, in place of `t_end` and `points`.",
    )  # fmt: skip
    seed: int | None = option(
        None, "64 bits; drawn and stored by default", flag="--seed", group="sampling", type=int,
        metavar="S", stored=True, doc="64 bits; drawn and stored by default.",
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
        metavar="NAME=a,b,c", doc="Increasing edges of intervals, by name.",
    )  # fmt: skip
    spacing: Spacing = option(
        "equal", "of intervals (equal)", flag="--spacing", group="method", choices=SPACINGS,
        doc="Of intervals: ``equal`` widths, or ``quantile``: equally many samples of the pilot.",
    )  # fmt: skip
    output: Name | Output | None = option(
        None, "(MODEL's stem + .dbn.h5)", flag=("-o", "--output"), group="output", type=Path,
        metavar="OUT.h5", doc="File to write, or `tauslab.Output`.",
    )  # fmt: skip
    resume: bool = option(
        False, "go on with a stopped build", flag="--resume", group="output",
        action="store_true", doc="Go on with a build that was stopped.",
    )  # fmt: skip
    quiet: bool = option(
        True, "no progress and no summary", flag="--quiet", group="output", action="store_true",
        command_default=False, doc="Show no progress.",
    )  # fmt: skip
    device: Device = option(
        "auto", "auto: a GPU where there is one", flag="--device", group="cluster",
        choices=DEVICES, doc="``auto``, ``cpu`` or ``cuda``; or `tauslab.CPU`, `tauslab.GPU`.",
    )  # fmt: skip
    counting: Counts = option(
        "auto", "on a GPU: in the blocks that integrate", flag="--counting", choices=COUNTINGS,
        doc="Who counts on a GPU, with fixed steps: ``inside``, what integrates, at once; "
        "``after``, kernels of their own; ``auto``. Changes no count.",
    )  # fmt: skip
    block: int | None = option(
        None, "trajectories that a rank takes at once", flag="--block", type=int, metavar="N",
        doc="Trajectories that a rank takes at once.",
    )  # fmt: skip
