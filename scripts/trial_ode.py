import sys, time, os
sys.path.insert(0, 'scripts')
from dataclasses import replace
import numpy as np
import benchmark_ode as b
from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.kernels.ode import Ode, OdeSettings
out = open(os.path.join(os.environ.get('OUT','/tmp'), 'odek.txt'), 'w')
def say(*a):
    print(*a, flush=True); print(*a, file=out, flush=True)
gpu = get_backend('cuda', BackendOptions())
begun = time.time()
def case(case, sub, points, layouts, total=None, unknown=20):
    b.POINTS = points
    system, priors = b.equations(case, unknown)
    times = [case.step * sub * k for k in range(1, points + 1)]
    e_total = total or case.trajectories
    for layout, warps, memory, balance in layouts:
        if time.time() - begun > 96: say('out of time'); return
        try:
            t0 = time.time()
            s = OdeSettings('rk4', substeps=sub, precision='single', layout=layout, warps=warps, memory_warps=memory, balance=balance)
            e = Ode(gpu, system, times, s, priors=priors, wide=False, trajectories=e_total); made = time.time() - t0
            seconds, failed, digest = b.run(e, e_total)
            whole = seconds * case.steps / (sub * points) * case.trajectories / e_total
            cycles = seconds * gpu.processors * gpu.clock / (e_total * sub * points)
            k = e.program._entries[e.entry]
            say(f"{case.name[:6]} u{unknown} n{e_total:.0e} {layout:6} {warps or e.choice.warps:2} mem {memory:4} {balance:5} whole {whole:8.3f} s cycles {cycles:8.3f} pred {e.choice.cost:7.2f} om {e.choice.trajectories} fl {e.trajectories_in_flight()//gpu.processors} r {k.num_regs} l {k.local_size_bytes} {'SC' if e.choice.shared_constants else ''} bal {e.choice.placement.balance if e.choice.placement else 0:.2f} f {failed} {digest[:6]} c {made:.1f}")
        except Exception as error:
            say(case.name[:6], layout, warps, memory, balance, 'ERROR', str(error)[:200])
EGF, CLOCK, THROMBIN = b.CASES
say('clock', gpu.clock, gpu.processors)
T = ('thread', 0, 'off', 'cost'); TM = ('thread', 0, 'on', 'cost'); G = ('global', 0, 'off', 'cost')
W = lambda c, m='off', q='cost': ('warps', c, m, q)
case(EGF, 100, 2, [T, TM, G, W(1), W(2), W(3), W(4), W(6), W(8), W(2, 'on'), W(4, 'on'), W(2, q='equal'), W(4, q='equal')], total=1_000_000)
case(EGF, 100, 10, [T, W(2), W(4), W(8), W(16)], total=3000)
case(CLOCK, 500, 2, [T, TM, G, W(2), W(4), W(4, 'on'), W(4, q='equal')], total=300_000)
case(THROMBIN, 500, 2, [T, TM, W(2), W(4), W(8), W(8, 'on'), W(8, q='equal'), G])
case(THROMBIN, 500, 2, [T, W(4)], unknown=164)
case(THROMBIN, 500, 4, [T, W(4), W(8), W(16)], total=3000)
