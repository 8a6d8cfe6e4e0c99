"""Definitions that use each other, in chains that libsbml's checks would follow for ever.

Its search for circles takes the third power of a chain of rules (0.7 s of 200, 11 s of 500), and
more than the fourth of one of function definitions (0.07 s of 30, minutes of 100). The reader
refuses circles itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tauslab.model.readers.sbml.text import each

_MOST_OF_RULES, _MOST_OF_FUNCTIONS = (
    20_000,
    800,
)  # pairs of definitions, one of which needs the other


def has_long_chains(model: Any) -> bool:
    """Whether the rules, or the function definitions, of a model need each other too much."""
    functions = {one.getId(): one for one in each(model.getListOfFunctionDefinitions())}
    laws: dict[str, Any] = {one.getVariable(): one for one in each(model.getListOfRules())}
    laws |= {one.getSymbol(): one for one in each(model.getListOfInitialAssignments())}
    laws |= {one.getId(): one.getKineticLaw() for one in each(model.getListOfReactions())}
    return _exceeds(_uses(functions), _MOST_OF_FUNCTIONS) or _exceeds(_uses(laws), _MOST_OF_RULES)


def _uses(definitions: Mapping[str, Any]) -> dict[str, set[str]]:
    """Which others each definition names."""
    found = {}
    for name, one in definitions.items():
        math = None if one is None else one.getMath()
        found[name] = {own for own in _names(math) if own in definitions and own != name}
    return found


def _names(math: Any) -> Iterable[str]:
    stack = [] if math is None else [math]
    while stack:
        node = stack.pop()
        if (name := node.getName()) is not None:
            yield name
        stack += [node.getChild(i) for i in range(node.getNumChildren())]


def _exceeds(uses: Mapping[str, set[str]], most: int) -> bool:
    """Whether there are more than `most` pairs, one of which needs the other in some steps."""
    pairs = 0
    for name, first in uses.items():
        seen, stack = set(first), list(first)
        while stack:
            for own in uses[stack.pop()] - seen - {name}:
                seen.add(own)
                stack.append(own)
        pairs += len(seen)
        if pairs > most:
            return True
    return False
