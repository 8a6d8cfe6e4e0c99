"""Which layout of a Runge-Kutta kernel should be the fastest on a device with warps."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tauslab.kernels.ode.codegen import count_constants, is_long
from tauslab.kernels.ode.layouts.costs import PIPES, CostTable, tabulated
from tauslab.kernels.ode.layouts.placement import Prices, WarpPlacement, place
from tauslab.kernels.ode.lowering import OdeSystem
from tauslab.model.errors import ConfigError
from tauslab.model.option_names import opt

LANES = 32
SCHEDULERS = 4
REGISTERS = 65536  # of a multiprocessor, 32 bits each
MOST_REGISTERS = 255  # of a thread
SHARED_BYTES = 227 * 1024  # of a multiprocessor, that blocks may have together
BLOCK_OVERHEAD = 1024  # bytes that a block takes beside its own
MOST_WARPS = 64  # of a multiprocessor
MOST_BLOCKS = 32
SPLITS = (2, 4, 8, 16)  # warps of a trajectory that the automatic choice looks at: those measured
_STAGES = 4

# Registers of a thread beside three for each of its variables: for addresses, times and counters;
# and for values of expressions, of which more live at a time where they come from shared memory.
# So ptxas (13.5, sm_90) needs them, within a tenth for three models of 16 to 28 variables.
SYSTEM_REGISTERS = 24
TEMPORARIES, SHARED_TEMPORARIES = 8, 28
# What follows is fitted to seconds of sixteen systems on an H200 (docs/benchmarks/ode.md), clocks.
USED = 0.7  # of a pipe's slots, where enough warps wait for it
BARRIER = 20.0  # of a stage's barrier, for each warp of the trajectory
ALONE = 2.0  # an instruction of a warp that has a scheduler for itself: latency of arithmetic
# Instructions beyond INSTRUCTION_CACHE bytes come from a slower cache. Each keeps its warp waiting
# for LATE clocks more, and a multiprocessor gets one of them in FETCH clocks.
INSTRUCTION_CACHE, INSTRUCTION_BYTES = 32 * 1024, 16
LATE, FETCH = 4.6, 3.75
WARP_BYTES = 2048  # of the text around a step that each warp of a trajectory has for itself
# Loads and stores of a spilled register in a stage, and their slots in the pipe of shared memory.
SPILLED_ACCESSES, LOCAL_ACCESS = 4.8, 1.9
# If a thread wants more than GIVEN_UP registers, ptxas (13.5) uses 32 and keeps its variables and
# constants in local memory: a stage then loses FAR_ACCESS clocks for each register that it wanted.
# GLOBAL_ACCESS: slots of a number in global memory.
GIVEN_UP, FAR_ACCESS, GLOBAL_ACCESS = 400, 190.0, 16.0
_LESS_SPILLED = 0.75  # constants go to shared memory if then so much of what is spilled is left


@dataclass(frozen=True)
class LayoutChoice:
    """A layout with its predicted cost: slots of a multiprocessor for a step of a trajectory.

    `warps` of a trajectory (1: a thread has it alone), `groups` of them in a block, and how many
    trajectories a multiprocessor runs at the same time; `memory`: one more warp writes samples, of
    a group, or of the `compute_threads` of a block; `shared_constants`: those of a thread's
    trajectory are in shared memory; `planes` of bins that a block keeps to count samples, 0 where
    none are counted.
    """

    warps: int
    groups: int
    trajectories: int
    cost: float
    placement: WarpPlacement | None = None
    bytes_of_a_block: int = 0
    memory: bool = False
    shared_constants: bool = False
    compute_threads: int = 0
    in_global: bool = False
    costs: str = ""
    planes: int = 0

    @property
    def name(self) -> str:
        """The layout's name."""
        if self.in_global:
            return "global"
        return "thread" if self.placement is None else "warps"

    @property
    def entry(self) -> str:
        """The kernel, which is alone in a file."""
        blocks = self.memory or self.shared_constants or self.planes
        thread = "ode_threads" if blocks else "ode_rk4"
        return {"global": "ode_global", "thread": thread, "warps": "ode_warps"}[self.name]

    @property
    def in_blocks(self) -> bool:
        """Whether threads of a block work together."""
        return self.entry in ("ode_threads", "ode_warps")

    @property
    def trajectories_of_a_block(self) -> int:
        """Where threads work together."""
        return self.compute_threads if self.placement is None else LANES * self.groups

    @property
    def threads_of_a_block(self) -> int:
        """Where they work together."""
        if self.placement is None:
            return self.compute_threads + LANES * self.memory
        return LANES * (self.warps + self.memory) * self.groups

    @property
    def blocks(self) -> int:
        """Of a multiprocessor, where threads work together."""
        return self.trajectories // max(1, self.trajectories_of_a_block)

    @property
    def short(self) -> str:
        """Layout, where costs come from and the prediction, in few words."""
        what = self.name if self.placement is None else f"{self.name} {self.warps}"
        what += "+memory" if self.memory else ""
        what += "+counts" if self.planes else ""
        return f"{what} by {self.costs}: predicted {self.cost:.3g} slots a step"

    def __str__(self) -> str:
        """One line for people."""
        what = f"layout {self.name}"
        what += "" if self.placement is None else f", {self.warps} warps a trajectory"
        what += ", constants in shared memory" if self.shared_constants else ""
        what += ", and warps for memory" if self.memory else ""
        what += ", which count" if self.memory and self.planes else ""
        what += ", which counts its own" if self.planes and not self.memory else ""
        more = "" if self.placement is None else f", balance {self.placement.balance:.2f}"
        return (
            f"{what}: predicted {self.cost:.4g} slots a step ({self.costs}), {self.trajectories} "
            f"trajectories a multiprocessor{more}"
        )


