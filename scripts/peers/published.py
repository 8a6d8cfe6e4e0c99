"""Tables that other programs publish, as rows that `benchmark_peers.py published` measures.

A row is a model, a duration and the number of samples of the table that has it; `figures` are seconds of
one trajectory as published there. The page joins them with what was measured:

    python scripts/peers/benchmark_peers.py published -o docs/benchmarks/published
    python scripts/peers/published.py OTHER.csv docs/benchmarks/published.csv   # joins tables, writes the page
"""

from __future__ import annotations

import csv
import gzip
import math
import statistics
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import tauslab as ts

DATA = Path(__file__).resolve().parents[2] / "tests" / "data"
SOURCES = {
    "bngsim": "lanl/bngsim at 5a8a8e6f, its page of benchmarks: median of 5 runs, machine not named; `run_network`"
    " is BioNetGen 2.9.3, including the start of its process. Models: benchmarks/models/net there. Three"
    " published times are of earlier versions of the models and cannot be compared: gene_expr_3stage (6 species, now 4),"
    " tcr_signaling (other initial amounts) and, in the next table, prion_aggregation (2,809 reactions, now 3,843)",
    "Catalyst": "Loman et al., PLoS Comput. Biol. 19:e1011530 (2023); SciML/Catalyst_PLOS_COMPBIO_2023,"
    " Benchmarking_results/Threads_1: medians, one thread of a node of a cluster. RSSA and RSSACR are rejection methods of"
    " JumpProcesses, which Catalyst uses",
    "RuleMonkey": "richardposner/RuleMonkey, its comparison of times (2 May 2026): medians of 3 whole processes,"
    " machine not named. RuleMonkey and NFsim simulate the rules without a network; the networks for the other programs"
    " are from BioNetGen 2.9.3",
    "JumpProcesses": "SciML/JumpProcesses.jl, pull requests 499, 649 and 662 (2025 and 2026): 20,000 trajectories of"
    " the stiff model `drained` by implicit leaps take 0.5 s on an unnamed GPU and 1,000 s one after another",
    "crn-jax": "robinhenry/crn-jax, README (May 2026): 10^6 trajectories of 200 samples, 22 s on an RTX 5090"
    " (read from its figure)",
    "StochKit2": "none; models of StochSS/StochKit, aresio/cuTauLeaping and the examples of GillesPy2",
}
MOST = 200  # reactions of a network that COPASI and rebop are given: larger ones take them minutes to read
PROGRAMS = ("bngsim", "COPASI", "rebop")


@dataclass(frozen=True)
class Row:
    """`n` trajectories by tauslab on a core, `peers` by another program, `gpu` on a GPU.

    `scaled` are population levels of bngsim's partial scaling, which the row also measures, beside leaps.
    """

    name: str
    table: str
    model: str
    t_end: float
    points: int
    n: int
    peers: int
    gpu: int
    figures: Mapping[str, float] = field(default_factory=dict, hash=False)
    programs: tuple[str, ...] = PROGRAMS
    scaled: tuple[int, ...] = ()
    exact: bool = True

    @property
    def label(self) -> str:
        """The name of the model."""
        return self.name.removesuffix(" of rules").removesuffix(", scaled").partition(" to ")[0]

    def file(self, folder: Path) -> Path:
        """The model as a file, which other programs read; one that is made is written as SBML."""
        if self.model in MADE:
            path = folder / f"{self.model}.xml"
            MADE[self.model]().to_sbml(path)
            return path
        for path in (DATA / "net" / self.model, DATA / "sbml" / self.model):
            if path.exists():
                return path
        path = folder / self.model
        packed = DATA / "net" / "published" / f"{self.model}.gz"
        path.write_bytes(gzip.decompress(packed.read_bytes()))
        return path

    def network(self) -> ts.Network:
        """The model."""
        if self.model in MADE:
            return MADE[self.model]()
        with tempfile.TemporaryDirectory() as folder:
            result = ts.read(self.file(Path(folder)))
        assert isinstance(result, ts.Network)
        return result


