"""An ensemble of particles on several ranks: each advances its share, all have the same bits."""

from __future__ import annotations

from launchers import assert_one_digest

PROGRAM = """
import hashlib
import numpy as np
import tauslab as ts
from tauslab.decomposition.ranks.all_ranks import ranks
net = ts.Network("turnover")
net.add_species("X", 3)
net.add_parameter("k", 5.0)
net.add_reaction("-> X", rate="k")
net.add_reaction("X ->", rate=1.0)
net.add_rule("twice", "2 * X")
data = {"time": [0.0, 0.5, 1.0, 2.5], "X": [3, 4, float("nan"), 6]}
found = ts.particle_filter(
    net, data, observe={"X": "poisson"}, n=101, seed=1, device="cpu",
    set={"k": np.linspace(1, 9, 101)}, threshold=1.0,
)
few = ts.Ensemble(net, 2, seed=3, device="cpu", set={"k": [2, 50]}, count_reactions=True)
few.advance(1.0)
pulse = ts.Network("pulse")  # a state with executions that wait, and a quantity that moves
pulse.add_species("X", 4)
pulse.add_species("V", 1.0)
pulse.add_rate("V", "0.4 * V")
pulse.add_reaction("-> X", law="6 * V")
pulse.add_reaction("X ->", rate=0.5)
pulse.add_event("high", trigger="X > 12", delay=0.7, assignments={"V": "V / 2"})
moved = ts.Ensemble(
    pulse, 53, seed=4, device="cpu", set={"V": np.linspace(0.5, 2, 53)}, count_reactions=True
)
states = few.fired().tobytes()
for step in range(4):
    moved.advance(0.8 * (step + 1))
    moved.weigh(-0.2 * moved.values("X"))
    moved.resample(method="multinomial")
    moved.take(np.roll(np.arange(moved.n), 17)[: 53 - 4 * step])  # to all ranks, and fewer
    states += moved.counts.tobytes() + moved.values("V").tobytes()
    states += moved.fired().tobytes() if step % 2 else b""
    assert len(moved.device_counts) == moved.own.stop - moved.own.start
moved.set(X=np.arange(moved.n))
moved.advance(5.0)
states += moved.counts.tobytes()
cell = ts.Network("cell")
cell.add_species("X", 20)
cell.add_species("V", 1.0)
cell.add_rate("V", "0.5 * V")
cell.add_reaction("-> X", law="20 * V")
cell.add_event("divide", trigger="V >= 2")
grown = ts.population(
    cell, [2.0, 5.0], division="divide", cells=13, seed=2, device="cpu",
    set={"V": np.linspace(1, 1.9, 13)}, fraction="uniform(0.3,0.7)",
)
states += b"".join(one.values.tobytes() + one.cell.tobytes() for one in grown.snapshots)
states += grown.divisions.at_birth.tobytes()
many = ts.particle_filters(
    net, data, observe={"X": "poisson"}, n=7, seed=1, device="cpu", states=True,
    set={"k": [1.0, 5.0, 9.0]}, threshold=1.0,
)
states += many.terms.tobytes() + many.mean.tobytes()
drawn = ts.smc2(
    net, data, {"k": "loguniform(1,20)"}, observe={"X": "normal(0.5)"}, draws=13, n=1, seed=1,
    device="cpu", threshold=1.0, quiet=True,
)
states += drawn.digest().encode()
cube = ts.Lattice("cube", shape=(3, 5, 6), spacing=3e-8, slots=8, step=1e-4)
cube.add_species("A", "B")
cube.add_parameter("k", 60.0)
cube.add_diffusion("*", 1e-12)
cube.add_reaction("2 A -> B", rate=1e8, unit="M^-1 s^-1")
cube.add_reaction("B -> 2 A", rate="k")
cube.place("A", count=650)  # of 720 places: some wait
lattices = ts.Ensemble(cube, 8, seed=4, device="cpu", set={"k": np.linspace(1, 99, 8)})
for step in range(3):
    lattices.advance(0.001 * (step + 1))
    lattices.set(A=lattices.values("A") + 20 * step - 9)
    lattices.resample(lattices.values("B"), "multinomial")
    lattices.take(np.roll(np.arange(lattices.n), 3)[: 8 - 2 * step])
    states += lattices.counts.tobytes() + lattices.profile("A", "y").tobytes()
    states += lattices.fired().tobytes() if step % 2 else b""
states += ts.particle_filter(
    cube, {"time": [0.001, 0.002], "A": [300, 280]}, observe={"A": "normal(9)"}, n=5, seed=1,
    device="cpu", threshold=1.0,
).terms.tobytes()
with ts.Ensemble(cube, 2, seed=4, device="cpu", set={"k": [5.0, 50.0]}) as few_cubes:
    few_cubes.take([1, 1, 0, 1, 0])
    few_cubes.advance(0.001)
    few_cubes.take([4])  # ranks without any
    few_cubes.advance(0.002)
    few_cubes.save("cubes.h5")
with ts.Ensemble.load("cubes.h5", device="cpu") as again:
    again.advance(0.003)
    states += again.counts.tobytes()
fall = ts.Network("fall")
fall.add_species("A", "poisson(50)")
fall.add_parameter("k", 1.0)
fall.add_reaction("A ->", rate="k")
fall.add_event("low", trigger="A < 15", delay=0.2, assignments={"A": "A + 9"})
for method in ("ode", "ssa"):
    start = {"A": 100, "k": [1.0, 2.0]} if method == "ode" else {"k": [1.0, 2.0]}
    with ts.Ensemble(fall, 2, seed=1, device="cpu", method=method, set=start) as two:
        two.advance(0.5)
        two.take([0, 1, 1, 0, 1])
        two.set(A=[1, 20, 30, 40, 50])
        two.advance(1.0)
        states += two.counts.tobytes()
        two.save("two.h5")
    with ts.Ensemble.load("two.h5", device="cpu") as again:
        again.advance(1.5)
        states += again.counts.tobytes()
told = states + found.terms.tobytes() + found.mean.tobytes() + few.observables["twice"].tobytes()
comm = ranks()
found = comm.allgather(hashlib.sha256(told).hexdigest())
if comm.rank == 0:
    print("digest", *sorted(set(found)))
"""


