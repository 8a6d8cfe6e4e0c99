"""Writes the part of `model.h` that only leaps need: critical reactions, step limit, firings.

Step selection after Cao, Gillespie & Petzold, J. Chem. Phys. 124, 044109 (2006), equations 26-33;
critical reactions after the same authors, J. Chem. Phys. 123, 054104 (2005); the two halves of a
leap after Anderson & Koyama, Multiscale Model. Simul. 10, 1493 (2012). The limit by a species is
`bound` in csrc/leaping/leaps.h.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from tauslab.kernels.backends.base import Style
from tauslab.kernels.network.codegen import (
    LawWriter,
    factors_now,
    guarded_propensity,
    lane_table,
    names_of_time,
    propensity_at,
    unrolled_header,
)
from tauslab.kernels.network.lowering import (
    LoweredNetwork,
    LoweredReaction,
    Thinning,
    counts_in,
)

CRITICAL_FIRINGS = 10  # a reaction that could exhaust a reactant in fewer firings is critical
# With 8 bytes for each of 128 lanes, two blocks fit on a processor up to here.
LARGEST_SHARED = 96
# Up to here a lane keeps propensities in registers from one exact firing to the next.
LARGEST_IN_REGISTERS = 16
# Up to here a CPU updates what an exact firing changed; beyond, compiling that takes minutes.
LARGEST_IN_BRANCHES = 64


def leap_header(
    network: LoweredNetwork, style: Style, *, checked: bool = False, in_tables: bool = False
) -> str:
    """`model.h` for tau-leaping: all that exact SSA has, and the functions for leaps.

    Parameters
    ----------
    checked
        Also what a check after a leap needs.
    in_tables
        Leaps are loops over tables: the numbers are the same, the text is far shorter, and runs are
        slower. For networks that `has_tables` names, without the check.
    """
    thinning = network.thinning
    parts = [unrolled_header(network, style)]
    if in_tables:
        assert thinning is None
        assert not checked
        tables = [_NO_RATES_AT_A_TIME, propensity_at(network), *leaps_in_tables(network)]
        return "\n".join([*parts, *tables, _exact_from_tables(network)])
    if thinning is None:
        parts += [_NO_RATES_AT_A_TIME, *leap_parts(network)]
    else:
        rates = replace(network, reactions=thinning.rates)
        parts += [_rates_at_a_time(network, thinning), *leap_parts(rates)]
        parts.append(_critical_propensity(rates))
    if checked:
        parts += [_propensities(network), _check(network)]
    # Exact firings from arrays have code for every pair of reactions where there are branches.
    most = LARGEST_IN_BRANCHES if style.branches else LARGEST_IN_REGISTERS
    in_arrays = len(network.reactions) <= most or thinning is not None
    parts.append(_exact_in_arrays(network) if in_arrays else _exact_in_cells(network))
    return "\n".join(parts)


def has_tables(network: LoweredNetwork, style: Style) -> bool:
    """Return whether leaps also exist as loops over tables, which compile sooner."""
    large = len(network.reactions) > LARGEST_IN_REGISTERS
    return large and not style.branches and network.thinning is None


_NO_RATES_AT_A_TIME = (
    "constexpr int LEAF_AT = 0;\n"
    "template <class Count>\nDEVICE void set_time(Quantity<Count> *, Quantity<Count>) {}\n"
    "template <class Count>\n"
    "DEVICE Quantity<Count> critical_propensity(const Count *, const Quantity<Count> *) {\n"
    "    return Quantity<Count>{};\n}\n"
)


def _rates_at_a_time(network: LoweredNetwork, thinning: Thinning) -> str:
    """Propensities at the time of a leap, from factors that stand behind the bounds of a piece."""
    leaf = len(network.constants) + thinning.words
    writer = LawWriter("x", names_of_time(network))
    lines, names = factors_now(network, writer, "Count")
    places = [f"c[{leaf + 2 + k}]" for k in range(len(thinning.factors))]
    lines += "".join(f"    {place} = now_{k};\n" for k, place in enumerate(places))
    stored = {part: places[int(name.removeprefix("now_"))] for part, name in names.items()}
    inside = LawWriter("x", {**writer.names, **stored})
    text = (
        "// Where the end of a leaf stands; then its length, and factors of rates at the time.\n"
        f"constexpr int LEAF_AT = {leaf};\n"
        "template <class Count>\n"
        "DEVICE void set_time(Quantity<Count> *c, Quantity<Count> t) {\n"
        f"    c[TIME_AT] = t;\n{lines}}}\n"
    )
    for j, rate in enumerate(thinning.rates):
        statements, value = guarded_propensity(rate, inside)
        text += (
            "template <class Count>\n"
            f"DEVICE Quantity<Count> rate_{j}([[maybe_unused]] const Count *x,\n"
            "    [[maybe_unused]] const Quantity<Count> *c) {\n"
            f"{statements}    return same<Count>({value});\n}}\n"
        )
    return text


def _critical_propensity(rates: LoweredNetwork) -> str:
    terms = "".join(
        f"    sum += critical_{j}(x) ? rate_{j}(x, c) : same<Count>(0.0);\n"
        for j, reaction in enumerate(rates.reactions)
        if _few(reaction)
    )
    return (
        "// The total propensity of critical reactions.\n"
        "template <class Count>\n"
        "DEVICE Quantity<Count> critical_propensity([[maybe_unused]] const Count *x,\n"
        "    [[maybe_unused]] const Quantity<Count> *c) {\n"
        f"    Quantity<Count> sum = {{}};\n{terms}    return sum;\n}}\n"
    )


def leap_parts(network: LoweredNetwork, count: str = "Count", bounds: str = "") -> list[str]:
    """Sizes and functions that every leap needs, behind those of the propensities.

    Parameters
    ----------
    count
        The type of the elements of a state: ``Count`` for functions of any type of them.
    bounds
        Statements that shorten ``plan.limit`` further.
    """
    parts = [leap_sizes(network)]
    parts += [_critical_test(j, reaction) for j, reaction in enumerate(network.reactions)]
    name = "propensity" if network.thinning is None else "rate"
    element = _Element(count, name)
    parts += [_plan(network, element, bounds), _second_half(network, element)]
    return [*parts, _critical(network, element), _apply(network, element)]


class _Element:
    """An element of a state in generated functions: its type, that of a propensity; their kind."""

    def __init__(self, count: str, name: str = "propensity") -> None:
        self.count, self._name = count, name
        self.real = f"Quantity<{count}>" if count == "Count" else "double"
        self._any = ["class Count"] if count == "Count" else []

    def template(self, *others: str) -> str:
        """The line of a function's template."""
        return f"template <{', '.join([*self._any, *others])}>\n"

    def propensity(self, j: int) -> str:
        """The call of a propensity."""
        return f"{self._name}_{j}(x, c)"

    def number(self, value: str) -> str:
        """A value that may be one for all trajectories."""
        return f"same<Count>({value})" if self._any else value


