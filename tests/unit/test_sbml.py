"""The SBML reader on small texts: meaning of symbols, mathematics, refusals, bad files."""

from __future__ import annotations

import importlib
import math
import re
import sys
from pathlib import Path

import pytest

from tauslab.model.check import require_support
from tauslab.model.errors import ConfigError, ModelError
from tauslab.model.host_math import evaluate
from tauslab.model.network import Network
from tauslab.model.sbml import read_sbml

libsbml = importlib.import_module("libsbml")

# -------------------------------------------------------------------- writing small files

_LEVELS = {
    (3, 1): "http://www.sbml.org/sbml/level3/version1/core",
    (3, 2): "http://www.sbml.org/sbml/level3/version2/core",
    (2, 4): "http://www.sbml.org/sbml/level2/version4",
}


def mathml(formula: str) -> str:
    """MathML of an infix formula."""
    node = libsbml.parseL3Formula(formula)
    assert node is not None, libsbml.getLastParseL3Error()
    text = libsbml.writeMathMLToString(node)
    return re.sub(r"<\?xml.*?\?>\s*", "", text)


def species(
    name: str, start: str = 'initialAmount="10"', only: str = "true", more: str = ""
) -> str:
    """One species in the compartment ``c``."""
    flags = "" if "boundaryCondition" in more else 'boundaryCondition="false"'
    flags += "" if "constant=" in more else ' constant="false"'
    return (
        f'<species id="{name}" compartment="c" {start} hasOnlySubstanceUnits="{only}" '
        f"{flags} {more}/>"
    )


def reaction(
    name: str,
    law: str | None,
    left: str = "",
    right: str = "",
    more: str = 'reversible="false" fast="false"',
    local: str = "",
    level: int = 3,
) -> str:
    """One reaction; the sides are names, each possibly with ``:stoichiometry``."""

    def side(tag: str, text: str) -> str:
        refs = ""
        for term in text.split():
            name, _, count = term.partition(":")
            constant = ' constant="true"' if level == 3 else ""
            refs += f'<speciesReference species="{name}" stoichiometry="{count or 1}"{constant}/>'
        return f"<{tag}>{refs}</{tag}>" if refs else ""

    kinetic = "" if law is None else f"<kineticLaw>{mathml(law)}{local}</kineticLaw>"
    return (
        f'<reaction id="{name}" {more}>{side("listOfReactants", left)}'
        f"{side('listOfProducts', right)}{kinetic}</reaction>"
    )


def model(
    *,
    compartments: str = '<compartment id="c" spatialDimensions="3" size="1" constant="true"/>',
    listed: tuple[tuple[str, str], ...] = (),
    species: str = "",
    reactions: str = "",
    attributes: str = 'substanceUnits="item"',
    level: tuple[int, int] = (3, 1),
) -> str:
    """Text of a file; `listed` holds pairs of list name and content, each put where it belongs."""
    parts = dict(listed) | {
        "listOfCompartments": compartments,
        "listOfSpecies": species,
        "listOfReactions": reactions,
    }
    order = (
        "notes",
        "listOfFunctionDefinitions",
        "listOfUnitDefinitions",
        "listOfCompartments",
        "listOfSpecies",
        "listOfParameters",
        "listOfInitialAssignments",
        "listOfRules",
        "listOfConstraints",
        "listOfReactions",
        "listOfEvents",
    )
    assert set(parts) <= set(order)
    body = "\n".join(f"<{tag}>{parts[tag]}</{tag}>" for tag in order if parts.get(tag))
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<sbml xmlns="{_LEVELS[level]}" '
        f'level="{level[0]}" version="{level[1]}">\n<model id="m" {attributes}>\n'
        f"{body}\n</model></sbml>\n"
    )


def parameter(name: str, value: float | None = None, *, constant: bool = True) -> str:
    """One global parameter."""
    given = "" if value is None else f' value="{value!r}"'
    return f'<parameter id="{name}"{given} constant="{str(constant).lower()}"/>'


def write(folder: Path, text: str) -> Path:
    """Write a file ``model.xml``."""
    path = folder / "model.xml"
    path.write_text(text, encoding="utf-8")
    return path


def start(network: Network) -> dict[str, float]:
    """Parameters, species and rules at the start, rules from their expressions."""
    values = network.parameter_values()
    values = {**values, **network.initial_amounts(values)}
    rules = network.rule_expressions()
    return {**values, **{name: evaluate(tree, values) for name, tree in rules.items()}}


