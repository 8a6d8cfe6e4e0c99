"""How the equations of a trajectory are spread over warps, and which layout should be the fastest.

After Hagiescu and others (2013, ACM Transactions on Architecture and Code Optimization 10(4), 55):
equations are given, the most expensive first, to the group of equations that is cheapest with it;
what a group's equations share is computed once in the group. Costs count issue slots of one of the
four schedulers of a multiprocessor (compute capability 9.0): an operation of 32 lanes takes one in
single precision, two in double; a read or write of shared memory takes eight or sixteen, since the
schedulers share its port. Functions are counted by the operations they are made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tauslab.kernels.ode_codegen import count_constants, fused_products
from tauslab.kernels.ode_graph import RUNNING
from tauslab.kernels.ode_lowering import OdeSystem

LANES = 32
SCHEDULERS = 4
REGISTERS = 65536  # of a multiprocessor, 32 bits each
MOST_REGISTERS = 255  # of a thread
SHARED_BYTES = 227 * 1024  # of a multiprocessor, that blocks may have together
BLOCK_OVERHEAD = 1024  # bytes that a block takes beside its own
MOST_WARPS = 64  # of a multiprocessor
MOST_BLOCKS = 32
LARGEST_SPLIT = 16  # warps of a trajectory
# Registers of a thread beside three for each of its variables: for addresses, times and counters;
# and for values of expressions, of which more live at a time where they come from shared memory.
# So ptxas (12.9, sm_90) needs them, within a tenth for three models of 16 to 28 variables.
SYSTEM_REGISTERS = 40
TEMPORARIES, SHARED_TEMPORARIES = 8, 32
BARRIER = 30.0  # slots that a warp loses at each of the four barriers of a step
ENOUGH_WARPS = 4.0  # of a scheduler: fewer cannot hide the latency of arithmetic
# Slots of a spilled register, stored and loaded once a stage: the first-level cache holds them.
# This, and what an access to shared memory takes, were set by three models on an H200
# (docs/benchmarks/ode.md), where one trajectory per thread is the fastest of all layouts.
LOCAL_ACCESS = 2.0

# Operations that each function is made of; what is not named is one.
_OPERATIONS = {
    "div": 9.0, "sqrt": 9.0, "exp": 26.0, "log": 34.0, "log10": 40.0, "cbrt": 40.0, "pow": 110.0,
    "sin": 60.0, "cos": 60.0, "tan": 90.0, "asin": 80.0, "acos": 80.0, "atan": 60.0,
    "sinh": 70.0, "cosh": 70.0, "tanh": 80.0, "floor": 5.0, "ceil": 5.0, "min": 3.0, "max": 3.0,
}  # fmt: skip
_STAGES = 4
_UPDATE = 2.0  # operations on a variable after its rate is known


@dataclass(frozen=True)
class Costs:
    """Issue slots of operations and of accesses to shared memory."""

    operation: float
    access: float
    words: int  # registers of a number


def costs_of(precision: str) -> Costs:
    """Costs in a precision."""
    return Costs(1.0, 8.0, 1) if precision == "single" else Costs(2.0, 16.0, 2)


@dataclass(frozen=True)
class Placement:
    """Variables of each group of equations, and what a stage costs each group."""

    groups: tuple[tuple[int, ...], ...]
    costs: tuple[float, ...]

    @property
    def balance(self) -> float:
        """Mean cost of a group over the largest; 1 is perfect."""
        return sum(self.costs) / (len(self.costs) * max(self.costs))


class _Prices:
    """What nodes cost, and which nodes each equation needs."""

    def __init__(self, system: OdeSystem, precision: str) -> None:
        self.system, self.costs = system, costs_of(precision)
        graph = system.graph
        absorbed = fused_products(graph, system.rates)
        self._free = {graph.nodes[n].arguments[place] for n, place in absorbed.items()}
        self.needs = [frozenset(graph.reached([rate])) for rate in system.rates]
        self.constants = [
            frozenset(
                a
                for n in need
                for a in graph.nodes[n].arguments
                if graph.stages[a] < RUNNING and graph.value_of(a) is None
            )
            for need in self.needs
        ]

    def node(self, number: int, *, shared: bool) -> float:
        """Slots of a node; with `shared`, variables are read from shared memory."""
        kind = self.system.graph.nodes[number].kind
        if kind == "variable":
            return self.costs.access if shared else 0.0
        if kind == "time" or number in self._free:
            return 0.0
        double = 2.0 if kind in _OPERATIONS and kind not in ("div", "sqrt") else None
        return _OPERATIONS.get(kind, 1.0) * (double or self.costs.operation)

    def own(self, *, shared: bool) -> float:
        """Slots of a variable beside its rate."""
        return _UPDATE * self.costs.operation + (self.costs.access if shared else 0.0)


def place(system: OdeSystem, groups: int, precision: str) -> Placement:
    """Spread equations over `groups` warps, greedily."""
    prices = _Prices(system, precision)
    alone = [
        sum(prices.node(n, shared=True) for n in need) + prices.own(shared=True)
        for need in prices.needs
    ]
    members: list[list[int]] = [[] for _ in range(groups)]
    nodes: list[set[int]] = [set() for _ in range(groups)]
    totals = [0.0] * groups
    for equation in sorted(range(len(alone)), key=lambda i: (-alone[i], i)):
        need = prices.needs[equation] | prices.constants[equation]
        best, price = 0, float("inf")
        for group in range(groups):
            more = _more(prices, need - nodes[group]) + prices.own(shared=True)
            if totals[group] + more < price:
                best, price = group, totals[group] + more
        members[best].append(equation)
        nodes[best] |= need
        totals[best] = price
    return Placement(tuple(tuple(sorted(m)) for m in members), tuple(totals))


def _more(prices: _Prices, nodes: frozenset[int]) -> float:
    graph = prices.system.graph
    return sum(
        prices.node(n, shared=True) if graph.stages[n] == RUNNING else prices.costs.access
        for n in nodes
    )


@dataclass(frozen=True)
class Choice:
    """A layout with its predicted cost: slots of a multiprocessor for a step of a trajectory.

    `warps` of a trajectory (1: layout ``thread``), `groups` of them in a block, and how many
    trajectories a multiprocessor runs at the same time.
    """

    warps: int
    groups: int
    trajectories: int
    cost: float
    placement: Placement | None = None
    bytes_of_a_block: int = 0

    @property
    def name(self) -> str:
        """The layout's name."""
        return "thread" if self.warps == 1 else "warps"

    def __str__(self) -> str:
        """One line for people."""
        what = "layout thread" if self.warps == 1 else f"layout warps, {self.warps} a trajectory"
        more = "" if self.placement is None else f", balance {self.placement.balance:.2f}"
        return (
            f"{what}: predicted {self.cost:.4g} slots a step, {self.trajectories} trajectories "
            f"a multiprocessor{more}"
        )


