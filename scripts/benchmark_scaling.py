"""Time one large ensemble on the ranks it is started with: from the call to the closed file.

    for n in 1 2 4; do mpirun -n $n python scripts/benchmark_scaling.py -o /scratch; done

A small run first starts the devices and compiles.  The last line is JSON; `seconds` is the longest
over the ranks, and holds everything after that: taking blocks, kernels, copies, HDF5, closing.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import tauslab as ts
from tauslab.runner.api import ranks
from tauslab.runner.bench import schlogl


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=6_000_000, help="trajectories of the whole job")
    parser.add_argument("--t-end", type=float, default=100.0)
    parser.add_argument("--points", type=int, default=101)
    parser.add_argument("--record", default="trajectories,statistics")
    parser.add_argument("--device", default="auto")
    parser.add_argument("-o", "--output", type=Path, default=Path(tempfile.gettempdir()))
    arguments = parser.parse_args()
    comm = ranks()
    network = schlogl()
    settings = {
        "t_end": arguments.t_end,
        "points": arguments.points,
        "record": arguments.record,
        "device": arguments.device,
        "method": "ssa",
        "seed": 1,
        "output": arguments.output / "scaling.h5",
        "overwrite": True,
    }
    ts.run(network, n=64 * comm.size, **settings).close()
    comm.barrier()
    began = time.perf_counter()
    result = ts.run(network, n=arguments.n, **settings)
    seconds = max(comm.allgather(time.perf_counter() - began))
    if comm.rank == 0:
        columns = ("compute", "copy", "write", "wait", "wall")
        profile = {
            k: [round(float(x), 3) for x in result.data[f"profile/{k}"][()]] for k in columns
        }
        events = int(result.data["profile/events"][()].sum())
        devices = [d.decode() for d in result.data["profile/device"][()]]
        print(
            json.dumps(
                {
                    "ranks": comm.size,
                    "devices": devices,
                    "trajectories": arguments.n,
                    "seconds": round(seconds, 3),
                    "events": events,
                    "events_per_second": events / seconds,
                    "bytes_of_samples": arguments.n * arguments.points * 4,
                    "mean_at_end": float(result.mean("X")[-1]),
                    **profile,
                }
            )
        )
    result.close()


if __name__ == "__main__":
    main()