def propensities(network: Network) -> dict[str, float]:
    """Propensity of every reaction in the initial state."""
    values = start(network)
    return {reaction.name: evaluate(reaction.law, values) for reaction in network.reactions}


def _read(tmp_path: Path, text: str) -> Network:
    return read_sbml(write(tmp_path, text))


def _kinds(network: Network) -> list[tuple[str, str]]:
    return [(feature.kind, feature.element) for feature in network.features]


# -------------------------------------------------------------------- volumes and amounts


@pytest.mark.parametrize("level", [(3, 1), (3, 2), (2, 4)])
def test_concentrations_are_counts_over_volume(tmp_path: Path, level: tuple[int, int]) -> None:
    """X = 10 molecules in 4 litres is 2.5: the law k * X * c is 3 * 2.5 * 4."""
    three = level[0] == 3
    network = _read(
        tmp_path,
        model(
            compartments='<compartment id="c" spatialDimensions="3" size="4" constant="true"/>',
            species=species("X", only="false") + species("Y", 'initialConcentration="1.5"'),
            listed=(("listOfParameters", parameter("k", 3.0)),),
            reactions=reaction(
                "R",
                "k*X*c",
                "X",
                "Y",
                more='reversible="false" fast="false"' if three else 'reversible="false"',
                level=level[0],
            )
            + reaction("S", "k*Y", "Y", more='reversible="false" fast="false"', level=level[0]),
            attributes='substanceUnits="item"' if three else "",
            level=level,
        ).replace(' fast="false"', "" if level == (3, 2) else ' fast="false"'),
    )
    require_support(network, "ssa")
    assert start(network) == {"c": 4.0, "k": 3.0, "X": 10.0, "Y": 6.0}
    assert propensities(network) == {"R": 30.0, "S": 18.0}


def test_no_concentration_without_dimensions(tmp_path: Path) -> None:
    network = _read(
        tmp_path,
        model(
            compartments='<compartment id="c" spatialDimensions="0" constant="true"/>',
            species=species("X", only="false"),
            reactions=reaction("R", "2*X", "X"),
        ),
    )
    assert propensities(network) == {"R": 20.0}
    require_support(network, "ssa")


def test_unset_size_is_one_where_nothing_needs_it(tmp_path: Path) -> None:
    compartments = '<compartment id="c" spatialDimensions="3" constant="true"/>'
    network = _read(tmp_path, model(compartments=compartments, species=species("X")))
    assert network.parameter_values() == {"c": 1.0}
    assert network.notes == ["no size is given, 1 is taken: compartment c"]
    text = model(
        compartments=compartments,
        species=species("X", only="false"),
        reactions=reaction("R", "2*X", "X"),
    )
    assert _kinds(_read(tmp_path, text)) == [("missing value", "compartment c")]


def test_initial_assignments(tmp_path: Path) -> None:
    """X is a concentration: 2 * k = 6 in 4 litres is 24 molecules; j is k + X = 3 + 6."""
    assign = "".join(
        f'<initialAssignment symbol="{name}">{mathml(formula)}</initialAssignment>'
        for name, formula in (("X", "2*k"), ("Y", "2*k"), ("j", "k + X"), ("c", "k + 1"))
    )
    network = _read(
        tmp_path,
        model(
            compartments='<compartment id="c" spatialDimensions="3" constant="true"/>',
            species=species("X", only="false") + species("Y"),
            listed=(
                ("listOfParameters", parameter("k", 3.0) + parameter("j")),
                ("listOfInitialAssignments", assign),
            ),
        ),
    )
    assert start(network) == {"c": 4.0, "k": 3.0, "j": 9.0, "X": 24.0, "Y": 6.0}
    assert network.parameter_values({"k": 1.0})["c"] == 2.0


