"""Threads of a warp, and text or tables, for three hybrids: python3 .h-review.py galactose|vilar|large."""
import sys, time, importlib.util
import numpy as np
import tauslab as ts
from tauslab.kernels.events import codegen, ssa
from tauslab.runner.ensemble.kept import kept_runs

def large(m):
    """m pairs: mRNA of a gene that switches, its protein as equations; 6 m reactions."""
    net = ts.Network(f"large{6*m}")
    for i in range(m):
        for s, v in (("off", 1), ("on", 0), ("M", 0), ("P", 100.0)): net.add_species(f"{s}{i}", v)
    for i in range(m):
        j = (i + 1) % m
        net.add_reaction(f"off{i} -> on{i}", law=f"off{i} * 0.05 * (1 + P{j} / (200 + P{j}))", name=f"jump_on{i}")
        net.add_reaction(f"on{i} -> off{i}", rate=0.05, name=f"jump_off{i}")
        net.add_reaction(f"on{i} -> on{i} + M{i}", rate=1.0, name=f"jump_make{i}")
        net.add_reaction(f"M{i} ->", rate=0.1, name=f"jump_gone{i}")
        net.add_reaction(f"M{i} -> M{i} + P{i}", rate=5.0, name=f"flow_make{i}")
        net.add_reaction(f"P{i} ->", rate=0.2, name=f"flow_gone{i}")
    return net, ts.Partitioned(ode="flow_*", jump="*", pilot=0)

def vilar():
    net = ts.read("tests/data/sbml/vilar_oscillator.xml")
    return net, ts.Partitioned(ode=["rx3", "rx4", "rx16"], jump="*", pilot=0)

def galactose():
    spec = importlib.util.spec_from_file_location("g", "examples/galactose_switch.py"); g = importlib.util.module_from_spec(spec); spec.loader.exec_module(g)
    return g.one_network(11.1), ts.Partitioned(ode="transport_*", jump="*", pilot=0)

MODELS = {"galactose": (galactose, 10.0), "vilar": (vilar, 20.0), "large96": (lambda: large(16), 20.0), "large126": (lambda: large(21), 20.0), "large300": (lambda: large(50), 5.0)}
name, device = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "cuda"
build, t_end = MODELS[name]
net, method = build()
GPU, by_warps = device == "cuda", ssa.EventSsa._start
whole = lambda self, *given: super(ssa.EventSsa, self)._start(*given)
from tauslab.kernels.backends.base import LaunchGrid
SINGLE = 0
def single(self, launch, buffers, arguments, stream):
    """Blocks of one warp, on as many warps of a multiprocessor as SINGLE at least."""
    most = self.program.resident(self.entry) // 32
    threads = max(1, min(32, -(-launch.rows // (SINGLE * self.backend.multiprocessors))))
    self.program.launch_blocks(self.entry, LaunchGrid(min(most, -(-launch.rows // threads)), threads), arguments, stream)
for most in ((16, 10000) if name == "large300" else (10000, 16)) if GPU and name != "vilar" else (10000,):
    codegen._MOST_WRITTEN_WITHIN = most
    for n in ((500, 2000, 16000, 100000) if most > 16 else (2000, 16000)) if GPU else (20,):
        row, digests = [], set()
        for warps in (-2, -1, -4, 0) if GPU else (2,):
            SINGLE = -warps
            ssa._WARPS, ssa.EventSsa._start = warps or 2, by_warps if warps > 0 else single if warps else whole
            kept_runs.forget()
            times = []
            for turn in range(2):
                began = time.perf_counter()
                r = ts.run(net, method=method, n=n, t_end=t_end if GPU else 1.0, points=3, seed=1,
                           device=device, record="final", quiet=True)
                times.append(time.perf_counter() - began)
            digests.add(r.digest()[:8])
            row.append(f"{warps or 'whole'}: {times[1]:.3f}")
            if turn == 1 and warps in (2, -2): row.append(f"(first {times[0]:.1f})")
        print(name, "text" if most > 16 else "tables", len(net.reactions), "n", n, *row, digests, flush=True)
