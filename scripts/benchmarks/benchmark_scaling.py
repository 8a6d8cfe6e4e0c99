"""Time one large ensemble on 1, 2, 4, ... GPUs: from the call to the closed file.

    mpirun -n 4 python scripts/benchmarks/benchmark_scaling.py --folder /scratch  # these ranks
    python scripts/benchmarks/benchmark_scaling.py --gpus 4 --folder /scratch -o h200-scaling-4.json

The first measures the ranks that it is started with and prints a line of JSON; `seconds` is the
longest over the ranks, and holds everything from the call on: taking blocks, kernels, copies, HDF5,
closing.  A small run before it starts the devices and compiles.

The second starts the same job on all GPUs, with statistics and then with trajectories, and then on
fewer: one GPU with statistics, one with trajectories, and two (of 8: and four) at the same time, so
that it all takes little more than the job does on one GPU.  These share the machine, its memory and
its disk, so `waited` tells for how long the slowest GPU had nothing to do.  A table in Markdown is
written beside the JSON; it exits 1 if digests differ.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any

import tauslab as ts
from tauslab.runner.api.api import ranks
from tauslab.runner.cli.bench import schlogl

RECORDS = ("statistics", "trajectories,statistics")
HEADER = ("recorded", "GPUs", "seconds", "times as fast as one", "longest in kernels", "waited",
          "longest in writing", "MB/s of samples for each GPU", "digest")  # fmt: skip
Row = dict[str, Any]


def main() -> None:
    """Measure these ranks, or several numbers of GPUs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", type=int, default=44_000_000, help="trajectories of the whole job")
    parser.add_argument("--t-end", type=float, default=100.0)
    parser.add_argument("--points", type=int, default=51)
    parser.add_argument("--record", default=RECORDS[1])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--name", default="scaling.h5", help="of the result in the folder")
    parser.add_argument("--gpus", type=int, help="measure up to so many")
    parser.add_argument("--launcher", default="mpirun", help="and options of it")
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    if arguments.gpus is None:
        told = measure(arguments)
        if told is not None:
            print(json.dumps(told))
        return
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        arguments.folder = Path(folder)
        rows = compare(arguments)
    lines = table(rows)
    print("\n".join(lines))
    if arguments.output is not None:
        arguments.output.write_text(
            "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
        )
        arguments.output.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.exit(len({(row["record"], row["digest"]) for row in rows}) > len(RECORDS))


def measure(arguments: argparse.Namespace) -> Row | None:
    """Run the job on these ranks; what rank 0 tells."""
    comm, network = ranks(), schlogl()
    settings = {
        "t_end": arguments.t_end, "points": arguments.points, "record": arguments.record,
        "method": "ssa", "seed": 1,
        "device": ts.CPU(threads=arguments.threads) if arguments.device == "cpu"
        else arguments.device,
        "output": ts.Output(arguments.folder / arguments.name, overwrite=True),
    }  # fmt: skip
    ts.run(network, n=64 * comm.size, **settings).close()
    comm.barrier()
    began = perf_counter()
    with ts.run(network, n=arguments.n, **settings) as result:
        seconds = max(comm.allgather(perf_counter() - began))
        if comm.rank != 0:
            return None
        columns = ("compute", "copy", "write", "wait", "wall")
        data = {k: result.data[f"profile/{k}"][()] for k in (*columns, "events", "device")}
        events = int(data["events"].sum())
        return {
            "ranks": comm.size,
            "record": arguments.record,
            "devices": [d.decode() for d in data["device"]],
            "trajectories": arguments.n,
            "seconds": round(seconds, 3),
            "events": events,
            "events_per_second": events / seconds,
            "bytes_of_samples": arguments.n * arguments.points * 4,
            "mean_at_end": float(result.mean("X")[-1]),
            **{k: [round(float(x), 3) for x in data[k]] for k in columns},
        }


def compare(arguments: argparse.Namespace) -> list[Row]:
    """All GPUs twice, then shares of them at the same time; a row for each run."""
    most = arguments.gpus
    rows = [run(arguments, range(most), record) for record in RECORDS]
    # At the same time: GPU 0 and GPU 1 with one record each, groups of 2, 4, ... with both in turn.
    groups: list[tuple[Sequence[int], tuple[str, ...]]] = []
    groups += [((k,), (record,)) for k, record in enumerate(RECORDS[:most]) if most > 1]
    size = 2
    while 2 * size <= most:
        groups.append((range(size, 2 * size), RECORDS))
        size *= 2
    with ThreadPoolExecutor(max(1, len(groups))) as pool:
        told = pool.map(lambda g: [run(arguments, g[0], record) for record in g[1]], groups)
        rows += [row for some in told for row in some]
    with ThreadPoolExecutor(len(rows)) as pool:
        digests = list(pool.map(lambda row: digest(arguments.folder / row["name"]), rows))
    for row, found in zip(rows, digests, strict=True):
        row["digest"] = found
    return sorted(rows, key=lambda row: (RECORDS.index(row["record"]), row["ranks"]))


def run(arguments: argparse.Namespace, gpus: Sequence[int], record: str) -> Row:
    """Run the job on some of the GPUs, in processes of its own."""
    name = f"{len(gpus)}-{RECORDS.index(record)}.h5"
    command = [sys.executable, str(Path(__file__).resolve())]
    for option in ("n", "t_end", "points", "device", "threads", "folder"):
        flag = "-n" if option == "n" else f"--{option.replace('_', '-')}"
        command += [flag, str(getattr(arguments, option))]
    command += ["--record", record, "--name", name]
    if len(gpus) > 1:
        command = [*shlex.split(arguments.launcher), "-n", str(len(gpus)), *command]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    shown = ",".join(visible[k] if k < len(visible) and visible[k] else str(k) for k in gpus)
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": shown}
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    row: Row = json.loads(done.stdout.splitlines()[-1])
    print(f"{len(gpus)} of {arguments.gpus}, {record}: {row['seconds']} s", flush=True)
    return {**row, "gpus": shown, "name": name}


def digest(path: Path) -> str:
    """The total of `tauslab digest`."""
    command = [sys.executable, "-m", "tauslab", "digest", str(path)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.split()[-2]


def table(rows: list[Row]) -> list[str]:
    """Markdown."""

    def cells(row: Row) -> Iterator[str]:
        mine = [other for other in rows if other["record"] == row["record"]]
        one = next((other["seconds"] for other in mine if other["ranks"] == 1), None)
        yield from (row["record"], str(row["ranks"]), f"{row['seconds']:.2f}")
        yield f"{one / row['seconds']:.3f}" if one else "-"
        yield from (f"{max(row[k]):.2f}" for k in ("compute", "wait", "write"))
        each = row["bytes_of_samples"] / row["seconds"] / row["ranks"] / 1e6
        yield f"{each:.0f}" if "trajectories" in row["record"] else "-"
        yield row["digest"][:12]

    lines = [f"| {' | '.join(HEADER)} |", "|---" * len(HEADER) + "|"]
    return lines + [f"| {' | '.join(cells(row))} |" for row in rows]


if __name__ == "__main__":
    main()
