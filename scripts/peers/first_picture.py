"""Statements and seconds from nothing to the first picture, for six jobs and several programs.

Each job is a Python program that a fresh process runs: import, build a gene that switches, simulate
exactly, draw, save a PNG. Counted are its statements (one for each node that Python's grammar calls
so), measured are the processor's seconds (user and system) of that process and of compilers that it
starts, which other work on the machine moves little: the first run, for which the cache of compiled
kernels is empty, and the median of later ones. Programs take turns. One that is not installed is
left out, but for jLM of Lattice Microbes, whose statements are counted: it has no package, and runs
on a GPU. Its program follows the function reference of its authors' tutorials
(github.com/Luthey-Schulten-Lab/SummerSchool_2026, "RDME Function Reference").

    pip install --target /tmp/peers gillespy2 setuptools rebop copasi-basico
    PYTHONPATH=/tmp/peers python scripts/peers/first_picture.py
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SBML = ROOT / "examples" / "schlogl.xml"
JOBS = {
    "one": "one trajectory, drawn",
    "mean": "mean of 1,000 trajectories, with a band",
    "histogram": "histogram of 1,000 trajectories at the end",
    "sweep": "mean at the end over ten values of a rate, 100 trajectories each",
    "sbml": "an SBML file (Schlögl), mean of 20 trajectories to t = 1",
    "lattice": "A + B <-> C on 32 x 32 x 32 sites, 1,000 steps, counts drawn",
}
ALONE = ("sbml", "lattice")  # jobs that have a model of their own
COUNTED = "jLM"  # without being run
PACKAGES = {"tauslab": "tauslab", "GillesPy2": "gillespy2", "rebop": "rebop", "basico": "basico"}

_HEAD = "import matplotlib.pyplot as plt\nimport numpy as np\n"
MODELS = {
    "tauslab": """
import tauslab as ts
net = ts.Network("gene")
net.add_species("Off", 1)
net.add_species("On", 0)
net.add_species("M", 0)
net.add_parameter("make", 4.0)
net.add_reaction("Off -> On", rate=0.05)
net.add_reaction("On -> Off", rate=0.2)
net.add_reaction("On -> On + M", rate="make")
net.add_reaction("M ->", rate=0.5)
""",
    "GillesPy2": _HEAD + """
import gillespy2 as g
model = g.Model(name="gene")
model.add_species([g.Species(name=s, initial_value=v) for s, v in (("Off", 1), ("On", 0), ("M", 0))])
model.add_parameter([g.Parameter(name=n, expression=v)
                     for n, v in (("on", 0.05), ("off", 0.2), ("make", 4.0), ("decay", 0.5))])
model.add_reaction([
    g.Reaction(name="r1", reactants={"Off": 1}, products={"On": 1}, rate="on"),
    g.Reaction(name="r2", reactants={"On": 1}, products={"Off": 1}, rate="off"),
    g.Reaction(name="r3", reactants={"On": 1}, products={"On": 1, "M": 1}, rate="make"),
    g.Reaction(name="r4", reactants={"M": 1}, products={}, rate="decay"),
])
model.timespan(g.TimeSpan.linspace(t=60, num_points=61))
""",
    "rebop": _HEAD + """
import rebop
cell = rebop.Gillespie()
cell.add_reaction(0.05, ["Off"], ["On"])
cell.add_reaction(0.2, ["On"], ["Off"])
cell.add_reaction("make * On", ["On"], ["On", "M"])
cell.add_reaction(0.5, ["M"], [])
def run(seed, make=4.0):
    return cell.run({"Off": 1}, tmax=60, nb_steps=60, rng=seed, params={"make": make})
""",
    "basico": _HEAD + """
import basico
basico.new_model(name="gene", quantity_unit="#", volume_unit="l")
for name, value in (("Off", 1), ("On", 0), ("M", 0)):
    basico.add_species(name, initial_concentration=value)
for name, scheme, rate in (("r1", "Off -> On", 0.05), ("r2", "On -> Off", 0.2),
                           ("r3", "On -> On + M", 4.0), ("r4", "M -> ", 0.5)):
    basico.add_reaction(name, scheme)
    basico.set_reaction_parameters(f"({name}).k1", value=rate)
