#!/usr/bin/env python3
"""Time messages between slabs, and steps of a lattice over ranks, by transport.

Start it with as many ranks as there are GPUs::

    mpirun -n 4 --oversubscribe python scripts/benchmark_halo.py -o halo.json
    python scripts/benchmark_halo.py --plot halo.json

Parts: ``links`` (microseconds and bandwidth of a message by size), ``strong`` and ``weak``
(milliseconds a step; the same with messages that stay on the device tells how much of the
communication is not hidden), ``timeline`` (what a step does when). Each slab makes its own
particles. The second call draws the figures beside the JSON file and needs no MPI.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from tauslab.decomposition.halo import Halo, Link
from tauslab.decomposition.slab import cut_planes
from tauslab.decomposition.slab_engine import HaloOptions, SlabEngine
from tauslab.kernels.backends import (
    Backend,
    BackendOptions,
    choose_backend,
    device_count,
    get_backend,
)
from tauslab.kernels.lattice_lowering import LoweredLattice, lower_lattice
from tauslab.kernels.lattice_state import LatticeState
from tauslab.kernels.waiting import WAITING
from tauslab.model.lattice import Lattice

SPACING, STEP = 32e-9, 1e-4
HOPS = {"A": 0.15, "B": 0.10, "C": 0.05}
PAIR, UNBIND = 7.8e-4, 1e-3  # probabilities in a step
STRONG = ((256, 128, 128), (256, 256, 256), (512, 512, 512))
WEAK = (128, 256, 256)  # of a rank
EDGES = (32, 64, 128, 256, 512, 1024)  # of the planes of messages
TRANSPORTS = ("peer", "host")
_PATTERN = 8  # planes of particles that are made; a slab repeats them
_EXCHANGES = 64
_TRACED_STEPS = 6
_WARM_STEPS = 18

Row = dict[str, Any]
Shape = tuple[int, int, int]


def pairs(shape: Shape, slots: int) -> LoweredLattice:
    """A + B <-> C everywhere, periodic, without particles."""
    model = Lattice("pairs", shape=shape, spacing=SPACING, step=STEP, slots=slots,
                    boundary="periodic")  # fmt: skip
    for name, hop in HOPS.items():
        model.add_species(name)
        model.add_diffusion(name, hop * SPACING**2 / STEP)
    model.add_reaction("A + B -> C", rate=-np.log1p(-PAIR) / STEP, volume="site")
    model.add_reaction("C -> A + B", rate=-np.log1p(-UNBIND) / STEP)
    return lower_lattice(model, reaction_substeps=1)


def fill(engine: SlabEngine, share: float) -> None:
    """Fill a share of all slots at random."""
    lattice, slab = engine.lattice, engine.slab
    _, ny, nx = lattice.shape
    planes = slab.end - slab.begin
    rng = np.random.default_rng(slab.begin)
    shape = (min(planes, _PATTERN), ny, nx)
    held = rng.binomial(lattice.slots, share, shape).astype(np.uint8)
    kinds = rng.choice(np.array([1, 1, 2, 2, 3], np.uint8), (*shape, lattice.slots))
    kinds[np.arange(lattice.slots) >= held[..., None]] = 0
    particles = np.concatenate([kinds] * -(-planes // len(kinds)))[:planes]
    fired = np.zeros(len(lattice.reactions), np.int64)
    engine.load(LatticeState(particles, np.zeros(0, WAITING), 0, fired, 0))


class Loopback:
    """A link that goes nowhere: all that is done for a message but to send it."""

    name = "none"

    def __init__(self, backend: Backend, words: int) -> None:
        self._memory = [backend.shareable(words) for _ in range(2)]
        self._cell = backend.shareable(1)

    def post(self, number: int) -> None:
        """Ready."""

    def target(self, number: int) -> tuple[Any, Any]:
        """Its own memory."""
        return self._memory[number & 1], self._cell

    source = target

    def send(self, number: int, stream: Any) -> None:
        """There already."""

    depart, wait = post, send

    def close(self) -> None:
        """Nothing to give back."""


class Bench:
    """What the parts share: ranks, device, options, rows found."""

    def __init__(self, options: argparse.Namespace) -> None:
        from mpi4py import MPI

        self.world = MPI.COMM_WORLD
        self.options = options
        name = choose_backend(options.device)
        index = self.world.rank % max(1, device_count(name))
        self.backend = get_backend(name, BackendOptions(index=index, threads=options.threads))
        self.rows: list[Row] = []

    def some(self, ranks: int) -> Any:
        """A communicator of the first `ranks` ranks; None on the others."""
        comm = self.world.Split(int(self.world.rank >= ranks))
        return comm if self.world.rank < ranks else None

    def engine(self, comm: Any, shape: Shape, transport: str, *, record: bool = True) -> SlabEngine:
        """Filled, on the ranks of `comm`."""
        bounds = cut_planes(shape[0], comm.size)
        options = HaloOptions(transport=transport, record=record, depth=self.options.depth)
        engine = SlabEngine(
            self.backend, pairs(shape, self.options.slots), comm, bounds, seed=1, options=options
        )
        fill(engine, self.options.fill)
        return engine

    def keep(self, row: Row) -> None:
        """Rank 0 keeps a row and shows it."""
        if self.world.rank == 0:
            self.rows.append(row)
            shown = {k: v for k, v in row.items() if k != "spans"}
            print(" ".join(f"{k}={v}" for k, v in shown.items()), file=sys.stderr, flush=True)

    def slowest(self, comm: Any, engine: SlabEngine, steps: int) -> float:
        """Seconds a step, median of some runs, each that of the slowest rank."""
        found = []
        for _ in range(self.options.repeat):
            engine.synchronize()
            comm.Barrier()
            began = time.perf_counter()
            engine.run(steps)
            engine.synchronize()
            found.append(max(comm.allgather(time.perf_counter() - began)) / steps)
        return float(statistics.median(found))

    def steps_for(self, comm: Any, engine: SlabEngine) -> int:
        """As many steps as take about `seconds` a run: a multiple of 32."""
        engine.run(_WARM_STEPS)  # launches are recorded here
        pace = self.slowest(comm, engine, _WARM_STEPS)
        return max(32, min(6400, round(float(self.options.seconds) / pace / 32) * 32))


def time_steps(bench: Bench, part: str, shape: Shape, ranks: int, transport: str) -> None:
    """Milliseconds a step, and without sending."""
    comm = bench.some(ranks)
    if comm is None:
        return
    engine = bench.engine(comm, shape, transport, record=transport != "host")
    steps = bench.steps_for(comm, engine)
    row: Row = {
        "part": part, "shape": list(shape), "ranks": ranks, "slots": bench.options.slots,
        "fill": bench.options.fill, "depth": bench.options.depth, "steps": steps,
        "transport": "/".join(sorted({str(t) for pair in comm.allgather(engine.transports)
                                      for t in pair})),
        "ms_per_step": 1e3 * bench.slowest(comm, engine, steps),
    }  # fmt: skip
    if engine.halo is not None:
        sent = engine.halo
        words = sent.kernels.message_words
        links: list[Link | None] = [
            Loopback(bench.backend, words) if link else None for link in sent.links
        ]
        engine.halo = Halo(sent.kernels, links)
        engine.forget_recordings()
        engine.run(_WARM_STEPS)
        row["ms_without_sending"] = 1e3 * bench.slowest(comm, engine, steps)
        row["not_hidden"] = 1 - row["ms_without_sending"] / row["ms_per_step"]
        row["message_bytes"] = 8 * words
        engine.forget_recordings()
        engine.halo = sent
    engine.close()
    bench.keep(row)


def time_links(bench: Bench, transport: str) -> None:
    """Microseconds of a message to both neighbours and back, by size, with nothing else to do."""
    comm = bench.world
    for edge in bench.options.edges:
        engine = bench.engine(comm, (2 * comm.size * bench.options.depth, edge, edge), transport)
        if engine.halo is None:
            return
        seconds = statistics.median(exchanges(bench, engine, engine.halo)) / _EXCHANGES
        size = 8 * engine.halo.kernels.message_words
        bench.keep({
            "part": "links", "transport": transport, "ranks": comm.size, "bytes": size,
            "microseconds": 1e6 * seconds, "gigabytes_per_second": size / seconds / 1e9,
        })  # fmt: skip
        engine.close()


def exchanges(bench: Bench, engine: SlabEngine, halo: Halo) -> list[float]:
    """Seconds of some messages, of the slowest rank, again and again; recorded where possible."""
    stream, kernels, comm = engine.edge_stream, halo.kernels, bench.world
    odd = halo.number & 1
    before = halo.number - odd

    def all_of_them() -> None:
        for _ in range(_EXCHANGES):
            halo.send(stream)
            halo.wait(stream)

    def and_again() -> None:
        all_of_them()
        kernels.advance(0, _EXCHANGES, stream)

    recorded = None
    if halo.on_device:
        halo.number = odd
        recorded = bench.backend.record_launches(and_again, stream)
        halo.number = before + odd
    if recorded is not None:
        kernels.advance(0, before, stream)
    found = []
    for _ in range(bench.options.repeat + 1):
        stream.record().wait()
        comm.Barrier()
        began = time.perf_counter()
        if recorded is None:
            all_of_them()
        else:
            recorded.launch(stream)
            halo.number += _EXCHANGES
        stream.record().wait()
        found.append(max(comm.allgather(time.perf_counter() - began)))
    if recorded is not None:
        kernels.advance(0, odd - halo.number, stream)
    return found[1:]  # a recording goes to the device with its first launch


def trace(bench: Bench, shape: Shape, transport: str) -> None:
    """When each rank did what in some steps, launched one by one."""
    comm = bench.world
    engine = bench.engine(comm, shape, transport, record=False)
    engine.run(20)
    engine.synchronize()
    comm.Barrier()
    zero = engine.stream.record()
    engine.trace = []
    engine.run(_TRACED_STEPS)
    engine.synchronize()
    spans = comm.gather(spans_of(engine.trace, zero))
    engine.trace = None
    engine.close()
    bench.keep({"part": "timeline", "shape": list(shape), "transport": transport,
                "ranks": comm.size, "spans": spans})  # fmt: skip


def spans_of(marks: list[Any], zero: Any) -> list[Row]:
    """Named spans in milliseconds from begins and ends; what has no begin follows the last end."""
    begun: dict[str, float] = {}
    spans, last_edge = [], 0.0
    for name, end, event in marks:
        at = 1e3 * event.seconds_since(zero)
        if not end:
            begun[name] = at
            if name == "edges":
                spans.append({"name": "hops beside", "begin": last_edge, "end": at})
            continue
        spans.append({"name": name, "begin": begun.pop(name, last_edge), "end": at})
        if name in {"edges", "sent", "arrived"}:
            last_edge = at
    return spans


def main() -> None:
    """Run the parts that are asked for, or draw what was found."""
    options = parsed()
    if options.blocks_each:
        SlabEngine.blocks_each = options.blocks_each
    if options.plot:
        draw(options.plot)
        return
    bench = Bench(options)
    size = bench.world.size
    counts = [n for n in (1, 2, 4, 8, 16, 32, 64) if n <= size]
    transports = [t for t in options.transports if size > 1]
    for transport in transports:
        if "links" in options.parts:
            time_links(bench, transport)
    for shape in options.strong if "strong" in options.parts else ():
        for ranks in counts:
            for transport in ["auto"] if ranks == 1 else transports:
                time_steps(bench, "strong", shape, ranks, transport)
    for ranks in counts if "weak" in options.parts else ():
        z, y, x = options.weak
        for transport in ["auto"] if ranks == 1 else transports:
            time_steps(bench, "weak", (z * ranks, y, x), ranks, transport)
    for transport in transports if "timeline" in options.parts else ():
        trace(bench, options.traced, transport)
    if bench.world.rank == 0:
        text = json.dumps(
            {"device": bench.backend.describe(), "ranks": size, "rows": bench.rows}, indent=1
        )
        options.output.write_text(text + "\n")
    bench.backend.close()


def _shape(text: str) -> Shape:
    z, y, x = map(int, text.split("x"))
    return z, y, x


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("halo.json"))
    parser.add_argument("--plot", type=Path, help="draw the figures of such a file")
    parser.add_argument("--parts", nargs="+", default=["links", "strong", "weak", "timeline"])
    parser.add_argument("--transports", nargs="+", default=TRANSPORTS)
    parser.add_argument("--strong", nargs="+", type=_shape, default=STRONG, help="ZxYxX ...")
    parser.add_argument("--weak", type=_shape, default=WEAK, help="ZxYxX of a rank")
    parser.add_argument("--traced", type=_shape, default=(256, 256, 256), help="ZxYxX")
    parser.add_argument("--edges", nargs="+", type=int, default=EDGES, help="of messages' planes")
    parser.add_argument("--depth", type=int, default=1)
    parser.add_argument("--slots", type=int, default=16)
    parser.add_argument("--fill", type=float, default=0.1)
    parser.add_argument("--seconds", type=float, default=0.25, help="of a timed run")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--blocks-each", type=int, help="see LatticeEngine.blocks_each")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=0)
    return parser.parse_args()


def draw(path: Path) -> None:
    """Three figures beside the file: messages, steps, and what a step does when."""
    from plot_halo import draw_links, draw_scaling, draw_timeline

    found = json.loads(path.read_text())
    draw_links(found, path.with_name(f"{path.stem}-links.png"))
    draw_scaling(found, path.with_name(f"{path.stem}-scaling.png"))
    for transport in TRANSPORTS:
        draw_timeline(found, transport, path.with_name(f"{path.stem}-timeline-{transport}.png"))


if __name__ == "__main__":
    main()