def test_rules_give_amounts(tmp_path: Path) -> None:
    """T is a concentration by rule: (10 + 6) / 4 molecules per litre are 16 molecules."""
    rules = "".join(
        f'<assignmentRule variable="{name}">{mathml(formula)}</assignmentRule>'
        for name, formula in (("T", "X + Y"), ("p", "k * T"))
    )
    network = _read(
        tmp_path,
        model(
            compartments='<compartment id="c" spatialDimensions="3" size="4" constant="true"/>',
            species=species("X", only="false")
            + species("Y", 'initialAmount="6"', only="false")
            + species("T", "", only="false", more='boundaryCondition="true"'),
            listed=(
                ("listOfParameters", parameter("k", 3.0) + parameter("p", constant=False)),
                ("listOfRules", rules),
            ),
            reactions=reaction("R", "p + T", "X T", "T:2"),
        ),
    )
    require_support(network, "ssa")
    assert list(network.species) == ["X", "Y"]
    values = start(network)
    assert (values["T"], values["p"]) == (16.0, 12.0)
    assert propensities(network) == {"R": 16.0}
    assert network.reactions[0].net_change() == {"X": -1}


def test_fixed_species_and_stoichiometry(tmp_path: Path) -> None:
    network = _read(
        tmp_path,
        model(
            species=species("A", more='boundaryCondition="true"')
            + species("B", more='boundaryCondition="true" constant="true"')
            + species("X"),
            reactions=reaction("R", "A*B", "A:2 X", "X:3 B X"),
        ),
    )
    assert [s.fixed for s in network.species.values()] == [True, True, False]
    assert network.reactions[0].reactants == {"A": 2, "X": 1}
    assert network.reactions[0].products == {"X": 4, "B": 1}


def test_local_parameters_hide_global_ones(tmp_path: Path) -> None:
    """Parameter k of R is 7 although the model's k is 3; the name R_k is taken already."""
    local = "<listOfLocalParameters>" + '<localParameter id="k" value="7"/></listOfLocalParameters>'
    network = _read(
        tmp_path,
        model(
            species=species("X"),
            listed=(("listOfParameters", parameter("k", 3.0) + parameter("R_k", 100.0)),),
            reactions=reaction("R", "k*X", "X", local=local) + reaction("S", "k*X + R_k", "X"),
        ),
    )
    assert propensities(network) == {"R": 70.0, "S": 130.0}
    assert network.parameters.keys() == {"c", "k", "R_k", "R_k_"}


# -------------------------------------------------------------------- mathematics


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("piecewise(1, X > 20, 2, X > 5, 3)", 2.0),
        ("piecewise(1, X > 20, 2, X > 15, 3)", 3.0),
        ("2^3^2 - 1", 511.0),
        ("root(3, 27) + sqrt(16)", 7.0),
        ("log10(1000) + log(2, 8) + ln(exp(2))", 8.0),
        ("sec(0) + cot(0.5) * tan(0.5)", 2.0),
        ("arccoth(2) - arctanh(0.5) + arcsinh(0)", 0.0),
        ("piecewise(1, X >= 10 && !(X < 10) && xor(true, false) && X <= 10 && 2 == 2, 0)", 1.0),
        ("piecewise(1, X != 10 || X > 10 || 2 < 1, 0)", 0.0),
        ("floor(2.5) + ceil(2.5) + abs(-2) + factorial(4)", 31.0),
        ("1e-4 * 1e4 + 3e0", 4.0),
        ("pi - pi + exponentiale / exponentiale", 1.0),
        ("avogadro / 6.02214179e23", 1.0),
        ("square(X) + hyp(3, square(2))", 105.0),
        ("Other + 1", 21.0),
    ],
)
def test_mathematics(tmp_path: Path, formula: str, value: float) -> None:
    functions = (
        f'<functionDefinition id="square">{mathml("lambda(x, x*x)")}</functionDefinition>'
        f'<functionDefinition id="hyp">{mathml("lambda(X, y, sqrt(square(X) + square(y)))")}'
        "</functionDefinition>"
    )
    network = _read(
        tmp_path,
        model(
            species=species("X"),
            listed=(("listOfFunctionDefinitions", functions),),
            reactions=reaction("Other", "2*X", "X") + reaction("R", formula, "X"),
        ),
    )
    require_support(network, "ssa")
    assert propensities(network)["R"] == pytest.approx(value, abs=1e-12)


def test_level_3_version_2_functions(tmp_path: Path) -> None:
    formula = "quotient(-7, 2) + 10 * rem(-7, 2) + max(1, 5, 2) + min(4, 3) + implies(1 > 2, 1 > 2)"
    text = model(
        species=species("X"),
        reactions=reaction("R", formula, "X", more='reversible="false"'),
        level=(3, 2),
    )
    assert propensities(_read(tmp_path, text)) == {"R": -3.0 - 10.0 + 5.0 + 3.0 + 1.0}


