"""How the equations of a trajectory are spread over warps.

After Hagiescu and others (2013, ACM Transactions on Architecture and Code Optimization 10(4), 55):
equations are given, the most expensive first, to the group of equations that is cheapest with it;
what a group's equations share is computed once in the group. What operations cost is read from
compiled instructions (`tauslab.kernels.ode.layouts.costs`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tauslab.kernels.ode.codegen import fused_products
from tauslab.kernels.ode.graph import COMPARISONS, LOGIC, RUNNING
from tauslab.kernels.ode.layouts.costs import PIPES, Cost, CostTable, tabulated
from tauslab.kernels.ode.lowering import OdeSystem

# Slots that a read or write of shared memory takes in its pipe, by words of a number: 32 lanes over
# the 8 words a clock that a scheduler's share of 32 banks gives.
SHARED_ACCESS = 4.0
# The same where equations are placed. Twice as much keeps those together that share what they read,
# which was faster on an H200 (docs/benchmarks/ode.md).
_PLACED_ACCESS = 8.0
_BISECTIONS = 12
_UPDATES = 1.75  # fused operations on a variable after its rate is known, mean of the four stages


@dataclass(frozen=True)
class WarpPlacement:
    """Variables of each group of equations, and what a stage costs each group.

    `costs` are slots of the busiest pipe as equations are placed by, `instructions` those that are
    issued.
    """

    groups: tuple[tuple[int, ...], ...]
    costs: tuple[float, ...]
    instructions: tuple[float, ...]

    @property
    def balance(self) -> float:
        """Mean cost of a group over the largest; 1 is perfect."""
        return sum(self.costs) / (len(self.costs) * max(self.costs))


class Prices:
    """What nodes cost, and which nodes each equation needs.

    Parameters
    ----------
    costs
        What operations cost in this precision; the tabulated ones by default.
    access
        Slots of a word of shared memory.
    """

    def __init__(
        self,
        system: OdeSystem,
        precision: str,
        costs: CostTable | None = None,
        access: float = SHARED_ACCESS,
    ) -> None:
        self.system = system
        self.words = 1 if precision == "single" else 2
        self._costs = costs or tabulated(precision)
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
        self._access = np.zeros(len(PIPES))
        self._access[PIPES.index("issue")] = self.words
        self._access[PIPES.index("shared")] = self.words * access
        nodes = range(len(graph.nodes))
        tables = [[self._node(n, shared=shared) for n in nodes] for shared in (False, True)]
        self._of_nodes = np.array(tables).reshape(2, -1, len(PIPES))

    @property
    def source(self) -> str:
        """Where costs of operations come from."""
        return self._costs.source

    def _node(self, number: int, *, shared: bool) -> Cost:
        """Slots of a node in each pipe; with `shared`, what is read lies in shared memory."""
        graph = self.system.graph
        kind = graph.nodes[number].kind
        if graph.stages[number] < RUNNING or kind == "variable":
            return self._access if shared else np.zeros(len(PIPES))
        if kind == "time" or number in self._free:
            return np.zeros(len(PIPES))
        return self._costs.of("compare" if kind in (*COMPARISONS, *LOGIC) else kind)

    def own(self, *, shared: bool) -> Cost:
        """Slots of a variable beside its rate."""
        found = _UPDATES * self._costs.of("fused")
        return found + self._access if shared else found

    def nodes(self, numbers: Iterable[int], *, shared: bool) -> Cost:
        """Slots of some nodes in each pipe; with `shared`, what they read lies in shared memory."""
        found: Cost = self._of_nodes[int(shared), list(numbers)].sum(axis=0)
        return found

    def all_equations(self, *, shared_constants: bool = False) -> Cost:
        """Slots of a stage in each pipe where one thread has all equations."""
        every = frozenset[int]().union(*self.needs) if self.needs else frozenset[int]()
        total = self.nodes(every, shared=False)
        total = total + len(self.system.variables) * self.own(shared=False)
        if shared_constants:
            total = total + self.count_constants() * self._access
        return total

    def group(self, equations: Iterable[int]) -> Cost:
        """Slots of a stage in each pipe of a warp that has some equations and shares the state."""
        own = list(equations)
        every = frozenset[int]().union(*(self.needs[i] | self.constants[i] for i in own))
        return self.nodes(every, shared=True) + len(own) * self.own(shared=True)

    def count_constants(self) -> int:
        """Constants of a trajectory that equations read."""
        return len(frozenset[int]().union(*self.constants)) if self.constants else 0


def place(
    system: OdeSystem,
    groups: int,
    precision: str,
    costs: CostTable | None = None,
    balance: str = "cost",
) -> WarpPlacement:
    """Spread equations over `groups` warps.

    With `balance` ``cost`` so that the largest group costs little: greedily, the most expensive
    equations first, or cut in the model's order, where neighbours share more, whichever is better.
    With ``equal`` every group has as many equations, in the model's order.
    """
    prices = Prices(system, precision, costs, _PLACED_ACCESS)
    needs = [n | c for n, c in zip(prices.needs, prices.constants, strict=True)]
    if balance == "equal":
        bounds = [len(needs) * g // groups for g in range(groups + 1)]
        return _placed(prices, [list(range(*ends)) for ends in pairwise(bounds)])
    found = [
        _placed(prices, members)
        for members in (_greedy(prices, needs, groups), _cut(prices, needs, groups))
    ]
    return min(found, key=lambda placement: (max(placement.costs), sum(placement.costs)))


def _placed(prices: Prices, members: list[list[int]]) -> WarpPlacement:
    totals = [prices.group(own) for own in members]
    instructions = tuple(float(total[PIPES.index("issue")]) for total in totals)
    groups = tuple(tuple(sorted(own)) for own in members)
    return WarpPlacement(groups, tuple(float(total.max()) for total in totals), instructions)


def _greedy(prices: Prices, needs: list[frozenset[int]], groups: int) -> list[list[int]]:
    """The most expensive equations first, each to the group that is then the cheapest."""
    own = prices.own(shared=True)
    alone = [float((prices.nodes(need, shared=True) + own).max()) for need in needs]
    members: list[list[int]] = [[] for _ in range(groups)]
    nodes: list[set[int]] = [set() for _ in range(groups)]
    totals = [np.zeros(len(PIPES)) for _ in range(groups)]
    for equation in sorted(range(len(alone)), key=lambda i: (-alone[i], i)):
        with_it = [
            total + prices.nodes(needs[equation] - has, shared=True) + own
            for total, has in zip(totals, nodes, strict=True)
        ]
        best = min(range(groups), key=lambda group: (float(with_it[group].max()), group))
        members[best].append(equation)
        nodes[best] |= needs[equation]
        totals[best] = with_it[best]
    return members


def _cut(prices: Prices, needs: list[frozenset[int]], groups: int) -> list[list[int]]:
    """Runs of equations of which the most expensive costs as little as it can, nearly."""
    everything = float(prices.nodes(frozenset().union(*needs), shared=True).sum())
    least, most = 0.0, everything + len(needs) * float(prices.own(shared=True).sum())
    best = _runs(prices, needs, groups, most)
    for _ in range(_BISECTIONS):
        middle = (least + most) / 2
        members = _runs(prices, needs, groups, middle)
        if members is None:
            least = middle
        else:
            best, most = members, middle
    assert best is not None
    return best


def _runs(
    prices: Prices, needs: list[frozenset[int]], groups: int, most: float
) -> list[list[int]] | None:
    """Runs of equations that cost no more than `most` each; None if there must be more runs."""
    own, nodes = prices.own(shared=True), set[int]()
    members: list[list[int]] = [[]]
    total = np.zeros(len(PIPES))
    for equation, need in enumerate(needs):
        total = total + prices.nodes(need - nodes, shared=True) + own
        left = len(needs) - equation  # a group for each is enough
        if members[-1] and (float(total.max()) > most or left <= groups - len(members)):
            members.append([])
            nodes, total = set(), prices.nodes(need, shared=True) + own
        members[-1].append(equation)
        nodes |= need
    return members if len(members) <= groups else None
