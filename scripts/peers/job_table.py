"""Statements and seconds of eight jobs in tauslab, GillesPy2, rebop, tellurium and basico.

Each job is a Python program in a process of its own, as in `first_picture.py`, which counts its
statements and measures its processor time. A program that is not installed is left out; "none" says
that it has no such method. All programs of a job are given the same model.

    pip install --target /tmp/peers gillespy2 setuptools rebop copasi-basico tellurium six
    PYTHONPATH=/tmp/peers python scripts/peers/job_table.py
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import sys
import tempfile
from pathlib import Path

from first_picture import WORK, seconds, statements

import tauslab as ts

JOBS = {
    "six": "six reactions (two genes that repress each other), 1,000 trajectories, mean drawn",
    "events": "an SBML file with an event, 200 trajectories, mean drawn",
    "pmmh": "posterior of two rates from 10 noisy counts: PMMH, 8 chains of 500 steps, 100 particles",
    "lattice": "A + B <-> C on 32 x 32 x 32 sites, 1,000 steps, counts drawn",
    "mpi": "sweep of 20 rates on two ranks, killed after 4 s and resumed",
    "rare": "probability of 4e-6 that a count reaches 48",
    "sensitivity": "derivatives of a mean by two rates, with standard errors",
    "cme": "probability distribution by the master equation, with an error bound",
}
PACKAGES = {
    "tauslab": "tauslab", "GillesPy2": "gillespy2", "rebop": "rebop", "tellurium": "tellurium",
    "basico": "basico",
}  # fmt: skip
_PLOT = "import matplotlib.pyplot as plt\nimport numpy as np\n"
_DRAW = "plt.plot(t, m.mean(0))\nplt.savefig(png)\n"
_IMMIGRATION = """
import tauslab as ts
net = ts.Network("immigration")
net.add_species("X", 20)
net.add_parameter("make", 10.0)
net.add_parameter("decay", 0.5)
net.add_reaction("-> X", rate="make")
net.add_reaction("X ->", rate="decay")
"""
_DONE = "open(png, 'w').write('done ' * 300)\n"
PROGRAMS = {
    ("tauslab", "six"): """
import tauslab as ts
net = ts.Network("two_genes")
net.add_species("A", 50)
net.add_species("B", 0)
net.add_species("D", 0)
net.add_reaction("-> A", law="40 / (1 + (B / 10)^2)")
net.add_reaction("-> B", law="40 / (1 + (A / 10)^2)")
net.add_reaction("A ->", rate=1.0)
net.add_reaction("B ->", rate=1.0)
net.add_reaction("2 A -> D", rate=0.001)
net.add_reaction("D -> 2 A", rate=0.5)
ts.run(net, n=1000, t_end=50, seed=1).plot("A", kind="mean", path=png)
""",
    ("GillesPy2", "six"): _PLOT + """
import gillespy2 as g
model = g.Model(name="two_genes")
model.add_species([g.Species(name=s, initial_value=v) for s, v in (("A", 50), ("B", 0), ("D", 0))])
model.add_parameter([g.Parameter(name=n, expression=v)
                     for n, v in (("decay", 1.0), ("pair", 0.0005), ("part", 0.5))])
model.add_reaction([
    g.Reaction(name="r1", products={"A": 1}, propensity_function="40/(1+(B/10)*(B/10))"),
    g.Reaction(name="r2", products={"B": 1}, propensity_function="40/(1+(A/10)*(A/10))"),
    g.Reaction(name="r3", reactants={"A": 1}, rate="decay"),
    g.Reaction(name="r4", reactants={"B": 1}, rate="decay"),
    g.Reaction(name="r5", reactants={"A": 2}, products={"D": 1}, propensity_function="pair*A*(A-1)"),
    g.Reaction(name="r6", reactants={"D": 1}, products={"A": 2}, rate="part"),
])
model.timespan(g.TimeSpan.linspace(t=50, num_points=101))
r = model.run(solver=g.SSACSolver, number_of_trajectories=1000, seed=1)
t, m = r[0]["time"], np.array([x["A"] for x in r])
""" + _DRAW,
    ("rebop", "six"): _PLOT + """
import rebop
cell = rebop.Gillespie()
cell.add_reaction("40 / (1 + (B / 10)^2)", [], ["A"])
cell.add_reaction("40 / (1 + (A / 10)^2)", [], ["B"])
cell.add_reaction(1.0, ["A"], [])
cell.add_reaction(1.0, ["B"], [])
cell.add_reaction(0.0005, ["A", "A"], ["D"])
cell.add_reaction(0.5, ["D"], ["A", "A"])
runs = [cell.run({"A": 50}, tmax=50, nb_steps=100, rng=seed) for seed in range(1000)]
t, m = runs[0]["time"], np.array([x["A"] for x in runs])
""" + _DRAW,
    ("tellurium", "six"): _PLOT + """
import tellurium as te
r = te.loada('''
    species A, B, D; A = 50; B = 0; D = 0
    -> A; 40 / (1 + (B / 10)^2)
    -> B; 40 / (1 + (A / 10)^2)
    A ->; A
    B ->; B
    2 A -> D; 0.0005 * A * (A - 1)
    D -> 2 A; 0.5 * D
''')
r.integrator = "gillespie"
r.integrator.seed = 1
r.integrator.variable_step_size = False
runs = []
for _ in range(1000):
    r.reset()
    runs.append(np.array(r.simulate(0, 50, 101, ["time", "A"])))
