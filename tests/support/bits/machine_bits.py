"""Digests of short runs of every engine on the CPU, a line each, to compare two machines.

Two machines, compilers or environments agree if and only if they print the same lines:

    python tests/support/bits/machine_bits.py > here.txt

What is run covers the engines, selectors and solvers, and what the host computes with NumPy or
SciPy before a kernel starts: sweeps, designs, geometry, placement, intervals. Both machines need
the same SciPy for designs.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from host_bits import host_lines

import tauslab as ts
from tauslab.cli.main import main as tauslab

ROOT = Path(__file__).resolve().parents[3]

FUNCTIONS = """
name = "functions"
t_end = 4
[parameters]
k = 0.7
E = 9.3
c = "k * exp(-E / 8.314) + log(E) ^ 1.7 + sin(E) ^ 2 + cbrt(k)"
[species]
A = 60
B = 20
C = 0
[[reactions]]
equation = "A -> B"
law = "c * A * exp(-B / 40) + abs(sin(A)) + cosh(B / 90) - 1"
[[reactions]]
equation = "B -> A"
law = "B ^ 1.3 / (3 + B ^ 1.3) + log(1 + B) * (1 + tanh(A / 50)) + atan(B)"
[[reactions]]
equation = "B -> C"
law = "B * sqrt(A + 1) / (1 + A) + max(0, cos(C)) * min(B, 3)"
[[reactions]]
equation = "C -> "
law = "log10(1 + C) + C * asin(1 / (1 + C)) + cbrt(C) * floor(C / 7)"
"""

CROWDED = """
name = "crowded"
t_end = 0.02
[lattice]
shape = [10, 12, 36]
spacing = 1e-8
step = 1e-3
slots = 8
reaction_substeps = 2
boundary = "periodic"
site_types = ["water", "gel", "rock"]
[[regions]]
shape = "sphere"
site_type = "gel"
radius = 4e-8
[[regions]]
shape = "obstacles"
site_type = "rock"
of = "water"
radius = 1.5e-8
fraction = 0.1
seed = 5
[species]
A = {count = 9000, site_type = "water"}
B = {count = 2000, site_type = "gel"}
C = 0
[[diffusion]]
species = "*"
within = "water"
coefficient = 1.4e-14
[[diffusion]]
species = ["A", "B"]
within = "gel"
coefficient = 7e-15
[[diffusion]]
species = ["A", "B", "C"]
between = ["water", "gel"]
coefficient = 9e-15
[[reactions]]
equation = "A + B -> C"
rate = 300
volume = "site"
[[reactions]]
equation = "C -> A + B + B"
rate = 70
"""

# So many that the device places them, and some find their sites full.
MANY = """
name = "many"
t_end = 1e-3
[lattice]
shape = [32, 96, 96]
spacing = 1e-8
step = 1e-3
slots = 16
[species]
A = 1300000
B = 900000
[[diffusion]]
species = "*"
coefficient = 1e-14
"""

SBML, NET = "tests/data/sbml", "tests/data/net"
SCHLOGL, VILAR = f"run {SBML}/schlogl.xml", f"run {SBML}/vilar_oscillator.xml"
TOGGLE, LARGE = f"run {SBML}/toggle_switch.xml", f"run {NET}/multistate.net --t-end 0.2 --points 5"
MAPK = f"{SBML}/BIOMD0000000010.xml"
EQUATIONS = f"run {MAPK} --method ode --t-end 300 --points 7 -n 5"

# Rates that follow the time: bounds in pieces of the run.
FOLLOWING = """
name = "following"
[species]
A = 30
B = 0
[[reactions]]
equation = "-> A"
law = "20 * (1 + 0.9 * sin(2 * time)) * exp(-0.3 * time)"
[[reactions]]
equation = "A -> B"
law = "A * (0.1 + 5 * exp(-((time - 3) / 0.05)^2))"
[[reactions]]
equation = "B ->"
rate = 0.5
"""

CASES = {
    "ssa small": f"{SCHLOGL} --t-end 4 -n 60 --record trajectories,statistics,final",
    "ssa functions": "run functions.toml -n 40 --method ssa",
    "ssa laws": f"{TOGGLE} --method ssa --t-end 20 -n 30 --record statistics,histogram:A:0:99:9",
    "ssa tree": f"{LARGE} --method ssa -n 3 --selector tree",
    "ssa pdm": f"{LARGE} --method ssa -n 3 --selector pdm",
    "ssa rssa": f"{LARGE} --method ssa -n 3 --selector rssa",
    "ssa rules": f"run {NET}/CaOscillate_Func.net --method ssa --t-end 0.01 -n 6",
    "ssa presimulated": f"{LARGE} --method ssa -n 3 --presimulation 2000",
    "ssa common": f"{SCHLOGL} --t-end 1 -n 6 --common --sweep c3=lin:180:230:2",
    "tau": f"{SCHLOGL} --method tau --t-end 8 -n 60",
    "tau functions": "run functions.toml -n 40 --method tau --epsilon 0.1",
    "tau checked": f"{SCHLOGL} --method tau --post-leap-check --t-end 4 -n 40",
    "tau large": f"run {SBML}/ras_camp_pka.xml --method tau --t-end 3 --points 7 -n 6",
    "tau fine": f"run {NET}/egfr_net.net --method tau --t-end 0.2 --points 3 -n 2",
    "auto": f"{SCHLOGL} --method auto --t-end 2 -n 20",
    "cle": f"{SCHLOGL} --method cle --t-end 2 -n 20 --pilot 0",
    "hybrid": f"{SCHLOGL} --method hybrid --t-end 2 -n 20 --pilot 0",
    "hybrid of equations": f"{VILAR} --method hybrid --t-end 5 --points 6 -n 2 --pilot 0"
    " --as-ode rx1,rx2,rx3,rx4,rx10,rx16 --jump *",
    "ssa thinned": "run following.toml --method ssa --t-end 8 --points 9 -n 60",
    "ssa thinned in tables": "run following.toml --t-end 8 --points 9 -n 40 --selector tree",
    "tau thinned": "run following.toml --method tau --t-end 8 --points 9 -n 60",
    "summaries": f"{VILAR} --method ssa --t-end 30 --points 61 -n 6 --record statistics,"
    "summary:amplitude:A,summary:period:A,summary:mean:R,summary:first-passage:R:50",
    "sweep": f"{SCHLOGL} --t-end 1 -n 3 --sweep c3=lin:180:230:4 --sweep c4=log:3:4:5",
    "sobol": f"{SCHLOGL} --t-end 1 -n 2 --sweep c3=lin:180:230 --sweep c4=log:3:4 --design sobol:9",
    "lhs": f"{SCHLOGL} --t-end 1 -n 2 --sweep c3=lin:180:230 --sweep c4=log:3:4 --design lhs:9",
    "ode dopri5": f"{EQUATIONS} --sample J0_V1=lognormal(median=2.5,sigma=0.3) --sample J1_KK2=normal(15,2)",
    "ode rosenbrock": f"{EQUATIONS} --ode-solver rosenbrock --sample J0_V1=loguniform(1,4)",
    "ode rk4": f"{EQUATIONS} --substeps 400 --sample J0_V1=uniform(1,4)",
    "ode single": f"{EQUATIONS} --precision single --sample J0_V1=uniform(1,4)",
    "ode single rosenbrock": f"{EQUATIONS} --precision single --ode-solver rosenbrock",
    "ode single rk4": f"{EQUATIONS} --precision single --substeps 400"
    " --sample J0_V1=lognormal(median=2,sigma=0.1)",
    "ode functions": "run functions.toml --method ode -n 3",
    "ode large": f"run {NET}/multistate.net --method ode --t-end 1 --points 3 -n 1",
    "dbn": f"dbn {MAPK} --unknown J0_V1,J1_KK2 --range J0_V1=1:4"
    " --range J1_KK2=10:20 --samples 300 --t-end 300 --points 7",
    "dbn quantiles": f"dbn {MAPK} --unknown J0_V1 --range J0_V1=1:4"
    " --samples 200 --t-end 300 --points 5 --spacing quantile --substeps 100",
    "rdme crowded": "rdme crowded.toml --engine slots --count-every 1 --frame-every 10 --replicas 2",
    "rdme many": "rdme many.toml --frame-every 1 --engine slots",
    "rdme planes": "rdme crowded.toml --engine planes --count-every 1 --frame-every 10",
    "rdme membrane": "rdme examples/minde.toml --t-end 0.0005 --count-every 2 --frame-every 5",
    "rdme ball": "rdme examples/isomerisation_ball.toml --t-end 0.002 --count-every 5",
}  # fmt: skip


def write_models(folder: Path) -> None:
    """Write the models that are no files of the repository."""
    (folder / "functions.toml").write_text(FUNCTIONS, encoding="utf-8")
    (folder / "crowded.toml").write_text(CROWDED, encoding="utf-8")
    (folder / "following.toml").write_text(FOLLOWING, encoding="utf-8")
    (folder / "many.toml").write_text(MANY, encoding="utf-8")


def digests(names: list[str], folder: Path) -> Iterator[tuple[str, str]]:
    """Name and digest of each case."""
    write_models(folder)
    for name in names:
        output = folder / "out.h5"
        arguments = [*absolute(CASES[name], folder), "--seed", "11", "-o", str(output)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _run([*arguments, "--device", "cpu", "--threads", "2", "--quiet", "--overwrite"])
            lines = _run(["digest", str(output)]).splitlines()
        yield name, lines[-1].split()[0]


def chain_digest() -> str:
    """Digest of a chain's positions, of which no command makes a file."""
    box = ts.Lattice("box", shape=(12, 12, 12), spacing=1e-8)
    with ts.Polymer(
        "dna", beads=300, bond=3.4e-9, diffusion=1e-12, ring=True, stretch=0.1, persistence=2e-8,
        repulsion=3.0, seed=11, device=ts.CPU(threads=2),
    ) as chain:  # fmt: skip
        chain.confine(box, ts.shapes.sphere(radius=5e-8))
        chain.run(200)
        chain.replicate(20, 30)
        chain.set_loops([[10, 200]])
        chain.run(200)
        return hashlib.sha256(np.nan_to_num(chain.positions).astype("<f8").tobytes()).hexdigest()


def absolute(command: str, folder: Path) -> Iterator[str]:
    """The words of a command, models with their whole paths."""
    for word in command.split():
        if word.endswith((".xml", ".net", ".toml")):
            yield str(ROOT / word if "/" in word else folder / word)
        else:
            yield word


def _run(arguments: list[str]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as message:
        code = tauslab(arguments)
    if code != 0:
        sys.exit(f"{' '.join(arguments)} ended with {code}")
    return message.getvalue()


def main() -> None:
    """Print the lines."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("cases", nargs="*", help=f"some of: {', '.join(CASES)} (all)")
    parser.add_argument("--kernels", action="store_true", help="without what the host computes")
    given = parser.parse_args()
    names = given.cases or list(CASES)
    for name in names:
        if name not in CASES:
            parser.error(f"{name!r} is not a case; there are {', '.join(CASES)}")
    for name, digest in () if given.kernels else host_lines():
        print(f"{digest}  host: {name}", flush=True)
    if not given.cases:
        print(f"{chain_digest()}  polymer", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, digest in digests(names, Path(folder)):
            print(f"{digest}  {name}", flush=True)


if __name__ == "__main__":
    main()