def infection() -> ts.Network:
    """Susceptible, infected, recovered: the GPU model of JumpProcesses' exact and explicit kernels."""
    net = ts.Network("infection")
    for name, count in (("S", 999), ("I", 10), ("R", 0)):
        net.add_species(name, count)
    net.add_reaction("S + I -> 2 I", rate=1e-4)
    net.add_reaction("I -> R", rate=0.01)
    return net


def isomers() -> ts.Network:
    """The stiff pair of JumpProcesses' implicit leaps."""
    net = ts.Network("isomers")
    for name in ("A", "B"):
        net.add_species(name, 100)
    net.add_reaction("A -> B", rate=100.0)
    net.add_reaction("B -> A", rate=100.0)
    return net


def drained() -> ts.Network:
    """A fast pair with a slow drain: the stiff model of JumpProcesses' implicit GPU kernel."""
    net = ts.Network("drained")
    for name, count in (("A", 1000), ("B", 1000), ("C", 0)):
        net.add_species(name, count)
    net.add_reaction("A -> B", rate=100.0)
    net.add_reaction("B -> A", rate=100.0)
    net.add_reaction("A -> C", rate=0.1)
    return net


def births() -> ts.Network:
    """Births and deaths of crn-jax."""
    net = ts.Network("births")
    net.add_species("X", 0)
    net.add_reaction("-> X", rate=3.0)
    net.add_reaction("X ->", rate=0.1)
    return net


def cascade() -> ts.Network:
    """The linear cascade of ten species of crn-jax."""
    net = ts.Network("cascade")
    for number in range(1, 11):
        net.add_species(f"A{number}", 0)
    net.add_reaction("-> A1", rate=10.0)
    for number in range(1, 10):
        net.add_reaction(f"A{number} -> A{number + 1}", rate=1.0)
    for number in range(1, 11):
        net.add_reaction(f"A{number} ->", rate=0.2)
    return net


MADE = {made.__name__: made for made in (infection, isomers, drained, births, cascade)}


def _bngsim(name: str, t_end: float, points: int, many: tuple[int, int, int],
            seconds: tuple[float, float], programs: tuple[str, ...] = PROGRAMS) -> Row:  # fmt: skip
    figures = dict(zip(("bngsim", "run_network"), seconds, strict=True))
    return Row(name, "bngsim", f"{name}.net", t_end, points, *many, figures, programs)


