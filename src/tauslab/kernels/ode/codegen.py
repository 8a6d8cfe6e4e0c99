"""Writes `model.h` for the ODE kernels: sizes, constants of a trajectory, rates, events, records.

Every node of the graph becomes one named value; a product that only one sum uses is fused into it
by an explicit fma. Which are fused is decided for the whole system, so that however equations are
spread over threads each is computed by the same operations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tauslab.kernels.events.tables import EventShape, Numbered, event_tables
from tauslab.kernels.network.codegen import literal
from tauslab.kernels.ode.codegen_past import PAST_INCLUDES, past_functions
from tauslab.kernels.ode.functions import Function
from tauslab.kernels.ode.graph import COMPARISONS, LOGIC, RUNNING, SETUP, ExpressionGraph
from tauslab.kernels.ode.lowering import OdeSystem
from tauslab.kernels.ode.settings import DELAY_HISTORY, PRECISIONS

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "ago": "-"}
_OWN_NAMES = {"sqrt": "root", "reciprocal": "reciprocal"}
_BACK = ("before", "past", "past_slope")  # functions of graphs that the history answers
_TESTS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
          "and": "&&", "or": "||", "xor": "!="}  # fmt: skip
_HEADER = (
    "// Generated from the model: its sizes, constants, rates, events and records.\n#pragma once\n"
)
_INCLUDES = '#include "math/both_precisions.h"\n#include "device/prelude.h"\n'
_LANES_INCLUDES = '#define ON_LANES\n#include "simd/laws.h"\n'
# Of conditions on SIMD lanes: all lanes are computed.
_LANES_LOGIC = {"and": "&", "or": "|", "xor": "^"}
# Operations of a step from which its four stages share one text. On an H200, 3,700 are a quarter
# faster so, and 900 a fifth slower.
LONG_STEP = 2000
# Statements of a function from which it is cut into parts: registers of a GPU hold no values across
# them, so only what is too long for registers anyway is cut there.
LONGEST = 4000
LONGEST_OF_ADAPTIVE = 1000


def fused_products(graph: ExpressionGraph, outputs: Sequence[int]) -> dict[int, int]:
    """Sums that absorb a product, by node: which argument of the sum it is.

    A product is absorbed where all that `outputs` need of it are sums, each of which then computes
    it, and none of which absorbs another: a product and its sums take one operation less.
    """
    nodes = graph.reached(list(outputs))
    users: dict[int, list[int]] = {n: [] for n in nodes}
    for number in nodes:
        for argument in graph.nodes[number].arguments:
            if argument in users:
                users[argument].append(number)
    absorbed: dict[int, int] = {}
    requested = set(outputs)
    for number in nodes:
        own = users[number]
        if number in graph.as_written:
            continue
        if graph.nodes[number].kind != "mul" or number in requested or len(set(own)) != len(own):
            continue
        if all(graph.nodes[u].kind in ("add", "sub") and u not in absorbed for u in own):
            absorbed |= {u: graph.nodes[u].arguments.index(number) for u in own}
    return absorbed


@dataclass
class CodeWriter:
    """Writes functions of a system; collects the constants that they read.

    `constants` numbers nodes that are computed once a trajectory, in the order of first use, and
    `lookups` earlier times at which something is read. With `lanes`, Real is a number for each SIMD
    lane of a CPU core.
    """

    graph: ExpressionGraph
    constants: dict[int, int] = field(default_factory=dict)
    lookups: dict[int, int] = field(default_factory=dict)
    longest: int = LONGEST
    lanes: bool = False

    def body(
        self,
        outputs: Sequence[int],
        absorbed: dict[int, int],
        real: str = "Real",
    ) -> tuple[list[str], list[str]]:
        """Statements that compute `outputs` while a trajectory runs, and the text of each.

        `real` is the type of their values: ``Real``, or ``Number`` for one trajectory.
        """
        inside = {self.graph.nodes[n].arguments[place] for n, place in absorbed.items()}
        inside -= set(outputs)
        writing = _Body(self, absorbed, "x[{}]".format, real, RUNNING)
        lines = [
            line
            for number in self.graph.reached(list(outputs))
            if number not in inside and (line := writing.statement(number))
        ]
        return lines, [writing.value(number) for number in outputs]

    def expression(self, node: int) -> tuple[str, str]:
        """Statements of a node, and its text, while a trajectory runs."""
        lines, values = self.body([node], fused_products(self.graph, [node]))
        return "".join(f"    {line}" for line in lines), values[0]

    def setup(self, outputs: Sequence[int]) -> tuple[list[str], list[str]]:
        """Statements and texts of nodes that are computed from inputs at the start, in doubles."""
        writing = _Body(self, {}, "x[{}]".format, "double", SETUP)
        lines = [
            line
            for number in self.graph.reached(list(outputs), SETUP)
            if (line := writing.statement(number))
        ]
        return lines, [writing.value(number) for number in outputs]


@dataclass
class _Body:
    """Texts of nodes within one function."""

    writer: CodeWriter
    absorbed: dict[int, int]
    variable: Callable[[int], str]
    real: str
    stage: int

    @property
    def lanes(self) -> bool:
        """Return whether values are vectors."""
        return self.writer.lanes and self.real == "Real"

    def statement(self, number: int) -> str:
        node = self.writer.graph.nodes[number]
        if not node.arguments:
            return ""
        condition = "Mask" if self.lanes else "bool"
        kind = condition if node.kind in (*COMPARISONS, *LOGIC) else self.real
        return f"    const {kind} v{number} = {self.operation(number)};\n"

    def operation(self, number: int) -> str:
        graph = self.writer.graph
        name, arguments = graph.nodes[number].kind, graph.nodes[number].arguments
        if number in self.absorbed:
            return self.fused(name, arguments, self.absorbed[number])
        if name in LOGIC or name == "if":
            tests = [self.test(a) for a in arguments]
            if name == "not":
                return f"{tests[0]} == 0" if self.lanes else f"!{tests[0]}"
            if name == "if":
                return f"{tests[0]} ? {self.value(arguments[1])} : {self.value(arguments[2])}"
            logic = _LANES_LOGIC if self.lanes else _TESTS
            return f"{tests[0]} {logic[name]} {tests[1]}"
        values = [self.value(a) for a in arguments]
        if name in _INFIX or name in _TESTS:
            return f"{values[0]} {(_INFIX | _TESTS)[name]} {values[1]}"
        if name == "neg":
            return f"-{values[0]}"
        function, _, delayed = name.partition(":")
        if function in _BACK:
            lookups = self.writer.lookups
            numbers = [str(lookups.setdefault(arguments[0], len(lookups))), delayed]
            return f"{function}(c, {', '.join([*filter(None, numbers), *values])}, t)"
        return f"{_OWN_NAMES.get(name, f'tl_{name}')}({', '.join(values)})"

    def fused(self, name: str, arguments: tuple[int, ...], place: int) -> str:
        """A sum or difference with one product in it."""
        a, b = (self.value(n) for n in self.writer.graph.nodes[arguments[place]].arguments)
        other = self.value(arguments[1 - place])
        if name == "sub":
            a, other = (f"-{a}", other) if place else (a, f"-{other}")
        return f"fused({a}, {b}, {other})"

    def value(self, number: int) -> str:
        """The node as a number."""
        graph = self.writer.graph
        node = graph.nodes[number]
        if node.kind == "number":
            text = literal(node.value)
            if self.lanes:
                return f"on_lanes({text})"
            return text if self.real == "double" else f"({self.real}){text}"
        if graph.stages[number] < self.stage:
            constants = self.writer.constants
            return f"c[{constants.setdefault(number, len(constants))}]"
        if node.kind == "input":
            return f"p[{node.index}]"
        if node.kind == "variable":
            return self.variable(node.index)
        if node.kind == "time":
            return "t"
        if node.kind in (*COMPARISONS, *LOGIC):
            if self.lanes:
                return f"(v{number} ? on_lanes(1.0) : on_lanes(0.0))"
            return f"({self.real})v{number}"
        return f"v{number}"

    def test(self, number: int) -> str:
        """The node as a condition."""
        graph = self.writer.graph
        boolean = graph.nodes[number].kind in (*COMPARISONS, *LOGIC)
        if boolean and graph.stages[number] == self.stage:
            return f"v{number}"
        return f"({self.value(number)} != {'0.0' if self.lanes else '0'})"


ARGUMENTS = "[[maybe_unused]] const Constants &c, [[maybe_unused]] Real t"
_OF_ONE = "[[maybe_unused]] const Constants &c, [[maybe_unused]] Number t"


def ode_header(
    system: OdeSystem,
    *,
    precision: str = "double",
    wide: bool = True,
    more: Callable[[OdeSystem, CodeWriter], str] | None = None,
    longest: int = LONGEST,
    lanes: bool = False,
    delay_history: int = DELAY_HISTORY,
) -> str:
    """`model.h` for a system.

    Parameters
    ----------
    precision
        ``double`` or ``single``: of variables, constants and rates.
    wide
        Whether samples are doubles; otherwise they have the precision.
    more
        Writes what else a method needs.
    longest
        Statements of a function that is not cut into parts.
    lanes
        A trajectory runs on each SIMD lane of a CPU core, in double precision.
    delay_history
        Steps of a trajectory that are kept, where equations look back.
    """
    writer = CodeWriter(system.graph, longest=longest, lanes=lanes)
    functions = [_rates(system, writer), _quantities(system, writer), _events(system, writer)]
    if system.watched:
        functions.append(_triggered(system, writer))
    if system.relations:
        functions.append(_relations(system, writer))
    if more is not None:
        functions.append(more(system, writer))
    includes = _LANES_INCLUDES if lanes else ""
    if system.looks_back:
        functions.append(past_functions(system, writer, delay_history))
        includes = PAST_INCLUDES
    # The constants are known when all functions that read them are written.
    before = [_sizes(system, writer, precision, wide=wide), _setup(system, writer)]
    return _HEADER + includes + _INCLUDES + "\n".join(before + functions)


def count_constants(system: OdeSystem) -> int:
    """Constants that rates, quantities or events read: N_CONSTANTS of the header."""
    writer = CodeWriter(system.graph)
    for function in (_rates, _quantities, _events):
        function(system, writer)
    return len(writer.constants)


def _sizes(system: OdeSystem, writer: CodeWriter, precision: str, *, wide: bool) -> str:
    """Types and sizes."""
    real = PRECISIONS[precision]
    sizes = ""
    if system.sizes:
        numbers = ", ".join(map(str, system.sizes))
        sizes = f"#define HAS_SIZES\nTABLE int SIZES[{len(system.sizes)}] = {{{numbers}}};\n"
    number = "" if writer.lanes else f"typedef {real} Real;\n"
    return (
        "// A number of each trajectory that runs, a number of one, and what is recorded.\n"
        f"{number}typedef {real} Number;\ntypedef {'double' if wide else real} Sampled;\n"
        f"constexpr int N_VARIABLES = {len(system.variables)};\n"
        f"constexpr int N_INPUTS = {len(system.inputs)};\n"
        f"constexpr int N_CONSTANTS = {len(writer.constants)};\n"
        f"constexpr int N_QUANTITIES = {len(system.quantities)};\n"
        f"constexpr bool LONG_STEP = {str(is_long(system)).lower()};\n{sizes}"
    )


def is_long(system: OdeSystem) -> bool:
    """Return whether a thread's step has one text for its four stages."""
    return _operations(system) > LONG_STEP


