r"""The Min proteins by the lattice, by its exact master equation, and by rate equations: a picture.

    python scripts/lattice/figures_minde.py -o docs/figures
    python scripts/lattice/figures_minde.py -o docs/figures lattice=a.npz exact=b.npz fast-lattice=c.npz \
        fast-exact=d.npz

draws what lies in the folder: ``lattice-minde.npz`` (figures_lattice.py), ``minde-exact.npz``
(240 s of exact_rdme.py) and ``minde-early.npz``, where ``lattice:..``, ``fast-lattice:..``
are of lattice_trials.py and ``exact:..``, ``fast-exact:..`` of exact_rdme.py, fast with tenfold
diffusion; the second call makes it of their files.  Prints bound MinD early by step of the lattice
beside the exact one, and the periods.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from lattice_cases import FloatArray, Swings, exact_swings, pooled_period, swings_of_planes
from minde_mean_field import Factors, solved

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"
Arrays = dict[str, npt.NDArray[Any]]


def bound(counts: npt.NDArray[Any]) -> FloatArray:
    """MinD on the membrane, from counts ``[run, time, species, ..]``."""
    return np.asarray(counts[:, :, 2].astype(float) + counts[:, :, 4])


def lattice_runs(early: Arrays, kind: str, divide: int) -> tuple[FloatArray, FloatArray]:
    """Times, and bound MinD ``[run, time]`` of lattice runs with a divided step."""
    chosen = early[f"{kind}lattice:divide"] == divide
    return early[f"{kind}lattice:times"], bound(early[f"{kind}lattice:counts"][chosen])


def exact_runs(early: Arrays, kind: str) -> tuple[FloatArray, FloatArray]:
    """The same of exact runs."""
    return early[f"{kind}exact:times"], bound(early[f"{kind}exact:counts"])


def print_early(early: Arrays) -> None:
    """Means with standard errors, and how far apart they are."""
    for kind, label in (("", "D of the file"), ("fast-", "tenfold D")):
        times, exact = exact_runs(early, kind)
        points = [float(t) for t in (0.5, 1.0, 1.5, 2.0) if np.isclose(times, t).any()]
        at = [int(np.flatnonzero(np.isclose(times, t))[0]) for t in points]
        print(f"| {label}: bound MinD at | {' | '.join(f'{t:g} s' for t in points)} |")
        mean, error = exact.mean(axis=0), exact.std(axis=0, ddof=1) / np.sqrt(len(exact))
        print(f"| exact, {len(exact)} runs |",
              *(f"{mean[i]:.0f} ± {error[i]:.0f} |" for i in at))  # fmt: skip
        for divide in np.unique(early[f"{kind}lattice:divide"]):
            own, runs = lattice_runs(early, kind, divide)
            its = [int(np.flatnonzero(np.isclose(own, t))[0]) for t in points]
            off = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
            print(f"| lattice, step / {divide}, {len(runs)} runs |",
                  *(f"{runs[:, j].mean():.0f} ± {off[j]:.0f} "
                    f"(z {(runs[:, j].mean() - mean[i]) / np.hypot(error[i], off[j]):+.1f}) |"
                    for i, j in zip(at, its, strict=True)))  # fmt: skip
        _, rates = rate_equations(kind)
        print("| rate equations |", *(f"{rates[round(t / 0.1)]:.0f} |" for t in points))


def rate_equations(kind: str) -> tuple[FloatArray, FloatArray]:
    """Times to 2 s, bound MinD."""
    times = np.arange(0.0, 2.05, 0.1)
    _, particles = solved(Factors(diffusion=10.0 if kind else 1.0), times)
    return times, np.asarray((particles[2] + particles[4]).sum(axis=0))


def draw_early(axes: Axes, early: Arrays, kind: str, title: str) -> None:
    """Bound MinD over the first seconds."""
    times, exact = exact_runs(early, kind)
    axes.plot(times, exact.T, color=ORANGE, linewidth=0.5)
    axes.plot(times, exact.mean(axis=0), "o", color=ORANGE, markersize=4, label="exact")
    divide = int(early[f"{kind}lattice:divide"].min())
    own, runs = lattice_runs(early, kind, divide)
    axes.plot(own, runs.T, color=BLUE, linewidth=0.5)
    axes.plot(own, runs.mean(axis=0), color=BLUE, linewidth=2, label="lattice")
    axes.plot(*rate_equations(kind), "--", color=GREEN, label="rate equations")
    axes.set(title=title, xlabel="time (s)", ylabel="MinD on the membrane")
    axes.title.set_fontsize("medium")
    axes.legend(fontsize="small")


def draw(folder: Path, early: Arrays, found: dict[str, list[Swings]]) -> None:
    """Three panels."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 3, figsize=(11, 3.3), layout="constrained")
    draw_early(panels[0], early, "", "the model's diffusion")
    draw_early(panels[1], early, "fast-", "ten times faster")
    for (label, runs), colour in zip(found.items(), (BLUE, ORANGE), strict=True):
        period, error = pooled_period(runs)
        panels[2].plot(runs[0].times, runs[0].bias, color=colour, linewidth=0.9,
                       label=f"{label}: {period:.1f} ± {error:.1f} s")  # fmt: skip
    panels[2].axhline(0, color="grey", linewidth=0.5)
    panels[2].set(title="lower - upper half, share of all", xlabel="time (s)", ylim=(-1, 1))
    panels[2].title.set_fontsize("medium")
    panels[2].legend(fontsize="small")
    figure.savefig(folder / "minde-exact.png", dpi=110)
    plt.close(figure)


def loaded(path: Path) -> Arrays:
    """Arrays of a file, by name."""
    with np.load(path) as stored:
        return dict(stored)


def collect(files: list[str], out: Path) -> None:
    """Put files of ``KIND=FILE`` together: counts, times, and which run they are of."""
    result: Arrays = {}
    for text in files:
        kind, name = text.split("=")
        arrays = loaded(Path(name))
        if "planes" in arrays:
            arrays["counts"] = arrays["planes"].sum(axis=-1)
        result |= {f"{kind}:{key}": value for key, value in arrays.items()
                  if key in {"counts", "times", "seed", "divide"}}  # fmt: skip
    np.savez_compressed(out, **result)  # type: ignore[arg-type]


def main() -> None:
    """Print and draw."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", nargs="*", help="KIND=FILE, to be put together")
    parser.add_argument("-o", "--output", type=Path, default=Path("figures"))
    options = parser.parse_args()
    folder: Path = options.output
    if options.file:
        collect(options.file, folder / "minde-early.npz")
    early = loaded(folder / "minde-early.npz")
    lattice = loaded(folder / "lattice-minde.npz")
    result = {
        "lattice": [swings_of_planes(lattice["times"], lattice["bound"])],
        "exact": exact_swings(),
    }
    print_early(early)
    for label, runs in result.items():
        period, error = pooled_period(runs)
        print(f"{label}: {period:.2f} ± {error:.2f} s; by run:",
              *(f"{one.period:.2f} ± {one.error:.2f}, share {one.largest_share():.3f};"
                for one in runs))  # fmt: skip
    draw(folder, early, result)


if __name__ == "__main__":
    main()
