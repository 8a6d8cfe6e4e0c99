"""The four lattice examples, run from their files: numbers against exact results, arrays for pictures.

`figures_lattice.py` runs them and draws.
"""

from __future__ import annotations

import runpy
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import tauslab as ts
from tauslab.model.lattice.lattice import Lattice

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
EXACT = ROOT / "docs" / "figures" / "minde-exact.npz"
INDUCER = {"lac-5uM": 6466, "lac-40uM": 51730}  # molecules, inside and outside each
LAC_SHOWN = ("mY", "O", "Y", "YI", "I", "Iex")
CUBE_SHOWN = ("S", "ES", "P")
LEFT_OUT = 60.0  # seconds at the start: proteins that were spread evenly find their rhythm
WINDOW = 9.0  # seconds of the running mean
FloatArray = npt.NDArray[np.float64]
Arrays = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Quantity:
    """A number of the lattice beside what is expected, with the standard error between them."""

    name: str
    value: float
    expected: float
    error: float

    @property
    def z(self) -> float:
        """Standard errors between the two."""
        return (self.value - self.expected) / self.error if self.error else 0.0


@dataclass
class Outcome:
    """Results of a case, with the seconds of its lattice runs and of all of it."""

    case: str
    says: str
    rows: list[Quantity] = field(default_factory=list)
    arrays: Arrays = field(default_factory=dict)
    steps: int = 0
    lattice_seconds: float = 0.0
    seconds: float = 0.0
    device: Any = ""

    def add(self, name: str, value: float, expected: float, error: float) -> None:
        """Note a number."""
        self.rows.append(Quantity(name, float(value), float(expected), float(error)))


@dataclass(frozen=True)
class Settings:
    """Size of a run: seconds of model time, replicas, well-stirred trajectories."""

    device: Any = "auto"
    seconds: float | None = None
    replicas: int | None = None
    samples: int = 1000

    def run(self, model: Lattice, outcome: Outcome, points: int, seconds: float, **options: Any
            ) -> ts.LatticeResult:  # fmt: skip
        """Run a lattice with so many counts after the start, and note how long it took."""
        step = length_of_step(model)
        every = max(1, round(seconds / step / points))
        if options.pop("frames", False):
            options["frame_every"] = every
        began = time.perf_counter()
        result = ts.run(model, device=self.device, seed=1, count_every=every,
                        t_end=every * points * step, **options)  # fmt: skip
        outcome.lattice_seconds += time.perf_counter() - began
        outcome.steps += int(result.attributes["steps"]) * result.n_replicas
        outcome.device = result.profile[0]["device"]
        return result

    def stirred(self, model: ts.Network, times: FloatArray) -> ts.Result:
        """Exact trajectories of a network."""
        return ts.run(model, method="ssa", n=self.samples, times=times, seed=2, device=self.device)


def minde(settings: Settings) -> Outcome:
    """MinD on the membrane along the cell, and its period."""
    seconds = settings.seconds or 240.0
    outcome = Outcome("minde", f"{seconds:g} s of the Min proteins")
    points = 240 if seconds >= 100 else max(2, round(10 * seconds))
    with settings.run(lattice_of("minde.toml"), outcome, points, seconds, frames=True) as result:
        bound = result.kymograph("minDm", "z") + result.kymograph("minDEm", "z")
        times, height = result.frame_times, result.shape[0] * result.spacing * 1e6
    collected = swings_of_planes(times, bound)
    outcome.arrays = {
        "bound": bound, "times": times, "height": np.array(height), "turns": collected.turns,
        "bias_times": collected.times, "bias": collected.bias,
    }  # fmt: skip
    if collected.period:
        exact = exact_swings()
        expected, error = pooled_period(exact)
        outcome.add(
            f"period (s): twice the mean of {len(collected.turns) - 1} times between changes of sides "
            f"after {LEFT_OUT:g} s; expected: the exact program's",
            collected.period, expected, float(np.hypot(collected.error, error)),
        )  # fmt: skip
        shares = [one.largest_share() for one in exact]
        outcome.add("largest share of bound MinD in one half", collected.largest_share(),
                    float(np.mean(shares)), 0.0)  # fmt: skip
    return outcome


