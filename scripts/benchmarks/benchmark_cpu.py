"""One CPU core: tauslab against rebop and GillesPy2's C++ solver, on the same work in the same run.

    python -m venv /tmp/peers && /tmp/peers/bin/pip install rebop gillespy2
    python scripts/benchmarks/benchmark_cpu.py --peers-python /tmp/peers/bin/python -o docs/benchmarks/cpu.csv

Wall seconds of each tool's public call for 1000 trajectories x 101 samples of exact SSA, models
built and compiled before. Everything is pinned to one core, tools take turns, and the median of the
repeats counts. `rebop_core` is the compiled class inside rebop, without the labelled array that its
API makes of each trajectory; it is compared with the seconds in tauslab's kernel. The mean of one
species at the end shows that all ran the same model: it must agree within 6 standard errors.

`--bit-contract` times what equal bits on every device cost: the kernel that runs one trajectory at
a time with the C library's logarithm, and with contraction of a * b + c left to the compiler.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import tauslab as ts
from tauslab.model.readers.read import read_network

ROOT = Path(__file__).resolve().parents[2]
WORKER = Path(__file__).resolve().parents[1] / "peers" / "worker.py"
POINTS = 101
PEERS = ("rebop", "rebop_core", "gillespy2")
LARGEST_DEVIATION = 6.0  # standard errors between the means of two tools


@dataclass(frozen=True)
class Case:
    """A model of tests/data/sbml, to `t_end`; `watched` is compared between tools."""

    name: str
    t_end: float
    watched: str


CASES = (
    Case("schlogl", 10.0, "X"),
    Case("vilar_oscillator", 50.0, "R"),
    Case("dimer_decay", 10.0, "S2"),
)


@dataclass(frozen=True)
class Timing:
    """Seconds of one run, and mean and variance of the watched species at the end."""

    seconds: float
    mean: float
    variance: float


class Peers:
    """The other tools, in a worker process of their own Python."""

    def __init__(self, python: str) -> None:
        self._process = subprocess.Popen(
            [python, str(WORKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, tool: str, case: Case, n: int, seed: int) -> Timing | None:
        """Time one tool; None if it is not installed there."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{tool} {case.name} {n} {seed}\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline() or '{"error": "the worker ended"}')
        if "error" in answer:
            print(f"{tool}: {answer['error']}", file=sys.stderr)
            return None
        return Timing(answer["seconds"], answer["mean"], answer["variance"])

    def close(self) -> None:
        """End the worker."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def tauslab_run(case: Case, n: int, seed: int) -> tuple[Timing, Timing]:
    """The public call as a whole, and the seconds in its kernel alone."""
    model = read_network(model_path(case))
    times = np.linspace(0, case.t_end, POINTS)
    begin = time.perf_counter()
    result = ts.run(
        model,
        n=n,
        times=times,
        method="ssa",
        seed=seed,
        device=ts.CPU(threads=1),
        record="trajectories",
    )
    seconds = time.perf_counter() - begin
    final = result.final(case.watched).astype(float)
    mean, variance = float(final.mean()), float(final.var(ddof=1))
    kernel = float(result.data["profile/compute"][()][0])
    return Timing(seconds, mean, variance), Timing(kernel, mean, variance)


def model_path(case: Case) -> Path:
    """Where the model of a case is."""
    return ROOT / "tests" / "data" / "sbml" / f"{case.name}.xml"


def measure(case: Case, peers: Peers, n: int, repeats: int) -> dict[str, list[Timing]]:
    """All tools in turn, `repeats` times; one run before that does not count."""
    tauslab_run(case, max(2, n // 20), 1)
    timings: dict[str, list[Timing]] = {}
    absent: set[str] = set()
    for repeat in range(repeats):
        whole, kernel = tauslab_run(case, n, repeat + 1)
        timings.setdefault("tauslab", []).append(whole)
        timings.setdefault("tauslab_kernel", []).append(kernel)
        for tool in PEERS:
            timing = None if tool in absent else peers.run(tool, case, n, repeat + 1)
            if timing is None:
                absent.add(tool)
            else:
                timings.setdefault(tool, []).append(timing)
    return timings


def same_model(timings: dict[str, list[Timing]], n: int) -> str:
    """Names of tools whose mean at the end deviates from tauslab's; empty if none does."""
    ours = timings["tauslab"]
    deviating = []
    for tool in PEERS:
        theirs = timings.get(tool, [])
        if not theirs:
            continue
        difference = _average(t.mean for t in ours) - _average(t.mean for t in theirs)
        error = sum(_average(t.variance for t in g) / (n * len(g)) for g in (ours, theirs)) ** 0.5
        if abs(difference) > LARGEST_DEVIATION * error:
            deviating.append(tool)
    return ", ".join(deviating)


