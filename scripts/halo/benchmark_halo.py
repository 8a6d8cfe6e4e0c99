#!/usr/bin/env python3
"""Time messages between slabs, and steps of a lattice over ranks, by transport.

Start it with as many ranks as there are GPUs::

    mpirun -n 4 --oversubscribe python scripts/halo/benchmark_halo.py -o halo.json
    python scripts/halo/benchmark_halo.py --plot halo.json

Parts: ``links`` (microseconds and bandwidth of a message by size), ``strong``, ``weak`` and
``slots8`` (256^3 sites of 8 slots, 4 % full; milliseconds a step; the same with messages that stay
on the device tells how much of the communication is not hidden), ``depths`` (small lattices by
depth of the halo), ``timeline`` (what a step does when). All figures are medians. Each
slab makes its own particles. The second call draws the figures beside the JSON file; no MPI.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from itertools import product
from pathlib import Path
from typing import Any

from halo_bench import TRANSPORTS, Bench, Row, Shape

from tauslab.decomposition.halo.messages import Halo, Link
from tauslab.decomposition.slab_run import HaloOptions, SlabEngine
from tauslab.kernels.backends import Backend
from tauslab.runner.ranks.mpi import Communicator

PARTS = ("links", "strong", "weak", "slots8", "depths", "timeline")
STRONG = ((256, 128, 128), (256, 256, 256), (512, 512, 512))
WEAK = (128, 256, 256)  # of a rank
SMALL = ((64, 64, 64), (128, 128, 128))  # where latency counts
DEPTHS = (1, 2, 4)
EDGES = (32, 64, 128, 256, 512, 1024)  # of the planes of messages
EARLY = {"auto": None, "yes": True, "no": False}
_EXCHANGES = 64
_LAUNCHES = 8  # of recorded exchanges in a timed run
_TRACED_STEPS = 6
_WARM_STEPS = 18


class Loopback:
    """A link that goes nowhere: all that is done for a message to a device but to send it."""

    name = "peer"

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


def time_steps(
    bench: Bench, row: Row, shape: Shape, ranks: int, options: HaloOptions, *, bare: bool = True
) -> None:
    """Milliseconds a step, and if `bare` also without sending."""
    comm = bench.some(ranks)
    if comm is None:
        return
    about: Row = {"part": row["part"], "shape": list(shape), "ranks": ranks, **bench.kind()}
    row = {**about, **row, "depth": options.depth}
    with bench.slab(comm, shape, options, row) as slab:
        if slab is not None:
            ways = {str(way) for pair in comm.allgather(slab.transports) for way in pair}
            steps = bench.steps_for(comm, slab)
            row |= {"steps": steps, "transport": "/".join(sorted(ways)),
                    "ms_per_step": 1e3 * bench.slowest(comm, slab, steps)}  # fmt: skip
            if slab.halo is not None and bare:
                row |= without_sending(bench, comm, slab, row)
            bench.keep(row)
    comm.free()


def without_sending(bench: Bench, comm: Communicator, slab: SlabEngine, row: Row) -> Row:
    """The same steps with messages that stay on the device."""
    sent = slab.halo
    assert sent is not None
    words = sent.kernels.message_words
    links: list[Link | None] = [
        Loopback(bench.backend, words) if link else None for link in sent.links
    ]
    slab.engine.synchronize()
    slab.halo = Halo(sent.kernels, links)
    slab.forget_recordings()
    slab.run(_WARM_STEPS)
    bare = 1e3 * bench.slowest(comm, slab, row["steps"])
    slab.forget_recordings()
    slab.halo = sent
    return {"ms_without_sending": bare, "not_hidden": 1 - bare / row["ms_per_step"],
            "message_bytes": 8 * words}  # fmt: skip


def time_links(bench: Bench, transport: str) -> None:
    """Microseconds of a message to both neighbours and back, by size, with nothing else to do."""
    comm = bench.world
    for edge in bench.options.edges:
        shape = (2 * comm.size, edge, edge)
        with bench.slab(comm, shape, HaloOptions(transport)) as slab:
            if slab is None or slab.halo is None:
                return
            seconds = statistics.median(exchanges(bench, slab, slab.halo))
            size = 8 * slab.halo.kernels.message_words
            bench.keep({
                "part": "links", "transport": transport, "ranks": comm.size, "bytes": size,
                "microseconds": 1e6 * seconds, "gigabytes_per_second": size / seconds / 1e9,
            })  # fmt: skip


def exchanges(bench: Bench, slab: SlabEngine, halo: Halo) -> list[float]:
    """Seconds of a message, of the slowest rank, again and again; recorded where possible."""
    stream, kernels, comm = slab.edge_stream, halo.kernels, bench.world
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
    launches = 1 if recorded is None else _LAUNCHES
    found = []
    for _ in range(bench.options.repeat + 1):
        stream.record().wait()
        comm.barrier()
        began = time.perf_counter()
        for _ in range(launches):
            if recorded is None:
                all_of_them()
            else:
                recorded.launch(stream)
                halo.number += _EXCHANGES
        stream.record().wait()
        found.append(max(comm.allgather(time.perf_counter() - began)) / launches / _EXCHANGES)
    if recorded is not None:
        kernels.advance(0, odd - halo.number, stream)
    return found[1:]  # a recording goes to the device with its first launch


def trace(bench: Bench, shape: Shape, transport: str) -> None:
    """When each rank did what in some steps, launched one by one."""
    comm = bench.world
    with bench.slab(comm, shape, HaloOptions(transport, record=False)) as slab:
        if slab is None:
            return
        slab.run(20)
        slab.engine.synchronize()
        comm.barrier()
        zero = slab.engine.stream.record()
        slab.trace = []
        slab.run(_TRACED_STEPS)
        slab.engine.synchronize()
        spans = comm.gather(spans_of(slab.trace, zero))
        slab.trace = None
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


Cases = list[tuple[Row, Shape, int]]


def cases_of(options: argparse.Namespace, counts: list[int]) -> Cases:
    """Rows to be, shapes and ranks of the parts that time steps."""
    cases: Cases = []
    for ranks in counts:
        z, y, x = options.weak
        cases += [({"part": "strong"}, shape, ranks) for shape in options.strong]
        cases += [({"part": "weak"}, (z * ranks, y, x), ranks)]
        cases += [({"part": "slots8", "slots": 8, "fill": 0.04}, options.slots8, ranks)]
    return cases


def time_all(bench: Bench) -> None:
    """All parts that are asked for."""
    options, parts, transports = bench.options, bench.options.parts, bench.transports()
    counts = [n for n in (1, 2, 4, 8, 16, 32, 64) if n <= bench.world.size]
    cases = cases_of(options, counts)
    for transport in transports if "links" in parts else ():
        time_links(bench, transport)
    for row, shape, ranks in [case for case in cases if case[0]["part"] in parts]:
        for transport in transports if ranks > 1 else ("auto",):
            time_steps(bench, row, shape, ranks, HaloOptions(transport, early=EARLY[options.early]))
    if "depths" in parts:
        for transport, shape, depth in product(transports, options.small, options.depths):
            way = HaloOptions(transport, depth)
            time_steps(bench, {"part": "depths"}, shape, counts[-1], way, bare=False)
    for transport in transports if "timeline" in parts else ():
        trace(bench, options.traced, transport)


def main() -> None:
    """Run the parts that are asked for, or draw what was found."""
    options = parsed()
    if options.plot:
        draw(options.plot)
        return
    bench = Bench(options)
    time_all(bench)
    if bench.world.rank == 0:
        text = json.dumps({"device": bench.backend.describe(), "ranks": bench.world.size,
                           "rows": bench.rows}, indent=1)  # fmt: skip
        options.output.write_text(text + "\n", encoding="utf-8")
    bench.backend.close()


def _shape(text: str) -> Shape:
    z, y, x = map(int, text.split("x"))
    return z, y, x


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("halo.json"))
    parser.add_argument("--plot", type=Path, help="draw the figures of such a file")
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--transports", nargs="+", help="by default all that are possible")
    parser.add_argument("--strong", nargs="+", type=_shape, default=STRONG, help="ZxYxX ...")
    parser.add_argument("--weak", type=_shape, default=WEAK, help="ZxYxX of a rank")
    parser.add_argument("--slots8", type=_shape, default=(256, 256, 256), help="ZxYxX")
    parser.add_argument("--small", nargs="+", type=_shape, default=SMALL, help="ZxYxX ...")
    parser.add_argument("--depths", nargs="+", type=int, default=DEPTHS, help="of those")
    parser.add_argument("--traced", type=_shape, default=(256, 256, 256), help="ZxYxX")
    parser.add_argument("--edges", nargs="+", type=int, default=EDGES, help="of messages' planes")
    parser.add_argument("--slots", type=int, default=16)
    parser.add_argument("--fill", type=float, default=0.1)
    parser.add_argument("--seconds", type=float, default=0.1, help="of a timed run")
    parser.add_argument("--repeat", type=int, default=5, help="timed runs, of which the median")
    parser.add_argument("--early", choices=EARLY, default="auto",
                        help="finish and send a slab's edges before the planes between")  # fmt: skip
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=0)
    return parser.parse_args()


def draw(path: Path) -> None:
    """Figures beside the file: messages, steps, and what a step does when."""
    from plot_halo import draw_links, draw_scaling, draw_timeline

    found = json.loads(path.read_text(encoding="utf-8"))
    draw_links(found, path.with_name(f"{path.stem}-links.png"))
    draw_scaling(found, path.with_name(f"{path.stem}-scaling.png"))
    for transport in TRANSPORTS:
        draw_timeline(found, transport, path.with_name(f"{path.stem}-timeline-{transport}.png"))


if __name__ == "__main__":
    main()
