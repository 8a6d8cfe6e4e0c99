"""Text of `model.h` for some ODE kernels: derivatives of rates, equations of each warp."""

from __future__ import annotations

from collections.abc import Sequence

from tauslab.kernels.ode.codegen import ARGUMENTS, CodeWriter, fused_products, running_function
from tauslab.kernels.ode.jacobian import Elimination, Jacobian
from tauslab.kernels.ode.lowering import OdeSystem


def jacobian_functions(found: Jacobian, writer: CodeWriter, *, unrolled: bool = False) -> str:
    """Derivatives of rates: by variables, entry by entry, and by the time.

    `unrolled`: with the elimination as statements.
    """
    graph = writer.graph
    lines, values = writer.body(found.nodes, fused_products(graph, found.nodes))
    stores = [f"    out.put({k}, {value});\n" for k, value in enumerate(values)]
    derivatives = running_function("ode_jacobian", "out", writer).text(lines, stores)
    nodes = [node for _, node in found.by_time]
    lines, slopes = writer.body(nodes, fused_products(graph, nodes))
    rows = [row for row, _ in found.by_time]
    stores = [f"    d[{row}] = {value};\n" for row, value in zip(rows, slopes, strict=True)]
    by_time = running_function("ode_time_slopes", "d", writer).text(lines, stores)
    return (
        f"constexpr int N_ENTRIES = {len(found.nodes)};\n"
        f"constexpr int N_CELLS = {found.elimination.cells};\n"
        f"constexpr bool TIME_ENTERS = {str(bool(nodes)).lower()};\n\n"
        f"// Derivatives of rates by variables.\n{derivatives}\n"
        f"// And by the time; those left out are zero.\n{by_time}"
        f"{unrolled_elimination(found.elimination) if unrolled else ''}"
    )


def unrolled_elimination(solve: Elimination) -> str:
    """`factorise` and `solve` of csrc/ode/rosenbrock.cc without tables, by the same operations."""
    starts, lower, columns = solve.starts.tolist(), solve.lower.tolist(), solve.columns.tolist()
    size = len(lower)
    rows = [range(starts[i], starts[i + 1]) for i in range(size)]
    diagonal = [starts[i] + lower[i] for i in range(size)]
    cell = {(i, columns[k]): k for i in range(size) for k in rows[i]}
    factors, forth, back = "", "", ""
    for i, source in ((i, solve.source[starts[i] : starts[i + 1]].tolist()) for i in range(size)):
        for k, entry in zip(rows[i], source, strict=True):
            negative = "-zero" if entry < 0 else f"negative_or_none(entries[{entry}])"
            factors += f"    m[{k}] = {negative};\n"
        factors += f"    m[{diagonal[i]}] += shift;\n"
        forth += f"    Real r{i} = u[{solve.order[i]}];\n"
        for k in range(starts[i], diagonal[i]):
            pivot = columns[k]
            factors += f"    m[{k}] = m[{k}] * m[{diagonal[pivot]}];\n"
            for j in range(diagonal[pivot] + 1, starts[pivot + 1]):
                into = cell[i, columns[j]]
                factors += f"    m[{into}] = fused(-m[{k}], m[{j}], m[{into}]);\n"
            forth += f"    r{i} = fused(-m[{k}], r{pivot}, r{i});\n"
        factors += f"    m[{diagonal[i]}] = number<Real>(1.0) / m[{diagonal[i]}];\n"
    for i in reversed(range(size)):
        for k in range(diagonal[i] + 1, starts[i + 1]):
            back += f"    r{i} = fused(-m[{k}], r{columns[k]}, r{i});\n"
        back += f"    r{i} = r{i} * m[{diagonal[i]}];\n    u[{solve.order[i]}] = r{i};\n"
    return (
        "\n#define UNROLLED_ELIMINATION\n"
        "DEVICE Real negative_or_none(Real entry) {\n"
        "    const Real zero = number<Real>(0.0);\n"
        "    return entry * zero == zero ? -entry : zero;\n}\n"
        "DEVICE void factorise_unrolled([[maybe_unused]] const Real *entries, Real shift,\n"
        "                               Real *m) {\n"
        f"    [[maybe_unused]] const Real zero = number<Real>(0.0);\n{factors}}}\n"
        f"DEVICE void solve_unrolled(const Real *m, Real *u) {{\n{forth}{back}}}\n"
    )


def group_functions(system: OdeSystem, groups: Sequence[Sequence[int]], writer: CodeWriter) -> str:
    """Functions of each warp of a trajectory: the rates of its variables, a share of the records.

    `groups` are the variables of each warp. Every node is the same operation as in `ode_rates`.
    """
    absorbed = fused_products(system.graph, system.rates)
    quantities = [node for _, node in system.quantities]
    absorbed_there = fused_products(system.graph, quantities)
    structs = []
    for number, own in enumerate(groups):
        lines, values = writer.body([system.rates[v] for v in own], absorbed)
        lines += [f"    d[{i}] = {value};\n" for i, value in enumerate(values)]
        shares = range(number, len(quantities), len(groups))
        more, shown = writer.body([quantities[k] for k in shares], absorbed_there)
        more += [f"    out.put({k}, {value});\n" for k, value in zip(shares, shown, strict=True)]
        loads = "".join(f"    own[{i}] = x[{v}];\n" for i, v in enumerate(own))
        stores = "".join(f"    x[{v}] = own[{i}];\n" for i, v in enumerate(own))
        structs.append(_group_struct(number, len(own), (lines, more), (loads, stores)))
    cases = "".join(
        f"    if (warp == {g}) return work.template run<{g}>();\n" for g in range(len(groups))
    )
    return (
        f"constexpr int WARPS = {len(groups)};\n\n"
        "// What warp number G of a trajectory computes.\ntemplate <int G>\nstruct Group;\n"
        f"{''.join(structs)}\n"
        "template <class Work>\nDEVICE void run_group([[maybe_unused]] int warp, Work &work) {\n"
        f"{cases}}}\n"
    )


def _group_struct(
    number: int, size: int, bodies: tuple[list[str], list[str]], copies: tuple[str, str]
) -> str:
    state = "[[maybe_unused]] const State &x"
    return (
        f"\ntemplate <>\nstruct Group<{number}> {{\n    static constexpr int SIZE = {size};\n"
        "template <class State, class Constants>\nstatic DEVICE_MEMBER void "
        f"rates({state}, {ARGUMENTS}, [[maybe_unused]] Real *d) {{\n{''.join(bodies[0])}}}\n"
        "template <class State, class Constants, class Out>\nstatic DEVICE_MEMBER void "
        f"quantities({state}, {ARGUMENTS}, [[maybe_unused]] const Out &out) {{\n"
        f"{''.join(bodies[1])}}}\n"
        "template <class State>\nstatic DEVICE_MEMBER void "
        f"load({state}, [[maybe_unused]] Real *own) {{\n{copies[0]}}}\n"
        "template <class State>\nstatic DEVICE_MEMBER void "
        f"store([[maybe_unused]] State &x, [[maybe_unused]] const Real *own) {{\n"
        f"{copies[1]}}}\n}};\n"
    )