def bit_contract(case: Case, n: int, repeats: int) -> dict[str, float]:
    """Median kernel seconds of each build of the same kernel."""
    from tauslab.kernels.backends.compilers import host_compiler

    compiler = host_compiler()
    loose = tuple("-ffp-contract=fast" if "fp-contract" in f else f for f in compiler.flags())
    library = ("tl_exponential(", "-__builtin_log(")
    builds: dict[str, tuple[tuple[str, ...], tuple[str, str] | None]] = {
        "contract": (compiler.flags(), None),
        "contraction": (loose, None),
        "library_log": (compiler.flags(), library),
        "library_log_contraction": (loose, library),
    }
    with tempfile.TemporaryDirectory() as folder, prepared_kernel(case, n) as (header, start):
        paths = {}
        for name, (flags, replacement) in builds.items():
            at = Path(folder) / name
            write_sources(at, header, replacement)
            paths[name] = at / "ssa.so"
            subprocess.run(
                [
                    *compiler.command,
                    *flags,
                    f"-I{at}",
                    "-o",
                    str(paths[name]),
                    str(at / "ensemble/ssa.cc"),
                ],
                check=True,
            )
        seconds: dict[str, list[float]] = {name: [] for name in builds}
        for _ in range(repeats):
            for name, path in paths.items():
                seconds[name].append(start(path))
    return {name: statistics.median(values) for name, values in seconds.items()}


def write_sources(folder: Path, header: str, replacement: tuple[str, str] | None) -> None:
    """Kernel sources with the model's header, and one call in ensemble/ssa.cc replaced."""
    from tauslab.kernels.backends.cache import csrc_texts, write_texts

    folder.mkdir()
    texts = {**csrc_texts(), "model.h": header}
    if replacement is not None:
        if replacement[0] not in texts["ensemble/ssa.cc"]:
            raise SystemExit(
                f"ensemble/ssa.cc has no call of {replacement[0]}...): mend this script"
            )
        texts["ensemble/ssa.cc"] = texts["ensemble/ssa.cc"].replace(*replacement)
    write_texts(folder, texts)


@contextmanager
def prepared_kernel(case: Case, n: int) -> Iterator[tuple[str, Callable[[Path], float]]]:
    """The model's header, and a function that times the kernel of a shared library."""
    from tauslab.kernels.backends import BackendOptions, get_backend
    from tauslab.kernels.backends.arguments import layouts_of
    from tauslab.kernels.backends.cache import csrc_texts
    from tauslab.kernels.backends.cpu import CpuBackend, CpuProgram
    from tauslab.kernels.ensemble.launch import CONTROL_WORDS, Launch, SampleBuffers
    from tauslab.kernels.exact.ssa import exact_engine
    from tauslab.kernels.exact.table_network import Expected
    from tauslab.kernels.network.codegen import unrolled_header
    from tauslab.kernels.network.lowering import lower

    network = read_network(model_path(case))
    values = network.parameter_values()
    counts = {name: round(x) for name, x in network.initial_amounts(values).items()}
    lowered = lower(network, parameters=values, counts=counts)
    backend = get_backend("cpu", BackendOptions(threads=1))
    assert isinstance(backend, CpuBackend)
    times = np.linspace(0, case.t_end, POINTS).tolist()
    engine = exact_engine(backend, lowered, times, expected=Expected(1))  # one trajectory at a time
    shapes = ((n, POINTS, len(lowered.species)), (n,), (CONTROL_WORDS,), (1,))
    samples, status, row, events = (
        backend.empty(shape, kind)
        for shape, kind in zip(shapes, (np.int32, np.uint8, np.uint64, np.uint64), strict=True)
    )
    buffers = SampleBuffers(samples, None, None, status, row, events)
    initial = np.array([[counts[name] for name in lowered.species]], np.int32)
    launch = Launch(0, n, initial, np.zeros((1, 1)))
    stream = backend.stream()
    layouts = layouts_of("ensemble/ssa.cc", csrc_texts())

    def start(library: Path) -> float:
        engine.program = CpuProgram(library, (engine.entry,), layouts, backend)
        begin = time.perf_counter()
        engine.start(launch, buffers, stream, seed=1)
        stream.record().wait()
        return time.perf_counter() - begin

    yield unrolled_header(lowered, backend.style), start
    backend.close()


