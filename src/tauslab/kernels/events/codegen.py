"""Writes `model.h` for the exact kernel of networks with events."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from tauslab.kernels.backends.base import Style
from tauslab.kernels.events.draws import numbered
from tauslab.kernels.events.tables import (
    DELAY_QUEUE,
    EventShape,
    Numbered,
    event_tables,
    numbered_case,
)
from tauslab.kernels.events.watched import Watched
from tauslab.kernels.network.codegen import (
    LawWriter,
    check_constants,
    guarded_propensity,
    is_tabled,
    lane_table,
    law_text,
    named_factors,
    pieces_of,
    propensity_at,
    records,
)
from tauslab.kernels.network.lowering import (
    Completion,
    Law,
    LoweredEvent,
    LoweredNetwork,
    Operation,
    counts_in,
    jumps_within,
    relations_of_flows,
)

_HEADER = (
    "// Generated from the model: its sizes, propensities, state change, events and records.\n"
    '#pragma once\n#include "ensemble/rate_laws.h"\n'
    '#include "math/math.h"\n#include "device/prelude.h"\n'
    "// The state is doubles, counts too.\n"
    "DEVICE double quantity(double value) {\n    return value;\n}\n"
)
# Up to so many reactions propensities are copied to where they are used.
_MOST_INLINE = 64
# Completions that a jump may be made of: 31 powers of two, up or down (csrc/events/completions.h).
JUMP_COMPLETIONS = 64
# Up to here a GPU has text for every pair of reactions; more where jumps happen within steps: 2,000
# cells of the galactose switch, 74 reactions, take 0.17 s on an H200 for 10 s, with tables 0.24.
# For 96 reactions of genes both take as long, and the compiler 7 s for text, 5 s for tables.
_MOST_WRITTEN, _MOST_WRITTEN_WITHIN = 16, 128
_LONGEST_INLINE = 500  # characters of a law


def in_tables(network: LoweredNetwork, style: Style) -> bool:
    """Return whether a device reads firings from tables, in `events_header`."""
    most = _MOST_WRITTEN_WITHIN if jumps_within(network) else _MOST_WRITTEN
    return not style.branches and len(network.reactions) > most


def events_header(
    network: LoweredNetwork, delay_queue: int = DELAY_QUEUE, *, in_tables: bool = False
) -> str:
    """`model.h` for `ssa_events`: straight-line code on an array of doubles.

    Parameters
    ----------
    delay_queue
        Delayed reactions that may wait for their completion in a trajectory.
    in_tables
        What a firing changes, and mass action, is read from tables; else there is text for every
        pair of reactions of which one changes what the other reads.
    """
    names: dict[int, str] = {}
    writer = LawWriter("x", names)
    return "\n".join(
        [
            _HEADER,
            _draws(network),
            _sizes(network),
            check_constants(network),
            *_shared(network, writer, names),
            _propensities(network, writer, in_tables=in_tables),
            _set_reals(network),
            _flow(network, writer),
            _moving(network),
            _relations(network, writer),
            _within(network, writer),
            _fire_by_tables(network) if in_tables else _fire(network),
            _propensity_now(network, writer),
            _events(network, writer, names),
            _drawn(network, writer, names),
            _delays(network, writer, names, delay_queue),
            records(network, writer, "(i32)", in_tables=in_tables),
        ]
    )


def _sizes(network: LoweredNetwork) -> str:
    assert network.dynamics is not None
    real = {number for number, _ in network.dynamics.reals}
    flags = ", ".join(str(int(i in real)) for i in range(len(network.species))) or "0"
    return (
        f"constexpr int N_SPECIES = {len(network.species)};\n"
        f"constexpr int N_REACTIONS = {len(network.reactions)};\n"
        f"constexpr int N_CONSTANTS = {network.loaded};\n"
        f"constexpr int N_RECORDED = {len(network.recorded)};\n"
        f"constexpr int N_OBSERVABLES = {len(network.observables)};\n"
        f"constexpr int N_AMOUNTS = {network.amounts};  // of the observables, which are species\n"
        f"TABLE bool IS_REAL[{max(1, len(network.species))}] = {{{flags}}};\n"
    )


def _shared(network: LoweredNetwork, writer: LawWriter, names: dict[int, str]) -> Iterator[str]:
    """Functions of long rules, so that laws that use them do not repeat their text."""
    for k, law in enumerate(network.shared):
        statements, value = writer.read(law)
        yield (
            f"DEVICE_SHARED double shared_{k}([[maybe_unused]] const double *x,\n"
            f"    [[maybe_unused]] const double *c) {{\n{statements}    return {value};\n}}\n"
        )
        names[id(law)] = f"shared_{k}(x, c)"


def _propensities(network: LoweredNetwork, writer: LawWriter, *, in_tables: bool) -> str:
    """Propensities of each reaction, and of all."""
    functions = []
    moving = moving_reactions(network)
    for j, reaction in enumerate(network.reactions):
        if in_tables and is_tabled(reaction) and j not in moving:
            continue
        statements, value = guarded_propensity(reaction, writer)
        long = len(network.reactions) > _MOST_INLINE or len(statements + value) > _LONGEST_INLINE
        kind = "DEVICE_SHARED" if long else "DEVICE"
        functions.append(
            f"{kind} double propensity_{j}([[maybe_unused]] const double *x, "
            f"[[maybe_unused]] const double *c) {{\n{statements}    return {value};\n}}\n"
        )
    if in_tables:
        functions.append(propensity_at(network))
        lines = (
            "    NO_UNROLL for (int j = 0; j < N_REACTIONS; ++j) a[j] = propensity_at(j, x, c);\n"
        )
    else:
        calls = (f"    a[{j}] = propensity_{j}(x, c);\n" for j in range(len(network.reactions)))
        lines = "".join(calls)
    return (
        "\n".join(functions)
        + "\nDEVICE_SHARED void all_propensities("
        + "[[maybe_unused]] const double *x,\n    [[maybe_unused]] const double *c, "
        + f"[[maybe_unused]] double *a) {{\n{lines}}}\n"
    )


def _fire_by_tables(network: LoweredNetwork) -> str:
    """Fire one reaction, and recompute what depends on the change, all from tables."""
    assert network.dynamics is not None
    seen = network.dynamics.watched()
    touched = network.touched()
    changes = [reaction.change for reaction in network.reactions]
    change_at = [0, *accumulate(map(len, changes))]
    touch_at = [0, *accumulate(map(len, touched))]
    tables: tuple[tuple[str, str, list[int]], ...] = (
        ("int", "CHANGE_AT", change_at),
        ("int", "CHANGED", [i for change in changes for i, _ in change]),
        ("double", "CHANGED_BY", [by for change in changes for _, by in change]),
        ("int", "TOUCH_AT", touch_at),
        ("int", "TOUCHED", [r for each in touched for r in each]),
        ("bool", "WATCHED", [int(any(i in seen for i, _ in change)) for change in changes]),
    )
    text = "".join(lane_table(*table) for table in tables)
    return (
        f"{_FIRED}{text}"
        "DEVICE Fired fire(int reaction, double *x, const double *c, double *a) {\n"
        "    bool overflow = false;\n"
        "    NO_UNROLL for (int k = CHANGE_AT[reaction]; k < CHANGE_AT[reaction + 1]; ++k) {\n"
        "        const double by = CHANGED_BY[k], now = x[CHANGED[k]] += by;\n"
        "        overflow |= by > 0 && now > 2147483647.0;\n    }\n"
        "    const int first = TOUCH_AT[reaction], end = TOUCH_AT[reaction + 1];\n"
        "    NO_UNROLL for (int k = first; k < end; ++k)\n"
        "        a[TOUCHED[k]] = propensity_at(TOUCHED[k], x, c);\n"
        "    return {first < end ? TOUCHED[first] : N_REACTIONS, WATCHED[reaction], overflow};\n}\n"
    )


_FIRED = (
    "// What firing changed: propensities from a number on, whether a trigger may have, and\n"
    "// whether a count passed 2147483647.\n"
    "struct Fired {\n    int from;\n    bool watched, overflow;\n};\n"
)


def _set_reals(network: LoweredNetwork) -> str:
    assert network.dynamics is not None
    lines = "".join(
        f"    x[{number}] = {law_text(law, 'x')};\n" for number, law in network.dynamics.reals
    )
    return (
        "// Initial values of what holds any number.\n"
        "DEVICE void set_reals([[maybe_unused]] double *x, [[maybe_unused]] const double *c) {\n"
        f"{lines}}}\n"
    )


def _flow(network: LoweredNetwork, writer: LawWriter) -> str:
    """Rates of what moves between events."""
    assert network.dynamics is not None
    flows = network.dynamics.flows
    lines = ""
    for k, (_, law) in enumerate(flows):
        statements, value = writer.read(law)
        lines += f"    {{\n{statements}    d[{k}] = {value};\n    }}\n"
    listed = ", ".join(str(number) for number, _ in flows) or "0"
    bounded = network.dynamics.bounded
    flags = ", ".join(str(int(number in bounded)) for number, _ in flows) or "0"
    sizes = " && ".join(f"x[{number}] > 0" for number in network.dynamics.sizes) or "true"
    return (
        f"constexpr int N_FLOW = {len(flows)};\n"
        f"TABLE int FLOW[{max(1, len(flows))}] = {{{listed}}};\n"
        f"constexpr bool HAS_BOUNDED = {str(bool(bounded)).lower()};\n"
        f"TABLE bool IS_BOUNDED[{max(1, len(flows))}] = {{{flags}}};\n"
        "// Whether the sizes of compartments are above 0.\n"
        f"DEVICE bool has_sizes([[maybe_unused]] const double *x) {{ return {sizes}; }}\n"
        "DEVICE_SHARED void flow_rates([[maybe_unused]] const double *x,\n"
        "    [[maybe_unused]] const double *c, [[maybe_unused]] double *d) {\n"
        f"{lines}}}\n"
    )


def moving_reactions(network: LoweredNetwork) -> list[int]:
    """Reactions whose propensities change between jumps that happen within steps."""
    if not jumps_within(network):
        return []
    assert network.dynamics is not None
    flowing = {number for number, _ in network.dynamics.flows} | {len(network.species)}
    return [j for j, reaction in enumerate(network.reactions) if reaction.depends_on() & flowing]


def _are_polynomials(network: LoweredNetwork, moving: list[int]) -> bool:
    """Return whether these propensities are known to be polynomials in what flows and the time."""
    watched = Watched(network)
    reactions = [network.reactions[j] for j in moving]
    return all(
        not {index for index, _ in each.needs} & watched.flowing
        and (each.law is None or watched.is_affine(each.law))
        for each in reactions
    )


def _moving(network: LoweredNetwork) -> str:
    """The total propensity, to the sum of those that nothing but jumps changes.

    Where jumps happen within steps, those alone are computed that read what flows.
    """
    assert network.dynamics is not None
    moved, moving = network.dynamics, moving_reactions(network)
    tables = ""
    lines = (
        "    all_propensities(x, c, a);\n    for (int j = 0; j < N_REACTIONS; ++j) sum += a[j];\n"
    )
    if jumps_within(network):
        read = {number for number, _ in moved.flows}.union(*(counts_in(w) for _, w in moved.flows))
        touches = [int(any(i in read for i, _ in r.change)) for r in network.reactions]
        requested = {number for number, _ in moved.flows}.union(
            *(network.reactions[j].depends_on() for j in moving)
        )
        changes = [int(any(i in requested for i, _ in r.change)) for r in network.reactions]
        silent = "".join(f"    a[{j}] = 0;\n" for j in moving)
        polynomials = str(_are_polynomials(network, moving)).lower()
        tables = (
            f"constexpr int N_MOVING = {len(moving)};  // reactions that read what flows\n"
            "// Whether these are polynomials in what flows and in the time.\n"
            f"constexpr bool POLYNOMIAL_MOVING = {polynomials};\n"
            f"{lane_table('int', 'MOVING', moving)}"
            f"DEVICE void without_moving([[maybe_unused]] double *a) {{\n{silent}}}\n"
            "// Reactions that change what flows, or what its rates read.\n"
            f"{lane_table('bool', 'TOUCHES_FLOW', touches)}"
            "// Reactions that make the propensities of those that move another function of it.\n"
            f"{lane_table('bool', 'CHANGES_MOVING', changes)}"
        )
        calls = (f"    sum += a[{k}] = propensity_{j}(x, c);\n" for k, j in enumerate(moving))
        lines = "".join(calls)
    return (
        f"{tables}"
        "DEVICE_SHARED double total_propensity([[maybe_unused]] const double *x,\n"
        "    [[maybe_unused]] const double *c, double *a, double sum) {\n"
        f"{lines}    return sum;\n}}\n"
    )


def _relations(network: LoweredNetwork, writer: LawWriter) -> str:
    """Differences whose signs decide relations, in laws, of what flows; each once."""
    result = [Operation("sub", one.arguments) for one in relations_of_flows(network)]
    lines = ""
    for k, law in enumerate(result):
        statements, value = writer.read(law)
        lines += f"    {{\n{statements}    d[{k}] = {value};\n    }}\n"
    return (
        f"constexpr int N_RELATIONS = {len(result)};\n"
        "// Differences whose signs decide relations of what flows.\n"
        "DEVICE_SHARED void flow_relations([[maybe_unused]] const double *x,\n"
        "    [[maybe_unused]] const double *c, [[maybe_unused]] double *d) {\n"
        f"{lines}}}\n"
    )


def _within(network: LoweredNetwork, writer: LawWriter) -> str:
    """Return whether relations of triggers may change within a step.

    A difference in which what moves is affine is a cubic polynomial where that is one, and stays
    between the least and the largest of its four control points (Bernstein 1912).
    """
    moving = [margin for margin in Watched(network).margins() if margin.moves]
    known = not any(m.law is None or not Watched(network).is_affine(m.law) for m in moving)
    lines = ""
    for margin in moving if known else ():
        assert margin.law is not None
        statements, value = writer.read(margin.law)
        lines += (
            "    {\n        double least = 1e308, most = -1e308;\n"
            "        for (int k = 0; k < 4; ++k) {\n"
            "            [[maybe_unused]] const double *const x = points[k];\n"
            f"{statements}            const double difference = {value};\n"
            "            least = tl_min(least, difference), most = tl_max(most, difference);\n"
            "        }\n        if (!(least > 0 || most < 0)) return true;\n    }\n"
        )
    last = "false" if known else "true"
    reads = set().union(*(counts_in(m.law) for m in moving if m.law is not None and known))
    return (
        "// Whether what moves within a step can change a trigger there: whether a relation has\n"
        "// both signs at the control points of the cubic polynomial of the step.\n"
        f"constexpr bool MOVES_TRIGGERS = {str(bool(moving)).lower()};\n"
        "DEVICE_SHARED bool may_change_within([[maybe_unused]] const double *start,\n"
        "    [[maybe_unused]] const double *end, [[maybe_unused]] const double *leaves,\n"
        "    [[maybe_unused]] const double *arrives,\n"
        "    [[maybe_unused]] double t, [[maybe_unused]] double h, "
        "[[maybe_unused]] const double *c) {\n"
        f"{_control_points(network, sorted(reads))}{lines}    return {last};\n}}\n"
    )


def _control_points(network: LoweredNetwork, reads: list[int]) -> str:
    """Points between start and end, of the species (or the time) that relations read."""
    assert network.dynamics is not None
    if not reads:
        return ""
    flow = {number: k for k, (number, _) in enumerate(network.dynamics.flows)}
    lines = (
        "    double first[N_SPECIES + 1], second[N_SPECIES + 1];\n"
        "    const double third = h * (1.0 / 3);\n"
    )
    for i in reads:
        if i == len(network.species):
            lines += f"    first[{i}] = t + third, second[{i}] = t + 2.0 * third;\n"
        elif i in flow:
            lines += (
                f"    first[{i}] = FMA(third, leaves[{flow[i]}], start[{i}]);\n"
                f"    second[{i}] = FMA(-third, arrives[{flow[i]}], end[{i}]);\n"
            )
        else:
            lines += f"    first[{i}] = second[{i}] = start[{i}];\n"
    return f"{lines}    const double *const points[4] = {{start, end, first, second}};\n"


def _fire(network: LoweredNetwork) -> str:
    """Fire one reaction, and recompute what depends on the change."""
    assert network.dynamics is not None
    seen = network.dynamics.watched()
    cases = []
    for j, (reaction, touched) in enumerate(zip(network.reactions, network.touched(), strict=True)):
        body = [f"x[{i}] += {by};" for i, by in reaction.change]
        body += [f"a[{r}] = propensity_{r}(x, c);" for r in touched]
        over = " || ".join(f"x[{i}] > 2147483647.0" for i, by in reaction.change if by > 0)
        watches = str(any(i in seen for i, _ in reaction.change)).lower()
        start = touched[0] if touched else len(network.reactions)
        body.append(f"return {{{start}, {watches}, {over or 'false'}}};")
        lines = "".join(f"            {line}\n" for line in body)
        cases.append(f"        case {j}: {{\n{lines}        }}\n")
    arguments = (
        "(int reaction, [[maybe_unused]] double *x,\n"
        "                  [[maybe_unused]] const double *c, [[maybe_unused]] double *a) {\n"
    )
    return (
        f"{_FIRED}DEVICE Fired fire{arguments}"
        f"    switch (reaction) {{\n{''.join(cases)}        default: return {{0, false, false}};\n"
        "    }\n}\n"
    )


def _propensity_now(network: LoweredNetwork, writer: LawWriter) -> str:
    """The propensity of a reaction at the time, where those of the kernel are bounds."""
    factors = cases = ""
    if network.thinning is not None:
        for k, factor in enumerate(network.thinning.factors):
            statements, value = writer.read(factor)
            factors += (
                f"DEVICE_SHARED double factor_{k}([[maybe_unused]] const double *x,\n"
                "    [[maybe_unused]] const double *c) {\n"
                f"{statements}    return {value};\n}}\n"
            )
        names = named_factors(network.thinning, "factor_{}(x, c)")
        inside = LawWriter(writer.state, {**writer.names, **names})
        for j, rate in enumerate(network.thinning.rates):
            if rate is not network.reactions[j]:
                statements, value = guarded_propensity(rate, inside)
                cases += (
                    f"        case {j}: {{\n{statements}            return {value};\n        }}\n"
                )
    return (
        f"{pieces_of(network)}{factors}"
        "DEVICE_SHARED double propensity_now([[maybe_unused]] int reaction,\n"
        "    [[maybe_unused]] const double *x, [[maybe_unused]] const double *c,\n"
        "    double bound) {\n"
        f"    switch (reaction) {{\n{cases}        default: return bound;\n    }}\n}}\n"
    )


def _draws(network: LoweredNetwork) -> str:
    """Include of what formulas read: constants, and random numbers where the network draws."""
    return f'#include "events/{"" if network.draws else "no_"}draws.h"\n'


def _drawn(network: LoweredNetwork, writer: LawWriter, names: dict[int, str]) -> str:
    """Initial values that are drawn, or use such."""
    lines = drawn_statements(network, writer, names)
    return (
        "// Initial values that are drawn; false if a species may not have one.\n"
        "template <class Constants, class Assign>\n"
        "DEVICE_SHARED bool set_drawn([[maybe_unused]] double *x, "
        "[[maybe_unused]] const Constants &c,\n"
        "                             [[maybe_unused]] const Assign &assign) {\n"
        f"{lines}    return true;\n}}\n"
    )


def drawn_statements(network: LoweredNetwork, writer: LawWriter, names: dict[int, str]) -> str:
    """Statements that assign what is drawn at the start, or uses such."""
    assert network.dynamics is not None
    lines = ""
    for number, law in network.dynamics.drawn:
        result = numbered(law, writer, names)
        lines += (
            f"    {{\n{result.statements}"
            f"        if (!assign(x, {number}, {result.value})) return false;\n    }}\n"
        )
    return lines


def jump_delays(network: LoweredNetwork, first: int, writer: LawWriter) -> str:
    """Cases of the delays of jumps; `first` is the number of the first completion of one."""
    jumps = network.dynamics.jumps if network.dynamics else ()
    return "".join(
        numbered_case(first + JUMP_COMPLETIONS * k, Numbered(*writer.read(jump.delay)))
        for k, jump in enumerate(jumps)
    )


def _delays(
    network: LoweredNetwork, writer: LawWriter, names: dict[int, str], delay_queue: int
) -> str:
    """Text of the reactions that complete later, of when, and of what that changes."""
    ends = completions(network)
    first = {j for j, r in enumerate(network.reactions) if r.completions}
    flags = ", ".join(str(int(j in first)) for j in range(len(network.reactions))) or "0"
    following = [-1] * (max([len(network.reactions), *ends]) + 1)
    for number, (_, after) in ends.items():
        following[number] = after
    completed = ""
    first_jump = len(following)
    jumps = network.dynamics.jumps if network.dynamics else ()
    delays = jump_delays(network, first_jump, writer)
    for number, (end, _) in ends.items():
        delays += numbered_case(number, numbered(end.delay, writer, names))
        # Of a reaction that takes at its end: it changes nothing where too little is left.
        short = " || ".join(f"x[{i}] < {-by}" for i, by in end.change if by < 0)
        body = [f"if ({short}) return true;"] if short else []
        body += [f"x[{i}] += {by};" for i, by in end.change]
        over = " || ".join(f"x[{i}] > 2147483647.0" for i, by in end.change if by > 0)
        body.append(f"return {f'!({over})' if over else 'true'};")
        lines = "".join(f"            {line}\n" for line in body)
        completed += f"        case {number}: {{\n{lines}        }}\n"
    return (
        f"constexpr bool HAS_DELAYS = {str(bool(ends) or bool(jumps)).lower()};\n"
        f"constexpr int DELAY_QUEUE = {delay_queue};\n"
        f"TABLE bool IS_DELAYED[{max(1, len(network.reactions))}] = {{{flags}}};\n"
        "// The next completion of the same reaction, the first of which has its number.\n"
        f"TABLE int NEXT_COMPLETION[{len(following)}] = {{{', '.join(map(str, following))}}};\n"
        f"{jump_tables(network, first_jump)}"
        "// The time until a completion of a reaction that begins now.\n"
        "template <class Constants>\n"
        "DEVICE_SHARED double completion_delay(int completion, [[maybe_unused]] const double *x,\n"
        "                                      [[maybe_unused]] const Constants &c) {\n"
        f"    switch (completion) {{\n{delays}        default: return 0;\n    }}\n}}\n"
        "// What a completion changes; false where a count passed 2147483647.\n"
        "DEVICE_SHARED bool complete(int completion, [[maybe_unused]] double *x) {\n"
        f"{_complete_jumps(bool(jumps))}"
        f"    switch (completion) {{\n{completed}        default: return true;\n    }}\n}}\n"
    )


def jump_tables(network: LoweredNetwork, first: int) -> str:
    """Tables of what events change and formulas look back at; `first` numbers its completions."""
    jumps = network.dynamics.jumps if network.dynamics else ()
    of, to = ("".join(f"{one}, " for one in column) for column in (
        [jump.of for jump in jumps], [jump.to for jump in jumps],
    ))  # fmt: skip
    return (
        "// What events change and formulas look back at; which counts hold what it was.\n"
        f"constexpr int N_JUMPS = {len(jumps)}, FIRST_JUMP = {first};\n"
        f"TABLE int JUMP_OF[{len(jumps) + 1}] = {{{of}0}};\n"
        f"TABLE int JUMP_TO[{len(jumps) + 1}] = {{{to}0}};\n"
    )


def _complete_jumps(has_jumps: bool) -> str:  # noqa: FBT001
    """A jump comes as powers of two, each a completion of its own."""
    if not has_jumps:
        return ""
    return (
        "    if (completion >= FIRST_JUMP) {\n"
        "        const int which = completion - FIRST_JUMP, power = which % 32;\n"
        f"        double &to = x[JUMP_TO[which / {JUMP_COMPLETIONS}]];\n"
        "        to += which % 64 < 32 ? (double)(1u << power) : -(double)(1u << power);\n"
        "        return to <= 2147483647.0;\n    }\n"
    )


def completions(network: LoweredNetwork) -> dict[int, tuple[Completion, int]]:
    """Completions by number, each with the next of its reaction, or -1.

    The first of a reaction has the number of that reaction, others have numbers behind all.
    """
    result: dict[int, tuple[Completion, int]] = {}
    spare = len(network.reactions)
    for j, reaction in enumerate(network.reactions):
        number = j
        for k, end in enumerate(reaction.completions):
            last = k + 1 == len(reaction.completions)
            result[number] = (end, -1 if last else spare)
            number, spare = spare, spare + (not last)
    return result


def _events(network: LoweredNetwork, writer: LawWriter, names: dict[int, str]) -> str:
    assert network.dynamics is not None
    return event_tables(
        [shape(event) for event in network.dynamics.events],
        len(network.dynamics.switches),
        event_expressions(network, writer, names),
    )


def event_expressions(
    network: LoweredNetwork, writer: LawWriter, names: dict[int, str]
) -> list[Numbered]:
    """All that events compute, in the order of `event_tables`."""
    assert network.dynamics is not None
    laws: list[Law] = [event.trigger for event in network.dynamics.events]
    laws += network.dynamics.switches
    for event in network.dynamics.events:
        laws += event.laws()[1:]
    return [numbered(law, writer, names) for law in laws]


def shape(event: LoweredEvent) -> EventShape:
    """The entry of tables for an event."""
    return EventShape(
        tuple(number for number, _ in event.assignments),
        event.delay is not None,
        event.priority is not None,
        event.persistent,
        event.initial,
        event.early,
    )