def lac(case: str, settings: Settings) -> Outcome:
    """Lattice and well-stirred lac switch at a concentration of inducer."""
    seconds, inducer = settings.seconds or 60.0, {"inducer": float(INDUCER[case])}
    outcome = Outcome(case, f"{seconds:g} s of the lac cell: one lattice run and "
                      f"{settings.samples} SSA runs of the well-mixed model")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        model = lac_model(Path(folder))
        stirred = model.well_stirred("reachable", inducer)
        # The step of the example's source is one pass of hops with q = 1/4.
        with settings.run(model, outcome, 60, seconds, set=inducer, max_hop=0.26) as result:
            times = result.times
            counts = {name: result.counts(name) for name in LAC_SHOWN}
    samples = settings.stirred(stirred, times)
    late = times >= times[-1] / 2
    for name in LAC_SHOWN:
        ssa = samples.counts(name).astype(float)
        at_end = f"{name} at {times[-1]:g} s"
        outcome.add(at_end, counts[name][-1], ssa[:, -1].mean(), ssa[:, -1].std(ddof=1))
        means = ssa[:, late].mean(axis=1)
        outcome.add(f"{name}, mean of the second half", counts[name][late].mean(), means.mean(),
                    means.std(ddof=1))  # fmt: skip
        outcome.arrays |= curves_of(name, counts[name][None], ssa)
    outcome.arrays["times"] = times
    return outcome


def cube(settings: Settings) -> Outcome:
    """Michaelis and Menten's enzyme: means of replicas against well-stirred trajectories."""
    runs, seconds = settings.replicas or 32, settings.seconds or 10.0
    model = lattice_of("michaelis_menten_cube.toml")
    outcome = Outcome("cube", f"{runs} lattice runs and {settings.samples} SSA runs "
                      f"of {seconds:g} s")  # fmt: skip
    with settings.run(model, outcome, 40, seconds, replicas=runs) as result:
        times = result.times
        counts = {name: per_replica(result, name).astype(float) for name in CUBE_SHOWN}
    samples = settings.stirred(model.well_stirred(), times)
    for name, collected in counts.items():
        ssa = samples.counts(name).astype(float)
        for at in (4, 12, len(times) - 1):
            spread = np.sqrt(ssa[:, at].var(ddof=1) * (1 / runs + 1 / len(ssa)))
            outcome.add(f"mean of {name} at {times[at]:g} s", collected[:, at].mean(),
                        ssa[:, at].mean(), spread)  # fmt: skip
        outcome.arrays |= curves_of(name, collected, ssa)
    outcome.arrays["times"] = times
    return outcome


def ball(settings: Settings) -> Outcome:
    """A <-> B: mean and variance of B against the binomial distribution."""
    runs, seconds = settings.replicas or 16, settings.seconds or 10.0
    outcome = Outcome("ball", f"{runs} lattice runs of {seconds:g} s of A <-> B; "
                      "B is Binomial(1000, p(t)) exactly")  # fmt: skip
    with settings.run(lattice_of("isomerisation_ball.toml"), outcome, 100, seconds, replicas=runs
                      ) as result:  # fmt: skip
        times, b = result.times, per_replica(result, "B").astype(float)
    total, n = 0.851, 1000
    p = 0.5 / total * (1 - np.exp(-total * times))
    mean, spread = n * p, np.sqrt(n * p * (1 - p))
    for at in (5, 10, 20, 50, 100):
        outcome.add(f"mean of B at {times[at]:g} s", b[:, at].mean(), mean[at],
                    spread[at] / np.sqrt(runs))  # fmt: skip
    scaled = ((b - mean)[:, 10:] / spread[10:])[:, ::20] ** 2  # 2 s apart: hardly correlated
    outcome.add(f"mean of (B - E[B])²/variance, {scaled.size} values", scaled.mean(), 1.0,
                np.sqrt(2 / scaled.size))  # fmt: skip
    outcome.arrays = {"times": times, "B": b, "mean": mean, "spread": spread}
    return outcome


CASES: dict[str, Callable[[Settings], Outcome]] = {
    "minde": minde,
    "lac-5uM": partial(lac, "lac-5uM"),
    "lac-40uM": partial(lac, "lac-40uM"),
    "cube": cube,
    "ball": ball,
}


def length_of_step(model: Lattice) -> float:
    """Seconds of a step; the examples all name it."""
    assert model.step is not None
    return model.step


