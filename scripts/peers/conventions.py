"""What other programs take for the propensity of 2 P -> D: k x (x - 1), or half of it.

100 molecules pair for a short time at k = 1e-4, so that the mean number of pairs tells the two
apart by thirty standard errors. Programs that are not installed are left out. Each into a folder:

    pip install --target /tmp/peers gillespy2 setuptools rebop copasi-basico libroadrunner
    PYTHONPATH=/tmp/peers python scripts/peers/conventions.py
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

MOLECULES, RATE, TIME = 100, 1e-4, 1.0
SBML = """<sbml xmlns="http://www.sbml.org/sbml/level3/version1/core" level="3" version="1">
<model id="pairs"><listOfCompartments><compartment id="c" size="1" constant="true"/>
</listOfCompartments><listOfSpecies>{species}</listOfSpecies>
<listOfParameters><parameter id="k" value="{rate}" constant="true"/></listOfParameters>
<listOfReactions><reaction id="r" reversible="false" fast="false">
<listOfReactants><speciesReference species="P" stoichiometry="2" constant="true"/></listOfReactants>
<listOfProducts><speciesReference species="D" stoichiometry="1" constant="true"/></listOfProducts>
<kineticLaw><math xmlns="http://www.w3.org/1998/Math/MathML">
<apply><times/><ci>k</ci><ci>P</ci><apply><minus/><ci>P</ci><cn>1</cn></apply></apply></math>
</kineticLaw></reaction></listOfReactions></model></sbml>"""
SPECIES = (
    '<species id="{}" compartment="c" initialAmount="{}" hasOnlySubstanceUnits="true" '
    'boundaryCondition="false" constant="false"/>'
)


def exact(factor: float) -> float:
    """Mean number of pairs under the propensity `factor` x (x - 1), by the master equation."""
    pairs = np.arange(MOLECULES // 2 + 1)
    left = MOLECULES - 2.0 * pairs
    out = factor * RATE * left * (left - 1)
    generator = np.diag(-out) + np.diag(out[:-1], -1)
    step = np.eye(len(pairs)) + generator * TIME / 2**20
    for _ in range(20):
        step = step @ step
    return float(pairs @ step[:, 0])


def by_gillespy2(n: int) -> tuple[str, str, list[float]]:
    """Mass action, NumPySSASolver."""
    import gillespy2

    model = gillespy2.Model(name="pairs")
    model.add_species(
        [gillespy2.Species(name=x, initial_value=v) for x, v in (("P", MOLECULES), ("D", 0))]
    )
    model.add_parameter([gillespy2.Parameter(name="k", expression=RATE)])
    pair = {"reactants": {"P": 2}, "products": {"D": 1}, "rate": "k"}
    model.add_reaction([gillespy2.Reaction(name="r", **pair)])
    model.timespan(gillespy2.TimeSpan([0, TIME]))
    found = model.run(solver=gillespy2.NumPySSASolver, number_of_trajectories=n, seed=1)
    return f"GillesPy2 {gillespy2.__version__}", "`rate=`", [x["D"][-1] for x in found]


def by_rebop(n: int) -> tuple[str, str, list[float]]:
    """A number as rate."""
    import rebop

    cell = rebop.Gillespie()
    cell.add_reaction(RATE, ["P", "P"], ["D"])
    runs = (cell.run({"P": MOLECULES}, tmax=TIME, nb_steps=1, rng=i) for i in range(n))
    return f"rebop {rebop.__version__}", "a number as rate", [float(x["D"][-1]) for x in runs]


def by_basico(n: int) -> tuple[str, str, list[float]]:
    """COPASI's mass action, Gibson and Bruck's method."""
    import basico

    basico.new_model(name="pairs", quantity_unit="#", volume_unit="l")
    basico.add_species("P", initial_concentration=MOLECULES)
    basico.add_species("D", initial_concentration=0)
    basico.add_reaction("r", "2 P -> D")
    basico.set_reaction_parameters("(r).k1", value=RATE)
    common = {"duration": TIME, "intervals": 1, "method": "stochastic", "use_seed": True}
    runs = (basico.run_time_course(**common, seed=i + 1) for i in range(n))
    return f"basico {basico.__version__}", "mass action", [float(x["D"].iloc[-1]) for x in runs]


def by_roadrunner(n: int) -> tuple[str, str, list[float]]:
    """The SBML law k P (P - 1), to see that it is taken as written."""
    import roadrunner

    species = "".join(SPECIES.format(*pair) for pair in (("P", MOLECULES), ("D", 0)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pairs.xml"
        path.write_text(SBML.format(species=species, rate=RATE), encoding="utf-8")
        runner = roadrunner.RoadRunner(str(path))
    runner.setIntegrator("gillespie")
    runner.timeCourseSelections = ["time", "D"]
    found = []
    for i in range(n):
        runner.reset()
        runner.integrator.seed = i + 1
        found.append(float(runner.simulate(0, TIME, 2)[-1, 1]))
    return f"libRoadRunner {roadrunner.__version__}", "the law `k * P * (P - 1)`", found


def by_tauslab(n: int) -> tuple[str, str, list[float]]:
    """Ours."""
    import tauslab as ts

    net = ts.Network("pairs")
    net.add_species("P", MOLECULES)
    net.add_species("D", 0)
    net.add_reaction("2 P -> D", rate=RATE)
    result = ts.run(net, n=n, times=[0, TIME], seed=1, device="cpu")
    return f"tauslab {ts.__version__}", "`rate=`", result.counts("D")[:, -1].tolist()


PROGRAMS: Sequence[Callable[[int], tuple[str, str, list[float]]]] = (
    by_gillespy2, by_rebop, by_basico, by_roadrunner, by_tauslab,
)  # fmt: skip


def judged(counts: Sequence[float]) -> str:
    """Which propensity the counts belong to, within five standard errors; else that none does."""
    error = float(np.std(counts)) / len(counts) ** 0.5
    laws = {"k x (x - 1)": 1.0, "c x (x - 1) / 2": 0.5}
    fits = [x for x, factor in laws.items() if abs(np.mean(counts) - exact(factor)) < 5 * error]
    return fits[0] if len(fits) == 1 else "neither"


def main() -> None:
    """Print a row for each program that is installed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=2000, help="trajectories of each program")
    n = parser.parse_args().n
    print(f"exact: {exact(0.5):.3f} of c x (x - 1) / 2, {exact(1.0):.3f} of k x (x - 1)")
    for program in PROGRAMS:
        try:
            name, how, counts = program(n)
        except ImportError as error:
            print(f"left out: {error}")
            continue
        error = np.std(counts) / n**0.5
        print(f"| {name} | {how} | {np.mean(counts):.3f} ± {error:.3f} | {judged(counts)} |")


if __name__ == "__main__":
    main()