def _operations(system: OdeSystem) -> int:
    """Instructions of a Runge-Kutta step in single precision, about."""
    graph, absorbed = system.graph, fused_products(system.graph, system.rates)
    free = {graph.nodes[n].arguments[place] for n, place in absorbed.items()}
    kinds = Counter(graph.nodes[n].kind for n in graph.reached(list(system.rates)) if n not in free)
    alone = sum(n for kind, n in kinds.items() if kind not in ("variable", "time", "neg"))
    return 4 * (alone + 3 * kinds["reciprocal"]) + 7 * len(system.variables)


def _setup(system: OdeSystem, writer: CodeWriter) -> str:
    """Constants of a trajectory and initial values, from inputs."""
    lines, values = writer.setup(list(writer.constants))
    constants = [f"    c[{k}] = (Number)({value});\n" for k, value in enumerate(values)]
    more, starts = writer.setup(list(system.initial))
    initial = [f"    x[{i}] = (Number)({value});\n" for i, value in enumerate(starts)]

    def function(name: str, target: str) -> Function:
        return Function(
            name, "template <class Numbers>",
            f"[[maybe_unused]] const double *p, [[maybe_unused]] Numbers &{target}",
            f"p, {target}", "double", "DEVICE", writer.longest,
        )  # fmt: skip

    texts = function("ode_constants", "c").text(lines, constants)
    return f"{texts}\n{function('ode_initial', 'x').text(more, initial)}"


