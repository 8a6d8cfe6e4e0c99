"""``biosimulators-tauslab``: the command line that BioSimulators asks every simulator for."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tauslab._version import __version__

_FAILURE = 1


def main(argv: list[str] | None = None) -> int:
    """Run an archive; 0 where all of it succeeded, 1 where a part failed, 2 for bad arguments."""
    parser = argparse.ArgumentParser(
        prog="biosimulators-tauslab",
        description="Run the experiments (SED-ML) of a COMBINE archive.",
        allow_abbrev=False,
    )
    parser.add_argument("-i", "--archive", type=Path, required=True, help="a COMBINE archive")
    parser.add_argument("-o", "--out-dir", type=Path, default=Path(), help="for results (.)")
    parser.add_argument("--seed", type=int, metavar="S", help="64 bits; drawn by default")
    parser.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), default="auto", help="where it runs (auto)"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print errors alone")
    parser.add_argument("-d", "--debug", action="store_true", help="has no effect")
    parser.add_argument("-v", "--version", action="version", version=f"tauslab {__version__}")
    given = parser.parse_args(argv)

    from tauslab.base.option_names import command_line
    from tauslab.decomposition.ranks.all_ranks import ranks
    from tauslab.exchange.sedml.biosimulators import execute

    if ranks().size > 1:
        parser.error("archives run on one rank")
    seed = {} if given.seed is None else {"seed": given.seed}
    try:
        with command_line():
            failures = execute(given.archive, given.out_dir, {"device": given.device} | seed)
    except OSError as error:
        failures = [f"{given.out_dir} cannot be written: {error.strerror or error}"]
    for line in failures:
        print(f"biosimulators-tauslab: {line}", file=sys.stderr)
    if not (failures or given.quiet):
        print(given.out_dir / "reports.h5")
    return _FAILURE if failures else 0
