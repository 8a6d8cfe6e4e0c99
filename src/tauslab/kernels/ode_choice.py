"""Which layout of a Runge-Kutta kernel should be the fastest on a device with warps."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tauslab.kernels.ode_codegen import count_constants
from tauslab.kernels.ode_costs import CostTable, tabulated
from tauslab.kernels.ode_lowering import OdeSystem
from tauslab.kernels.ode_placement import Placement, Prices, place
from tauslab.model.errors import ConfigError

LANES = 32
SCHEDULERS = 4
REGISTERS = 65536  # of a multiprocessor, 32 bits each
MOST_REGISTERS = 255  # of a thread
SHARED_BYTES = 227 * 1024  # of a multiprocessor, that blocks may have together
BLOCK_OVERHEAD = 1024  # bytes that a block takes beside its own
MOST_WARPS = 64  # of a multiprocessor
MOST_BLOCKS = 32
MOST_SPLIT = 30  # warps of a trajectory that may be asked for
LARGEST_SPLIT = 16  # warps of a trajectory that the automatic choice looks at
_STAGES = 4

# Registers of a thread beside three for each of its variables: for addresses, times and counters;
# and for values of expressions, of which more live at a time where they come from shared memory.
# So ptxas (13.5, sm_90) needs them, within a tenth for three models of 16 to 28 variables.
SYSTEM_REGISTERS = 24
TEMPORARIES, SHARED_TEMPORARIES = 8, 32
BARRIER = 30.0  # slots that a warp loses at each of the four barriers of a step
ALONE = 2.5  # clocks a slot of a warp that has a scheduler for itself: latency of arithmetic
# Slots of a spilled register, stored and loaded once a stage: where the first-level cache holds
# them, and where it does not; and of a number in global memory.
LOCAL_ACCESS, FAR_ACCESS, GLOBAL_ACCESS = 2.0, 100.0, 16.0
CACHE_BYTES = 256 * 1024  # first-level cache and shared memory of a multiprocessor


@dataclass(frozen=True)
class Choice:
    """A layout with its predicted cost: slots of a multiprocessor for a step of a trajectory.

    `warps` of a trajectory (1: a thread has it alone), `groups` of them in a block, and how many
    trajectories a multiprocessor runs at the same time; `memory`: one more warp writes samples, of
    a group, or of the `compute_threads` of a block; `shared_constants`: those of a thread's
    trajectory are in shared memory.
    """

    warps: int
    groups: int
    trajectories: int
    cost: float
    placement: Placement | None = None
    bytes_of_a_block: int = 0
    memory: bool = False
    shared_constants: bool = False
    compute_threads: int = 0
    in_global: bool = False
    costs: str = ""

    @property
    def name(self) -> str:
        """The layout's name."""
        if self.in_global:
            return "global"
        return "thread" if self.placement is None else "warps"

    @property
    def entry(self) -> str:
        """The kernel, which is alone in a file of its name."""
        thread = "ode_threads" if self.memory or self.shared_constants else "ode_rk4"
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
        return f"{what} by {self.costs}: predicted {self.cost:.3g} slots a step"

    def __str__(self) -> str:
        """One line for people."""
        what = f"layout {self.name}"
        what += "" if self.placement is None else f", {self.warps} warps a trajectory"
        what += ", constants in shared memory" if self.shared_constants else ""
        what += ", and warps for memory" if self.memory else ""
        more = "" if self.placement is None else f", balance {self.placement.balance:.2f}"
        return (
            f"{what}: predicted {self.cost:.4g} slots a step ({self.costs}), {self.trajectories} "
            f"trajectories a multiprocessor{more}"
        )


@dataclass(frozen=True)
class Wishes:
    """What was asked for: names as in `OdeSettings`; `warps` is 0 for any number.

    `crowd` is how many trajectories a multiprocessor gets, 0 for more than it runs at a time.
    """

    precision: str
    layout: str = "auto"
    warps: int = 0
    memory_warps: str = "auto"
    balance: str = "cost"
    crowd: int = 0

    @property
    def memory(self) -> bool:
        """Whether warps write samples; nothing measured so far was faster with them."""
        return self.memory_warps == "on"