_ANY_ELEMENT = _Element("Count")


def channels(network: LoweredNetwork) -> list[tuple[int, ...]]:
    """Reactions by what they change, in order of the first of each.

    Those that change the same draw one Poisson number together: a sum of Poisson numbers is one.
    """
    together: dict[tuple[tuple[int, int], ...], list[int]] = {}
    for j, reaction in enumerate(network.reactions):
        together.setdefault(tuple(sorted(reaction.change)), []).append(j)
    return [tuple(reactions) for reactions in together.values()]


def shared_cells(network: LoweredNetwork) -> int:
    """Doubles that a lane has in a processor's shared memory: one for each reaction, or none."""
    return len(network.reactions) if len(network.reactions) <= LARGEST_SHARED else 0


def parked_words(network: LoweredNetwork) -> int:
    """32-bit words for a trajectory that waits for its turn: counts, constants and 20 more."""
    own = 0 if network.thinning is None else 2
    return len(network.species) + 2 * network.loaded + 20 + own


_SIZES = """\
// Sets of reactions that change the same.
constexpr int N_CHANNELS = {channels};
// Doubles of a lane in shared memory; 0 where they do not fit.
constexpr int SHARED_CELLS = {cells};
// 32-bit words for a trajectory that waits for its turn.
constexpr int PARKED_WORDS = {words};
"""


def leap_sizes(network: LoweredNetwork) -> str:
    """Sizes that leaps need."""
    return _SIZES.format(
        channels=len(channels(network)),
        cells=shared_cells(network),
        words=parked_words(network),
    )


