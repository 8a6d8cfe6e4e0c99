"""Mean and modes of the Schlögl demo at t = 10, beside the exact answer."""

from __future__ import annotations

import sys

import numpy as np
import numpy.typing as npt

from tauslab.store.results.open import open_result

TIME = 10.0
# The master equation on 0..884 molecules, solved by uniformisation, for the rates of
# examples/schlogl.xml and X(0) = 250.
EXACT_MEAN, EXACT_STD = 316.592, 238.070
EXACT_LOWER = 0.51347  # P(X < DIP)
EXACT_MODES = (83, 563)
NEAR = 2.0  # standard errors
DIP = 300  # between the modes: the distribution is lowest at 297


def mode(counts: npt.NDArray[np.int64], low: int, high: int, width: float) -> int:
    """Highest point of the distribution in [low, high), smoothed by a Gaussian of that width."""
    cells = np.bincount(counts[(counts >= low) & (counts < high)], minlength=high)
    reach = np.arange(-int(4 * width), int(4 * width) + 1)
    smooth = np.convolve(cells, np.exp(-0.5 * (reach / width) ** 2), mode="same")
    return int(np.argmax(smooth))


def main(path: str) -> None:
    """Print the comparison for the result file `path`."""
    with open_result(path) as result:
        k = result.time_index(TIME)
        x = result.counts("X")[:, k].astype(np.int64)
        mean, std = float(result.mean("X")[k]), float(result.std("X")[k])
    n = len(x)
    lower = float(np.mean(x < DIP))
    modes = mode(x, 0, DIP, 8.0), mode(x, DIP, 1000, 24.0)
    share = (EXACT_LOWER * (1 - EXACT_LOWER) / n) ** 0.5
    print(f"X at t = {TIME:g}, {n} trajectories    here      exact   difference")
    _line("mean", mean, EXACT_MEAN, EXACT_STD / n**0.5)
    print(f"  standard deviation             {std:8.2f}  {EXACT_STD:8.2f}")
    print(f"  lower mode                     {modes[0]:8d}  {EXACT_MODES[0]:8d}")
    print(f"  upper mode                     {modes[1]:8d}  {EXACT_MODES[1]:8d}")
    _line(f"P(X < {DIP})", lower, EXACT_LOWER, share)
    print(
        f"Near is within {NEAR:g} standard errors: so are 95 of 100 seeds, and --seed chooses one."
    )


def _line(what: str, found: float, exact: float, error: float) -> None:
    """A row, with the difference in standard errors of a mean over so many trajectories."""
    digits = 2 if exact > 1 else 4
    off = (found - exact) / error
    near = "near" if abs(off) <= NEAR else "not near"
    print(
        f"  {what:30s} {found:8.{digits}f}  {exact:8.{digits}f}   "
        f"{off:+.1f} standard errors of {error:.{digits}f}: {near}"
    )


if __name__ == "__main__":
    main(sys.argv[1])
