"""Random numbers in formulas as C++: each draw is a statement before what uses it.

So draws are made in one order on all devices. Every draw that a formula holds is made whenever the
formula is computed, also where `if` takes another branch.
"""

from __future__ import annotations

from tauslab.kernels.events.tables import Numbered
from tauslab.kernels.network.codegen import LawWriter, law_text
from tauslab.kernels.network.lowering import Law, Operation, draws_in
from tauslab.model.expressions.expression import DRAWS


def numbered(law: Law, writer: LawWriter, names: dict[int, str]) -> Numbered:
    """Statements and value of a law, which may draw from ``draws_of(c)``.

    `names` has the calls of the laws that others share.
    """
    if not draws_in(law):
        return Numbered(*writer.read(law))
    result = _Draws(dict(names), [], [])
    value = result.text(result.rebuilt(law))
    return Numbered("".join(result.lines), value)


class _Draws:
    """Gives every occurrence of a draw its own name, arguments first."""

    def __init__(self, names: dict[int, str], lines: list[str], kept: list[Law]) -> None:
        self._names, self.lines, self._kept = names, lines, kept

    def rebuilt(self, law: Law) -> Law:
        """The law with a name for every draw; a part that occurs twice draws twice."""
        if not isinstance(law, Operation) or not draws_in(law):
            return law
        new = Operation(law.function, tuple(self.rebuilt(part) for part in law.arguments))
        self._kept.append(new)  # its identity stays its own
        if law.function in DRAWS:
            arguments = ", ".join(["draws_of(c)", *map(self.text, new.arguments)])
            name = f"drawn_{len(self.lines)}"
            self.lines.append(
                f"            const double {name} = draw_{law.function}({arguments});\n"
            )
            self._names[id(new)] = name
        return new

    def text(self, law: Law) -> str:
        """C++ of a law whose draws have names."""
        return law_text(law, "x", self._names)