def test_decimal_numbers_are_rounded_once(tmp_path: Path) -> None:
    """Mantissa times a power of ten would give 3.0000000000000004e-07 or a neighbour."""
    numbers = [3e-7, 1.7e-5, 6.02e23, 1.23456789e-20, 5e-324, 1.1e22]
    text = model(
        species=species("X"),
        reactions="".join(
            reaction(f"R{i}", "1", "X").replace(
                '<cn type="integer"> 1 </cn>',
                '<cn type="e-notation"> {} <sep/> {} </cn>'.format(*repr(x).split("e")),
            )
            for i, x in enumerate(numbers)
        ),
    )
    assert list(propensities(_read(tmp_path, text)).values()) == numbers


def test_long_sums_do_not_nest_too_deep(tmp_path: Path) -> None:
    n = 3000
    text = model(
        species="".join(species(f"X{i}", 'initialAmount="1"') for i in range(n)),
        listed=(
            ("listOfParameters", parameter("total", constant=False)),
            (
                "listOfRules",
                '<assignmentRule variable="total"><math xmlns='
                '"http://www.w3.org/1998/Math/MathML"><apply><plus/>'
                + "".join(f"<ci>X{i}</ci>" for i in range(n))
                + "</apply></math></assignmentRule>",
            ),
        ),
    )
    assert start(_read(tmp_path, text))["total"] == n


# -------------------------------------------------------------------- reversible reactions

REVERSIBLE = 'reversible="true" fast="false"'


@pytest.mark.parametrize(
    ("law", "forward", "reverse"),
    [
        ("k*A - j*B", 30.0, 10.0),
        ("c*(k*A - j*B)", 30.0, 10.0),
        ("(k*A - j*B)*c/(1 + A/5)", 10.0, 10.0 / 3),
        ("k*A*(A - 1)/2 - j*B", 135.0, 10.0),
        ("-j*B + k*A", 30.0, 10.0),
        ("k*A - j*B - B*B/(1 + B)", 30.0, 10.0 + 25.0 / 6),
        ("c*uni(k, A, j, B)", 30.0, 10.0),
    ],
)
def test_a_difference_becomes_two_reactions(
    tmp_path: Path, law: str, forward: float, reverse: float
) -> None:
    network = _read(tmp_path, _reversible_text(law))
    require_support(network, "ssa")
    assert propensities(network) == pytest.approx({"R": forward, "R_reverse": reverse})
    there, back = network.reactions
    assert (there.reactants, there.products) == ({"A": 1}, {"B": 2})
    assert (back.reactants, back.products) == ({"B": 2}, {"A": 1})


def _reversible_text(law: str, more: str = REVERSIBLE) -> str:
    uni = mathml("lambda(f, s, r, p, f*s - r*p)")
    return model(
        species=species("A") + species("B", 'initialAmount="5"'),
        listed=(
            ("listOfParameters", parameter("k", 3.0) + parameter("j", 2.0) + parameter("n", -1.0)),
            (
                "listOfFunctionDefinitions",
                f'<functionDefinition id="uni">{uni}</functionDefinition>',
            ),
        ),
        reactions=reaction("R", law, "A", "B:2", more=more),
    )


@pytest.mark.parametrize("law", ["k*A", "k*A*(A-1)/2", "k*A*B*(A-1)", "sin(A)"])
def test_marked_reversible_without_a_reverse_part(tmp_path: Path, law: str) -> None:
    network = _read(tmp_path, _reversible_text(law))
    require_support(network, "ssa")
    assert [r.name for r in network.reactions] == ["R"]
    assert network.notes == [
        "marked reversible, but the law is kept as one rate forward: R",
    ]


@pytest.mark.parametrize(
    "law", ["k*(A - 1)*B", "n*A - j*B", "(k - A)*(j - B)", "sin(k*A - j*B)", "(A - B)/n"]
)
def test_laws_that_do_not_split_are_refused(tmp_path: Path, law: str) -> None:
    network = _read(tmp_path, _reversible_text(law))
    assert _kinds(network) == [("reversible", "reaction R")]
    with pytest.raises(ModelError, match="reaction R: reversible laws that do not split"):
        require_support(network, "ssa")


def test_pairs_of_a_concentration_are_not_split(tmp_path: Path) -> None:
    text = _reversible_text("k*A*(A - 1)").replace('Units="true"', 'Units="false"')
    assert _kinds(_read(tmp_path, text)) == [("reversible", "reaction R")]


