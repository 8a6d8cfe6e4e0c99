"""Functions of generated statements; a long one is cut into parts that call each other in turn.

Compilers take time and memory that grow faster than a function is long. What a part needs of
earlier ones stands in memory between them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

PART = 500  # statements of a part
_VALUE = re.compile(r"\bv\d+\b")


@dataclass(frozen=True)
class Function:
    """A function to be written: `template` and `parameters` as C++ has them, `arguments` for calls.

    `real` is the type of its values, `qualifier` says how it is compiled where it is not cut, and
    `longest` how many statements it may have then.
    """

    name: str
    template: str
    parameters: str
    arguments: str
    real: str = "Real"
    qualifier: str = "DEVICE_SHARED"
    longest: int = 4000

    def text(self, lines: Sequence[str], stores: Sequence[str]) -> str:
        """The text with these statements, then these, which define no values."""
        if len(lines) + len(stores) <= self.longest:
            return f"{self._head(self.qualifier, self.name)} {{\n{''.join([*lines, *stores])}}}\n"
        parts = _cut(_merged(lines, stores))
        slots, bodies = _through_memory(parts, self.real)
        written = [
            f"{self._head('DEVICE_SELDOM', f'{self.name}_{k}', more=True)} {{\n{body}}}\n"
            for k, body in enumerate(bodies)
        ]
        calls = [f"    {self.name}_{k}({self.arguments}, w);\n" for k in range(len(bodies))]
        memory = f"    {self.real} w[{slots + 1}];\n"
        main = f"{self._head(self.qualifier, self.name)} {{\n{memory}{''.join(calls)}}}\n"
        return "".join([*written, main])

    def _head(self, qualifier: str, name: str, *, more: bool = False) -> str:
        between = f", [[maybe_unused]] {self.real} *w" if more else ""
        return f"{self.template}\n{qualifier} void {name}({self.parameters}{between})"


def _merged(lines: Sequence[str], stores: Sequence[str]) -> list[str]:
    """Statements with each store after the last value that it needs."""
    place = {_defined(line): k for k, line in enumerate(lines)}
    after: dict[int, list[str]] = {}
    for store in stores:
        last = max((place[v] for v in _VALUE.findall(store)), default=-1)
        after.setdefault(last, []).append(store)
    merged = list(after.get(-1, []))
    for k, line in enumerate(lines):
        merged += [line, *after.get(k, [])]
    return merged


def _cut(statements: Sequence[str]) -> list[Sequence[str]]:
    return [statements[k : k + PART] for k in range(0, len(statements), PART)]


def _defined(line: str) -> str:
    """The value that a statement defines, or nothing."""
    left, _, _ = line.partition(" = ")
    return left.split()[-1] if left.lstrip().startswith("const ") else ""


def _through_memory(parts: Sequence[Sequence[str]], real: str) -> tuple[int, list[str]]:
    """Numbers of memory, and the parts with loads and stores of what crosses between them."""
    home, last, kinds = dict[str, int](), dict[str, int](), dict[str, str]()
    for k, part in enumerate(parts):
        for line in part:
            for value in _VALUE.findall(line):
                last[value] = k
            if own := _defined(line):
                home[own], kinds[own] = k, line.split()[1]
    slot, free, slots = dict[str, int](), list[int](), 0
    bodies = []
    for k, part in enumerate(parts):
        used = dict.fromkeys(v for line in part for v in _VALUE.findall(line))
        loads = [_load(v, kinds[v], slot[v]) for v in used if home[v] < k]
        free += [slot[v] for v in used if home[v] < k and last[v] == k]
        stores = []
        for value in used:
            if home[value] == k and last[value] > k:
                if free:
                    slot[value] = free.pop()
                else:
                    slot[value], slots = slots, slots + 1
                stores.append(f"    w[{slot[value]}] = ({real}){value};\n")
        bodies.append("".join([*loads, *part, *stores]))
    return slots, bodies


def _load(value: str, kind: str, slot: int) -> str:
    test = {"bool": " != 0", "Mask": " != 0.0"}.get(kind, "")
    return f"    const {kind} {value} = w[{slot}]{test};\n"