def leaps_in_tables(network: LoweredNetwork, bounds: str = "") -> list[str]:
    """Tables of the loops of csrc/leaping/table_leaps.h: the same numbers, and far less text."""
    together = channels(network)
    lost = [[(i, -by) for i, by in r.change if by < 0] for r in network.reactions]
    turnover = [changes_of(network, i) for i in range(len(network.species))]
    changed = [i for i, changes in enumerate(turnover) if changes]
    orders = [order_statements(network, i) for i in changed]
    kinds = list(dict.fromkeys(order for order in orders if order))
    kind_of = {None: -1, "": len(kinds)} | {text: k for k, text in enumerate(kinds)}
    flat = [change for i in changed for change in turnover[i]]
    tables: dict[str, Sequence[int]] = {
        "CHANNEL_AT": _starts(together),
        "MEMBER": [j for reactions in together for j in reactions],
        "LOST_AT": _starts(lost),
        "LOST": [i for each in lost for i, _ in each],
        "LOST_BY": [by for each in lost for _, by in each],
        "CHANGING": changed,
        "ORDER_OF": [kind_of[order] for order in orders],
        "TURNOVER_AT": _starts([turnover[i] for i in changed]),
        "TURNOVER_OF": [channel for channel, _ in flat],
        "TURNOVER_BY": [by for _, by in flat],
    }
    cases = "".join(f"    case {k}: {{\n{text}    }} break;\n" for k, text in enumerate(kinds))
    return [
        leap_sizes(network),
        (
            f"constexpr int N_CHANGING = {len(changed)}, FIRST_ORDER = {len(kinds)};\n"
            f"constexpr int CRITICAL_FIRINGS = {CRITICAL_FIRINGS};\n"
        ),
        *(lane_table("int", name, values) for name, values in tables.items()),
        (
            "// The order of the highest reaction that reads a species.\n"
            "template <class Count>\n"
            "DEVICE_SHARED double order_at(\n"
            "    [[maybe_unused]] int kind, [[maybe_unused]] double count,\n"
            "    [[maybe_unused]] Count *x, [[maybe_unused]] const double *c) {\n"
            "    typedef double Real;\n    Real order = 1.0;\n"
            f"    switch (kind) {{\n{cases}    default: break;\n    }}\n    return order;\n}}\n"
        ),
        (
            "template <class Count, class Cells>\n"
            "DEVICE void bound_by_triggers([[maybe_unused]] Count *x,\n"
            "    [[maybe_unused]] const double *c, [[maybe_unused]] const Cells &leaping,\n"
            f"    [[maybe_unused]] Plan &plan) {{\n{bounds}}}\n"
            '#include "leaping/table_leaps.h"\n'
        ),
    ]


def _starts(groups: Sequence[Sequence[object]]) -> list[int]:
    return [0, *accumulate(map(len, groups))]


def _few(reaction: LoweredReaction) -> str:
    """Return whether a reactant lasts for fewer than ten firings."""
    return " || ".join(
        f"x[{index}] < {-by * CRITICAL_FIRINGS}" for index, by in reaction.change if by < 0
    )


def _critical_test(j: int, reaction: LoweredReaction) -> str:
    return (
        f"template <class Counts>\nDEVICE auto critical_{j}([[maybe_unused]] const Counts &x) {{\n"
        f"    return {_few(reaction) or 'false'};\n}}\n"
    )


def _plan(network: LoweredNetwork, of: _Element, bounds: str) -> str:
    sums = []
    for i, reactions in enumerate(channels(network)):
        terms = [f"share({of.propensity(j)}, critical_{j}(x), plan)" for j in reactions]
        sums.append(f"    leaping[{i}] = {' + '.join(terms)};\n")
    limits = [_species_limit(network, i, of) for i in range(len(network.species))]
    return (
        "// The longest leap in which no propensity is expected to change by more than a fraction\n"
        "// epsilon, and the propensities to leap with: without those of critical reactions, of "
        "which a\n"
        f"// reactant lasts for fewer than {CRITICAL_FIRINGS} firings.\n"
        f"{of.template('class Cells')}"
        f"DEVICE PlanOf<{of.real}> plan_leap([[maybe_unused]] {of.count} *x,\n"
        f"                      [[maybe_unused]] const {of.real} *c, const Cells &leaping,\n"
        "                      [[maybe_unused]] const Tolerance &tolerance) {\n"
        f"    typedef {of.real} Real;\n"
        "    PlanOf<Real> plan = {Real{}, Real{}, {number<Real>(1.0), Real{}}};\n"
        f"{''.join(sums)}    RELOAD;\n{''.join(limits)}{bounds}    return plan;\n}}\n"
    )