def run(seed):
    return basico.run_time_course(duration=60, intervals=60, method="stochastic",
                                  use_seed=True, seed=seed)
""",
}  # fmt: skip
_MEAN = """
plt.plot(t, m.mean(0))
plt.fill_between(t, *np.quantile(m, [0.05, 0.95], axis=0), alpha=0.3)
plt.savefig(png)
"""
_SWEPT = "plt.plot(values, means)\nplt.savefig(png)\n"
WORK = {
    ("tauslab", "one"): 'ts.run(net, n=1, t_end=60, seed=1).plot("M", path=png)',
    ("tauslab", "mean"): 'ts.run(net, n=1000, t_end=60, seed=1).plot("M", kind="mean", path=png)',
    ("tauslab", "histogram"):
        'ts.run(net, n=1000, t_end=60, seed=1).plot("M", kind="histogram", t=60, path=png)',
    ("tauslab", "sweep"): """
swept = {"make": "lin:1:10:10"}
ts.run(net, n=100, t_end=60, sweep=swept, seed=1).plot("M", kind="mean", t=60, path=png)
""",
    ("tauslab", "sbml"): """
import tauslab as ts
ts.run(sbml, n=20, t_end=1, seed=1, species="X").plot("X", kind="mean", path=png)
""",
    ("GillesPy2", "one"): """
r = model.run(solver=g.NumPySSASolver, seed=1)
plt.plot(r["time"], r["M"])
plt.savefig(png)
""",
    ("GillesPy2", "mean"): """
r = model.run(solver=g.SSACSolver, number_of_trajectories=1000, seed=1)
t, m = r[0]["time"], np.array([x["M"] for x in r])
""" + _MEAN,
    ("GillesPy2", "histogram"): """
r = model.run(solver=g.SSACSolver, number_of_trajectories=1000, seed=1)
plt.hist([x["M"][-1] for x in r], bins=20)
plt.savefig(png)
""",
    ("GillesPy2", "sweep"): """
values, means = np.linspace(1, 10, 10), []
solver = g.SSACSolver(model, variable=True)
for value in values:
    r = model.run(solver=solver, number_of_trajectories=100, seed=1, variables={"make": value})
    means.append(np.mean([x["M"][-1] for x in r]))
""" + _SWEPT,
    ("rebop", "one"): """
r = run(1)
plt.plot(r["time"], r["M"])
plt.savefig(png)
""",
    ("rebop", "mean"): """
runs = [run(seed) for seed in range(1000)]
t, m = runs[0]["time"], np.array([x["M"] for x in runs])
""" + _MEAN,
    ("rebop", "histogram"): """
plt.hist([int(run(seed)["M"][-1]) for seed in range(1000)], bins=20)
plt.savefig(png)
""",
    ("rebop", "sweep"): """
values = np.linspace(1, 10, 10)
means = [np.mean([run(seed, v)["M"][-1] for seed in range(100)]) for v in values]
""" + _SWEPT,
    ("basico", "one"): """
r = run(1)
plt.plot(r.index, r["M"])
plt.savefig(png)
""",
    ("basico", "mean"): """
runs = [run(seed) for seed in range(1, 1001)]
t, m = runs[0].index, np.array([x["M"] for x in runs])
""" + _MEAN,
    ("basico", "histogram"): """
plt.hist([run(seed)["M"].iloc[-1] for seed in range(1, 1001)], bins=20)
plt.savefig(png)
""",
    ("basico", "sweep"): """
values, means = np.linspace(1, 10, 10), []
for value in values:
    basico.set_reaction_parameters("(r3).k1", value=value)
    means.append(np.mean([run(seed)["M"].iloc[-1] for seed in range(1, 101)]))
""" + _SWEPT,
    ("tauslab", "lattice"): """
import tauslab as ts
cell = ts.Lattice("pair", shape=(32, 32, 32), spacing=32e-9, step=50e-6, boundary="periodic")
cell.add_species("A", "B", "C")
cell.add_diffusion("*", 1e-12)
cell.add_reaction("A + B <-> C", rate=(1.07e7, 35.1), unit="M^-1 s^-1")
cell.place("A", 1000)
cell.place("B", 1000)
ts.run(cell, t_end=0.05, count_every=20, seed=1).plot(path=png)
""",
    ("jLM", "lattice"): """
