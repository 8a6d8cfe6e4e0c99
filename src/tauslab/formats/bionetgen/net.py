"""Read reaction networks that BioNetGen has generated (.net files).

Rate constants in these files already hold the factor 1/2 of a symmetric reaction, so the propensity
of ``X + X ->`` at rate k is k n (n - 1), and a rate that is a function multiplies the reactants in
the same way (Faeder, Blinov and Hlavacek, Methods Mol Biol 500, 113 (2009)).
"""

from __future__ import annotations

import contextlib
import functools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tauslab.base.errors import ModelError
from tauslab.formats.bionetgen.lines import lines_of, require_known
from tauslab.formats.bionetgen.rates import ELEMENTARY, named_law, split_rate
from tauslab.formats.bionetgen.tables import without_tables
from tauslab.model.expressions.expression import (
    Expression,
    Number,
    Symbol,
    call,
    substitute,
    symbols,
)
from tauslab.model.expressions.infix import Builder, parse
from tauslab.model.network.equations import falling_product, power_product
from tauslab.model.network.network import Feature, Network, Reaction, Rule, Species


def _one(build: Callable[[Expression], Expression]) -> Builder:
    """A function of one argument."""

    def apply(arguments: list[Expression]) -> Expression:
        if len(arguments) != 1:
            raise ModelError(f"a function of one argument is given {len(arguments)}")
        return build(arguments[0])

    return apply


def _sum(arguments: list[Expression]) -> Expression:
    if not arguments:
        raise ModelError("a sum or a mean has no arguments")
    return balanced_sum(arguments)


def balanced_sum(terms: list[Expression]) -> Expression:
    """Sum of terms, joined in pairs again and again, so that thousands stay shallow."""
    while len(terms) > 1:
        pairs = [call("add", *terms[i : i + 2]) for i in range(0, len(terms) - 1, 2)]
        terms = [*pairs, *terms[2 * len(pairs) :]]
    return terms[0] if terms else Number(0.0)


def _asinh(x: Expression) -> Expression:
    root = call("sqrt", call("add", call("mul", x, x), 1.0))  # near -x where x is far below 0
    below = call("neg", call("log", call("sub", root, x)))
    return call("if", call("lt", x, 0.0), below, call("log", call("add", x, root)))


def _acosh(x: Expression) -> Expression:
    return call("log", call("add", x, call("sqrt", call("sub", call("mul", x, x), 1.0))))


def _atanh(x: Expression) -> Expression:
    return call("mul", 0.5, call("log", call("div", call("add", 1.0, x), call("sub", 1.0, x))))


# Names that mean something where the file does not define them.
BARE: Mapping[str, Expression] = {
    "_pi": Number(math.pi),
    "_e": Number(math.e),
    "t": Symbol("time"),
    "time": Symbol("time"),
}
# What `tauslab.model.expressions.infix.parse` does not know by itself.
FUNCTIONS: Mapping[str, Builder] = {
    "_pi": lambda _: BARE["_pi"],
    "_e": lambda _: BARE["_e"],
    "t": lambda _: BARE["t"],
    "time": lambda _: BARE["time"],
    "log2": _one(lambda x: call("div", call("log", x), math.log(2.0))),
    "rint": _one(lambda x: call("floor", call("add", x, 0.5))),
    "sign": _one(lambda x: call("sub", call("gt", x, 0.0), call("lt", x, 0.0))),
    "asinh": _one(_asinh),
    "acosh": _one(_acosh),
    "atanh": _one(_atanh),
    "sum": _sum,
    "avg": lambda arguments: call("div", _sum(arguments), len(arguments)),
}


Lines = list[tuple[int, str]]