def _second_half(network: LoweredNetwork, of: _Element) -> str:
    sums = []
    for i, reactions in enumerate(channels(network)):
        terms = [
            f"critical_{j}(before) ? Real{{}} : {of.propensity(j)}"
            if _few(network.reactions[j])
            else of.propensity(j)
            for j in reactions
        ]
        between = " + ".join(f"({term})" if "?" in term else term for term in terms)
        sums.append(
            f"    between = {between};\n    sum += between;\n"
            f"    leaping[{i}] = extrapolated(first[{i}], between);\n"
        )
    return (
        "// Propensities for the second half of a leap: `first` are those that it began with, in "
        "the\n// state `before`, and x is the state between the halves. False if that has none.\n"
        f"{of.template('class Before', 'class First', 'class Cells')}"
        f"DEVICE auto second_half([[maybe_unused]] const {of.count} *x,\n"
        "                        [[maybe_unused]] const Before &before,\n"
        f"                        [[maybe_unused]] const {of.real} *c,\n"
        "                        [[maybe_unused]] const First &first, const Cells &leaping) {\n"
        f"    typedef {of.real} Real;\n"
        f"    [[maybe_unused]] Real between;\n    Real sum = {{}};\n{''.join(sums)}"
        "    return sum >= 0 && sum < tl_infinity();\n}\n"
    )


def _critical(network: LoweredNetwork, of: _Element) -> str:
    lines = [
        f"    choose({i}, critical_{j}(x) ? {of.propensity(j)} : Real{{}}, target, sum,\n"
        "           chosen);\n"
        for i, reactions in enumerate(channels(network))
        for j in reactions
        if _few(network.reactions[j])
    ]
    return (
        "// The channel of the critical reaction that fires, or -1.\n"
        f"template <class Chosen = int{', class Count' if of.count == 'Count' else ''}>\n"
        f"DEVICE Chosen choose_critical([[maybe_unused]] const {of.count} *x,\n"
        f"                              [[maybe_unused]] const {of.real} *c,\n"
        f"                              [[maybe_unused]] {of.real} target) {{\n"
        f"    typedef {of.real} Real;\n"
        "    [[maybe_unused]] Real sum = {};\n    Chosen chosen = Chosen{} - 1;\n"
        f"{''.join(lines)}    return chosen;\n}}\n"
    )


def _species_limit(network: LoweredNetwork, species: int, of: _Element) -> str:
    """Bound by one species: nothing where no propensity reads it or no reaction changes it."""
    changes = changes_of(network, species)
    gain = " + ".join(_times(by, j) for j, by in changes if by > 0) or "0.0"
    loss = " + ".join(_times(-by, j) for j, by in changes if by < 0) or "0.0"
    variance = " + ".join(_times(by * by, j) for j, by in changes)
    parts = ", ".join(of.number(part) for part in (gain, loss, variance))
    turnover = f"TurnoverOf<Real>{{{parts}}}"

    def statement(names: str) -> str:
        return f"bound(allowed_of(tolerance, {names}), {turnover}, plan.limit)"

    return _with_bound(network, species, statement, of)


def _with_bound(
    network: LoweredNetwork, species: int, statement: Callable[[str], str], of: _Element
) -> str:
    """A block that says `statement` of the species; none where nothing asks.

    `statement` takes the names of the species' count and, where it is not 1, its order.
    """
    readers = [(j, r) for j, r in enumerate(network.reactions) if species in r.depends_on()]
    if not readers or not changes_of(network, species):
        return ""
    formulas = [of.number(formula) for formula in _orders(readers, species)]
    orders = [f"        order = larger(order, {formula});\n" for formula in formulas]
    for j, reaction in readers:
        if reaction.law is not None and species in counts_in(reaction.law):
            orders.append(_order_of_law(j, species, of))
    lines = ["    {\n", f"        const Real count = quantity(x[{species}]);\n"]
    if orders:
        lines += ["        Real order = number<Real>(1.0);\n", *orders]
    lines += [f"        {statement('count, order' if orders else 'count')};\n", "    }\n"]
    return "".join(lines)


