"""Which layout of a Runge-Kutta kernel should be the fastest on a device with warps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

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
ENOUGH_WARPS = 4.0  # of a scheduler: fewer cannot hide the latency of arithmetic
# Slots of a spilled register, stored and loaded once a stage: the first-level cache holds them.
LOCAL_ACCESS = 2.0
# Slots of a number that is read from global memory and not found in a cache: 4.8 TB/s, shared by
# 132 multiprocessors of four schedulers at 1.8 GHz, are 5 bytes a slot, and 32 lanes take 128.
GLOBAL_ACCESS = 26.0


@dataclass(frozen=True)
class Choice:
    """A layout with its predicted cost: slots of a multiprocessor for a step of a trajectory.

    `warps` of a trajectory (1: a thread has it alone), `groups` of them in a block, and how many
    trajectories a multiprocessor runs at the same time; `memory`: one more warp writes samples, of
    a group, or of the `compute_threads` of a block.
    """

    warps: int
    groups: int
    trajectories: int
    cost: float
    placement: Placement | None = None
    bytes_of_a_block: int = 0
    memory: bool = False
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
        alone = "ode_threads" if self.memory else "ode_rk4"
        return {"global": "ode_global", "thread": alone, "warps": "ode_warps"}[self.name]

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
            return self.compute_threads + LANES
        return LANES * (self.warps + self.memory) * self.groups

    @property
    def blocks(self) -> int:
        """Of a multiprocessor, where threads work together."""
        return self.trajectories // self.trajectories_of_a_block

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
        what += ", and warps for memory" if self.memory else ""
        more = "" if self.placement is None else f", balance {self.placement.balance:.2f}"
        return (
            f"{what}: predicted {self.cost:.4g} slots a step ({self.costs}), {self.trajectories} "
            f"trajectories a multiprocessor{more}"
        )


@dataclass(frozen=True)
class Wishes:
    """What was asked for: names as in `OdeSettings`; `warps` is 0 for any number."""

    precision: str
    layout: str = "auto"
    warps: int = 0
    memory_warps: str = "auto"
    balance: str = "cost"


def thread_choice(
    system: OdeSystem, precision: str, costs: CostTable | None = None, *, memory: bool = False
) -> Choice:
    """Prediction for one trajectory per thread, variables in registers."""
    prices = Prices(system, precision, costs)
    stage = prices.all_equations()
    words = (3 * len(system.variables) + prices.count_constants() + TEMPORARIES) * prices.words
    wanted = words + SYSTEM_REGISTERS
    stage += max(0, wanted - MOST_REGISTERS) * LOCAL_ACCESS
    warps = min(MOST_WARPS, REGISTERS // (LANES * min(wanted, MOST_REGISTERS)))
    found = Choice(1, 1, warps * LANES, 0.0, costs=prices.source)
    if memory:
        found = _with_writers(system, prices.words, warps)
        warps = found.trajectories // LANES
    return replace(found, cost=_throughput(_STAGES * stage, warps), costs=prices.source)


def _with_writers(system: OdeSystem, words: int, warps: int) -> Choice:
    """Blocks of which one warp writes: the size that leaves most warps to integrate.

    Of `warps` that a multiprocessor's registers are enough for.
    """
    best = Choice(1, 1, 0, float("inf"), memory=True)
    for computing in range(1, 16):
        n_bytes = handover_bytes(system, words, LANES * computing)
        blocks = min(warps // (computing + 1), SHARED_BYTES // (n_bytes + BLOCK_OVERHEAD))
        if blocks * computing * LANES > best.trajectories:
            best = replace(
                best,
                trajectories=blocks * computing * LANES,
                compute_threads=LANES * computing,
                bytes_of_a_block=n_bytes,
            )
    return best


def global_choice(system: OdeSystem, precision: str, costs: CostTable | None = None) -> Choice:
    """Prediction for one trajectory per thread, all its numbers in global memory."""
    prices = Prices(system, precision, costs)
    numbers = 5 * len(system.variables) + prices.count_constants()  # read or written in a stage
    warps = min(MOST_WARPS, REGISTERS // (LANES * 64))
    stage = max(prices.all_equations(), numbers * prices.words * GLOBAL_ACCESS)
    cost = _throughput(_STAGES * stage, warps)
    return Choice(1, 1, warps * LANES, cost, in_global=True, costs=prices.source)


def warps_choice(
    system: OdeSystem,
    warps: int,
    precision: str,
    costs: CostTable | None = None,
    *,
    memory: bool = False,
    balance: str = "cost",
) -> Choice:
    """Prediction for a trajectory spread over `warps` warps."""
    placement = place(system, warps, precision, costs, balance)
    prices = Prices(system, precision, costs)
    block = group_bytes(system, prices.words)
    if memory:
        block += handover_bytes(system, prices.words, LANES)
    own = max(len(group) for group in placement.groups)
    words = 3 * own * prices.words + SHARED_TEMPORARIES + SYSTEM_REGISTERS
    spilled = max(0, words - MOST_REGISTERS) * LOCAL_ACCESS
    all_warps = warps + memory
    by_registers = REGISTERS // (LANES * all_warps * min(words, MOST_REGISTERS))
    by_memory = SHARED_BYTES // (block + BLOCK_OVERHEAD)
    groups = min(MOST_BLOCKS, MOST_WARPS // all_warps, by_registers, by_memory)
    found = Choice(warps, 1, 0, float("inf"), placement, block, memory, costs=prices.source)
    if groups < 1:
        return found
    # All warps of a group wait for the slowest, which hides behind other groups only in part.
    mean = sum(placement.costs) + warps * (spilled + BARRIER)
    slowest = warps * (max(placement.costs) + spilled + BARRIER)
    stage = mean + (slowest - mean) / groups
    cost = _throughput(_STAGES * stage, groups * warps)
    return replace(found, trajectories=groups * LANES, cost=cost)


def _throughput(slots: float, warps: int) -> float:
    """Slots of a multiprocessor for one trajectory, of `slots` for the 32 of a warp or group."""
    hidden = min(1.0, warps / SCHEDULERS / ENOUGH_WARPS)
    return slots / (LANES * SCHEDULERS * max(hidden, 1e-9))


def group_bytes(system: OdeSystem, words: int) -> int:
    """Shared memory of the 32 trajectories of a group."""
    return LANES * 4 * words * (2 * len(system.variables) + count_constants(system))


def handover_bytes(system: OdeSystem, words: int, width: int) -> int:
    """Shared memory in which samples of `width` trajectories are handed over (ode_memory.h)."""
    return 2 * (len(system.quantities) + 1) * (width | 1) * 4 * words


def choices(
    system: OdeSystem,
    precision: str,
    costs: CostTable | None = None,
    *,
    memory: bool = False,
    balance: str = "cost",
) -> list[Choice]:
    """Layouts with a thread or several warps with their predictions, the best first."""
    most = min(LARGEST_SPLIT, len(system.variables))
    found = [thread_choice(system, precision, costs, memory=memory)]
    found += [
        warps_choice(system, warps, precision, costs, memory=memory, balance=balance)
        for warps in range(2, most + 1)
    ]
    return sorted(found, key=lambda choice: choice.cost)


def chosen(system: OdeSystem, wishes: Wishes, costs: CostTable | None = None) -> Choice:
    """The layout for a device with warps: the best of what was asked for.

    Raises
    ------
    ConfigError
        More warps than equations, or memory that a multiprocessor does not have.
    """
    costs = costs or tabulated(wishes.precision)
    if wishes.layout == "global":
        return global_choice(system, wishes.precision, costs)
    memory = wishes.memory_warps == "on"
    if wishes.warps > len(system.variables):
        raise ConfigError(
            f"--ode-warps {wishes.warps} is not allowed: there are {len(system.variables)} "
            "equations to spread"
        )
    options: Any = {"memory": memory, "balance": wishes.balance}
    if wishes.warps:
        found = [warps_choice(system, wishes.warps, wishes.precision, costs, **options)]
    else:
        every = choices(system, wishes.precision, costs, **options)
        found = [c for c in every if wishes.layout in ("auto", c.name)]
        found = found or [warps_choice(system, 1, wishes.precision, costs, **options)]
    if found[0].trajectories < LANES:
        raise ConfigError(
            f"--ode-layout {found[0].name}{' with --ode-memory-warps on' * memory} needs more "
            f"shared memory than a multiprocessor has for {len(system.variables)} variables; "
            "take --ode-layout auto --ode-memory-warps off"
        )
    return found[0]
