"""Run drawn models with events by `ssa`, `tau` and `ode`, and hold them against a plain interpreter.

    python tests/support/fuzz/fuzz_events.py 100                        # 100 files of every kind
    python tests/support/fuzz/fuzz_events.py 1 --kinds flow --first 17 --show   # one file again
    python tests/support/fuzz/fuzz_events.py 9 --kinds state,ties --methods ssa:tree,ssa:rssa   # by selectors

A file has some small models (`drawn_events.Part`) that do not touch each other, and runs with some sets of values
of their constants: one kernel is compiled for all. Beside each model stands `plain_events`, which shares nothing
with tauslab. Kinds:

- ``state``: triggers on the time and on what events set; reactions, if any, change nothing that events read;
- ``flow``: the same, with quantities that move at constant rates;
- ``ties``: the same as state, with equal priorities more often, and more trajectories;
- ``timed``: triggers of the time and of constants alone, which tauslab may turn into a list of times;
- ``reactions``: molecules react, at rates that events, the state and the time change.

But for the last, the interpreter gives every course that chance among equal priorities allows, and its probability.
Every trajectory must have one of these courses, exactly (to `TOLERANCE` where something moves), and where there are
several, chi-square tells whether they come as often as they should: the smallest of all p-values times
their number must be above `FALSE_ALARM`, so that a run in which all is right fails with at most this probability.
Of the last kind the means of `ssa` and `tau` at some times are compared with those of a plain loop; the largest
of M differences must be below the number of standard errors that M normal numbers exceed with probability
`FALSE_ALARM`.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.stats
from drawn_events import TIMES, Drawing, Part, document
from plain_events import AmbiguousError, Course, courses, one_solution

import tauslab as ts
from tauslab.formats.read import read_network

KINDS = ("state", "flow", "ties", "timed", "reactions")
METHODS = ("ssa", "tau", "ode")
FALSE_ALARM = 1e-3
TOLERANCE = 1e-4  # of what moves; a rate may jump within a step
ROUNDING = 1e-8  # of values that read the time just after a relation changes, after some doublings
PARTS = {"state": 8, "flow": 8, "ties": 8, "timed": 1, "reactions": 4}
POINTS = {"state": 24, "flow": 16, "ties": 4, "timed": 1, "reactions": 1}
TRAJECTORIES = {"state": 4, "flow": 4, "ties": 400, "timed": 4, "reactions": 4000}
TRIES = 12  # values of constants that are drawn for a point, and parts for a place
PLAIN_TRAJECTORIES = 200
COMPARED = (4, 9, 16, 24)  # places of times at which means are compared
Array = npt.NDArray[np.float64]
Statuses = npt.NDArray[np.uint8]
ConditionRuns = dict[Course, Fraction]


@dataclass(frozen=True)
class Case:
    """One file."""

    seed: int
    kind: str
    number: int

    @property
    def name(self) -> str:
        """What makes it again."""
        return f"--seed {self.seed} --kinds {self.kind} --first {self.number}"


@dataclass
class Found:
    """What came of the files."""

    models: Counter[str] = field(default_factory=Counter)
    courses: int = 0
    executions: int = 0
    chances: list[tuple[float, str]] = field(default_factory=list)  # p-values, and of what
    gaps: list[tuple[float, str]] = field(default_factory=list)  # standard errors, and of what
    wrong: list[str] = field(default_factory=list)

    def alarms(self) -> list[str]:
        """Differences that chance does not explain."""
        message = list(self.wrong)
        least = FALSE_ALARM / max(1, len(self.chances))
        message += [f"{where}: p = {p:.2g}" for p, where in self.chances if p < least]
        most = largest_gap(len(self.gaps))
        message += [f"{where}: {z:.1f} standard errors" for z, where in self.gaps if z > most]
        return message

    def report(self) -> str:
        """A few lines."""
        counts = ", ".join(f"{n} {kind}" for kind, n in self.models.items())
        lines = [
            (
                f"{sum(self.models.values())} models ({counts}), {self.courses} courses compared, "
                f"{self.executions} executions followed; {len(self.alarms())} differences"
            )
        ]
        if self.chances:
            p, where = min(self.chances)
            lines.append(f"{len(self.chances)} laws of ties, the smallest p {p:.2g} ({where})")
        if self.gaps:
            z, where = max(self.gaps)
            lines.append(
                f"{len(self.gaps)} means, the largest difference {z:.2f} standard errors ({where}), "
                f"alarm at {largest_gap(len(self.gaps)):.2f}"
            )
        return "\n".join(lines)


def largest_gap(count: int) -> float:
    """Standard errors that the largest of `count` differences exceeds with probability `FALSE_ALARM`."""
    return float(scipy.stats.norm.isf(FALSE_ALARM / 2 / max(1, count)))


@dataclass
class Drawn:
    """The parts of a file, and of each part the values of its constants at each point."""

    parts: list[Part]
    values: list[list[dict[str, Fraction]]]
    background: float | None
    text: str = ""
    known: dict[tuple[int, int, bool], tuple[ConditionRuns, int]] = field(default_factory=dict)

    def expected(self, number: int, point: int, *, counted: bool) -> tuple[ConditionRuns, int]:
        """Courses of a part at a point, and how many executions were followed."""
        key = (number, point, counted)
        if key not in self.known:
            part, values = self.parts[number], self.values[number][point]
            self.known[key] = expected(part, values, counted=counted)
        return self.known[key]

    @property
    def points(self) -> int:
        """How many sets of values there are."""
        return len(self.values[0])

    @property
    def counted(self) -> bool:
        """Whether molecules are counted: there are reactions, or no equations."""
        return self.background is not None or not any(part.rates for part in self.parts)

    def table(self) -> dict[str, Array]:
        """Columns of constants."""
        return {
            name: np.array([float(given[name]) for given in points])
            for points in self.values
            for name in points[0]
        }


def drawn(case: Case) -> Drawn:
    """The file of a case; every point of every part has courses that do not depend on rounding."""
    dice = random.Random(f"events {case.seed} {case.kind} {case.number}")
    background = dice.choice((None, 0, 20, 200)) if case.kind != "reactions" else 0
    if case.kind == "flow" and background:
        background = dice.choice((0, 20))
    parts: list[Part] = []
    values: list[list[dict[str, Fraction]]] = []
    while len(parts) < PARTS[case.kind]:
        part = Drawing(dice, f"m{len(parts)}_", case.kind).draw()
        points: list[dict[str, Fraction]] = []
        while len(points) < POINTS[case.kind]:
            given = _good_values(part, case.kind, dice)
            if given is None:
                break
            points.append(given)
        if len(points) == POINTS[case.kind]:
            parts.append(part)
            values.append(points)
    actual = Drawn(parts, values, background)
    actual.text = document(parts, [points[0] for points in values], dice, background)
    return actual


def _good_values(part: Part, kind: str, dice: random.Random) -> dict[str, Fraction] | None:
    """Values of its constants with which its courses are known; None if a few tries give none."""
    for _ in range(TRIES):
        values = part.values(dice)
        try:
            if kind == "reactions":
                model = part.plain(values, float)
                one_solution(model, [float(t) for t in TIMES], part.names, random.Random(1))
                return {**values}
            followed, executed = expected(part, values, counted=True)
            expected(part, values, counted=False)
            # Quiet models tell little.
            if executed < dice.choice((0, 2, 4, 6)) or (kind == "ties" and len(followed) < 2):
                continue
        except (AmbiguousError, ZeroDivisionError):
            continue
        return values
    return None


def expected(
    part: Part, values: Mapping[str, Fraction], *, counted: bool
) -> tuple[ConditionRuns, int]:
    """All courses of a part, with their probabilities."""
    return courses(part.plain(values, Fraction), TIMES, part.names, counted=counted)


def run(case: Case, made: Drawn, method: str, folder: Path) -> tuple[list[str], Array, Statuses]:
    """Names, values ``[point, trajectory, time, name]`` and statuses of a file by a method."""
    path = folder / "drawn.xml"
    path.write_text(made.text, encoding="utf-8")
    network = read_network(path)
    word, _, selector = method.partition(":")
    given: Any = selector or None
    chosen: dict[str, ts.SSA | ts.TauLeaping | ts.ODE] = {
        "ssa": ts.SSA(selector=given),
        "tau": ts.TauLeaping(),
        "ode": ts.ODE(rtol=1e-9, atol=1e-10),
    }
    table = made.table() if made.points > 1 else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = ts.run(
            network, n=TRAJECTORIES[case.kind], times=[float(t) for t in TIMES], method=chosen[word],
            seed=case.number + 1, device=ts.CPU(threads=1), record="trajectories",
            table=table,
        )  # fmt: skip
    names, parts = list[str](), []
    first = "amounts" if method == "ode" else "counts"
    for listed, where in ((result.species, first), (result.observables, "observables")):
        if listed:
            names += listed
            parts.append(np.asarray(result.data[where], float))
    values = np.concatenate(parts, axis=-1)
    status = np.asarray(result.status)
    if not table:
        values, status = values[None], status[None]
    return names, values, status


def compare(case: Case, made: Drawn, method: str, folder: Path, found: Found) -> None:
    """Hold the trajectories of a method against the courses that are allowed."""
    names, values, status = run(case, made, method, folder)
    place = {name: k for k, name in enumerate(names)}
    exact = case.kind != "flow"
    if (status > 1).any():
        point = int(np.argwhere(status > 1)[0, 0])
        found.wrong.append(f"{case.name} {method} point {point}: status {status[point].max()}")
        return
    counted = made.counted and method != "ode"
    for number, part in enumerate(made.parts):
        for point in range(made.points):
            where = f"{case.name} {method} part {number} point {point}"
            seen = values[point][:, :, [place[name] for name in part.names]]
            allowed, executed = made.expected(number, point, counted=counted)
            found.executions += executed
            found.courses += len(seen)
            judge(where, seen, allowed, exact=exact, found=found)


def judge(where: str, seen: Array, allowed: ConditionRuns, *, exact: bool, found: Found) -> None:
    """Whether trajectories have the courses that are allowed, as often as they should."""
    listed = np.array([[[float(x) for x in row] for row in solution] for solution in allowed])
    away = np.array([np.abs(seen - one).reshape(len(seen), -1).max(axis=1) for one in listed])
    which = np.argmin(away, axis=0)
    distance = away[which, np.arange(len(seen))]
    limit = ROUNDING if exact else TOLERANCE
    if not (distance <= limit).all():
        found.wrong.append(f"{where}: off by {np.nanmax(distance):.3g}")
        return
    if len(allowed) > 1:
        chances = np.array([float(p) for p in allowed.values()])
        counts = np.bincount(which, minlength=len(chances))
        # Probable courses alone, others together.
        rare = chances * len(seen) < 5
        if rare.any() and not rare.all():
            chances = np.array([*chances[~rare], chances[rare].sum()])
            counts = np.array([*counts[~rare], counts[rare].sum()])
        if len(chances) > 1 and len(seen) >= 50:
            p = float(scipy.stats.chisquare(counts, chances * len(seen)).pvalue)
            found.chances.append((p, where))


def compare_means(
    case: Case, made: Drawn, methods: Sequence[str], folder: Path, found: Found
) -> None:
    """Hold means of `ssa` and `tau` against those of a plain loop."""
    chance = [method for method in methods if method != "ode"]
    ours = {method: run(case, made, method, folder) for method in chance}
    times = [float(t) for t in TIMES]
    for number, part in enumerate(made.parts):
        for point in range(made.points):
            model = part.plain(made.values[number][point], float)
            dice = random.Random(f"{case.name} {number} {point}")
            plain = np.array(
                [one_solution(model, times, part.names, dice) for _ in range(PLAIN_TRAJECTORIES)]
            )
            for method, (names, values, status) in ours.items():
                place = {name: k for k, name in enumerate(names)}
                if (status[point] > 1).any():
                    found.wrong.append(f"{case.name} {method}: status {status[point].max()}")
                    continue
                seen = values[point][:, :, [place[name] for name in part.names]]
                for k in COMPARED:
                    for column, name in enumerate(part.names):
                        z = standard_errors(seen[:, k, column], plain[:, k, column])
                        found.gaps.append(
                            (z, f"{case.name} {method} {name} at {times[k]:g}, point {point}")
                        )
                found.courses += len(seen)


def standard_errors(ours: Array, plain: Array) -> float:
    """The difference of two means in standard errors of a common variance."""
    n, m = len(ours), len(plain)
    variance = (ours.var() * n + plain.var() * m) / (n + m)
    least = (0.5 * max(1.0, float(np.abs(ours).max())) / m) ** 2  # of a value that is seldom
    return float(abs(ours.mean() - plain.mean()) / np.sqrt(variance * (1 / n + 1 / m) + least))


def cases(seed: int, kinds: Sequence[str], first: int, count: int) -> Iterator[Case]:
    """`count` files of every kind."""
    for number in range(first, first + count):
        for kind in kinds:
            yield Case(seed, kind, number)


def fuzz(chosen: Iterator[Case], methods: Sequence[str], found: Found) -> None:
    """Draw and compare all files."""
    with tempfile.TemporaryDirectory() as folder:
        for case in chosen:
            made = drawn(case)
            found.models[case.kind] += len(made.parts) * made.points
            before = len(found.wrong)
            try:
                if case.kind == "reactions":
                    compare_means(case, made, methods, Path(folder), found)
                    continue
                for method in methods:
                    if method == "tau" and not made.counted:
                        continue  # it refuses what does not react
                    try:
                        compare(case, made, method, Path(folder), found)
                    except ts.ConfigError:
                        if ":" not in method:  # a selector is not for everything that ssa runs
                            raise
            except (ts.TauslabError, AmbiguousError) as error:
                found.wrong.append(f"{case.name}: {error}")
            for line in found.wrong[before:]:
                print(line, flush=True)


def show(case: Case) -> None:
    """Print a file's parts, their constants at each point and the courses."""
    made = drawn(case)
    for number, part in enumerate(made.parts):
        print(
            f"part {number}: starts {part.start} sizes {part.compartments} species {part.species}"
        )
        print(f"  rules {part.rules} rates {part.rates}")
        for reaction in part.reactions:
            print(f"  {reaction}")
        for event in part.events:
            print(f"  {event}")
    print("background", made.background)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all files that are asked for; 1 if something differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("files", type=int, help="of each kind")
    parser.add_argument("--seed", type=int, default=1, help="of the models (%(default)s)")
    parser.add_argument("--kinds", default=",".join(KINDS), help="some of %(default)s")
    parser.add_argument(
        "--methods", default=",".join(METHODS), help="some of %(default)s; also ssa:SELECTOR"
    )
    parser.add_argument("--first", type=int, default=0, help="number of the first file (0)")
    parser.add_argument("--show", action="store_true", help="print the models, run nothing")
    options = parser.parse_args(arguments)
    kinds = options.kinds.split(",")
    if unknown := set(kinds) - set(KINDS):
        parser.error(f"--kinds {', '.join(sorted(unknown))}: known are {', '.join(KINDS)}")
    os.environ.setdefault("TAUSLAB_CXXFLAGS", "-O0")
    chosen = cases(options.seed, kinds, options.first, options.files)
    if options.show:
        for case in chosen:
            show(case)
        return 0
    actual, begin = Found(), time.monotonic()
    fuzz(chosen, options.methods.split(","), actual)
    print(actual.report())
    print(f"{time.monotonic() - begin:.0f} s")
    for line in actual.alarms():
        print(line)
    return int(bool(actual.alarms()))


if __name__ == "__main__":
    sys.exit(main())