def order_statements(network: LoweredNetwork, species: int) -> str | None:
    """Statements that find the order of a species; none where it is 1, None where nothing asks."""
    readers = [(j, r) for j, r in enumerate(network.reactions) if species in r.depends_on()]
    if not readers:
        return None
    orders = [f"        order = larger(order, {text});\n" for text in _orders(readers, species)]
    for j, reaction in readers:
        if reaction.law is not None and species in counts_in(reaction.law):
            orders.append(_order_of_law(j, species, _ANY_ELEMENT))
    return "".join(orders)


def _order_of_law(j: int, species: int, of: _Element) -> str:
    return (
        f"        const Real now_{j} = {of.propensity(j)};\n"
        f"        x[{species}] += 1;\n"
        f"        order = larger(order, law_order(count, now_{j}, {of.propensity(j)}));\n"
        f"        x[{species}] -= 1;\n"
    )


def changes_of(network: LoweredNetwork, species: int) -> list[tuple[int, int]]:
    """Channels that change the species, each with the change."""
    return [
        (channel, by)
        for channel, reactions in enumerate(channels(network))
        for index, by in network.reactions[reactions[0]].change
        if index == species
    ]


def _times(factor: int, reaction: int) -> str:
    return f"{float(factor)!r} * leaping[{reaction}]" if factor != 1 else f"leaping[{reaction}]"


def _orders(readers: list[tuple[int, LoweredReaction]], species: int) -> list[str]:
    """The order g of the species in every kind of mass-action reaction, without repeats.

    A species that takes part k times in a reaction of order n has
    g = n / k * (k + sum over m < k of m / (x - m)): 2 + 1 / (x - 1) for both molecules of an order
    of 2, 3 / 2 (2 + 1 / (x - 1)) for two of three, 3 + 1 / (x - 1) + 2 / (x - 2) for three.
    """
    kinds = set()
    for _, reaction in readers:
        copies = dict(reaction.orders).get(species, 0)
        if copies:
            kinds.add((sum(k for _, k in reaction.orders), copies))
    formulas = []
    for order, copies in sorted(kinds):
        if (order, copies) == (1, 1):
            continue
        terms = [f"{float(copies)!r}"]
        terms += [f"over({float(m)!r}, count - {float(m)!r})" for m in range(1, copies)]
        ratio = order / copies
        text = " + ".join(terms)
        formulas.append(text if ratio == 1.0 else f"{ratio!r} * ({text})")
    return formulas


def _change(network: LoweredNetwork, species: int) -> str:
    """By how much the firings change the species; nothing if no reaction does."""
    return " + ".join(f"{by} * number_of(firings[{i}])" for i, by in changes_of(network, species))


def _propensities(network: LoweredNetwork) -> str:
    lines = [
        f"    all[{i}] = {' + '.join(f'propensity_{j}(x, c)' for j in reactions)};\n"
        for i, reactions in enumerate(channels(network))
    ]
    return (
        "// Propensities of channels, also of those that are critical.\n"
        "template <class Cells>\n"
        "DEVICE void channel_propensities([[maybe_unused]] const i32 *x, "
        "[[maybe_unused]] const double *c,\n"
        f"                                 const Cells &all) {{\n{''.join(lines)}}}\n"
    )


def _check(network: LoweredNetwork) -> str:

    def holds(species: int) -> Callable[[str], str]:
        change = f"magnitude((double)({_change(network, species)}))"
        return lambda names: f"holds &= {change} <= allowed_of(tolerance, {names}).noise"

    blocks = [_with_bound(network, i, holds(i), _ANY_ELEMENT) for i in range(len(network.species))]
    return (
        "// Whether no species that a propensity reads changes by more than the leap was to change "
        "it.\n"
        "template <class Count, class Cells>\n"
        "DEVICE bool leap_holds([[maybe_unused]] Count *x, [[maybe_unused]] const double *c,\n"
        "                       [[maybe_unused]] const Cells &firings,\n"
        "                       [[maybe_unused]] const Tolerance &tolerance) {\n"
        "    typedef double Real;\n    bool holds = true;\n"
        f"{''.join(blocks)}    return holds;\n}}\n"
    )