def running_function(name: str, out: str, writer: CodeWriter, real: str = "Real") -> Function:
    """A function of state, constants and time that writes to `out`: ``d``, or ``out`` by `put`.

    `real` is that of `CodeWriter.body`.
    """
    more, kind = (", class Out", "const Out &") if out == "out" else ("", "Real *")
    arguments = ARGUMENTS if real == "Real" else _OF_ONE
    return Function(
        name, f"template <class State, class Constants{more}>",
        f"[[maybe_unused]] const State &x, {arguments}, [[maybe_unused]] {kind}{out}",
        f"x, c, t, {out}", real, longest=writer.longest,
    )  # fmt: skip


def _rates(system: OdeSystem, writer: CodeWriter) -> str:
    """All rates."""
    lines, values = writer.body(system.rates, fused_products(system.graph, system.rates))
    stores = [f"    d[{i}] = {value};\n" for i, value in enumerate(values)]
    text = running_function("ode_rates", "d", writer).text(lines, stores)
    return f"// dx/dt of every variable.\n{text}"


def _quantities(system: OdeSystem, writer: CodeWriter) -> str:
    nodes = [node for _, node in system.quantities]
    lines, values = writer.body(nodes, fused_products(system.graph, nodes), real="Number")
    stores = [f"    out.put({k}, {value});\n" for k, value in enumerate(values)]
    text = running_function("ode_quantities", "out", writer, "Number").text(lines, stores)
    return f"// What is recorded.\n{text}"