ALONE = ("bngsim",)
MASS = (*PROGRAMS, "GillesPy2")
ROWS = (
    _bngsim("gene_expression_hill", 3600, 361, (4000, 2000, 2**17), (0.0001, 0.046), ("bngsim", "COPASI")),
    _bngsim("simple_system", 5, 201, (2000, 300, 2**17), (0.002, 0.045)),
    _bngsim("flagellar_motor", 0.5, 201, (2000, 400, 2**17), (0.0008, 0.045), ("bngsim", "COPASI")),
    _bngsim("gene_expr_3stage", 2e8, 10_001, (32, 4, 2**12), (0.50, 1.02)),
    _bngsim("oscillatory_system", 50, 401, (64, 4, 2**15), (0.25, 0.34), ("bngsim", "COPASI")),
    _bngsim("gene_expression", 60_000, 1001, (1000, 100, 2**15), (0.004, 0.053), ("bngsim", "COPASI")),
    _bngsim("tcr_signaling", 300, 1001, (8, 3, 2**12), (0.68, 1.69)),
    _bngsim("egfr_net", 30, 121, (4, 1, 2**12), (0.086, 0.44), ALONE),
    _bngsim("multisite_phos", 1.5, 301, (16, 5, 2**12), (0.36, 1.75), ALONE),
    _bngsim("fceri_gamma", 100, 101, (8, 2, 2**10), (2.24, 64.5), ALONE),
    Row("tcr_signaling, scaled", "bngsim PSA", "tcr_signaling.net", 300, 1001, 8, 12, 2**12,
        {"bngsim PSA 10": 0.015, "bngsim PSA 100": 0.039}, (), (10, 100)),
    Row("prion_aggregation, scaled", "bngsim PSA", "prion_aggregation.net", 10, 1001, 4, 3, 2**10,
        {"bngsim PSA 10": 0.46, "bngsim PSA 100": 0.45}, (), (10, 100)),
    Row("erk_activation, scaled", "bngsim PSA", "erk_activation.net", 8640, 1001, 2, 2, 0,
        {"bngsim PSA 10": 0.14, "bngsim PSA 100": 1.70}, (), (10, 100), exact=False),
    Row("multistate", "Catalyst", "multistate.net", 10, 2, 4000, 300, 2**17,
        {"RSSA": 1.23e-3, "BioNetGen": 0.162, "GillesPy2": 1.82}, MASS),
    Row("multisite2", "Catalyst", "multisite2.net", 10, 2, 64, 8, 2**14,
        {"RSSA": 0.0766, "BioNetGen": 0.790, "GillesPy2": 3.34}, ALONE),
    Row("egfr_net to 10", "Catalyst", "egfr_net.net", 10, 2, 8, 2, 2**12,
        {"RSSACR": 0.295, "BioNetGen": 12.0, "GillesPy2": 221.0}, ALONE),
    Row("fceri_gamma to 10", "Catalyst", "fceri_gamma.net", 10, 2, 64, 20, 2**12,
        {"RSSACR": 0.0204, "BioNetGen": 100.8}, ALONE),
    *(Row(f"{name} of rules", "RuleMonkey", f"rulemonkey_{name}.net", t_end, points, n, peers, gpu,
          {"RuleMonkey": rules, "NFsim": nfsim}, ALONE)
      for name, t_end, points, n, peers, gpu, rules, nfsim in (
          ("simple_system", 100, 51, 64, 10, 2**15, 2.124, 0.896),
          ("toy_jim", 100, 101, 500, 50, 2**15, 0.336, 0.135),
          ("receptor_nf_iter36p0h3", 60, 61, 2000, 200, 2**15, 0.0328, 0.0202),
          ("Tutorial_Example", 5, 51, 2000, 200, 2**15, 0.0307, 0.0185),
          ("A_plus_A", 10, 101, 2000, 200, 2**15, 0.022, 0.0144))),
    Row("infection", "JumpProcesses", "infection", 250, 26, 4000, 1000, 10**5),
    Row("isomers", "JumpProcesses", "isomers", 1, 5, 1000, 100, 10**5),
    Row("drained", "JumpProcesses", "drained", 1, 5, 500, 40, 20_000, {"implicit leaps, GPU": 2.5e-5}),
    Row("births", "crn-jax", "births", 20, 201, 20_000, 2000, 10**6, {}, MASS),
    Row("cascade", "crn-jax", "cascade", 20, 201, 4000, 300, 10**6, {"crn-jax, RTX 5090": 2.2e-5}, MASS),
    Row("dimer_decay", "StochKit2", "dimer_decay.xml", 10, 101, 1000, 200, 2**17, {}, MASS),
    Row("heat_shock", "StochKit2", "heat_shock_mass_action.xml", 0.5, 101, 500, 20, 2**13, {}, ("bngsim", "COPASI")),
    Row("schlogl", "StochKit2", "schlogl.xml", 10, 101, 500, 30, 2**17, {}, MASS),
    Row("vilar_oscillator", "StochKit2", "vilar_oscillator.xml", 50, 101, 300, 20, 2**17, {}, MASS),
    Row("toggle_switch", "StochKit2", "toggle_switch.xml", 1000, 101, 1000, 100, 2**17, {}, ("bngsim", "COPASI")),
)  # fmt: skip


Cell = dict[str, str]


_MANY = "In calls for many trajectories on the same CPU core, tauslab is"