def _apply(network: LoweredNetwork, of: _Element) -> str:
    lines = [
        f"    add(x[{index}], {_change(network, index)}, outcome);\n"
        for index in range(len(network.species))
        if changes_of(network, index)
    ]
    return (
        "// Fires; returns whether a count fell below 0 or passed 2147483647.\n"
        f"{of.template('class Cells')}"
        f"DEVICE auto apply_firings([[maybe_unused]] {of.count} *x,\n"
        "                          [[maybe_unused]] const Cells &firings) {\n"
        f"    OutcomeOf<{of.count}> outcome = {{}};\n{''.join(lines)}    return outcome;\n}}\n"
    )


_EXACT_ARGUMENTS = (
    "[[maybe_unused]] i32 *x, [[maybe_unused]] const double *c,\n"
    "                       Exact &exact, [[maybe_unused]] const Cells &cells) {\n"
)


def _exact_in_arrays(network: LoweredNetwork) -> str:
    """Exact firings as `ensemble/ssa.cc` takes them: propensities stay from one to the next."""
    last = len(network.reactions) - 1
    return (
        "// The propensities, which an exact event updates and the next one reads.\n"
        "struct Exact {\n    double a[N_REACTIONS], cumulative[N_REACTIONS];\n"
        f"    DEVICE_MEMBER double total() const {{ return cumulative[{last}]; }}\n"
        "    // Of rates at the time, of which the next event is chosen, in place of bounds.\n"
        "    DEVICE_MEMBER double total_now(const i32 *x, const double *c) {\n"
        "        propensities_now(x, c, cumulative);\n"
        f"        return cumulative[{max(0, last - 1)}];\n    }}\n}};\n\n"
        f"template <class Cells>\nDEVICE void start_exact({_EXACT_ARGUMENTS}"
        "    all_propensities(x, c, exact.a, exact.cumulative);\n}\n\n"
        "// Returns a negative number if a count passed 2147483647.\n"
        f"template <class Cells>\nDEVICE i32 fire_exact(double target, {_EXACT_ARGUMENTS}"
        "    return fire(target, x, c, exact.a, exact.cumulative);\n}\n"
    )


def _exact_in_cells(network: LoweredNetwork) -> str:
    """Exact firings with propensities in a lane's cells, which takes few registers.

    The change of a count is chosen as `fire` of the unrolled kernels chooses it.
    """
    changes = [dict(reaction.change) for reaction in network.reactions]
    changed = sorted(set().union(*changes))
    sums = "".join(f"    sum += cells[{j}] = propensity_{j}(x, c);\n" for j in range(len(changes)))
    lines = [f"    i32 by_{i} = {changes[0].get(i, 0)};\n" for i in changed]
    for j, (before, after) in enumerate(pairwise(changes)):
        steps = [(i, after.get(i, 0)) for i in changed if after.get(i, 0) != before.get(i, 0)]
        lines.append(f"    sum += cells[{j}];\n")
        lines += [f"    by_{i} = sum <= target ? {by} : by_{i};\n" for i, by in steps]
    lines += [f"    x[{i}] = plus(x[{i}], by_{i});\n" for i in changed]
    signs = " | ".join(f"x[{i}]" for i in changed) or "0"
    return (
        "// The propensities, which an exact event updates and the next one reads.\n"
        "struct Exact {\n    double sum;\n"
        "    DEVICE_MEMBER double total() const { return sum; }\n"
        "    DEVICE_MEMBER double total_now(const i32 *, const double *) { return sum; }\n};\n\n"
        f"template <class Cells>\nDEVICE void start_exact({_EXACT_ARGUMENTS}"
        f"    double sum = 0;\n{sums}    exact.sum = sum;\n    RELOAD;\n}}\n\n"
        "// Returns a negative number if a count passed 2147483647.\n"
        f"template <class Cells>\nDEVICE i32 fire_exact(double target, {_EXACT_ARGUMENTS}"
        f"    double sum = 0;\n{''.join(lines)}"
        f"    start_exact(x, c, exact, cells);\n    return {signs};\n}}\n"
    )


def _exact_from_tables(network: LoweredNetwork) -> str:
    """Exact firings as those in cells, of reactions whose changes are read from tables."""
    changes = [reaction.change for reaction in network.reactions]
    tables = (
        lane_table("int", "CHANGE_AT", _starts(changes)),
        lane_table("int", "CHANGED", [i for change in changes for i, _ in change]),
        lane_table("int", "CHANGED_BY", [by for change in changes for _, by in change]),
    )
    return f'{"".join(tables)}#include "leaping/table_firings.h"\n'
