"""The part of `model.h` that is for SIMD lanes alone: networks with many reactions.

There all vectors of a thread fire a reaction side by side: it is searched for, tables say
how it changes counts (csrc/simd/search.h), and propensities are computed in parts, between which
random numbers are made.
"""

from __future__ import annotations

from itertools import pairwise

from tauslab.kernels.network.codegen import tails_of
from tauslab.kernels.network.lowering import LoweredNetwork

FEWEST_SEARCHED = 12  # reactions; to choose among fewer is faster without a branch or a search
PARTS = 6  # PROPENSITY_PARTS of csrc/simd/search.h
_FIELDS_OF_WORD = 32


def fire_on_lanes(network: LoweredNetwork, vectors: int) -> str:
    """`VECTORS`, whether reactions are searched for, and what that takes."""
    searched = len(network.reactions) >= FEWEST_SEARCHED and any(
        by for reaction in network.reactions for _, by in reaction.change
    )
    head = f"constexpr int VECTORS = {vectors};\n"
    if not searched:
        return head
    first, changed = min(tails_of(network), default=(0, 0))
    head += f"constexpr int TAIL_FIRST = {first};  // 0: no reactions are the last\n"
    parts = _propensities_in_parts(network, vectors, changed)
    return f"#define FIRES_BY_SEARCH\n{head}{_changes(network, first)}{parts}"


def _changes(network: LoweredNetwork, tail: int) -> str:
    """Tables of changes: fields of two bits, each for a species and a number of molecules.

    And what applies them, where reactions from `tail` on fire alone too.
    """
    changes = [dict(reaction.change) for reaction in network.reactions]
    fields = sorted({(i, abs(by)) for change in changes for i, by in change.items() if by})
    bits = [[{by: 1, -by: 3}.get(change.get(i, 0), 0) for i, by in fields] for change in changes]
    rows = [
        ", ".join(
            hex(sum(bit << 2 * k for k, bit in enumerate(row[first : first + _FIELDS_OF_WORD])))
            + "ull"
            for row in bits
        )
        for first in range(0, len(fields), _FIELDS_OF_WORD)
    ]
    last = {(i, abs(by)) for change in changes[tail:] for i, by in change.items() if by}
    lines = [
        f"    x[{i}] = fused(changes.twice({k}), on_lanes({by / 2}), x[{i}]);\n"
        for k, (i, by) in enumerate(fields)
    ]
    some = [line for line, field in zip(lines, fields, strict=True) if field in last]
    return (
        f"constexpr int N_FIELDS = {len(fields)}, N_CHANGE_WORDS = {len(rows)};\n"
        "static const unsigned long long CHANGE_WORDS[N_CHANGE_WORDS][N_REACTIONS] = {\n"
        f"{''.join(f'    {{{row}}},{chr(10)}' for row in rows)}}};\n"
        "template <class Changes, class Count>\n"
        "DEVICE void change_counts(const Changes &changes, Count *x) {\n"
        f"{''.join(lines)}}}\n"
        "template <class Changes, class Count>\n"
        "DEVICE void change_last(const Changes &changes, Count *x) {\n"
        f"{''.join(some)}}}\n"
    )


def _propensities_in_parts(network: LoweredNetwork, vectors: int, changed: int) -> str:
    """`propensities_part`: of all vectors, reaction by reaction; after LAST ones not all."""
    text = ""
    for last, first in (("false", 0), ("true", changed)):
        ends = [first + (len(network.reactions) - first) * k // PARTS for k in range(PARTS + 1)]
        for part, (begin, end) in enumerate(pairwise(ends)):
            lines = [
                f"        run[{v}].cumulative[{j}] = "
                f"{f'run[{v}].cumulative[{j - 1}] + ' if j else ''}"
                f"propensity_{j}(run[{v}].x, lanes[{v}].c);\n"
                for j in range(begin, end)
                for v in range(vectors)
            ]
            text += f"    if (LAST == {last} && part == {part}) {{\n{''.join(lines)}    }}\n"
    return (
        "template <bool LAST, class Running, class Lanes>\n"
        "DEVICE void propensities_part(int part, Running *run, const Lanes *lanes) {\n"
        f"{text}}}\n"
        '#include "simd/search.h"\n'
    )