def pin(core: int | None) -> int:
    """Keep this process and its children on one core."""
    chosen = max(os.sched_getaffinity(0)) if core is None else core
    os.sched_setaffinity(0, {chosen})
    return chosen


def main() -> int:
    """Measure and write the table; 1 if two tools did not run the same model."""
    options = _arguments()
    cases = [case for case in CASES if not options.models or case.name in options.models]
    core = pin(options.core)
    deviating: list[str] = []
    if options.bit_contract:
        table = _contract_table(cases, options)
    else:
        table, deviating = _peer_table(cases, options)
    with options.output.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(table)
    title = "What equal bits cost" if options.bit_contract else "One CPU core against other tools"
    text = _markdown(title, table, options, core)
    options.output.with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)
    print(*deviating, sep="\n")
    return 1 if deviating else 0


Table = list[list[str]]


def _peer_table(cases: Sequence[Case], options: argparse.Namespace) -> tuple[Table, list[str]]:
    columns = ("tauslab", *PEERS, "tauslab_kernel")
    table: Table = [
        ["model", "t_end", *(f"{c}_s" for c in columns), "rebop_over_tauslab",
         "gillespy2_over_tauslab", "rebop_core_over_kernel"],
    ]  # fmt: skip
    deviating = []
    peers = Peers(options.peers_python)
    for case in cases:
        timings = measure(case, peers, options.n, options.repeats)
        medians = {t: statistics.median(x.seconds for x in runs) for t, runs in timings.items()}
        ratios = (("rebop", "tauslab"), ("gillespy2", "tauslab"), ("rebop_core", "tauslab_kernel"))
        table.append([
            case.name, f"{case.t_end:g}",
            *(f"{medians[c]:.3f}" if c in medians else "" for c in columns),
            *(f"{medians[a] / medians[b]:.2f}" if a in medians else "" for a, b in ratios),
        ])  # fmt: skip
        print(*table[-1], flush=True)
        if wrong := same_model(timings, options.n):
            deviating.append(f"{case.name}: means differ between tauslab and {wrong}")
    peers.close()
    return table, deviating


def _contract_table(cases: Sequence[Case], options: argparse.Namespace) -> Table:
    table: Table = []
    for case in cases:
        seconds = bit_contract(case, options.n, options.repeats)
        if not table:
            table.append(["model", "t_end", *(f"{name}_s" for name in seconds), "cost"])
        cost = seconds["contract"] / seconds["library_log_contraction"] - 1
        row = [case.name, f"{case.t_end:g}", *(f"{x:.3f}" for x in seconds.values())]
        table.append([*row, f"{cost:+.1%}"])
    return table


def _markdown(title: str, table: Table, options: argparse.Namespace, core: int) -> str:
    head, *rows = (f"| {' | '.join(row)} |" for row in table)
    about = (
        f"{options.n} trajectories x {POINTS} samples of exact SSA; seconds, median of "
        f"{options.repeats} runs that took turns on core {core} of {_processor()}; Python "
        f"{platform.python_version()} (`scripts/benchmarks/benchmark_cpu.py`, which says what is timed).\n"
    )
    text = [
        f"# {title}\n",
        about,
        head,
        "|" + "---|" * len(table[0]),
        *rows,
    ]
    return "\n".join(text) + "\n"


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), "a CPU")


def _average(values: Iterator[float]) -> float:
    return statistics.fmean(values)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--peers-python", default=sys.executable, help="has rebop and gillespy2")
    parser.add_argument("--n", type=int, default=1000, help="trajectories")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--models", nargs="+", metavar="MODEL", help="only these",
                        choices=[case.name for case in CASES])  # fmt: skip
    parser.add_argument("--core", type=int, help="the core to use; by default the last allowed")
    parser.add_argument("--bit-contract", action="store_true")
    parser.add_argument("-o", "--output", type=Path, default=Path("cpu.csv"))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
