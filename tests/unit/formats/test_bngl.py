"""BioNetGen .net files: what is read, with which propensities, and what is refused."""

from __future__ import annotations

import functools
import itertools
import math
import random
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import scipy.integrate

from tauslab.base.errors import ModelError
from tauslab.formats.bionetgen.net import read_net, read_net_text
from tauslab.kernels.backends.base import Style
from tauslab.kernels.exact.table_network import tables_of
from tauslab.kernels.network.codegen import table_header, unrolled_header, weighted_sums
from tauslab.kernels.network.lowering import lower
from tauslab.model.expressions.expression import Number, symbols
from tauslab.model.expressions.host_math import evaluate
from tauslab.model.expressions.infix import parse
from tauslab.model.network.diagnosis.check import mass_action_reactions, require_support
from tauslab.model.network.network import Network

HERE = Path("here.net")
SMALL = """
begin parameters
  1 k 0.5
  2 h 2*k
end parameters
begin species
  1 A() 10
  2 A(x~P) h
end species
begin reactions
  1 1,1 2 k
end reactions
begin groups
  1 Atot 1,2*2
end groups
"""


def _read(text: str) -> Network:
    return read_net_text(text, HERE)


def _block(name: str, *lines: str) -> str:
    return "\n".join([f"begin {name}", *lines, f"end {name}", ""])


def _net(**blocks: list[str]) -> Network:
    given = {"species": ["1 A() 1"], "reactions": [], **blocks}
    return _read("".join(_block(name, *lines) for name, lines in given.items()))


def test_a_small_file() -> None:
    network = _read(SMALL)
    assert network.name == "here"
    assert list(network.species) == ["A", "S2"]
    assert network.labels == {"A": "A()", "S2": "A(x~P)"}
    assert network.parameter_values() == {"k": 0.5, "h": 1.0}
    assert network.initial_amounts() == {"A": 10.0, "S2": 1.0}
    (reaction,) = network.reactions
    assert (reaction.name, reaction.reactants, reaction.products) == ("R1", {"A": 2}, {"S2": 1})
    assert network.rules["Atot"].recorded
    assert network.rules["Atot"].expression == parse("A + 2.0 * S2")
    assert network.source_text == SMALL
    assert network.source_path == HERE


def test_constants_hold_the_half_of_symmetric_reactions() -> None:
    """The propensity of X + X at rate k is k n (n - 1), not half of it."""
    network = _read(SMALL)
    for n in range(5):
        assert evaluate(network.reactions[0].law, {"k": 0.5, "A": n}) == 0.5 * n * (n - 1)
    (_, form) = mass_action_reactions(network)[0]
    assert form is not None
    assert form.orders == {"A": 2}
    assert evaluate(form.constant, {"k": 0.5}) == 0.5


def _independent_propensities(path: Path, values: dict[str, float], counts: list[int]) -> list:
    """Propensities straight from the text of a file whose rates are ``[number*]parameter``."""
    actual, inside = [], False
    for line in path.read_text().splitlines():
        words = line.split("#")[0].split()
        if words[:1] in (["begin"], ["end"]):
            inside = words == ["begin", "reactions"]
        elif inside:
            factor, _, name = words[3].rpartition("*")
            left = Counter(int(i) for i in words[1].split(",") if i != "0")
            expected = float(factor or 1) * values[name]
            for index, taken in left.items():
                expected *= math.perm(counts[index - 1], taken)
            change = Counter(int(i) for i in words[2].split(",") if i != "0")
            change.subtract(left)
            actual.append((expected, {i - 1: by for i, by in change.items() if by}))
    return actual


read_once = functools.cache(read_net)  # of tests that change nothing


@pytest.mark.parametrize("name", ["egfr_net", "multisite2", "multistate", "tlbr", "birth-death"])
def test_all_propensities_of_a_file(data: Path, name: str) -> None:
    path = data / "net" / f"{name}.net"
    network = read_once(path)
    rng = random.Random(3)
    counts = [rng.randint(0, 50) for _ in network.species]
    parameters = network.parameter_values()
    state = {**parameters, **dict(zip(network.species, counts, strict=True))}
    rules = {name: evaluate(tree, state) for name, tree in network.rule_expressions().items()}
    expected = _independent_propensities(path, {**parameters, **rules}, counts)
    assert len(network.reactions) == len(expected)
    index = {species: i for i, species in enumerate(network.species)}
    for reaction, (propensity, change) in zip(network.reactions, expected, strict=True):
        assert evaluate(reaction.law, state) == pytest.approx(propensity, rel=1e-14)
        assert {index[s]: by for s, by in reaction.net_change().items()} == change
    require_support(network, "ssa")