_READ = ("parameters", "functions", "species", "reactions", "groups")
_PARAMETER = re.compile(r"(?:\d+\s+)?([A-Za-z_]\w*)()(?:\s*=\s*|\s+)(\S.*)\Z", re.ASCII)
_FUNCTION = re.compile(r"(?:\d+\s+)?([A-Za-z_]\w*)(\([^()]*\))?\s*=?\s*(\S.*)\Z", re.ASCII)
_GROUP = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)
_MOLECULE = re.compile(r"(?:@(\w+)::?)?([A-Za-z_][A-Za-z0-9_]*)(?:\(\))?\Z", re.ASCII)
_UNITS = re.compile(r"""substanceUnits\s*\(\s*["'](\w+)["']""")
_END_TIME = re.compile(r"\bsimulate\w*\s*\(.*?\bt_end\s*=>\s*([0-9.]+(?:[eE][+-]?\d+)?)", re.DOTALL)


def read_net(path: str | Path) -> Network:
    """Read a .net file.

    Raises
    ------
    ModelError
        The file cannot be read, is malformed (file and line are named), or has a rate law that is
        not a constant or a function.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from None
    return read_net_text(text, path)


def read_net_text(text: str, path: Path) -> Network:
    """Read a .net file that is already in memory; `path` names it in messages."""
    try:
        network = parse_net(text, path.stem)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    network.source_path, network.source_text = path, text
    return network


def parse_net(text: str, name: str) -> Network:
    """Read the text of a .net file as a network called `name`.

    Raises
    ------
    ModelError
        As `read_net`, without a file's name.
    """
    blocks, rest = _split_blocks(without_tables(text))
    network = _NetReader(blocks, name).read()
    network.t_end = end_time(rest)
    units = _UNITS.search(rest)
    if units and units[1].lower().startswith("conc"):
        message = "substanceUnits are concentrations, not numbers of molecules"
        network.features.append(Feature("concentration", "model", message))
    if not network.features:
        network.validate()
    return network


def _split_blocks(text: str) -> tuple[dict[str, Lines], str]:
    """Lines of every block without comments, and all text outside of blocks."""
    blocks: dict[str, Lines] = {}
    inside, rest = "", []
    for each in lines_of(text, between=" "):
        number, line, words = each.first, each.text.strip(), each.words
        if words[0] == "begin" and words[1:] != ["model"]:
            if inside:
                raise ModelError(f"line {number}: 'begin' inside of the block {inside!r}")
            inside = " ".join(words[1:])
            blocks.setdefault(inside, [])
        elif words[0] == "end" and words[1:] != ["model"]:
            if " ".join(words[1:]) != inside:
                raise ModelError(f"line {number}: {line!r} ends no block that is open")
            inside = ""
        elif inside:
            blocks[inside].append((number, line))
        else:
            rest.append(line)
    if inside:
        raise ModelError(f"the block {inside!r} has no end")
    if "species" not in blocks or "reactions" not in blocks:
        raise ModelError("is not a .net file: it needs the blocks species and reactions")
    return blocks, "\n".join(rest)


def end_time(rest: str) -> float | None:
    """End of the first simulation that is called in text outside of blocks."""
    match = _END_TIME.search(rest)
    value = float(match[1]) if match else 0.0
    return value if value > 0 else None


class _NetReader:
    """One pass over the blocks of a file."""

    def __init__(self, blocks: Mapping[str, Lines], stem: str) -> None:
        self._network = Network(stem)
        self._blocks = {name: blocks.get(name, []) for name in _READ}
        self._species: dict[str, str] = {"0": ""}  # index in the file -> name
        self._renamed: dict[str, Expression] = {}
        self._functions: dict[str, Builder] = dict(FUNCTIONS)
        self._rates: dict[str, Expression] = {}

    def read(self) -> Network:
        parameters = self._definitions("parameters")
        functions = self._definitions("functions")
        for name in functions:
            self._functions[name] = functools.partial(_constant_function, name)
        self._name_species({*parameters, *functions})
        groups = self._name_groups({*parameters, *functions})
        self._known = {*parameters, *functions, *groups, *self._renamed}
        network = self._network
        for name, (number, text) in parameters.items():
            network.parameters[name] = self._parse(text, number, f"parameter {name}")
        for number, line in self._blocks["species"]:
            self._add_species(number, line)
        for name, (number, text) in groups.items():
            network.rules[name] = Rule(name, self._weighted_sum(text, number))
        for name, (number, text) in functions.items():
            tree = self._parse(text, number, f"function {name}")
            network.rules[name] = Rule(name, tree, recorded=False)
        self._add_reactions()
        return network

    # ---------------------------------------------------------------- names

    def _definitions(self, block: str) -> dict[str, tuple[int, str]]:
        """Name -> line and text of the parameters or the functions."""
        result: dict[str, tuple[int, str]] = {}
        pattern = _FUNCTION if block == "functions" else _PARAMETER
        for number, line in self._blocks[block]:
            match = pattern.match(line)
            if match is None:
                raise ModelError(f"line {number}: cannot read {line!r} in the block {block}")
            if match[2] and match[2].strip("() \t"):
                self._network.notes.append(
                    f"function {match[1]} has arguments and is left out: it is of the rules alone"
                )
            elif match[1] in result:
                raise ModelError(f"line {number}: {match[1]!r} is defined twice")
            else:
                result[match[1]] = number, match[3]
        return result

    def _name_species(self, taken: set[str]) -> None:
        """Give every species a name: ``A`` for ``A()``, ``A_c`` for ``@c:A()``, else S<index>."""
        lines = [(number, line.split(None, 2)) for number, line in self._blocks["species"]]
        plain: dict[str, str] = {}
        for number, words in lines:
            if len(words) != 3 or not words[0].isdigit():
                shown = " ".join(words)
                raise ModelError(f"line {number}: {shown!r} is not: index, pattern, amount")
            if words[0] in self._species:
                raise ModelError(f"line {number}: species {words[0]} is defined twice")
            match = _MOLECULE.match(words[1].replace("$", ""))
            name = "" if match is None else f"{match[2]}_{match[1]}" if match[1] else match[2]
            self._species[words[0]] = ""
            if name and name not in taken and name not in plain:
                plain[name] = words[0]
        for name, index in plain.items():
            self._species[index] = name
        used = taken | plain.keys() | self._group_names()
        for index, name in self._species.items():
            if index != "0" and not name:
                self._species[index] = _free(f"S{index}", "_", used)

    def _group_names(self) -> set[str]:
        lines = (line.split(None, 2) for _, line in self._blocks["groups"])
        return {words[1] for words in lines if len(words) > 1}

    def _name_groups(self, taken: set[str]) -> dict[str, tuple[int, str]]:
        groups: dict[str, tuple[int, str]] = {}
        species, seen = set(self._species.values()), set[str]()
        group_names = self._group_names()
        for number, line in self._blocks["groups"]:
            words = line.split(None, 2)
            if len(words) < 2 or not _GROUP.match(words[1]):
                raise ModelError(f"line {number}: {line!r} is not: index, name, members")
            name = words[1]
            if name in seen:
                raise ModelError(f"line {number}: {name!r} is defined twice")
            seen.add(name)
            if name in species or name in taken:
                name = _free(f"{name}_group", "_", taken | species | group_names | seen)
                why = f"{words[1]} is a parameter or a function, and means that in expressions"
                if words[1] not in taken:  # no expression names a species
                    self._renamed[words[1]] = Symbol(name)
                    why = f"{words[1]} is a species"
                self._network.notes.append(f"group {words[1]} is called {name}: {why}")
                seen.add(name)
            groups[name] = number, words[2] if len(words) > 2 else ""
        return groups

    # ---------------------------------------------------------------- elements

    def _parse(self, text: str, number: int, where: str) -> Expression:
        """Read an expression; the time and BioNetGen's constants are no other names."""
        with _located(number, where):
            require_known(text)
            tree = substitute(parse(text, self._functions), self._renamed)
        unknown = symbols(tree) - self._known
        tree = substitute(tree, {name: BARE[name] for name in unknown & BARE.keys()})
        if unknown & {"t", "time"}:
            message = "its expression uses the time"
            self._network.features.append(Feature("time", where, message))
        return tree

    def _add_species(self, number: int, line: str) -> None:
        index, pattern, amount = line.split(None, 2)
        name = self._species[index]
        initial = self._parse(amount, number, f"species {name}")
        self._network.species[name] = Species(name, initial, fixed="$" in pattern)
        self._network.labels[name] = pattern

    def _weighted_sum(self, text: str, number: int) -> Expression:
        """Sum of a group's members ``1,2*10,...``; halved again and again, to stay shallow."""
        terms: list[Expression] = []
        for member in filter(None, (part.strip() for part in text.split(","))):
            weight, star, index = member.rpartition("*")
            name = self._species.get(index)
            if not name:
                raise ModelError(f"line {number}: {member!r} is not a species of the block species")
            try:
                factor = float(weight) if star else 1.0
            except ValueError:
                raise ModelError(f"line {number}: the weight {weight!r} is not a number") from None
            terms.append(Symbol(name) if factor == 1 else call("mul", factor, Symbol(name)))
        return balanced_sum(terms)

    def _add_reactions(self) -> None:
        names: set[str] = set()
        for number, line in self._blocks["reactions"]:
            words = line.split(None, 3)
            if len(words) != 4:
                raise ModelError(
                    f"line {number}: {line!r} is not: index, reactants, products, rate"
                )
            index, left, right, text = words
            if index in names:
                raise ModelError(f"line {number}: reaction {index} is defined twice")
            names.add(index)
            order = self._side(left, number)
            reactants, products = dict(Counter(order)), dict(Counter(self._side(right, number)))
            law, limit = self._law(text, number, index, order)
            self._network.reactions.append(Reaction(f"R{index}", reactants, products, law, limit))

    def _side(self, text: str, number: int) -> list[str]:
        """Species of ``1,2,2``, in this order; ``0`` is nothing."""
        result: list[str] = []
        for index in text.split(","):
            name = self._species.get(index.removeprefix("$"))
            if name is None:
                raise ModelError(f"line {number}: species {index!r} is not in the block species")
            if name:
                result.append(name)
        return result

    def _law(
        self, text: str, number: int, index: str, order: list[str]
    ) -> tuple[Expression, Expression | None]:
        """Propensity, and the rate of the differential equation where that is another."""
        where = f"reaction R{index}"
        if text not in self._rates:
            with _located(number, where):
                written = split_rate(text)
            if written.kind != ELEMENTARY:
                factor = self._parse(written.rate, number, where)
                constants = [self._parse(name, number, where) for name in written.constants]
                with _located(number, where):
                    return named_law(written.kind, factor, constants, order)
            self._rates[text] = self._parse(written.rate, number, where)
        rate, reactants = self._rates[text], Counter(order)
        with _located(number, where):
            limit = power_product(rate, reactants) if len(reactants) < len(order) else None
            return falling_product(rate, reactants), limit


@contextlib.contextmanager
def _located(number: int, where: str) -> Iterator[None]:
    """Put the line and the element before the message of an error."""
    try:
        yield
    except ModelError as error:
        raise ModelError(f"line {number}, {where}: {error}") from None


def _free(name: str, suffix: str, taken: set[str]) -> str:
    """`name` with as many suffixes as make it new; it is then taken."""
    while name in taken:
        name += suffix
    taken.add(name)
    return name


def _constant_function(name: str, arguments: list[Expression]) -> Expression:
    """A function of the file, called without arguments: it is a rule of that name."""
    if arguments:
        raise ModelError(f"function {name} takes no arguments")
    return Symbol(name)