@dataclass(frozen=True)
class Wishes:
    """What was asked for: names as in `OdeSettings`; `warps` is 0 for any number.

    `crowd` is how many trajectories a multiprocessor gets, 0 for more than it runs at a time, and
    `planes` of bins are what a block needs to count samples, 0 if they are written.
    """

    precision: str
    layout: str = "auto"
    warps: int = 0
    memory_warps: str = "auto"
    balance: str = "cost"
    crowd: int = 0
    planes: int = 0

    @property
    def memory(self) -> bool:
        """Whether warps write samples; nothing measured so far was faster with them."""
        return self.memory_warps == "on"


def thread_choice(
    system: OdeSystem, wishes: Wishes, costs: CostTable | None = None, *, shared: bool = False
) -> LayoutChoice:
    """Prediction for one trajectory per thread, variables in registers; `shared`: not constants."""
    prices = Prices(system, wishes.precision, costs)
    wanted = _wanted(prices, shared=shared)
    warps = min(MOST_WARPS, REGISTERS // (LANES * min(wanted, MOST_REGISTERS)))
    found = LayoutChoice(1, 1, warps * LANES, 0.0, costs=prices.source)
    if wishes.memory or shared or wishes.planes:
        found = _in_blocks(system, prices, warps, wishes, shared=shared)
    total = prices.all_equations(shared_constants=shared)
    more = SPILLED_ACCESSES * max(0, wanted - MOST_REGISTERS)
    instructions = float(total[PIPES.index("issue")]) + more
    total[PIPES.index("shared")] += more * LOCAL_ACCESS
    given_up = wanted > GIVEN_UP and not found.in_blocks
    work = _Work(
        slots=max(instructions, float(total.max())),
        longest=instructions,
        instructions=instructions,
        text=instructions * (1 if is_long(system) else _STAGES) * INSTRUCTION_BYTES,
        lost=wanted * FAR_ACCESS if given_up else 0.0,
    )
    return replace(found, cost=_cost(work, found.trajectories, wishes.crowd))


def _wanted(prices: Prices, *, shared: bool) -> int:
    """Registers that a thread with a whole trajectory would like."""
    constants = 0 if shared else prices.count_constants()
    numbers = 3 * len(prices.system.variables) + TEMPORARIES + constants
    return numbers * prices.words + SYSTEM_REGISTERS


def wanted_registers(system: OdeSystem, wishes: Wishes) -> int:
    """Registers that a thread with a whole trajectory, constants included, would like."""
    return _wanted(Prices(system, wishes.precision), shared=False)


def _in_blocks(
    system: OdeSystem, prices: Prices, warps: int, wishes: Wishes, *, shared: bool
) -> LayoutChoice:
    """Blocks of threads that use shared memory: the size with which most trajectories fit.

    Of `warps` that a multiprocessor's registers are enough for: nearly, since each scheduler has a
    quarter of them, and ptxas keeps to what is left for the warps of the fullest.
    """
    warps = min(MOST_WARPS, SCHEDULERS * round(warps / SCHEDULERS))
    words, memory, planes = prices.words, wishes.memory, wishes.planes
    best = LayoutChoice(
        1, 1, 0, 0.0, memory=memory, shared_constants=shared, costs=prices.source, planes=planes
    )
    # A warp that counts is slow: half as many as a block may have are enough for it.
    for computing in range(1, 8 if memory and planes else 16):
        width = LANES * computing
        n_bytes = sample_bytes(system, words, width, memory=memory, planes=planes)
        n_bytes += 4 * words * count_constants(system) * width if shared else 0
        blocks = min(
            warps // (computing + memory),
            SHARED_BYTES // (n_bytes + BLOCK_OVERHEAD),
            MOST_BLOCKS,
        )
        if blocks * width > best.trajectories:
            best = replace(
                best, trajectories=blocks * width, compute_threads=width, bytes_of_a_block=n_bytes
            )
    return best


def global_choice(
    system: OdeSystem, wishes: Wishes, costs: CostTable | None = None
) -> LayoutChoice:
    """Prediction for one trajectory per thread, all its numbers in global memory."""
    prices = Prices(system, wishes.precision, costs)
    numbers = 5 * len(system.variables) + prices.count_constants()  # read or written in a stage
    warps = min(MOST_WARPS, REGISTERS // (LANES * MOST_REGISTERS))
    stage = max(float(prices.all_equations().max()), numbers * prices.words * GLOBAL_ACCESS)
    cost = _cost(_Work(stage, stage, stage, 0.0, 0.0), warps * LANES, wishes.crowd)
    return LayoutChoice(1, 1, warps * LANES, cost, in_global=True, costs=prices.source)


def warps_choice(
    system: OdeSystem, warps: int, wishes: Wishes, costs: CostTable | None = None
) -> LayoutChoice:
    """Prediction for a trajectory spread over `warps` warps."""
    placement = place(system, warps, wishes.precision, costs, wishes.balance)
    prices = Prices(system, wishes.precision, costs)
    block = group_bytes(system, prices.words)
    block += sample_bytes(system, prices.words, LANES, memory=wishes.memory, planes=wishes.planes)
    own = max(len(group) for group in placement.groups)
    wanted = 3 * own * prices.words + SHARED_TEMPORARIES + SYSTEM_REGISTERS
    all_warps = warps + wishes.memory
    by_registers = REGISTERS // (LANES * all_warps * min(wanted, MOST_REGISTERS))
    by_memory = SHARED_BYTES // (block + BLOCK_OVERHEAD)
    groups = min(MOST_BLOCKS, MOST_WARPS // all_warps, by_registers, by_memory)
    found = LayoutChoice(
        warps, 1, groups * LANES, 0.0, placement, block, wishes.memory, costs=prices.source,
        planes=wishes.planes,
    )  # fmt: skip
    more = SPILLED_ACCESSES * max(0, wanted - MOST_REGISTERS)
    instructions = sum(placement.instructions) + warps * more
    busiest = sum(float(prices.group(own).max()) for own in placement.groups)
    work = _Work(
        slots=busiest + warps * more * LOCAL_ACCESS,
        longest=max(placement.instructions) + more,
        instructions=instructions,
        text=instructions * _STAGES * INSTRUCTION_BYTES + warps * WARP_BYTES,
        lost=warps * BARRIER,
    )
    return replace(found, cost=_cost(work, groups * LANES, wishes.crowd))


@dataclass(frozen=True)
class _Work:
    """A stage of 32 trajectories.

    `slots` of the busiest pipe and `instructions` of all their warps, `longest` instructions of one
    warp, bytes of `text` of a step, and clocks that are `lost` beside.
    """

    slots: float
    longest: float
    instructions: float
    text: float
    lost: float


def _cost(work: _Work, trajectories: int, crowd: int) -> float:
    """Cycles of a multiprocessor for a step of one trajectory, of `trajectories` in flight.

    A stage takes as long as the busiest pipe, as its slowest warp, or as reading the instructions
    that a cache does not hold, which all trajectories in flight share. Those of a `crowd` take
    turns, each as long however few the last one has.
    """
    if trajectories < LANES:
        return float("inf")
    in_flight = trajectories // LANES
    wanted = -(-crowd // LANES) if crowd else in_flight
    turns = -(-wanted // in_flight)
    groups = -(-wanted // turns)
    missed = 1 - INSTRUCTION_CACHE / max(INSTRUCTION_CACHE, work.text)
    slowest = work.longest * (ALONE + LATE * missed) + work.lost
    fetched = work.instructions * FETCH * missed
    stage = max(work.slots * groups / (SCHEDULERS * USED), slowest, fetched)
    return _STAGES * turns * stage / (crowd or LANES * in_flight)


def group_bytes(system: OdeSystem, words: int) -> int:
    """Shared memory of the 32 trajectories of a group."""
    return LANES * 4 * words * (2 * len(system.variables) + count_constants(system))


def handover_bytes(system: OdeSystem, words: int, width: int) -> int:
    """Shared memory that hands over samples of `width` trajectories (ode/blocks/memory.h)."""
    return 2 * (len(system.quantities) + 1) * (width | 1) * 4 * words


def sample_bytes(system: OdeSystem, words: int, width: int, *, memory: bool, planes: int) -> int:
    """Shared memory for samples of `width` trajectories, and for bins."""
    if memory:
        return handover_bytes(system, words, width) + planes * width
    own = (len(system.quantities) + 1) * 4 * words
    return (own + planes) * width if planes else 0


def choices(
    system: OdeSystem, wishes: Wishes, costs: CostTable | None = None
) -> list[LayoutChoice]:
    """Layouts with a thread or several warps with their predictions, the best first."""
    found = [_best_thread(system, wishes, costs)]
    able = [warps for warps in SPLITS if warps <= len(system.variables)]
    if wishes.planes and not wishes.memory:
        able = []  # only a warp of its own counts what several have
    found += [warps_choice(system, warps, wishes, costs) for warps in able]
    return sorted(found, key=lambda choice: choice.cost)


def _best_thread(system: OdeSystem, wishes: Wishes, costs: CostTable | None) -> LayoutChoice:
    """Constants go to shared memory where that leaves registers for much of what is spilled."""
    prices = Prices(system, wishes.precision, costs)
    own, less = (
        max(0, _wanted(prices, shared=shared) - MOST_REGISTERS) for shared in (False, True)
    )
    return thread_choice(system, wishes, costs, shared=less < _LESS_SPILLED * own)


def chosen(system: OdeSystem, wishes: Wishes, costs: CostTable | None = None) -> LayoutChoice:
    """The layout for a device with warps: the best of what was asked for.

    Raises
    ------
    ConfigError
        More warps than equations, or memory that a multiprocessor does not have.
    """
    costs = costs or tabulated(wishes.precision)
    if wishes.warps > len(system.variables):
        raise ConfigError(
            f"{opt('warps', wishes.warps)} is not allowed: there are {len(system.variables)} "
            "equations to spread"
        )
    if wishes.layout == "global":
        found = global_choice(system, wishes, costs)
    elif wishes.warps:
        found = warps_choice(system, wishes.warps, wishes, costs)
    elif wishes.layout == "thread":
        found = _best_thread(system, wishes, costs)
    else:
        every = choices(system, wishes, costs)
        spread = [c for c in every if wishes.layout in ("auto", c.name)]
        found = spread[0] if spread else warps_choice(system, 1, wishes, costs)
    if found.trajectories < LANES:
        beside = f" with {opt('memory_warps', 'on')}" if wishes.memory else ""
        raise ConfigError(
            f"{opt('layout', found.name)}{beside} needs "
            f"more shared memory than a multiprocessor has for {len(system.variables)} variables; "
            f"take {opt('layout', 'auto')}, {opt('memory_warps', 'off')}"
        )
    return found
