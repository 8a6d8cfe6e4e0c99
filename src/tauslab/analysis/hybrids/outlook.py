"""Report on the links of a hybrid before a run: units, and interval times fastest rate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from tauslab.analysis.hybrids.clock import Interval
from tauslab.analysis.hybrids.links import (
    Bill,
    Confinement,
    Dividing,
    Drive,
    Quantity,
    Shaping,
    Share,
)
from tauslab.analysis.hybrids.parts import PartModel
from tauslab.base.errors import TauslabError
from tauslab.model.expressions.host_math import evaluate
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.network.network import Network


class Links(Protocol):
    """Parts and links of a `tauslab.Hybrid`."""

    @property
    def parts(self) -> Mapping[str, PartModel]: ...  # noqa: D102
    @property
    def drives(self) -> Sequence[Drive]: ...  # noqa: D102
    @property
    def shares(self) -> Sequence[Share]: ...  # noqa: D102
    @property
    def bills(self) -> Sequence[Bill]: ...  # noqa: D102
    @property
    def shapes(self) -> Mapping[str, Shaping]: ...  # noqa: D102
    @property
    def confined(self) -> Mapping[str, Confinement]: ...  # noqa: D102
    @property
    def dividing(self) -> Dividing | None: ...  # noqa: D102


def links_of(links: Links, intervals: Mapping[str, Interval], tick: float) -> list[str]:
    """Each link in words, with units, and its interval times the fastest rate of what it reads."""
    lines = []
    units = {one.second: one.unit for one in links.shares if one.unit is not None}

    def units_of(quantities: Iterable[Quantity]) -> str:
        named: dict[str, dict[str, None]] = {}
        for one in quantities:
            unit = units.get(one) or _unit_of(links.parts[one.part])
            named.setdefault(one.part, {})[unit] = None
        return ", ".join(f"{part}: {' or '.join(own)}" for part, own in named.items()) or "numbers"

    flows = {name: _relative_flows(made.model) for name, made in links.parts.items()}

    def fastest(quantities: Iterable[Quantity], part: str) -> str:
        length = intervals[part].step * tick / 2
        known = [flows[q.part].get(q.name) for q in quantities]
        rates = [rate for rate in known if rate is not None]
        if not rates:
            return "rate not known at the start"
        product = f"interval x fastest rate = {length * max(rates):.3g}"
        return product if max(rates) else f"{product} (no reaction changes the quantity at t = 0)"

    for drive in links.drives:
        own = drive.formula.quantities.values()
        lines.append(f"drive {drive} [{units_of(own)}]: {fastest(own, drive.part)}")
    for share in links.shares:
        ends = (share.first, share.second)
        lines.append(f"share {share} [{units_of(ends)}]: {fastest(ends, share.first.part)}")
    for bill in links.bills:
        word = "bill" if bill.sign > 0 else "credit"
        lines.append(
            f"{word} {bill} [{units_of(bill.amounts)}]: {fastest(bill.amounts, bill.part)}"
        )
    for shaping in links.shapes.values():
        read = [one for formula in shaping.formulas.values() for one in formula.quantities.values()]
        lines.append(f"shape {shaping} [{units_of(read)}]: {fastest(read, shaping.part)}")
    lines += [f"confine {one}" for one in links.confined.values()]
    if links.dividing is not None:
        read = list(links.dividing.when.quantities.values())
        lines.append(f"divide when {links.dividing} [{units_of(read)}]")
    return lines


def _unit_of(made: PartModel) -> str:
    """Unit of the quantities of a part, as far as its model says it."""
    if isinstance(made.model, Network):
        unit = made.model.amount_unit if made.real else made.model.count_unit
        return "amounts" if made.real and unit == "molecules" else unit
    if made.is_function:
        return "as the function has it"
    return "particles" if isinstance(made.model, Lattice) else "beads"


def _relative_flows(model: Any) -> Mapping[str, float]:
    """Gross change per time of each species at the start, in parts of its amount (at least 1)."""
    if not isinstance(model, Network):
        return {}
    try:
        values = model.parameter_values()
        values |= model.initial_amounts(values)
        for name, tree in model.rule_expressions().items():
            values[name] = evaluate(tree, values)
        flows = dict.fromkeys(model.species, 0.0)
        for reaction in model.reactions:
            rate = abs(evaluate(reaction.law, {**values, "time": 0.0}))
            for name, count in reaction.net_change().items():
                flows[name] += abs(count) * rate
        for name, tree in model.rates.items():
            flows[name] += abs(evaluate(tree, {**values, "time": 0.0}))
    except TauslabError:  # of amounts that are drawn, or look back
        return {}
    return {name: flow / max(1.0, abs(values[name])) for name, flow in flows.items()}