def test_ranks_do_not_matter(mpirun):
    assert_one_digest(mpirun, PROGRAM)


FILTERS = """
import hashlib
import numpy as np
import tauslab as ts
from tauslab.decomposition.ranks.all_ranks import ranks
told = hashlib.sha256()
def add(found):
    more = [] if found.quantiles is None else [found.quantiles]
    for part in (found.terms, found.mean, found.sd, found.effective_size, *more):
        told.update(np.ascontiguousarray(part).tobytes())
net = ts.Network("turnover")
net.add_species("X", "poisson(4)")
net.add_parameter("k", 5.0)
net.add_reaction("-> X", rate="k")
net.add_reaction("X ->", rate=1.0)
top = ts.Network("top")  # some particles overflow
top.add_species("X", 2**31 - 8)
top.add_reaction("X -> 2 X", rate=1e-9)
top.add_reaction("X ->", rate=1e-9)
data = {"time": [0.0, 0.5, 1.0, 2.5], "X": [3, 4, float("nan"), 6]}
cells = [data, {"time": [0.0, 0.5], "X": [5, 2]}, {"time": [1.0], "X": [7]}, data]
high = {"time": [0.5, 1.0, 1.5, 3.0], "X": [2.0**31 - i for i in (8, 4, 6, 5)]}
given = {"seed": 1, "device": "cpu"}
poisson, narrow = {"X": "poisson"}, {"X": "normal(sd=0.02)"}  # most have no weight
for scheme in ("systematic", "stratified", "multinomial"):
    for n in (1, 2, 1025, 3001):
        add(ts.particle_filter(net, data, observe=poisson, n=n, resample=scheme, threshold=1.0,
                               **given))
    add(ts.particle_filter(net, data, observe=narrow, n=4097, resample=scheme, **given))
    add(ts.particle_filters(net, data, observe=poisson, n=1501, resample=scheme, threshold=0.7,
                            quantiles=0.9, set={"k": [1.0, 5.0, 9.0]}, **given))
    add(ts.particle_filters(net, cells, observe=poisson, n=5, resample=scheme, states=True,
                            set={"k": [1.0, 5.0, 9.0]}, **given))
for threshold in (0.1, 0.9):
    add(ts.particle_filter(top, high, observe={"X": "normal(sd=4)"}, n=2001, threshold=threshold,
                           **given))
comm = ranks()
found = comm.allgather(told.hexdigest())
if comm.rank == 0:
    print("digest", *sorted(set(found)))
"""