@pytest.mark.parametrize(
    ("name", "species", "reactions", "groups"),
    [
        ("egfr_net", 356, 3749, 13),
        ("multisite2", 66, 288, 3),
        ("multistate", 9, 18, 4),
        ("Haugh2b", 12, 29, 5),
        ("tlbr", 19, 29, 9),
        ("Repressilator", 16, 30, 4),
        ("test_fixed", 12, 18, 11),
        ("michment", 5, 6, 6),
    ],
)
def test_sizes(data: Path, name: str, species: int, reactions: int, groups: int) -> None:
    network = read_once(data / "net" / f"{name}.net")
    assert len(network.species) == species
    assert len(network.reactions) == reactions
    assert sum(rule.recorded for rule in network.rules.values()) == groups


def test_fixed_species_and_weights(data: Path) -> None:
    network = read_net(data / "net" / "test_fixed.net")
    assert [n for n, s in network.species.items() if s.fixed] == ["A", "Degr", "Trash"]
    assert network.labels["A"] == "$A()"
    assert network.rules["D_tot"].expression == parse("(S9 + 2.0*S10) + (3.0*S11 + 3.0*S12)")
    assert not network.rules["_rateLaw1"].recorded
    assert network.reactions[1].reactants == {}
    by_name = {reaction.name: reaction for reaction in network.reactions}
    assert by_name["R5"].products == {"Degr": 1}
    values = {**network.parameter_values(), "S9": 4.0, "S10": 3.0, "S12": 2.0}
    values["_rateLaw2"] = 7.0
    assert evaluate(by_name["R10"].law, values) == 2 * 2.0 * 4 * 3
    assert evaluate(by_name["R13"].law, values) == 4 * 2.0 * 4 * 3
    assert values["_rateLaw3"] == 20.0


# Rows of BioNetGen's own integration (ReactionNetworkImporters.jl, data/*/*.gdat), in which no
# reaction takes two molecules of a kind, so that the laws are the rates of the equations.
@pytest.mark.parametrize(
    ("name", "observables", "rows"),
    [
        (
            "CaOscillate_Func",
            ["G", "P", "C"],
            [
                [0.5, 158.630981, 38.1745118, 2.29784643],
                [2, 6785.09028, 2652.04991, 922.320839],
                [3.8, 5436.30502, 7667.34136, 552.680558],
            ],
        ),
        (
            "motor",
            ["CheYp", "MotCW", "MotCCW"],
            [
                [0.03, 1657.29554, 8829.91624, 1170.08376],
                [0.07, 1203.77411, 4904.55368, 5095.44632],
                [0.18, 713.837801, 1.1597639, 9998.84024],
            ],
        ),
        (  # run_network 3.0, CVODE with tolerances of 1e-11
            "rate_laws",
            ["Phosphorylated", "Product", "B_and_C", "Substrate"],
            [
                [1, 0.3819613542633, 19.59245422389, 213.7481523843, 105.0739873548],
                [6, 2.220240423153, 67.67901851003, 224.8911312992, 58.30788569652],
                [20, 6.774231080496, 94.46695753006, 185.5543579726, 31.52015915488],
            ],
        ),
    ],
)
def test_functions_agree_with_bionetgen(
    data: Path, name: str, observables: list[str], rows: list[list[float]]
) -> None:
    network = read_net(data / "net" / f"{name}.net")
    parameters = network.parameter_values()
    low = lower(network, parameters=parameters, counts=dict.fromkeys(network.species, 0))
    assert len(low.species) == len(network.species)
    rules = network.rule_expressions()
    start = list(network.initial_amounts(parameters).values())
    order = list(network.species)

    def values(y: np.ndarray) -> dict[str, float]:
        state = {**parameters, **dict(zip(order, map(float, y), strict=True))}
        return state | {rule: evaluate(tree, state) for rule, tree in rules.items()}

    def slope(_: float, y: np.ndarray) -> np.ndarray:
        state, change = values(y), np.zeros(len(order))
        for reaction in network.reactions:
            rate = evaluate(reaction.law, state)
            for species, by in reaction.net_change().items():
                change[order.index(species)] += by * rate
        return change

    times = [row[0] for row in rows]
    solution = scipy.integrate.solve_ivp(
        slope, (0, times[-1]), start, "LSODA", times, rtol=1e-7, atol=1e-6
    )
    for column, row in zip(solution.y.T, rows, strict=True):
        state = values(column)
        assert [state[o] for o in observables] == pytest.approx(row[1:], rel=2e-4)