def test_irreversible_laws_stay_whole(tmp_path: Path) -> None:
    text = _reversible_text("k*A - j*B", 'reversible="false" fast="false"')
    assert propensities(_read(tmp_path, text)) == {"R": 20.0}


def test_level_2_reactions_are_reversible_by_default(tmp_path: Path) -> None:
    text = model(
        species=species("A") + species("B", 'initialAmount="5"'),
        reactions=reaction("R", "3*A - 2*B", "A", "B", more="", level=2),
        attributes="",
        level=(2, 4),
    )
    network = _read(tmp_path, text)
    assert propensities(network) == {"R": 30.0, "R_reverse": 10.0}
    assert network.notes == ["no substance unit is stated: amounts are read as molecules"]


# -------------------------------------------------------------------- what is refused


def _one(**parts: str) -> str:
    """A model of one reaction with one more list."""
    return model(
        species=species("X"),
        listed=(
            ("listOfParameters", parameter("k", 3.0) + parameter("v", 1.0, constant=False)),
            *parts.items(),
        ),
        reactions=reaction("R", "k*X", "X"),
    )


_EVENT = (
    '<event id="E1" useValuesFromTriggerTime="true">'
    '<trigger initialValue="true" persistent="true">'
    f"{mathml('X > 3')}</trigger></event>"
)
_TIME = mathml("time").partition(">")[2].removesuffix("</math>")
_MOLE = '<unitDefinition id="nmol"><listOfUnits><unit kind="mole" exponent="1" scale="-9" multiplier="1"/></listOfUnits></unitDefinition>'  # noqa: E501


@pytest.mark.parametrize(
    ("text", "kind", "element"),
    [
        (_one(listOfEvents=_EVENT), "event", "event E1"),
        (
            _one(listOfRules=f'<rateRule variable="v">{mathml("2*X")}</rateRule>'),
            "rate rule",
            "rate rule for v",
        ),
        (
            _one(listOfRules=f"<algebraicRule>{mathml('v - X')}</algebraicRule>"),
            "algebraic rule",
            "algebraic rule",
        ),
        (_one().replace("<ci> k </ci>", _TIME), "time", "reaction R"),
        (_one().replace('fast="false"', 'fast="true"'), "fast reaction", "reaction R"),
        (_one().replace('stoichiometry="1"', 'stoichiometry="1.5"'), "stoichiometry", "reaction R"),
        (_one().replace(' stoichiometry="1"', ""), "stoichiometry", "reaction R"),
        (
            _one().replace('<species id="X"', '<species id="X" conversionFactor="k"'),
            "conversion factor",
            "species X",
        ),
        (_one().replace('substanceUnits="item"', 'substanceUnits="mole"'), "mole", "model"),
        (
            _one(listOfUnitDefinitions=_MOLE).replace('"item"', '"nmol"'),
            "mole",
            "model",
        ),
        (
            _one(listOfUnitDefinitions=_MOLE.replace('"mole"', '"item"')).replace(
                'substanceUnits="item"', 'substanceUnits="nmol"'
            ),
            "scaled unit",
            "model",
        ),
        (_one().replace('substanceUnits="item"', 'substanceUnits="gram"'), "mass", "model"),
        (
            _one().replace('substanceUnits="item"', 'substanceUnits="item" extentUnits="mole"'),
            "mole",
            "model",
        ),
        (_one().replace('value="3.0" ', ""), "missing value", "parameter k"),
        (_one().replace('initialAmount="10" ', ""), "missing value", "species X"),
    ],
)
def test_features(tmp_path: Path, text: str, kind: str, element: str) -> None:
    network = _read(tmp_path, text)
    assert _kinds(network) == [(kind, element)]
    with pytest.raises(ModelError, match="not supported by ssa"):
        require_support(network, "ssa")


def test_constraints_and_unused_values_are_notes(tmp_path: Path) -> None:
    text = _one(listOfConstraints=f"<constraint>{mathml('X > 3')}</constraint>")
    network = _read(tmp_path, text.replace('<parameter id="v" value="1.0"', '<parameter id="v"'))
    require_support(network, "ssa")
    assert network.notes == [
        "1 constraints are ignored",
        "no value and no use, left out: parameter v",
    ]