def thread_choice(
    system: OdeSystem, wishes: Wishes, costs: CostTable | None = None, *, shared: bool = False
) -> Choice:
    """Prediction for one trajectory per thread, variables in registers; `shared`: not constants."""
    prices = Prices(system, wishes.precision, costs)
    constants = prices.count_constants()
    stage = prices.all_equations(shared_constants=shared)
    numbers = 3 * len(system.variables) + TEMPORARIES + (0 if shared else constants)
    wanted = numbers * prices.words + SYSTEM_REGISTERS
    warps = min(MOST_WARPS, REGISTERS // (LANES * min(wanted, MOST_REGISTERS)))
    found = Choice(1, 1, warps * LANES, 0.0)
    if wishes.memory or shared:
        found = _in_blocks(system, prices.words, warps, memory=wishes.memory, shared=shared)
    stage += _spilled(wanted, found)
    cost = _cost(stage, stage, found.trajectories, wishes.crowd)
    return replace(found, cost=cost, costs=prices.source)


def _in_blocks(system: OdeSystem, words: int, warps: int, *, memory: bool, shared: bool) -> Choice:
    """Blocks of threads that use shared memory: the size with which most trajectories fit.

    Of `warps` that a multiprocessor's registers are enough for.
    """
    best = Choice(1, 1, 0, 0.0, memory=memory, shared_constants=shared)
    for computing in range(1, 16):
        width = LANES * computing
        n_bytes = handover_bytes(system, words, width) if memory else 0
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


def _spilled(wanted: int, choice: Choice) -> float:
    """Slots of registers that a thread does not have, from how many it would like."""
    more = max(0, wanted - MOST_REGISTERS)
    shared = choice.bytes_of_a_block * choice.blocks if choice.in_blocks else 0
    threads = choice.trajectories * choice.warps
    near = 4 * more * threads <= (CACHE_BYTES - shared) / 2  # other data wants some of it
    return more * (LOCAL_ACCESS if near else FAR_ACCESS)


def global_choice(system: OdeSystem, wishes: Wishes, costs: CostTable | None = None) -> Choice:
    """Prediction for one trajectory per thread, all its numbers in global memory."""
    prices = Prices(system, wishes.precision, costs)
    numbers = 5 * len(system.variables) + prices.count_constants()  # read or written in a stage
    warps = min(MOST_WARPS, REGISTERS // (LANES * MOST_REGISTERS))
    stage = max(prices.all_equations(), numbers * prices.words * GLOBAL_ACCESS)
    cost = _cost(stage, stage, warps * LANES, wishes.crowd)
    return Choice(1, 1, warps * LANES, cost, in_global=True, costs=prices.source)


def warps_choice(
    system: OdeSystem, warps: int, wishes: Wishes, costs: CostTable | None = None
) -> Choice:
    """Prediction for a trajectory spread over `warps` warps."""
    placement = place(system, warps, wishes.precision, costs, wishes.balance)
    prices = Prices(system, wishes.precision, costs)
    block = group_bytes(system, prices.words)
    if wishes.memory:
        block += handover_bytes(system, prices.words, LANES)
    own = max(len(group) for group in placement.groups)
    wanted = 3 * own * prices.words + SHARED_TEMPORARIES + SYSTEM_REGISTERS
    all_warps = warps + wishes.memory
    by_registers = REGISTERS // (LANES * all_warps * min(wanted, MOST_REGISTERS))
    by_memory = SHARED_BYTES // (block + BLOCK_OVERHEAD)
    groups = min(MOST_BLOCKS, MOST_WARPS // all_warps, by_registers, by_memory)
    found = Choice(
        warps, 1, groups * LANES, 0.0, placement, block, wishes.memory, costs=prices.source
    )
    spilled = _spilled(wanted, found) + BARRIER
    # All warps of a group wait for the slowest, which hides behind other groups only in part.
    mean = sum(placement.costs) + warps * spilled
    slowest = max(placement.costs) + spilled
    stage = mean + (warps * slowest - mean) / max(1, groups)
    return replace(found, cost=_cost(stage, slowest, groups * LANES, wishes.crowd))


def _cost(slots: float, longest: float, trajectories: int, crowd: int) -> float:
    """Cycles of a multiprocessor for a step of one trajectory.

    `slots` are those of the warps that 32 trajectories have, `longest` those of one of them.
    """
    if trajectories < LANES:
        return float("inf")
    groups = trajectories // LANES
    if crowd:
        groups = min(groups, -(-crowd // LANES))
    stage = max(slots * groups / SCHEDULERS, longest * ALONE)
    return _STAGES * stage / (LANES * groups)


def group_bytes(system: OdeSystem, words: int) -> int:
    """Shared memory of the 32 trajectories of a group."""
    return LANES * 4 * words * (2 * len(system.variables) + count_constants(system))


def handover_bytes(system: OdeSystem, words: int, width: int) -> int:
    """Shared memory in which samples of `width` trajectories are handed over (ode_memory.h)."""
    return 2 * (len(system.quantities) + 1) * (width | 1) * 4 * words


def choices(system: OdeSystem, wishes: Wishes, costs: CostTable | None = None) -> list[Choice]:
    """Layouts with a thread or several warps with their predictions, the best first."""
    most = min(LARGEST_SPLIT, len(system.variables))
    found = [_best_thread(system, wishes, costs)]
    found += [warps_choice(system, warps, wishes, costs) for warps in range(2, most + 1)]
    return sorted(found, key=lambda choice: choice.cost)


def _best_thread(system: OdeSystem, wishes: Wishes, costs: CostTable | None) -> Choice:
    """Constants go to shared memory where they are in the way of much."""
    in_registers, shared = (
        thread_choice(system, wishes, costs, shared=shared) for shared in (False, True)
    )
    return shared if shared.cost < 0.8 * in_registers.cost else in_registers


def chosen(system: OdeSystem, wishes: Wishes, costs: CostTable | None = None) -> Choice:
    """The layout for a device with warps: the best of what was asked for.

    Raises
    ------
    ConfigError
        More warps than equations, or memory that a multiprocessor does not have.
    """
    costs = costs or tabulated(wishes.precision)
    if wishes.warps > len(system.variables):
        raise ConfigError(
            f"--ode-warps {wishes.warps} is not allowed: there are {len(system.variables)} "
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
        raise ConfigError(
            f"--ode-layout {found.name}{' with --ode-memory-warps on' * wishes.memory} needs more "
            f"shared memory than a multiprocessor has for {len(system.variables)} variables; "
            "take --ode-layout auto --ode-memory-warps off"
        )
    return found