def _relations(system: OdeSystem, writer: CodeWriter) -> str:
    nodes = list(system.relations)
    lines, values = writer.body(nodes, fused_products(system.graph, nodes))
    stores = [f"    d[{k}] = {value};\n" for k, value in enumerate(values)]
    text = running_function("ode_relations", "d", writer).text(lines, stores)
    return (
        f"#define HAS_RELATIONS\nconstexpr int N_RELATIONS = {len(nodes)};\n"
        f"// Differences whose signs decide relations in rates.\n{text}"
    )


def event_shapes(system: OdeSystem) -> list[EventShape]:
    """Shapes of the events, for their tables."""
    return [
        EventShape(
            tuple(variable for variable, _ in event.assignments),
            event.delay is not None,
            event.priority is not None,
            event.persistent,
            event.initial,
            event.early,
        )
        for event in system.triggered
    ]


def _triggered(system: OdeSystem, writer: CodeWriter) -> str:
    """Tables and expressions of events that are looked for while equations are integrated."""
    events = system.triggered
    nodes = [event.trigger for event in events] + list(system.switches)
    for event in events:
        nodes += event.nodes()
    expressions = []
    for node in nodes:
        lines, values = writer.body([node], fused_products(system.graph, [node]))
        expressions.append(Numbered("".join(f"        {line}" for line in lines), values[0]))
    shapes = event_shapes(system)
    return f"#define HAS_EVENTS\n{event_tables(shapes, len(system.switches), expressions)}"


def _events(system: OdeSystem, writer: CodeWriter) -> str:
    cases = []
    for number, event in enumerate(system.events):
        nodes = [node for _, node in event.assignments]
        lines, values = writer.body(nodes, fused_products(system.graph, nodes), real="Number")
        lines += [f"    const Number to_{i} = {v};\n" for i, v in enumerate(values)]
        lines += [f"    x[{v}] = to_{i};\n" for i, (v, _) in enumerate(event.assignments)]
        body = "".join(f"    {line}" for line in lines)
        cases.append(f"    if (event == {number}) {{\n{body}    }}\n")
    return (
        "// Event number `event` happens.\ntemplate <class State, class Constants>\n"
        f"DEVICE_SHARED void ode_event([[maybe_unused]] int event, [[maybe_unused]] State &x,\n"
        f"                      {_OF_ONE}) {{\n{''.join(cases)}}}\n"
    )