def lattice_of(name: str) -> Lattice:
    """The lattice of an example's file, or what a program builds."""
    if name.endswith(".py"):
        build: Callable[[], Lattice] = runpy.run_path(str(EXAMPLES / name))["build"]
        return build()
    model = ts.read(EXAMPLES / name)
    assert isinstance(model, Lattice)
    return model


def lac_model(folder: Path) -> Lattice:
    """Read the model that `examples/lac_two_state.py` writes."""
    path = folder / "lac_two_state.h5"
    lattice_of("lac_two_state.py").write(path)
    model = ts.read(path)
    assert isinstance(model, Lattice)
    return model


def per_replica(result: ts.LatticeResult, name: str) -> npt.NDArray[np.int64]:
    """Counts ``[replica, sample]``."""
    collected = []
    for number in range(result.n_replicas):
        with ts.LatticeResult(result.path, number) as one:
            collected.append(one.counts(name))
    return np.array(collected)


def curves_of(name: str, lattice: npt.ArrayLike, stirred: FloatArray) -> Arrays:
    """Lattice runs ``[run, time]``; mean and middle 95 % of well-stirred trajectories."""
    band = np.quantile(stirred, (0.025, 0.975), axis=0)
    return {f"{name}_runs": np.asarray(lattice), f"{name}_mean": stirred.mean(axis=0),
            f"{name}_band": band}  # fmt: skip


# ---------------------------------------------------------------- swings of the Min proteins


@dataclass(frozen=True)
class Swings:
    """Changes of sides.

    Attributes
    ----------
    times, bias
        Running mean of (lower - upper) / (lower + upper) ``[second]``, from -1 to 1.
    turns
        Times at which it changes sign, after `LEFT_OUT`.
    period, error
        Twice the mean time between turns and its standard error; 0 with fewer than three turns.
    """

    times: FloatArray
    bias: FloatArray
    turns: FloatArray
    period: float
    error: float

    def largest_share(self) -> float:
        """Largest share of the particles in one half, after `LEFT_OUT`."""
        return float(0.5 + np.abs(self.bias[self.times >= LEFT_OUT]).max() / 2)


def swings(times: FloatArray, lower: npt.ArrayLike, upper: npt.ArrayLike) -> Swings:
    """Measure the period of particles that go to and fro between two halves.

    Parameters
    ----------
    times
        Equally spaced, in seconds ``[sample]``.
    lower, upper
        Particles in either half ``[sample]``.
    """
    low, high = np.asarray(lower, np.float64), np.asarray(upper, np.float64)
    raw = (low - high) / np.maximum(low + high, 1.0)
    width = min(len(raw), 2 * round(WINDOW / (2 * (times[1] - times[0]))) + 1)
    bias = np.convolve(raw, np.ones(width) / width, "valid")
    begins = (width - 1) // 2
    at = times[begins : begins + len(bias)]
    before = np.flatnonzero((bias[:-1] < 0) != (bias[1:] < 0))
    share = bias[before] / (bias[before] - bias[before + 1])
    turns = at[before] + share * (at[before + 1] - at[before])
    turns = turns[turns >= LEFT_OUT]
    halves = np.diff(turns)
    if len(halves) < 2:
        return Swings(at, bias, turns, 0.0, 0.0)
    error = 2 * halves.std(ddof=1) / np.sqrt(len(halves))
    return Swings(at, bias, turns, float(2 * halves.mean()), float(error))


def swings_of_planes(times: FloatArray, bound: npt.NDArray[np.integer]) -> Swings:
    """Swings of particles in each plane ``[sample, plane]``, between lower and upper half."""
    middle = bound.shape[1] // 2
    return swings(times, bound[:, :middle].sum(axis=1), bound[:, middle:].sum(axis=1))


def exact_swings() -> list[Swings]:
    """Swings of the stored exact runs of the Min proteins, which `exact_rdme.py` made."""
    with np.load(EXACT) as stored:
        planes, times = stored["planes"], stored["times"]
    return [swings_of_planes(times, run[:, 2] + run[:, 4]) for run in planes]


def pooled_period(found: list[Swings]) -> tuple[float, float]:
    """Period and standard error from the times between turns of several runs."""
    halves = np.concatenate([np.diff(one.turns) for one in found])
    return float(2 * halves.mean()), float(2 * halves.std(ddof=1) / np.sqrt(len(halves)))