import matplotlib.pyplot as plt
from jLM.RDME import File as RDMEFile
from jLM.RDME import Sim as RDMESim
from lm import MpdRdmeSolver
sim = RDMESim("pair", "pair.lm", [32, 32, 32], 32e-9, "cytosol", dt=50e-6)
sim.simulationTime = 0.05
sim.latticeWriteInterval = 1000
sim.speciesWriteInterval = 20
cytosol = sim.region("cytosol")
A, B, C = sim.species("A"), sim.species("B"), sim.species("C")
sim.distributeNumber(A, cytosol, 1000)
sim.distributeNumber(B, cytosol, 1000)
cytosol.addReaction([A, B], [C], sim.rateConst("kf", 1.07e7, 2))
cytosol.addReaction([C], [A, B], sim.rateConst("kr", 35.1, 1))
sim.transitionRate(None, None, None, sim.diffusionZero)
sim.transitionRate(None, cytosol, cytosol, sim.diffusionConst("d", 1e-12))
sim.finalize()
sim.run(solver=MpdRdmeSolver(), seed=1, cudaDevices=[0])
traj = RDMEFile("pair.lm")
for name in ("A", "B", "C"):
    plt.plot(*traj.getNumberTrajectory(species=name), label=name)
plt.legend()
plt.savefig(png)
""",
    ("basico", "sbml"): _HEAD + """
import basico
basico.load_model(sbml)
runs = [basico.run_time_course(duration=1, intervals=100, method="stochastic", use_seed=True, seed=s)
        for s in range(1, 21)]
t, m = runs[0].index, np.array([x["X"] for x in runs])
""" + _MEAN,
}  # fmt: skip


def program(name: str, job: str) -> str | None:
    """The text of a job, which uses ``png`` and ``sbml``; None where it was not written."""
    work = WORK.get((name, job))
    if work is None:
        return None
    return work if job in ALONE else MODELS[name] + work


def statements(text: str) -> int:
    """Number of statements of a program, also within loops and functions."""
    return sum(isinstance(node, ast.stmt) for node in ast.walk(ast.parse(text)))


def seconds(text: str, folder: Path, cache: Path) -> float:
    """Processor time of a fresh process that runs a program; it must leave a picture."""
    png = folder / "picture.png"
    png.unlink(missing_ok=True)
    source = f"png, sbml = {str(png)!r}, {str(SBML)!r}\n{text}"
    environment = {**os.environ, "MPLBACKEND": "Agg", "TAUSLAB_CACHE_DIR": str(cache)}
    began = used()
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", source], check=True, env=environment, cwd=folder,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    took = used() - began
    if not png.is_file() or png.stat().st_size < 1000:
        raise RuntimeError("no picture was drawn")
    return took


def used() -> float:
    """Processor time of all processes that this one started and that have ended."""
    result = resource.getrusage(resource.RUSAGE_CHILDREN)
    return result.ru_utime + result.ru_stime


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3, help="timed runs, of which the median")
    parser.add_argument("--job", action="append", choices=JOBS, help="these alone")
    chosen = parser.parse_args()
    repeat, jobs = chosen.repeat, chosen.job or list(JOBS)
    result = [name for name, package in PACKAGES.items() if importlib.util.find_spec(package)]
    heads = [*result, COUNTED]
    print(f"| job | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}")
    for job in jobs:
        took: dict[str, list[float]] = {name: [] for name in result}
        with tempfile.TemporaryDirectory() as folder:
            cache = Path(folder) / "cache"
            for _ in range(repeat + 1):
                for name in result:
                    if (text := program(name, job)) is not None:
                        took[name].append(seconds(text, Path(folder), cache))
        reported = []
        for name in heads:
            text = program(name, job)
            if text is None or name == COUNTED:
                reported.append("not measured" if text is None else f"{statements(text)}; not run")
                continue
            first, later = took[name][0], statistics.median(took[name][1:])
            reported.append(f"{statements(text)}; {later:.1f} s (first run {first:.1f} s)")
        print(f"| {JOBS[job]} | {' | '.join(reported)} |", flush=True)


if __name__ == "__main__":
    main()
