"""Compare results with exact results and with other programs; exits with 1 if a comparison fails.

    python scripts/validate.py                                  # lists the checks
    python scripts/validate.py cme --n 1000000 --device cuda -o docs/validation/cme
    python scripts/validate.py rdme --scale 0.02 --cases T1 T2

Prints a report; `-o STEM` also writes its rows to STEM.csv. Each check is a module of
`scripts/validation`, whose first lines state its criterion. `tests/statistics` runs the checks with
fewer trajectories.
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
    """A check.

    Attributes
    ----------
    module
        Module of `scripts/validation`, with its function if this is not `run`.
    models, method
        What is simulated, and how.
    exact
        The reference.
    alarms
        Probability that a correct program fails.
    options
        The options that it reads, with their defaults.
    """

    module: str
    models: str
    method: str
    exact: str
    alarms: str
    options: dict[str, Any] = field(default_factory=dict)


LEAPS = "bounds of the error"
CHECKS = {
    "cme": Check("validate_cme", "eight networks", "ssa", "master equation: distributions",
                 "1 in 1,000", {"n": 1_000_000, "cases": []}),
    "projection": Check("validate_cme:run_projection", "eight networks", "ts.cme",
                        "master equation: distributions", "no random numbers", {}),
    "dsmts": Check("validate_dsmts", "66 cases of the SBML Test Suite", "ssa, tau",
                   "published means and standard deviations", "1.5 % per case",
                   {"n": 10_000, "method": "ssa", "epsilon": 0.03, "cases": []}),
    "event-laws": Check("validate_event_laws", "six networks with events or time-dependent rates",
                        "ssa, tau", "known distributions", "1 in 333",
                        {"n": 10_000, "many": 100.0}),
    "thinning": Check("validate_thinning", "twelve networks with time-dependent rates",
                      "ssa, tau", "exact means and variances", "1 in 18,000", {"n": 20_000, "cases": []}),
    "delays": Check("validate_delays", "a network with seven delayed reactions", "ssa, two kernels",
                    "nine known distributions", "1 in 100,000", {"n": 100_000}),
    "pasts": Check("validate_pasts", "three networks with delays in formulas", "ssa",
                   "an independent simulator", "1 in 10,000", {"n": 100_000, "exact": 4000}),
    "tau": Check("validate_tau", "four networks", "tau", "a known distribution, ssa", LEAPS,
                 {"n": 100_000}),
    "leaps": Check("validate_leaps", "21 networks that are difficult for leaps", "tau",
                   "known distributions, ssa", LEAPS,
                   {"n": 20_000, "exact": 20_000, "timed": 200, "samples": [1, 101],
                    "epsilons": [0.1, 0.03, 0.01], "cases": []}),
    "hybrids": Check("validate_hybrids", "21 networks that are difficult for leaps", "hybrid, cle, tau",
                     "known distributions, ssa", LEAPS,
                     {"n": 4000, "exact": 4000, "timed": 100, "cases": []}),
    "partitions": Check("validate_partitions", "16 networks that are difficult for hybrids",
                        "hybrid", "ssa", "1 in 1,000", {"n": 20_000, "cases": []}),
    "hybrid-kills": Check("validate_hybrid_kills", "hybrids that are killed and resumed",
                          "ts.Hybrid", "the digest of an uninterrupted run",
                          "no random numbers", {"runs": 30, "cases": []}),
    "stirred-cells": Check("validate_stirred_cells", "minimal cells without space", "ts.Hybrid",
                           "theory: translations per mRNA, conserved tRNA", "1 in a million",
                           {"n": 50, "t_end": None, "cases": []}),
    "galactose": Check("validate_galactose", "the galactose switch of yeast",
                       "ts.Hybrid of two parts", "an independent program", "1 in 250",
                       {"n": 2000, "t_end": None, "cases": []}),
    "galactose-network": Check("validate_galactose:run_network", "the galactose switch of yeast",
                               "ts.Partitioned", "an independent program", "1 in 250",
                               {"n": 2000, "t_end": None, "cases": []}),
    "large": Check("validate_large", "four BioNetGen networks, a random network", "ssa, all selectors",
                   "rate equations, the direct method, rebop", "1 in 1,000 for each kind",
                   {"n": 400, "exact": 10_000, "until": [], "cases": []}),
    "rare": Check("validate_rare", "three rare events", "weighted ensembles",
                  "exact probabilities and rates", "1 in 370 per estimate",
                  {"runs": 20, "scale": 1.0, "cases": []}),
    "sensitivity": Check("validate_sensitivity", "three networks, eight derivatives",
                         "coupled, likelihood ratio", "exact derivatives", "1 in 25",
                         {"n": 100_000}),
    "coverage": Check("validate_coverage", "57 estimates with an interval",
                      "until, sensitivities, rare events, ...", "exact values",
                      "1 in 5,000 per estimate",
                      {"seeds": 200, "jobs": 1, "cases": [], "seconds": None, "keep": None}),
    "sbc": Check("validate_sbc", "four networks with unknown parameters",
                 "pmmh, smc2, abc_smc, exact_filter", "uniform ranks of the true parameters",
                 "1 in 900 per row",
                 {"seeds": 300, "jobs": 1, "cases": [], "seconds": None, "keep": None}),
    "dbn": Check("validate_dbn", "EGF-NGF with 14 unknown rate constants",
                 "dynamic Bayesian networks", "as many other trajectories", "1 in 10,000",
                 {"n": 3_000_000, "points": 101, "substeps": 100, "t_end": 10.0, "intervals": 5,
                  "unknown": "", "compare": 11}),
    "semantic": Check("validate_semantic", "the semantic cases of the SBML Test Suite", "ode",
                      "published time courses", "no random numbers",
                      {"files": [], "cases": [], "jobs": 1, "peer": None}),
    "sbml": Check("compare_sbml", "SBML files and random documents", "ode, ssa", "libRoadRunner",
                  "5 standard errors", {"files": [], "peer": None, "generate": 0, "first": 0,
                                        "ssa": 0, "t_end": None, "points": 11,
                                        "tolerance": 1e-5, "molecules": False}),
    "net": Check("compare_net", ".net files", "ode, ssa", "BioNetGen's run_network",
                 "1 in 1,000", {"files": [], "run_network": None, "t_end": None, "points": 10,
                                "exact": 100, "n": 10_000, "seconds": 60.0}),
    "rdme": Check("validate_rdme", "lattices, tests T1 to T14", "lattice",
                  "exact results of diffusion and reaction", "1 in 147,000 per row", {"scale": 1.0, "cases": [], "minde": None}),
    "membranes": Check("validate_membranes", "spheres and cylinders of 8 to 40 sites", "lattice",
                       "eigenvalues of the surface", "no random numbers", {"cases": []}),
    "lattice-reactions": Check("validate_lattice_reactions", "twelve lattices with fast reactions",
                               "lattice, default options", "master equation, closed forms",
                               "1 in 1,300", {"replicas": 40}),
    "drawn-lattices": Check("differential_rdme", "random small lattices", "lattice",
                            "linear equations, ssa of a network of sites", "at most 1 in 10,000",
                            {"number": 20, "replicas": 2000}),
    "halo": Check("validate_halo", "A + B <-> C over ranks (mpirun)", "lattice",
                  "the digest of one rank", "no random numbers",
                  {"shape": (96, 64, 64), "steps": 10_000, "fill": [0.1, 0.4], "transports": []}),
}  # fmt: skip

OPTIONS: dict[str, dict[str, Any]] = {
    "--n": {"type": lambda text: int(float(text)), "help": "trajectories"},
    "--exact": {"type": int, "help": "trajectories of the reference"},
    "--timed": {"type": int, "help": "exact trajectories whose time is measured"},
    "--many": {"type": float, "help": "factor of the numbers of molecules, for leaps"},
    "--cases": {"nargs": "+", "metavar": "CASE", "help": "run only these cases"},
    "--method": {"choices": ("ssa", "tau")},
    "--epsilon": {"type": float, "help": "error bound of leaps"},
    "--epsilons": {"type": float, "nargs": "+", "help": "error bounds of leaps"},
    "--samples": {"type": int, "nargs": "+", "help": "numbers of sample times"},
    "--until": {"nargs": "+", "metavar": "CASE=TIME", "help": "end times of cases"},
    "--runs": {"type": int, "help": "independent runs of a method, or kills"},
    "--scale": {"type": float, "help": "factor of the work"},
    "--seeds": {"type": int, "help": "seeds of each case"},
    "--jobs": {"type": int, "help": "processes"},
    "--points": {"type": int, "help": "sample times"},
    "--substeps": {"type": int, "help": "steps between two sample times"},
    "--t-end": {"type": float, "help": "end time"},
    "--intervals": {"type": int, "help": "intervals of a variable"},
    "--unknown": {"help": "names of parameters, separated by commas"},
    "--compare": {"type": int, "help": "number of times that are compared"},
    "--files": {"nargs": "+", "type": Path, "metavar": "PATH", "help": "files or a folder"},
    "--peer": {"help": "a Python with the other program, or a table of its results"},
    "--generate": {"type": int, "metavar": "N", "help": "number of random documents"},
    "--first": {"type": int, "metavar": "SEED", "help": "seed of the first random document"},
    "--ssa": {
        "type": int,
        "metavar": "N",
        "help": "compare N exact trajectories instead of rate equations",
    },
    "--tolerance": {"type": float, "help": "relative to the largest value of a quantity"},
    "--molecules": {"action": "store_true", "help": "convert amounts to molecules"},
    "--seconds": {
        "type": float,
        "help": "time limit of a model; or time after which no further seed starts",
    },
    "--keep": {
        "type": Path,
        "help": "file of completed seeds, from which an interrupted run continues",
    },
    "--run-network": {"type": Path, "help": "BioNetGen's simulator"},
    "--minde": {"type": Path, "help": "lattice-minde.npz of figures_lattice.py, for T11"},
    "--replicas": {"type": int, "help": "replicas of a lattice"},
    "--number": {"type": int, "help": "number of random lattices"},
    "--shape": {"type": int, "nargs": 3, "metavar": ("Z", "Y", "X")},
    "--steps": {"type": int, "help": "steps of a lattice"},
    "--fill": {"type": float, "nargs": "+", "help": "filled fractions of the slots"},
    "--transports": {"nargs": "+", "help": "default: all that the device supports"},
}


def parser() -> argparse.ArgumentParser:
    """A command for each check, with the options that it reads."""
    made = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = made.add_subparsers(dest="check", metavar="CHECK")
    for name, check in CHECKS.items():
        about = f"{check.models}; {check.method}; reference: {check.exact}"
        one = commands.add_parser(name, help=about.replace("%", "%%"))  # argparse formats it
        one.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
        one.add_argument("--threads", type=int, default=0, help="threads of a CPU (0: all allowed)")
        one.add_argument("--seed", type=int, default=1)
        one.add_argument("-o", "--output", type=Path, help="stem of the CSV file")
        for option, default in check.options.items():
            flag = f"--{option.replace('_', '-')}"
            one.add_argument(flag, default=default, **OPTIONS[flag])
    return made


def listed() -> str:
    """The table of checks."""
    from outcome import table

    rows = [[name, c.models, c.method, c.exact, c.alarms] for name, c in CHECKS.items()]
    heads = ("check", "models", "method", "reference", "false alarms")
    return "\n".join(table(heads, rows))


def main(argv: Sequence[str] | None = None) -> int:
    """Run a check; print its report, and write its table."""
    words = list(sys.argv[1:] if argv is None else argv)
    given = parser().parse_args(words)
    if given.check is None:
        print(listed())
        return 0
    began = time.perf_counter()
    with warnings.catch_warnings(action="ignore"):
        module, _, function = CHECKS[given.check].module.partition(":")
        outcome = getattr(importlib.import_module(module), function or "run")(given)
    if outcome is None:  # only one rank prints
        return 0
    print(outcome.report(" ".join(["python scripts/validate.py", *words])))
    failures = outcome.failures
    print(*(f"fails: {one}" for one in failures), sep="\n", end="\n" * bool(failures))
    print(f"{len(outcome.rows)} rows, {len(failures)} fail; {time.perf_counter() - began:.0f} s")
    if given.output:
        outcome.write(given.output)
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