def test_ranks_do_not_matter_to_filters(mpirun):
    assert_one_digest(mpirun, FILTERS)


FAILS = """
import pathlib
import tauslab as ts
from tauslab.decomposition.ranks.all_ranks import ranks
net = ts.Network("decay")
net.add_species("X", 3)
net.add_parameter("k", 1.0)
net.add_reaction("X ->", rate="k")
pathlib.Path("here.h5").mkdir(exist_ok=True)
given = {"observe": {"X": "poisson"}, "n": 4, "device": "cpu", "checkpoint": "here.h5"}
data = {"time": [1.0], "X": [1]}
calls = [
    lambda: ts.Ensemble(net, 2, device="cpu").save("here.h5"),
    lambda: ts.particle_filter(net, data, **given),
    lambda: ts.pmmh(net, data, {"k": "uniform(1,2)"}, steps=2, warm_up=0, seed=1, **given),
]
told = []
for call in calls:
    try:
        call()
    except (ts.OutputError, ts.ConfigError) as error:
        told.append("here.h5 " in str(error))
print("rank", ranks().rank, told)
"""


def test_a_file_that_cannot_be_written_fails_on_all_ranks(mpirun):
    lines = mpirun(2, ["-c", FAILS], timeout=60).stdout.splitlines()
    assert sorted(line for line in lines if line.startswith("rank")) == [
        f"rank {rank} [True, True, True]" for rank in (0, 1)
    ]


ONE_FAILS = """
import numpy as np
import tauslab as ts
from tauslab.decomposition.ranks.all_ranks import ranks
net = ts.Network("decay")
net.add_species("X", 9)
net.add_species("Y", 9)
net.add_reaction("X ->", rate=1.0)
net.add_reaction("Y ->", rate=1.0)
rank = ranks().rank

def before(values, row, t):
    if rank == 1 and t > 1:
        raise OSError("no such disk")
    return -0.5 * (values("X") - row["X"]) ** 2

def after(values, row, t):
    found = -0.5 * (values("X") - row["X"]) ** 2
    return before(values, row, t) if t > 1 else found

def other(values, row, t):
    return -0.5 * (values("XY"[rank]) - row["X"]) ** 2

def more(values, row, t):
    return -0.5 * (values("X") - row["X"]) ** 2 - (0.1 * values("Y") if rank else 0.0)

for function in (before, after, other, more):
    try:
        ts.particle_filter(net, {"time": [1.0, 2.0], "X": [4, 2]}, observe=function, n=9, seed=1,
                           device="cpu")
    except (OSError, ts.ConfigError) as error:
        print("rank", rank, function.__name__, type(error).__name__, error)
good = lambda values, row, t: -0.5 * (values("X") - row["X"]) ** 2 + 0 * values("Y")
found = ts.particle_filter(net, {"time": [1.0], "X": [4]}, observe=good, n=9, seed=1, device="cpu")
print("rank", rank, "goes on", np.isfinite(found.log_likelihood))
"""


def test_a_function_that_fails_on_one_rank_leaves_none_waiting(mpirun):
    lines = mpirun(2, ["-c", ONE_FAILS], timeout=60).stdout.splitlines()
    own, others = "OSError no such disk", "ConfigError observe= failed on rank 1: OSError: no such"
    for rank, failure in ((0, others), (1, own)):
        actual = [line for line in lines if line.startswith(f"rank {rank} ")]
        for line, name in zip(actual[:2], ("before", "after"), strict=True):
            assert line.startswith(f"rank {rank} {name} {failure}")
        for line in actual[2:4]:
            assert "must do the same on all ranks" in line
        assert actual[4] == f"rank {rank} goes on True"
