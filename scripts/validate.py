"""Compare this program with exact results, by a table of checks; exits 1 where one fails.

    python scripts/validate.py                                  # what there is
    python scripts/validate.py cme --n 1000000 --device cuda -o docs/validation/cme-cuda
    python scripts/validate.py rdme --scale 0.02 --cases T1 T2

Prints a table; with -o writes OUTPUT.csv, and OUTPUT.md with the command. Each check is a module of
`scripts/validation`, whose first lines state its rule. `tests/statistics` runs them at small sizes.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).resolve().parent
for folder in ("peers", "lattice", "differential", "benchmarks", "validation"):
    sys.path.insert(1, str(SCRIPTS / folder))
sys.path.insert(1, str(SCRIPTS.parent / "tests" / "support"))


@dataclass(frozen=True)
class Check:
    """A module (its function, if not `run`), what it runs, what that is held to, and how often a right program fails.

    `options` are those it reads, with their defaults; None is the option's own.
    """

    module: str
    models: str
    method: str
    exact: str
    alarms: str
    options: dict[str, Any] = field(default_factory=dict)


LEAPS = "approximate: errors within bounds"
CHECKS = {
    "cme": Check("validate_cme", "eight networks", "ssa", "master equation, whole distributions",
                 "1 in 1,000", {"n": 1_000_000, "cases": []}),
    "projection": Check("validate_cme:run_projection", "the same", "tauslab.cme", "stored solutions",
                        "never: no chance", {}),
    "dsmts": Check("validate_dsmts", "66 cases of the SBML Test Suite", "ssa, tau",
                   "published means and standard deviations", "1.5 % a case",
                   {"n": 10_000, "method": "ssa", "epsilon": 0.03, "cases": []}),
    "event-laws": Check("validate_event_laws", "seven networks with events or rate laws of time",
                        "ssa, tau", "known distributions", "1 in 200",
                        {"n": 10_000, "many": 100.0}),
    "thinning": Check("validate_thinning", "twelve networks whose rates follow the time",
                      "ssa, tau", "exact means and variances, seconds beside integration and constant rates",
                      "1 in 17,000", {"n": 20_000, "cases": []}),
    "delays": Check("validate_delays", "nine delayed reactions", "ssa, two kernels",
                    "known distributions", "1e-5", {"n": 100_000}),
    "pasts": Check("validate_pasts", "three networks that look back", "ssa",
                   "a plain loop that shares no line", "1e-4", {"n": 100_000, "exact": 4000}),
    "tau": Check("validate_tau", "four networks", "tau", "the exact distribution, ssa", LEAPS,
                 {"n": 100_000}),
    "leaps": Check("validate_leaps", "21 networks that break leaps", "tau",
                   "known distributions, ssa", LEAPS,
                   {"n": 20_000, "exact": 20_000, "timed": 200, "samples": [1, 101],
                    "epsilons": [0.1, 0.03, 0.01], "cases": []}),
    "hybrids": Check("validate_hybrids", "the same networks", "hybrid, cle, tau",
                     "known distributions, ssa", LEAPS,
                     {"n": 4000, "exact": 4000, "timed": 100, "cases": []}),
    "partitions": Check("validate_partitions", "16 networks that are meant to break hybrids",
                        "hybrid", "ssa", "1 in 1,000", {"n": 20_000, "cases": []}),
    "hybrid-kills": Check("validate_hybrid_kills", "a hybrid of all parts and links, a small cell",
                          "ts.Hybrid", "the digest of a run that is not killed",
                          "never: no chance", {"runs": 30, "cases": []}),
    "stirred-cells": Check("validate_stirred_cells", "minimal cells without space", "ts.Hybrid",
                           "translations of an mRNA, conserved tRNA", "1 in a million",
                           {"n": 50, "t_end": None, "cases": []}),
    "galactose": Check("validate_galactose", "the galactose switch of yeast", "a hybrid of two parts",
                       "an independent program", "1 in 500",
                       {"n": 2000, "t_end": None, "cases": []}),
    "galactose-network": Check("validate_galactose:run_network", "the galactose switch of yeast",
                               "a hybrid of one network", "an independent program", "1 in 500",
                               {"n": 2000, "t_end": None, "cases": []}),
    "large": Check("validate_large", "BioNetGen's and a random network", "ssa, all selectors",
                   "mean-field time courses, linear, rebop", "1 in 1,000 of a kind",
                   {"n": 400, "exact": 10_000, "until": [], "cases": []}),
    "rare": Check("validate_rare", "three rare events", "weighted ensembles, splitting",
                  "exact probabilities", "1 in 370 an estimate",
                  {"runs": 20, "scale": 1.0, "cases": []}),
    "sensitivity": Check("validate_sensitivity", "three networks, 23 derivatives",
                         "coupled, common, likelihood ratio", "exact derivatives", "1 in 17",
                         {"n": 100_000}),
    "coverage": Check("validate_coverage", "64 statements with an uncertainty",
                      "until, shares, sensitivities, rare events, ...", "exact values",
                      "95 % are to hold: 8 % may not",
                      {"seeds": 200, "jobs": 1, "cases": [], "seconds": None, "keep": None}),
    "sbc": Check("validate_sbc", "four networks with unknown parameters",
                 "pmmh, abc_smc, smc2, grids of exact_filter", "uniform ranks of parameters among draws",
                 "1 in 1,000 a row",
                 {"seeds": 300, "jobs": 1, "cases": [], "seconds": None, "keep": None}),
    "dbn": Check("validate_dbn", "EGF-NGF with 14 unknown rate constants",
                 "dynamic Bayesian networks", "as many direct trajectories", "1e-4",
                 {"n": 3_000_000, "points": 101, "substeps": 100, "t_end": 10.0, "intervals": 5,
                  "unknown": "", "compare": 11}),
    "semantic": Check("validate_semantic", "the semantic cases of the SBML Test Suite", "ode",
                      "published time courses", "never: no chance",
                      {"files": [], "cases": [], "jobs": 1, "peer": None}),
    "sbml": Check("compare_sbml", "SBML files and drawn documents", "ode, ssa", "libRoadRunner",
                  "5 standard errors", {"files": [], "peer": None, "generate": 0, "first": 0,
                                        "ssa": 0, "t_end": None, "points": 11,
                                        "tolerance": 1e-5, "molecules": False}),
    "net": Check("compare_net", ".net files", "ode, ssa", "BioNetGen's run_network",
                 "1 in 1,000", {"files": [], "run_network": None, "t_end": None, "points": 10,
                                "exact": 100, "n": 10_000, "seconds": 60.0}),
    "rdme": Check("validate_rdme", "lattices, T1 to T14", "lattice", "exact results of diffusion and reaction",
                  "1 in 100,000 a row", {"scale": 1.0, "cases": [], "minde": None}),
    "membranes": Check("validate_membranes", "spheres and cylinders of 8 to 40 sites", "lattice",
                       "eigenvalues of the surface", "never: no chance", {"cases": []}),
    "lattice-reactions": Check("validate_lattice_reactions", "twelve lattices that react fast",
                               "lattice, all defaults", "master equation, closed forms",
                               "1 in 1,300", {"replicas": 40}),
    "drawn-lattices": Check("differential_rdme", "random small lattices", "lattice",
                            "linear equations, ssa of a network of sites", "1e-6",
                            {"number": 20, "replicas": 2000}),
    "halo": Check("validate_halo", "A + B <-> C over ranks (mpirun)", "lattice",
                  "the bits of one rank", "never: no chance",
                  {"shape": (96, 64, 64), "steps": 10_000, "fill": [0.1, 0.4], "transports": []}),
}  # fmt: skip

OPTIONS: dict[str, dict[str, Any]] = {
    "--n": {"type": lambda text: int(float(text)), "help": "trajectories"},
    "--exact": {"type": int, "help": "trajectories of what is compared with"},
    "--timed": {"type": int, "help": "exact trajectories that tell the time"},
    "--many": {"type": float, "help": "times as many molecules, for leaps"},
    "--cases": {"nargs": "+", "metavar": "CASE", "help": "only these"},
    "--method": {"choices": ("ssa", "tau")},
    "--epsilon": {"type": float, "help": "of leaps"},
    "--epsilons": {"type": float, "nargs": "+", "help": "of leaps"},
    "--samples": {"type": int, "nargs": "+", "help": "times of a run"},
    "--until": {"nargs": "+", "metavar": "CASE=TIME", "help": "ends of time courses"},
    "--runs": {"type": int, "help": "of a method"},
    "--scale": {"type": float, "help": "of the work"},
    "--seeds": {"type": int, "help": "of each statement"},
    "--jobs": {"type": int, "help": "processes"},
    "--points": {"type": int, "help": "sample times"},
    "--substeps": {"type": int, "help": "steps from one time to the next"},
    "--t-end": {"type": float, "help": "end of the time"},
    "--intervals": {"type": int, "help": "of a variable"},
    "--unknown": {"help": "names of parameters, with commas between"},
    "--compare": {"type": int, "help": "times that are compared"},
    "--files": {"nargs": "+", "type": Path, "metavar": "PATH", "help": "files or a folder"},
    "--peer": {"help": "a Python that has the other program, or its table"},
    "--generate": {"type": int, "metavar": "N", "help": "documents that are drawn"},
    "--first": {"type": int, "metavar": "SEED", "help": "of the first of them"},
    "--ssa": {"type": int, "metavar": "N", "help": "exact trajectories in place of equations"},
    "--tolerance": {"type": float, "help": "in parts of a quantity's largest value"},
    "--molecules": {"action": "store_true", "help": "count amounts in molecules"},
    "--seconds": {"type": float, "help": "for a model, or after which no seed begins"},
    "--keep": {
        "type": Path,
        "help": "answers to seeds, from which a run that was broken off goes on",
    },
    "--run-network": {"type": Path, "help": "BioNetGen's simulator"},
    "--minde": {"type": Path, "help": "lattice-minde.npz of figures_lattice.py, for T11"},
    "--replicas": {"type": int, "help": "of a lattice"},
    "--number": {"type": int, "help": "of lattices that are drawn"},
    "--shape": {"type": int, "nargs": 3, "metavar": ("Z", "Y", "X")},
    "--steps": {"type": int, "help": "of a lattice"},
    "--fill": {"type": float, "nargs": "+", "help": "part of the slots"},
    "--transports": {"nargs": "+", "help": "by default all that the device has"},
}


def parser() -> argparse.ArgumentParser:
    """A command for each check, with the options that it reads."""
    made = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = made.add_subparsers(dest="check", metavar="CHECK")
    for name, check in CHECKS.items():
        about = f"{check.models}; {check.method}; against {check.exact}"
        one = commands.add_parser(name, help=about, description=f"{about}. {check.alarms}.")
        one.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
        one.add_argument("--threads", type=int, default=0, help="of a CPU (0: all allowed)")
        one.add_argument("--seed", type=int, default=1)
        one.add_argument("-o", "--output", type=Path, help="stem of a table and a page")
        for option, default in check.options.items():
            flag = f"--{option.replace('_', '-')}"
            one.add_argument(flag, default=default, **OPTIONS[flag])
    return made


def listed() -> str:
    """The table of checks."""
    from outcome import table

    rows = [[name, c.models, c.method, c.exact, c.alarms] for name, c in CHECKS.items()]
    heads = ("check", "models", "method", "held to", "a right program fails")
    return "\n".join(table(heads, rows))


def main(argv: Sequence[str] | None = None) -> int:
    """Run a check; print and write its table."""
    words = list(sys.argv[1:] if argv is None else argv)
    given = parser().parse_args(words)
    if given.check is None:
        print(listed())
        return 0
    began = time.perf_counter()
    with warnings.catch_warnings(action="ignore"):
        module, _, function = CHECKS[given.check].module.partition(":")
        outcome = getattr(importlib.import_module(module), function or "run")(given)
    if outcome is None:  # a rank that tells nothing
        return 0
    command = " ".join(["python scripts/validate.py", *words])
    print(outcome.page(command))
    failures = outcome.failures
    print(*(f"fails: {one}" for one in failures), sep="\n", end="\n" * bool(failures))
    print(f"{len(outcome.rows)} rows, {len(failures)} fail; {time.perf_counter() - began:.0f} s")
    if given.output:
        outcome.write(given.output, command)
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