def page(measured: list[Cell]) -> str:
    """Seconds of one trajectory: by tauslab on a core and a GPU, by others beside it, as published."""
    result = {(cell["work"], cell["program"]): cell for cell in measured}
    machines = sorted({f"{cell['machine']}, {cell['date']}" for cell in measured})
    lines = [
        "# How fast is tauslab in benchmarks that other programs publish?",
        "",
        f"{_MANY} {'; '.join(map(_summary, _factors(measured).items()))}. {_single(result)}",
        "",
        "## How it was measured",
        "",
        "`python scripts/peers/benchmark_peers.py published -o docs/benchmarks/published` runs each model in turn by all",
        f"programs and takes medians of 5 rounds (`published.csv`). Machines: {'; '.join(machines)}. On the core, times are",
        "processor time; on the GPU, wall time from the call to the statistics of all samples. Reading and compilation are",
        "excluded. The script reports an error if means of exact methods differ by more than six standard errors.",
        "",
        "All cells are seconds per trajectory. An empty cell was not measured. Exact methods unless named otherwise.",
        "",
        "- *tauslab, one*: a call for one trajectory on the core; for small models most of it is the call itself.",
        "- *tauslab*: many trajectories in one call on the core, of networks of up to 128 reactions on [SIMD lanes](lanes.md).",
        "- *tauslab, GPU*: seconds per trajectory, then the number of trajectories of the call.",
        "- *other programs*: on the same core; in parentheses how many times as long as *tauslab*.",
        "- *published*: times that the authors of the benchmarks publish for the named programs, from other machines.",
    ]  # fmt: skip
    cited = set()
    for table in dict.fromkeys(row.table for row in ROWS):
        rows = [row for row in ROWS if row.table == table]
        others = dict.fromkeys(
            cell["program"] for row in rows for cell in measured
            if cell["work"] == row.name and not cell["program"].startswith("tauslab")
        )  # fmt: skip
        leaps = ("tauslab tau", "tauslab tau, GPU") if any(row.scaled for row in rows) else ()
        columns = ("tauslab, one", "tauslab", *leaps, "tauslab, GPU", *others)
        lines += ["", f"## Benchmarks of {table}", ""]
        if leaps:
            lines += [*_PARTIAL_SCALING, ""]
        lines += [f"| model | end time | {' | '.join(columns)} | published |",
                  f"|---|---|{'---|' * (len(columns) + 1)}"]  # fmt: skip
        for row in rows:
            cells = [_cell(row, column, result) for column in columns]
            figures = "; ".join(f"{name} {seconds:.3g}" for name, seconds in row.figures.items())
            lines.append(f"| {row.label} | {row.t_end:g} | {' | '.join(cells)} | {figures} |")
        source = table.partition(" ")[0]
        if source in SOURCES and source not in cited:
            cited.add(source)
            lines += ["", f"Published: {SOURCES[source]}."]
    lines += ["", "## Limits", "",
              "crn-jax needs JAX with CUDA, which could not be installed on the machine of the GPU; its published time",
              "is listed instead.",
              "COPASI and rebop were run only on networks of at most 200 reactions, because reading larger ones takes them",
              "minutes. rebop and GillesPy2 were run only on mass-action models. A model in two tables was measured",
              f"twice. bngsim PSA is faster than tauslab for {', '.join(_scaled_faster(result))}. Published times, from other",
              f"machines, that are below *tauslab* (end time): {', '.join(_faster(result))}."]  # fmt: skip
    return "\n".join(lines) + "\n"


_PARTIAL_SCALING = (
    "In the partial scaling algorithm (PSA) of bngsim, a reaction whose species have many molecules fires several times",
    "at once and correspondingly less often. *PSA 10* and *PSA 100* do so only for species with more than 10 or 100",
    "molecules. tauslab's counterpart is tau-leaping (`tau`). Both are approximate. After the semicolon, a cell has the",
    "error of the mean of one species or observable at the end time: its difference from the exact mean divided by the",
    "standard deviation between exact trajectories, ± standard error. For erk_activation no exact trajectories were run,",
    "because each has 6e8 events; its cells have the mean instead. Published times of tcr_signaling and prion_aggregation",
    "are of earlier versions of these models.",
)  # fmt: skip