def test_names_are_unique() -> None:
    network = _net(
        parameters=["1 A 1", "2 S3 2"],
        species=["1 A() 1", "2 B 2", "3 B() 3", "4 @cell:C() 4", "5 @cell::C(x) 5", "6 $G() 6"],
        groups=["1 G 1,6", "2 S5 5"],
        functions=["1 f() G + S5"],
        reactions=["1 1 2 f"],
    )
    assert list(network.species) == ["S1", "B", "S3_", "C_cell", "S5_", "G"]
    assert list(network.rules) == ["G_group", "S5", "f"]
    assert network.rules["f"].expression == parse("G_group + S5")
    assert network.species["G"].fixed
    assert any("G_group" in note for note in network.notes)


def test_lines_may_be_joined_and_commented() -> None:
    network = _read(
        "# begin nothing\nbegin model\nbegin parameters\nk = 3 # three\n  h 4\nend parameters\n"
        "begin species # of them\n 1 A() \\\n  k # start\nend species\n\n"
        "begin reactions\n1 0 1 k*h #_R1\nend reactions\nend model\n"
        'simulate({method=>"ssa",t_end=>2.5e2,n_steps=>10})\n'
    )
    assert network.parameter_values() == {"k": 3.0, "h": 4.0}
    assert network.initial_amounts() == {"A": 3.0}
    assert network.t_end == 250.0
    assert evaluate(network.reactions[0].law, {"k": 3.0, "h": 4.0}) == 12.0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("_pi", math.pi),
        ("_pi()", math.pi),
        ("_e", math.e),
        ("rint(2.5)", 3.0),
        ("rint(-2.5)", -2.0),
        ("log2(8)", 3.0),
        ("ln(_e)", 1.0),
        ("sum(1, 2, 3)", 6.0),
        ("avg(1, 2, 6)", 3.0),
        ("min(3, 1, 2)", 1.0),
        ("if(p > 1, 10, 20)", 10.0),
        ("if((p > 1) && (p < 2), 10, 20)", 20.0),
        ("sign(-p)", -1.0),
        ("asinh(p)", math.asinh(2.0)),
        ("asinh(-1e8)", math.asinh(-1e8)),
        ("acosh(p)", math.acosh(2.0)),
        ("atanh(p/4)", math.atanh(0.5)),
        ("10^-p", 0.01),
    ],
)
def test_functions_of_expressions(text: str, value: float) -> None:
    network = _net(parameters=["1 p 2", f"2 q {text}"])
    assert network.parameter_values()["q"] == pytest.approx(value, rel=1e-15)


def test_time_is_listed_as_a_feature() -> None:
    for rate in ("k*time()", "k*t", "k*time"):
        network = _net(parameters=["1 k 1"], functions=[f"1 f() {rate}"], reactions=["1 1 0 f"])
        assert [(f.kind, f.element) for f in network.features] == [("time", "function f")]
        require_support(network, "tau")
    assert _net(parameters=["1 t 1"], reactions=["1 1 0 t"]).features == []


def test_concentrations_are_listed_as_a_feature() -> None:
    network = _read('substanceUnits("Concentration");\n' + SMALL)
    assert [feature.kind for feature in network.features] == ["concentration"]
    assert _read('substanceUnits("Number");\n' + SMALL).features == []