t, m = runs[0][:, 0], np.array([x[:, 1] for x in runs])
""" + _DRAW,
    ("basico", "six"): _PLOT + """
import basico
basico.load_model(six)
runs = [basico.run_time_course(duration=50, intervals=100, method="stochastic", use_seed=True, seed=s)
        for s in range(1, 1001)]
t, m = runs[0].index, np.array([x["A"] for x in runs])
""" + _DRAW,
    ("tauslab", "events"): """
import tauslab as ts
ts.run(events, n=200, t_end=20, seed=1).plot("X", kind="mean", path=png)
""",
    ("tellurium", "events"): _PLOT + """
import roadrunner
r = roadrunner.RoadRunner(events)
r.integrator = "gillespie"
r.integrator.seed = 1
r.integrator.variable_step_size = False
runs = []
for _ in range(200):
    r.reset()
    runs.append(np.array(r.simulate(0, 20, 101, ["time", "X"])))
t, m = runs[0][:, 0], np.array([x[:, 1] for x in runs])
""" + _DRAW,
    ("basico", "events"): _PLOT + """
import basico
basico.load_model(events)
runs = [basico.run_time_course(duration=20, intervals=100, method="directMethod", use_seed=True, seed=s)
        for s in range(1, 201)]
t, m = runs[0].index, np.array([x["X"] for x in runs])
""" + _DRAW,
    ("tauslab", "pmmh"): _IMMIGRATION + """
data = {"time": list(range(1, 11)), "X": [20, 17, 22, 18, 25, 21, 16, 19, 23, 20]}
priors = {"make": "loguniform(1,100)", "decay": "loguniform(0.05,5)"}
chain = ts.pmmh(net, data, priors, observe={"X": "normal(sd=2)"}, n=100, steps=500, seed=1)
chain.plot().savefig(png)
""",
    ("tauslab", "lattice"): WORK["tauslab", "lattice"],
    ("tauslab", "mpi"): """
import subprocess
run = ["mpirun", "-n", "2", "python", "-m", "tauslab", "run", six, "-n", "20000", "--t-end", "50", "--seed", "1",
       "--sweep", "B=lin:0:19:20", "--record", "statistics", "-o", "swept.h5", "--quiet"]
subprocess.run(["timeout", "4", *run])
subprocess.run([*run, "--resume"], check=True)
""" + _DONE,
    ("tauslab", "rare"): _IMMIGRATION + """
found = ts.weighted_ensemble(net, target="X >= 48", t_end=10, seed=1)
print(found.estimate, found.standard_error)
""" + _DONE,
    ("tauslab", "sensitivity"): _IMMIGRATION + """
found = ts.sensitivity(net, outputs=["X"], times=3.0, n=10000, seed=1)
print(found.value, found["make", "X"], found.error("make", "X"))
""" + _DONE,
    ("tauslab", "cme"): _IMMIGRATION + """
ts.cme(net, [1, 5, 10]).plot("X").savefig(png)
""",
}  # fmt: skip


def models(folder: Path) -> str:
    """Write the SBML files of the jobs; the lines that name them."""
    six = folder / "six.xml"
    names: dict[str, object] = {}
    text = PROGRAMS["tauslab", "six"].rsplit("ts.run", 1)[0]
    exec(text, names)  # noqa: S102 - the program above
    network = names["net"]
    assert isinstance(network, ts.Network)
    network.to_sbml(six)
    events = ts.Network("dose")
    events.add_species("X", 50)
    events.add_reaction("-> X", rate=5.0)
    events.add_reaction("X ->", rate=0.2)
    events.add_event("dose", assignments={"X": "X + 100"}, trigger="X < 20")
    events.to_sbml(folder / "events.xml")
    return f"six, events = {str(six)!r}, {str(folder / 'events.xml')!r}\n"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=3, help="timed runs, of which the median")
    parser.add_argument("--job", action="append", choices=JOBS, help="these alone")
    chosen = parser.parse_args()
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # for mpirun
    programs = [name for name, package in PACKAGES.items() if importlib.util.find_spec(package)]
    print(f"| job | {' | '.join(programs)} |\n|---|{'---|' * len(programs)}")
    for job in chosen.job or JOBS:
        cells = [cell(name, job, chosen.repeat) for name in programs]
        print(f"| {JOBS[job]} | {' | '.join(cells)} |", flush=True)


def cell(name: str, job: str, repeat: int) -> str:
    """Statements, median seconds of later runs and seconds of the first, for which nothing is cached."""
    text = PROGRAMS.get((name, job))
    if text is None:
        return (
            "none" if ("tauslab", job) in PROGRAMS and job not in ("six", "events") else "not run"
        )
    with tempfile.TemporaryDirectory() as name_of:
        folder = Path(name_of)
        header, took = models(folder), list[float]()
        try:
            for _ in range(repeat + 1):
                took.append(seconds(header + text, folder, folder / "cache"))
                (folder / "swept.h5").unlink(missing_ok=True)
        except Exception as error:  # noqa: BLE001 - the table says so
            print(f"{name}, {job}: {error}", file=sys.stderr)
            return "failed"
    return f"{statements(text)}; {statistics.median(took[1:]):.1f} ({took[0]:.1f})"


if __name__ == "__main__":
    main()