def thread_choice(system: OdeSystem, precision: str) -> Choice:
    """Prediction for one trajectory per thread, variables in registers."""
    prices = _Prices(system, precision)
    nodes = frozenset[int]().union(*prices.needs) if prices.needs else frozenset[int]()
    stage = sum(prices.node(n, shared=False) for n in nodes)
    stage += len(system.variables) * prices.own(shared=False)
    constants = len(frozenset[int]().union(*prices.constants)) if prices.constants else 0
    words = (3 * len(system.variables) + constants + TEMPORARIES) * prices.costs.words
    wanted = words + SYSTEM_REGISTERS
    stage += max(0, wanted - MOST_REGISTERS) * LOCAL_ACCESS
    warps = min(MOST_WARPS, REGISTERS // (LANES * min(wanted, MOST_REGISTERS)))
    return Choice(1, 1, warps * LANES, _throughput(_STAGES * stage, warps))


def warps_choice(system: OdeSystem, warps: int, precision: str) -> Choice:
    """Prediction for a trajectory spread over `warps` warps."""
    placement = place(system, warps, precision)
    prices = _Prices(system, precision)
    block = group_bytes(system, prices)
    own = max(len(group) for group in placement.groups)
    words = 3 * own * prices.costs.words + SHARED_TEMPORARIES + SYSTEM_REGISTERS
    spilled = max(0, words - MOST_REGISTERS) * LOCAL_ACCESS
    by_registers = REGISTERS // (LANES * warps * min(words, MOST_REGISTERS))
    by_memory = SHARED_BYTES // (block + BLOCK_OVERHEAD)
    groups = min(MOST_BLOCKS, MOST_WARPS // warps, by_registers, by_memory)
    if groups < 1:
        return Choice(warps, 1, 0, float("inf"), placement, block)
    # All warps of a group wait for the slowest, which hides behind other groups only in part.
    mean = sum(placement.costs) + warps * (spilled + BARRIER)
    slowest = warps * (max(placement.costs) + spilled + BARRIER)
    stage = mean + (slowest - mean) / groups
    cost = _throughput(_STAGES * stage, groups * warps)
    return Choice(warps, 1, groups * LANES, cost, placement, block)


def _throughput(slots: float, warps: int) -> float:
    """Slots of a multiprocessor for one trajectory, of `slots` for the 32 of a warp or group."""
    hidden = min(1.0, warps / SCHEDULERS / ENOUGH_WARPS)
    return slots / (LANES * SCHEDULERS * max(hidden, 1e-9))


def group_bytes(system: OdeSystem, prices: _Prices) -> int:
    """Shared memory of the 32 trajectories of a group."""
    numbers = 2 * len(system.variables) + count_constants(system)
    return LANES * 4 * prices.costs.words * numbers


def choices(system: OdeSystem, precision: str) -> list[Choice]:
    """All layouts with their predictions, the best first."""
    most = min(LARGEST_SPLIT, len(system.variables))
    found = [thread_choice(system, precision)]
    found += [warps_choice(system, warps, precision) for warps in range(2, most + 1)]
    return sorted(found, key=lambda choice: choice.cost)


def chosen(system: OdeSystem, precision: str, layout: str, warps: Sequence[int] = ()) -> Choice:
    """The layout for a device with warps: the best, or the best of a kind that was asked for."""
    for choice in choices(system, precision):
        if layout in ("auto", choice.name) and (not warps or choice.warps in warps):
            return choice
    return thread_choice(system, precision)
