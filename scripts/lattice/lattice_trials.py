"""Runs that test why the lattice examples differ from their models without space or noise.

    python scripts/lattice/lattice_trials.py minde --seeds 8 --divide 1 2 4 --seconds 2 -o steps.npz
    python scripts/lattice/lattice_trials.py lac --first 2 -o lac-5uM-2.npz
    python scripts/lattice/lattice_trials.py lac --mixing -o lac-5uM-mixing-1.npz

``minde``: the first seconds of the Min proteins with the step of the file divided, some seeds each.
``lac``: the lac cell; with ``--mixing`` changed so that all that the well-stirred version mixes can
move: repressors with inducer as those without, outer inducer within the membrane too.
Files hold counts ``[run, time, species]``, times, seeds, and divisors of the step.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from lattice_cases import INDUCER, lac_model, lattice_of, length_of_step

import tauslab as ts
from tauslab.model.lattice.lattice import Lattice


def mixing(cell: Lattice) -> Lattice:
    """The lac cell in which nothing of what its well-stirred version mixes stays where it is."""
    for name in ("IR2", "I2R2"):
        cell.add_diffusion(name, 1e-12, within="cytoplasm")
    cell.add_diffusion("Iex", 1.28e-12, within="membrane")
    return cell


def minde_runs(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Runs of the Min proteins, by step and seed."""
    model = lattice_of("minde.toml")
    step = length_of_step(model)
    for divide in options.divide:
        model.step = step / divide
        every = round(options.seconds / options.points * divide / step)
        given = {"D": 2.5e-12 * options.diffusion, "D_membrane": 1e-14 * options.diffusion}
        for seed in range(options.first, options.first + options.seeds):
            yield run(model, options, seed, divide, every, set=given)


def lac_runs(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Runs of the lac cell, by seed."""
    with tempfile.TemporaryDirectory() as folder:
        model = lac_model(Path(folder))
        if options.mixing:
            model = mixing(model)
        every = round(options.seconds / options.points / length_of_step(model))
        inducer = {"inducer": float(INDUCER[f"lac-{options.inducer}"])}
        for seed in range(options.first, options.first + options.seeds):
            yield run(model, options, seed, 1, every, set=inducer, max_hop=0.26)


def run(model: Lattice, options: argparse.Namespace, seed: int, divide: int, every: int,
        **more: Any) -> dict[str, Any]:  # fmt: skip
    """Counts of a run."""
    began = time.perf_counter()
    with ts.run(model, device=options.device, seed=seed, count_every=every,
                t_end=options.seconds, **more) as result:  # fmt: skip
        counts = np.stack([result.counts(name) for name in model.species], axis=1)
        times = result.times
    took = time.perf_counter() - began
    reported = zip(model.species, counts[-1].tolist(), strict=True)
    print(f"step / {divide}, seed {seed}, {took:.1f} s:", *(f"{a} {n}" for a, n in reported),
          flush=True)  # fmt: skip
    return {"counts": counts, "times": times, "seed": seed, "divide": divide, "took": took}


def main() -> None:
    """Run, and write after each run what there is."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("case", choices=("minde", "lac"))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seconds", type=float, help="of model time: minde 2, lac 60")
    parser.add_argument("--points", type=int, help="counts: minde 20, lac 60")
    parser.add_argument("--first", type=int, default=1, help="seed of the first run")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--divide", type=int, nargs="+", default=[1], help="the step of minde")
    parser.add_argument("--diffusion", type=float, default=1.0, help="factor of all D of minde")
    parser.add_argument("--inducer", choices=("5uM", "40uM"), default="5uM")
    parser.add_argument("--mixing", action="store_true")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    is_lac = options.case == "lac"
    options.seconds = options.seconds or (2.0 if options.case == "minde" else 60.0)
    options.points = options.points or (60 if is_lac else 20)
    result: list[dict[str, Any]] = []
    for one in (lac_runs if is_lac else minde_runs)(options):
        result.append(one)
        arrays = {name: np.array([each[name] for each in result]) for name in one}
        np.savez_compressed(options.output, **arrays | {"times": one["times"]})


if __name__ == "__main__":
    main()
