import sys, time, hashlib, json, os

sys.path.insert(0, "scripts")
from dataclasses import replace
import numpy as np
import benchmark_ode as b
from tauslab.kernels import cache
import tauslab.kernels.backends.cuda as cu
from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.kernels.backends.base import KernelSource
from tauslab.kernels.ode import Ode, OdeSettings
from tauslab.kernels.ode_choice import choices

out = open(os.path.join(os.environ.get("OUT", "/tmp"), "odek.txt"), "w")


def say(*a):
    print(*a, flush=True)
    print(*a, file=out, flush=True)


gpu = get_backend("cuda", BackendOptions())
cpu = get_backend("cpu", BackendOptions(threads=8))
begun = time.time()


def reciprocals():
    text = open("tests/kernels/csrc_reciprocal_probe.cc").read()
    program = gpu.compile(KernelSource("probe.cc", ("check_reciprocals",), {"probe.cc": text}))
    stream = gpu.stream()
    wrong = gpu.empty((1,), np.uint64)
    gpu.clear(wrong, stream)
    program.launch("check_reciprocals", 1 << 24, [np.uint64(1), np.uint64(1 << 32), wrong], stream)
    m = gpu.mirror(wrong)
    gpu.download(wrong, m, 1, stream)
    stream.record().wait()
    say("reciprocals wrong of 2^32:", int(m[0]))


reciprocals()
plain = cache.csrc_texts
ROLLED = """
template <class State, class Constants>
DEVICE void rk4_step(State &x, State &y, State &sum, const Constants &c, double t, const StepSize &by) {
    const Real half = by.half, full = by.full, sixth = by.sixth;
    Real d[N_VARIABLES + 1];
    UNROLL for (int i = 0; i < N_VARIABLES; ++i) y[i] = x[i], sum[i] = 0;
    _Pragma("unroll UNROLL_STAGES")
    for (int s = 0; s < 4; ++s) {
        const Real w = s == 0 || s == 3 ? (Real)1 : (Real)2, a = s < 2 ? half : full;
        const Real tt = (Real)(s == 0 ? t : s == 3 ? t + by.h : t + 0.5 * by.h);
        ode_rates(y, c, tt, d);
        UNROLL for (int i = 0; i < N_VARIABLES; ++i) { sum[i] = fused(w, d[i], sum[i]); y[i] = fused(a, d[i], x[i]); }
    }
    UNROLL for (int i = 0; i < N_VARIABLES; ++i) x[i] = fused(sixth, sum[i], x[i]);
}
"""


def variant(kind):
    def texts():
        t = dict(plain())
        if kind.startswith("rolled"):
            s = t["ode_rk4.h"]
            a = s.index("template <class State, class Constants>\nDEVICE void rk4_step")
            e = s.index("// `substeps` steps from")
            t["ode_rk4.h"] = s[:a] + ROLLED.replace("UNROLL_STAGES", kind[6:]) + s[e:]
        if kind.startswith("blocks"):
            t["ode_rk4.cc"] = t["ode_rk4.cc"].replace(
                "KERNEL(ode_rk4,", f"KERNEL_IN_BLOCKS({kind[6:]}, ode_rk4,"
            )
        if kind == "nomin":
            t["cuda.h"] = t["cuda.h"].replace("    rest = fminf(rest, 1.0f);\n", "")
        return t

    cu.csrc_texts = texts if kind else plain


SCALE = {"EGF-NGF": 0.03, "segmentation clock": 0.004, "thrombin": 0.002}


def case(case, variants, layouts, total=None):
    system, priors = b.equations(case, 20)
    sub = max(1, round(case.steps * SCALE[case.name] / b.POINTS))
    duration = case.step * sub
    times = [duration * k for k in range(1, b.POINTS + 1)]

    def engine(**options):
        s = OdeSettings("rk4", substeps=sub, precision="single", **options)
        t0 = time.time()
        e = Ode(gpu, system, times, s, priors=priors, wide=False)
        return e, time.time() - t0

    def row(name, **options):
        if time.time() - begun > 130:
            return
        try:
            e, made = engine(**options)
            e_total = total or case.trajectories
            seconds, failed, digest = b.run(e, e_total)
            whole = seconds * case.steps / (sub * b.POINTS) * case.trajectories / e_total
            k = e.program._entries[e.entry]
            say(
                f"{case.name[:6]:6} {name:22} whole {whole:8.3f} s  slots {whole * 132 * 4 * 1.98e9 / case.trajectories / case.steps:8.3f}@1.98 pred {e.choice.cost:7.2f} omega {e.choice.trajectories} flight {e.trajectories_in_flight()} regs {k.num_regs} local {k.local_size_bytes} failed {failed} {digest[:8]} compile {made:.1f}"
            )
        except Exception as error:
            say(case.name[:6], name, "ERROR", str(error)[:150])

    for v in variants:
        variant(v)
        row("thread " + v, layout="thread")
        variant("")
    for name, options in layouts:
        row(name, **options)


EGF, CLOCK, THROMBIN = b.CASES
more = [("thread mem", dict(layout="thread", memory_warps="on")), ("global", dict(layout="global"))]
spread = lambda cs: [
    (
        f"warps {c}" + " mem" * (m == "on") + " eq" * (q == "equal"),
        dict(layout="warps", warps=c, memory_warps=m, balance=q),
    )
    for c, m, q in cs
]
case(
    EGF,
    ["", "rolled1", "rolled2", "blocks5", "nomin"],
    more
    + spread(
        [
            (2, "off", "cost"),
            (4, "off", "cost"),
            (4, "on", "cost"),
            (4, "off", "equal"),
            (8, "off", "cost"),
        ]
    ),
)
case(
    CLOCK,
    ["", "rolled1", "blocks6"],
    more + spread([(4, "off", "cost"), (4, "on", "cost"), (4, "off", "equal")]),
)
case(
    THROMBIN,
    ["", "rolled1", "rolled2"],
    more
    + spread(
        [
            (4, "off", "cost"),
            (8, "off", "cost"),
            (8, "on", "cost"),
            (8, "off", "equal"),
            (16, "off", "cost"),
        ]
    ),
)
# bits against the CPU
for c in b.CASES:
    if time.time() - begun > 138:
        break
    system, priors = b.equations(c, 20)
    got = []
    for backend in (cpu, gpu):
        e = Ode(
            backend,
            system,
            [c.step * 20 * k for k in range(1, b.POINTS + 1)],
            OdeSettings("rk4", substeps=20, precision="single"),
            priors=priors,
            wide=False,
        )
        got.append(b.run(e, 256)[2][:10])
    say("bits", c.name, got, got[0] == got[1])