def test_delay_and_time_in_level_2(tmp_path: Path) -> None:
    text = model(
        species=species("X"),
        reactions=reaction("R", "delay(X, 2) * time", "X", more='reversible="false"', level=2),
        attributes="",
        level=(2, 4),
    )
    assert sorted(_kinds(_read(tmp_path, text))) == [
        ("delay", "reaction R"),
        ("time", "reaction R"),
    ]


# -------------------------------------------------------------------- end time in the notes


@pytest.mark.parametrize(
    ("note", "t_end"),
    [
        ("Simulate to t=200.", 200.0),
        ("t_end = 1.5e3", 1500.0),
        ("please simulate 3600 s. Then", 3600.0),
        ("simulate 3 cells", None),
        ("to be or not", None),
        ("to t=0", None),
    ],
)
def test_end_time(tmp_path: Path, note: str, t_end: float | None) -> None:
    body = f'<body xmlns="http://www.w3.org/1999/xhtml"><p>{note}</p></body>'
    assert _read(tmp_path, model(listed=(("notes", body),), species=species("X"))).t_end == t_end


# -------------------------------------------------------------------- bad files


def _error(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        read_sbml(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    return message


def test_missing_file(tmp_path: Path) -> None:
    assert "cannot be read: No such file" in _error(tmp_path / "none.xml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: "),
        ("reactions: none", "not well-formed"),
        ("<sbml", "line 1: Unclosed XML token."),
        ("<?xml version='1.0'?>\n<!-- <sbml> --><Model/>", "its first element is <Model>"),
        (_one().replace("</reaction>", ""), "Element tag mismatch or missing tag."),
        (_one().replace(' compartment="c"', "", 1), "'compartment'"),
        (_one().replace("<ci> k </ci>", "<ci> unknown </ci>"), "unknown"),
        (model(species=species("X"), reactions=reaction("R", "X", "X", "Q")), "'Q'"),
        (_one().replace('id="v"', 'id="k"'), "'k'"),
        (
            model(species=species("X"), reactions=reaction("R9", None, "X")),
            "reaction R9 has no kinetic law",
        ),
        (
            model(species=species("X"), reactions=reaction("R", "S") + reaction("S", "R")),
            "circular dependencies",
        ),
        (
            (
                '<?xml version="1.0" encoding="UTF-8"?>'
                '<sbml xmlns="http://www.sbml.org/sbml/level1" level="1" version="2">'
                '<model name="m"/></sbml>'
            ),
            "level 1 is not supported",
        ),
    ],
)
def test_bad_text(tmp_path: Path, text: str, message: str) -> None:
    assert message in _error(write(tmp_path, text))


def test_libsbml_errors_name_the_line(tmp_path: Path) -> None:
    """The line is that of the element holding the formula."""
    text = _one().replace("<ci> k </ci>", "<ci> unknown </ci>")
    line = 1 + text[: text.index("<kineticLaw")].count("\n")
    message = _error(write(tmp_path, text))
    assert f"model.xml, line {line}: " in message
    assert "'unknown'" in message


def test_undefined_names_are_found_in_large_models(tmp_path: Path) -> None:
    """Above the size where libsbml's own check of formulas is left out."""
    many = "".join(reaction(f"R{i}", "2*X", "X") for i in range(2100))
    text = model(species=species("X"), reactions=many + reaction("Last", "nothing*X", "X"))
    assert "reaction Last: 'nothing' is not defined in the model" in _error(write(tmp_path, text))


def test_encodings(tmp_path: Path) -> None:
    text = _one().replace('id="m"', 'id="m" name="Zähler"')
    path = tmp_path / "model.xml"
    path.write_bytes(text.replace("UTF-8", "ISO-8859-1").encode("latin-1"))
    assert "Zähler" in (read_sbml(path).source_text or "")
    path.write_bytes(text.encode("utf-8-sig"))
    assert "Zähler" in (read_sbml(path).source_text or "")
    path.write_bytes(text.encode("latin-1"))
    assert "is not text in the encoding" in _error(path)


def test_libsbml_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, _one())
    monkeypatch.setitem(sys.modules, "libsbml", None)
    with pytest.raises(ConfigError, match="pip install python-libsbml"):
        read_sbml(path)


def test_undefined_pieces_are_not_a_number(tmp_path: Path) -> None:
    text = model(species=species("X"), reactions=reaction("R", "piecewise(1, X > 20)", "X"))
    assert math.isnan(propensities(_read(tmp_path, text))["R"])