def _factors(measured: list[Cell]) -> dict[str, list[float]]:
    """Seconds of each exact program relative to tauslab's, one for each benchmark."""
    factors: dict[str, list[float]] = {}
    for cell in measured:
        program = cell["program"]
        if not program.startswith("tauslab") and "PSA" not in program:
            factors.setdefault(program, []).append(float(cell["times ours"]))
    return factors


def _faster(found: Mapping[tuple[str, str], Cell]) -> list[str]:
    """Published times on a CPU that are below tauslab's on the core."""
    return [
        f"{program} for {row.label} ({row.t_end:g})"
        for row in ROWS
        for program, seconds in row.figures.items()
        if (own := found.get((row.name, "tauslab")))
        and not program.endswith(("GPU", "5090"))
        and seconds < float(own["seconds of one"])
    ]


def _scaled_faster(found: Mapping[tuple[str, str], Cell]) -> list[str]:
    """Models for which partial scaling is faster than the fastest method of tauslab on the core."""
    names = []
    for row in ROWS:
        seconds = {
            program: float(cell["seconds of one"])
            for (work, program), cell in found.items()
            if work == row.name and not program.endswith("GPU")
        }
        ours = [own for program, own in seconds.items() if program.startswith("tauslab")]
        if any(own < min(ours) for program, own in seconds.items() if "PSA" in program):
            names.append(row.label)
    return names


def _summary(program: tuple[str, list[float]]) -> str:
    name, factors = program
    return (
        f"{min(factors):.3g} to {max(factors):.3g} times as fast as {name}"
        f" ({len(factors)} benchmarks, median {statistics.median(factors):.3g})"
    )


def _single(result: Mapping[tuple[str, str], Cell]) -> str:
    """How often a call for one trajectory takes longer than one of bngsim."""
    pairs = [(result.get((work, "tauslab, one")), cell) for (work, program), cell in result.items()
             if program == "bngsim"]  # fmt: skip
    both = [
        (float(own["seconds of one"]), float(cell["seconds of one"])) for own, cell in pairs if own
    ]
    slower = sum(own > other for own, other in both)
    return f"A call for one trajectory takes longer than one of bngsim in {slower} of {len(both)} benchmarks."


def _cell(row: Row, program: str, found: Mapping[tuple[str, str], Cell]) -> str:
    cell, own = found.get((row.name, program)), found.get((row.name, "tauslab"))
    if cell is None:
        return ""
    seconds = float(cell["seconds of one"])
    text = f"{seconds:.3g}"
    if own and not program.startswith("tauslab"):
        text += f" ({seconds / float(own['seconds of one']):.3g})"
    if program.endswith("GPU"):
        text += f", {int(cell['of']):,}"
    exact = found.get((row.name, "tauslab, GPU"))
    if (
        row.scaled
        and exact is not None
        and exact is not cell
        and program not in {"tauslab, one", "tauslab"}
    ):
        spread = float(exact["standard error"].split()[0]) * math.sqrt(int(exact["of"]))
        off = (float(cell["value"]) - float(exact["value"])) / spread
        text += f"; {off:+.2f} ± {float(cell['standard error'].split()[0]) / spread:.2f}"
    elif row.scaled and exact is None:
        text += f"; mean {float(cell['value']):.3g}"
    return text


def joined(files: Iterable[Path], stem: Path) -> None:
    """Write the table and the page of one or several tables of measurements; of a cell the last counts."""
    cells: dict[tuple[str, str], Cell] = {}
    for name in files:
        with name.open(encoding="utf-8", newline="") as file:
            cells |= {(cell["work"], cell["program"]): cell for cell in csv.DictReader(file)}
    order = {row.name: number for number, row in enumerate(ROWS)}
    measured = sorted(cells.values(), key=lambda cell: order[cell["work"]])
    with stem.with_suffix(".csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(measured[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(measured)
    stem.with_suffix(".md").write_text(page(measured), encoding="utf-8")


if __name__ == "__main__":
    joined(map(Path, sys.argv[1:]), Path(sys.argv[-1]))
