"""Layouts of a Runge-Kutta kernel on a device with warps: a rule of one number.

A thread has a trajectory alone, or, after Hagiescu and others (2013, ACM Transactions on
Architecture and Code Optimization 10(4), 55), its equations are spread over several warps. No
result depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from tauslab.kernels.ode.codegen import count_constants
from tauslab.kernels.ode.graph import RUNNING
from tauslab.kernels.ode.lowering import OdeSystem

LANES = 32
SCHEDULERS = 4
REGISTERS = 65536  # of a multiprocessor, 32 bits each
MOST_REGISTERS = 255  # of a thread
SHARED_BYTES = 227 * 1024  # of a multiprocessor, that blocks may have together
BLOCK_OVERHEAD = 1024  # bytes that a block takes beside its own
MOST_WARPS = 64  # of a multiprocessor
MOST_BLOCKS = 32

# Registers of a thread beside three for each of its variables: for addresses, times and counters;
# and for values of expressions, of which more live at a time where they come from shared memory.
# So ptxas (13.5, sm_90) needs them, within a tenth for three models of 16 to 28 variables.
SYSTEM_REGISTERS = 24
TEMPORARIES, SHARED_TEMPORARIES = 8, 28
# Two warps share a trajectory for which one thread would like more registers. Of 23 systems on an
# H200 this takes 1.048 times the time of the fastest layout in the geometric mean, 1.35 times at
# most; a thread each 1.235 and 15.6 times (docs/benchmarks/ode.md).
MOST_OF_A_THREAD, WARPS = 550, 2
_LESS_SPILLED = 0.75  # constants go to shared memory if then so much of what is spilled is left


@dataclass(frozen=True)
class OdeLayout:
    """Shares of trajectories in a multiprocessor.

    `groups` are the variables of each warp of a trajectory, none where a thread has it alone. A
    block runs `width` trajectories together, and registers have to do for so many `blocks`; with
    `shared_constants` those of a thread's trajectory are in shared memory, of which a block takes
    `bytes_of_a_block`. `planes` of bins are those in which a block counts samples, 0 where it
    writes them.
    """

    groups: tuple[tuple[int, ...], ...] = ()
    width: int = LANES
    blocks: int = 1
    bytes_of_a_block: int = 0
    shared_constants: bool = False
    planes: int = 0

    @property
    def warps(self) -> int:
        """Warps of a trajectory; a thread that has it alone counts as one."""
        return max(1, len(self.groups))

    @property
    def name(self) -> str:
        """The layout's name."""
        return "warps" if self.groups else "thread"

    @property
    def entry(self) -> str:
        """The kernel, which is alone in a file."""
        if self.groups:
            return "ode_warps"
        return "ode_threads" if self.shared_constants or self.planes else "ode_rk4"

    @property
    def in_blocks(self) -> bool:
        """Return whether threads of a block work together."""
        return self.entry in ("ode_threads", "ode_warps")

    @property
    def threads_of_a_block(self) -> int:
        """Threads of a block, where they work together."""
        return self.width * self.warps

    def __str__(self) -> str:
        """A few words for people."""
        what = f"{self.name} {self.warps}" if self.groups else self.name
        what += ", constants in shared memory" if self.shared_constants else ""
        return what + (", which counts its samples" if self.planes else "")


def layout_of(system: OdeSystem, precision: str, planes: int = 0) -> OdeLayout:
    """The layout that the rule gives; one that counts samples in `planes` of bins if it can."""
    words = 1 if precision == "single" else 2
    if wanted_registers(system, words) > MOST_OF_A_THREAD:
        over = spread(system, words, min(WARPS, len(system.variables)))
        if over.blocks:
            return over
    if planes and (counts := alone(system, words, planes)).blocks:
        return counts
    return alone(system, words)


def wanted_registers(system: OdeSystem, words: int, *, shared: bool = False) -> int:
    """Registers that a thread with a whole trajectory would like; `shared`: without constants.

    `words` of 32 bits make a number.
    """
    constants = 0 if shared else _constants_of_rates(system)
    return (3 * len(system.variables) + TEMPORARIES + constants) * words + SYSTEM_REGISTERS


def _constants_of_rates(system: OdeSystem) -> int:
    """Constants of a trajectory that its equations read."""
    graph = system.graph
    read = {a for n in graph.reached(list(system.rates)) for a in graph.nodes[n].arguments}
    return sum(graph.stages[a] < RUNNING and graph.value_of(a) is None for a in read)


def _resident(wanted: int) -> int:
    """Warps of a multiprocessor whose threads have the registers that they want, if they may."""
    return min(MOST_WARPS, REGISTERS // (LANES * min(wanted, MOST_REGISTERS)))


def alone(system: OdeSystem, words: int, planes: int = 0) -> OdeLayout:
    """A trajectory a thread.

    Constants go to shared memory where that leaves registers for much of what is spilled, and where
    there is room for those of a warp.
    """
    own, less = (wanted_registers(system, words, shared=shared) for shared in (False, True))
    shared = max(0, less - MOST_REGISTERS) < _LESS_SPILLED * max(0, own - MOST_REGISTERS)
    if not shared and not planes:
        return OdeLayout()
    constants = 4 * words * count_constants(system) * shared
    sample = (4 * words * (len(system.quantities) + 1) + planes) if planes else 0
    result = _widest(_resident(less if shared else own), sample + constants, planes, shared=shared)
    return result if result.blocks or planes else OdeLayout()


def _widest(warps: int, bytes_of_a_thread: int, planes: int, *, shared: bool) -> OdeLayout:
    """Blocks of threads that use shared memory: the size with which most trajectories fit.

    Of `warps` that a multiprocessor's registers are enough for: nearly, since each scheduler has a
    quarter of them, and ptxas keeps to what is left for the warps of the fullest.
    """
    warps = min(MOST_WARPS, SCHEDULERS * round(warps / SCHEDULERS))
    best = OdeLayout(blocks=0, shared_constants=shared, planes=planes)
    for computing in range(1, 16):
        width = LANES * computing
        n_bytes = bytes_of_a_thread * width
        by_memory = SHARED_BYTES // (n_bytes + BLOCK_OVERHEAD)
        blocks = min(warps // computing, by_memory, MOST_BLOCKS)
        if blocks * width > best.blocks * best.width:
            best = OdeLayout((), width, blocks, n_bytes, shared_constants=shared, planes=planes)
    return best


def spread(system: OdeSystem, words: int, warps: int) -> OdeLayout:
    """A trajectory spread over `warps` warps, each with as many equations as the others."""
    n = len(system.variables)
    bounds = [n * warp // warps for warp in range(warps + 1)]
    groups = tuple(tuple(range(*ends)) for ends in pairwise(bounds))
    n_bytes = LANES * 4 * words * (2 * n + count_constants(system))
    wanted = 3 * max(map(len, groups)) * words + SHARED_TEMPORARIES + SYSTEM_REGISTERS
    by_memory = SHARED_BYTES // (n_bytes + BLOCK_OVERHEAD)
    by_registers = REGISTERS // (LANES * warps * min(wanted, MOST_REGISTERS))
    blocks = min(MOST_BLOCKS, MOST_WARPS // warps, by_registers, by_memory)
    return OdeLayout(groups, LANES, blocks, n_bytes)