def test_functions_with_arguments_are_left_out() -> None:
    network = _net(functions=["1 local(x) 2*x", "2 f() 3"], reactions=["1 1 0 f"])
    assert list(network.rules) == ["f"]
    assert any("local" in note for note in network.notes)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("1 1,1 2 k", "1 1,1 3 k"), "line 11: species '3' is not in the block species"),
        (("1 1,1 2 k", "1 1,1 2 K"), "reaction R1: 'K' is not defined in here"),
        (("1 1,1 2 k", "1 1,1 2"), "line 11: '1 1,1 2' is not: index, reactants, products, rate"),
        (("1 1,1 2 k", "1 1,1 2 k +"), "line 11, reaction R1: cannot read the expression 'k +'"),
        (("1 1,1 2 k", "1 1,1 2 Hill k h"), "line 11, reaction R1: Hill takes 3 constants"),
        (("1 1,1 2 k", "1 1,1 2 k\n1 1 2 k"), "line 12: reaction 1 is defined twice"),
        (("2 A(x~P) h", "1 A(x~P) h"), "line 8: species 1 is defined twice"),
        (("2 A(x~P) h", "A(x~P) h"), "line 8: 'A(x~P) h' is not: index, pattern, amount"),
        (("2 h 2*k", "2 k 2"), "line 4: 'k' is defined twice"),
        (("2 h 2*k", "2 h"), "line 4: cannot read '2 h' in the block parameters"),
        (("2 h 2*k", "2 h k*h"), "parameter h depends on itself (h -> h)"),
        (("1,2*2", "1,2*3"), "line 14: '2*3' is not a species of the block species"),
        (("1,2*2", "1,x*2"), "line 14: the weight 'x' is not a number"),
        (("1 Atot 1,2*2", "1 A 1\n2 A 2"), "line 15: 'A' is defined twice"),
        (("1 Atot 1,2*2", "1 A-B 1"), "line 14: '1 A-B 1' is not: index, name, members"),
        (("end groups", ""), "the block 'groups' has no end"),
        (("end groups", "end group"), "line 15: 'end group' ends no block that is open"),
        (("end groups", "begin species"), "line 15: 'begin' inside of the block 'groups'"),
        (("species", "seeds"), "is not a .net file: it needs the blocks species and reactions"),
    ],
)
def test_malformed_files(change: tuple[str, str], reason: str) -> None:
    with pytest.raises(ModelError) as caught:
        _read(SMALL.replace(*change))
    assert str(caught.value).startswith("here.net: ")
    assert reason in str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"none\.net: cannot be read: No such file"):
        read_net(tmp_path / "none.net")


def test_a_group_of_more_than_python_nests() -> None:
    """A function of a huge group passes through reading, lowering and code generation."""
    size = 1500
    network = _net(
        parameters=["1 k 2"],
        functions=["1 f() k*G"],
        species=[f"{i} A(b~{i}) {i % 3}" for i in range(1, size + 1)],
        reactions=["1 1 2 f"],
        groups=["1 G " + ",".join(f"{1 + i % 2}*{i}" for i in range(1, size + 1))],
    )
    amounts = network.initial_amounts()
    assert len(symbols(network.rules["G"].expression)) == size
    total = evaluate(network.rules["G"].expression, amounts)
    assert total == sum((1 + i % 2) * (i % 3) for i in range(1, size + 1))
    counts = {name: int(amount) for name, amount in amounts.items()}
    low = lower(network, parameters={"k": 2.0}, counts=counts)
    assert low.reactions[0].depends_on() == set(range(size))
    text = unrolled_header(low, Style(branches=True))
    assert all(f"[{i}]" in text for i in (0, 1, size // 2, size - 1))
    depth = max(itertools.accumulate((c == "(") - (c == ")") for c in text))
    assert depth < 40
    assert weighted_sums(low)[0] == {i: 1.0 + (i + 1) % 2 for i in range(size)}
    text = table_header(low, tables_of(low, "tree").header(), 1)
    assert "weighted(tables, " in text
    assert len(text) < 20_000, "the group is read from tables"


@pytest.mark.validate
def test_a_large_file_is_read_fast(tmp_path: Path) -> None:
    """30,000 reactions of 3,000 species: about a second; the limit is for a busy machine."""
    rng = random.Random(4)
    n_species, n_reactions = 3000, 30_000
    rows = [
        f"{j + 1} {rng.randint(1, n_species)},{rng.randint(1, n_species)} "
        f"{rng.randint(1, n_species)} {rng.randint(2, 4)}*k{j % 100}"
        for j in range(n_reactions)
    ]
    path = tmp_path / "large.net"
    path.write_text(
        _block("parameters", *(f"{i + 1} k{i} {i}" for i in range(100)))
        + _block("species", *(f"{i + 1} A(b~{i}) 1" for i in range(n_species)))
        + _block("reactions", *rows)
    )
    begin = time.process_time()
    network = read_net(path)
    assert time.process_time() - begin < 15
    assert len(network.reactions) == n_reactions
    assert network.rules == {}
    assert isinstance(network.species["S1"].initial, Number)
