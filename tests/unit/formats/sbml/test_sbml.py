"""The SBML reader on small texts: meaning of symbols, mathematics, reversible laws."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sbml_factory import (
    kinds,
    mathml,
    model,
    parameter,
    propensities,
    reaction,
    read_text,
    species,
    start,
)

import tauslab as ts
from tauslab.base.errors import ModelError
from tauslab.model.expressions.expression import Number
from tauslab.model.network.diagnosis.check import require_support


@pytest.mark.parametrize("level", [(3, 1), (3, 2), (2, 4)])
def test_concentrations_are_counts_over_volume(tmp_path: Path, level: tuple[int, int]) -> None:
    """X = 10 molecules in 4 litres is 2.5: the law k * X * c is 3 * 2.5 * 4."""
    three = level[0] == 3
    network = read_text(
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
    network = read_text(
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
    network = read_text(tmp_path, model(compartments=compartments, species=species("X")))
    assert network.parameter_values() == {"c": 1.0}
    assert network.notes == ["no size is given, 1 is taken: compartment c"]
    text = model(
        compartments=compartments,
        species=species("X", only="false"),
        reactions=reaction("R", "2*X", "X"),
    )
    assert kinds(read_text(tmp_path, text)) == [("missing value", "compartment c")]


def test_initial_assignments(tmp_path: Path) -> None:
    """X is a concentration: 2 * k = 6 in 4 litres is 24 molecules; j is k + X = 3 + 6."""
    assign = "".join(
        f'<initialAssignment symbol="{name}">{mathml(formula)}</initialAssignment>'
        for name, formula in (("X", "2*k"), ("Y", "2*k"), ("j", "k + X"), ("c", "k + 1"))
    )
    network = read_text(
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
    network = read_text(
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
    network = read_text(
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
    network = read_text(
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
        ("arcsinh(-1e8) + arcsinh(1e8)", 0.0),  # -1e8 + sqrt(1e16 + 1) would be 0
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
    network = read_text(
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
    assert propensities(read_text(tmp_path, text)) == {"R": -3.0 - 10.0 + 5.0 + 3.0 + 1.0}


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
    assert list(propensities(read_text(tmp_path, text)).values()) == numbers


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
    assert start(read_text(tmp_path, text))["total"] == n


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
        ("k*A*(1 - B/(A*j))", 30.0, 7.5),
        ("k/4*(A - B/j)/(1 + A/4 + B/5)", 7.5 / 4.5, 0.75 * 2.5 / 4.5),
        ("(k - A)*(j - B)", 56.0, 35.0),
        ("(A - B)/n", 5.0, 10.0),
        ("k*A - n*A - j*B", 40.0, 10.0),
        ("piecewise(k*A - j*B, A > 3, j*A - k*B)", 30.0, 10.0),
        ("piecewise(k*A - j*B, A > 30, j*A - k*B)", 20.0, 15.0),
    ],
)
def test_a_difference_becomes_two_reactions(
    tmp_path: Path, law: str, forward: float, reverse: float
) -> None:
    network = read_text(tmp_path, _reversible_text(law))
    require_support(network, "ssa")
    assert propensities(network) == pytest.approx({"R": forward, "R_reverse": reverse})
    there, back = network.reactions
    assert (there.reactants, there.products) == ({"A": 1}, {"B": 2})
    assert (back.reactants, back.products) == ({"B": 2}, {"A": 1})


def _reversible_text(law: str, more: str = REVERSIBLE, rule: str = "1") -> str:
    uni = mathml("lambda(f, s, r, p, f*s - r*p)")
    ruled = f'<assignmentRule variable="w">{mathml(rule)}</assignmentRule>'
    w = parameter("w", constant=False)
    return model(
        species=species("A") + species("B", 'initialAmount="5"'),
        listed=(
            (
                "listOfParameters",
                parameter("k", 3.0) + parameter("j", 2.0) + parameter("n", -1.0) + w,
            ),
            ("listOfRules", ruled),
            (
                "listOfFunctionDefinitions",
                f'<functionDefinition id="uni">{uni}</functionDefinition>',
            ),
        ),
        reactions=reaction("R", law, "A", "B:2", more=more),
    )


@pytest.mark.parametrize("law", ["k*A", "k*A*(A-1)/2", "k*A*B*(A-1)", "sin(A)"])
def test_marked_reversible_without_a_reverse_part(tmp_path: Path, law: str) -> None:
    network = read_text(tmp_path, _reversible_text(law))
    require_support(network, "ssa")
    assert [r.name for r in network.reactions] == ["R"]
    assert network.notes == [
        "marked reversible, but the rate law is kept as one forward rate: R",
    ]


def test_a_ratio_to_the_equilibrium_is_known_without_reactant(tmp_path: Path) -> None:
    """Where A is 0 the law as it stands divides by it; its reverse part is k B / j."""
    network = read_text(tmp_path, _reversible_text("k*A*(1 - B/(A*j))"))
    network.species["A"] = replace(network.species["A"], initial=Number(0.0))
    assert propensities(network) == pytest.approx({"R": 0.0, "R_reverse": 7.5})


@pytest.mark.parametrize(
    ("rule", "law", "forward", "reverse"),
    [
        ("k - A/20", "w*A - j*B", 25.0, 10.0),
        ("k - A/20", "(w*A - j*B)/(1 + A)", 25.0 / 11, 10.0 / 11),
        ("k - A/20", "w*(A - j*B/10)", 25.0, 2.5),
        ("k*A - (k - A/20)^1*B", "w", 30.0, 12.5),
        ("k*A - (k - A/20)^1*B", "2*w", 60.0, 25.0),
        ("k - A/20", "piecewise(w*A - j*B, A > 3, w*B)", 25.0, 10.0),
    ],
)
def test_a_difference_is_taken_as_it_is_written(
    tmp_path: Path, rule: str, law: str, forward: float, reverse: float
) -> None:
    """Nothing shows that w is never negative: its sign is looked at while the model runs."""
    network = read_text(tmp_path, _reversible_text(law, rule=rule))
    require_support(network, "ssa")
    assert propensities(network) == pytest.approx({"R": forward, "R_reverse": reverse})
    (note,) = network.notes
    assert note.startswith("reversible rate laws are split as written; a part that becomes")
    assert note.endswith(": R")


def test_an_amount_by_a_rule_is_not_taken_apart(tmp_path: Path) -> None:
    """What is left of a total, w, is an amount: it is no difference of two rates."""
    network = read_text(tmp_path, _reversible_text("k*w*A - j*B", rule="20 - A"))
    assert propensities(network) == pytest.approx({"R": 300.0, "R_reverse": 10.0})


def test_a_part_that_becomes_negative_ends_the_trajectory(tmp_path: Path) -> None:
    network = read_text(tmp_path, _reversible_text("w*A - j*B", rule="k - A/2"))
    with pytest.warns(UserWarning, match="2 ended with status nan"):
        ts.run(network, n=2, t_end=1, seed=1, device="cpu")


@pytest.mark.parametrize("law", ["k*(A - 1)*B", "sin(k*A - j*B)"])
def test_laws_that_do_not_split_are_refused(tmp_path: Path, law: str) -> None:
    network = read_text(tmp_path, _reversible_text(law))
    assert kinds(network) == [("reversible", "reaction R")]
    with pytest.raises(ModelError, match=r"laws that do not split.*ts.with_net_laws"):
        require_support(network, "ssa")


def test_pairs_of_a_concentration_are_not_split(tmp_path: Path) -> None:
    text = _reversible_text("k*A*(A - 1)").replace('Units="true"', 'Units="false"')
    assert kinds(read_text(tmp_path, text)) == [("reversible", "reaction R")]


def test_irreversible_laws_stay_whole(tmp_path: Path) -> None:
    text = _reversible_text("k*A - j*B", 'reversible="false" fast="false"')
    assert propensities(read_text(tmp_path, text)) == {"R": 20.0}


def test_level_2_reactions_are_reversible_by_default(tmp_path: Path) -> None:
    text = model(
        species=species("A") + species("B", 'initialAmount="5"'),
        reactions=reaction("R", "3*A - 2*B", "A", "B", more="", level=2),
        attributes="",
        level=(2, 4),
    )
    network = read_text(tmp_path, text)
    assert propensities(network) == {"R": 30.0, "R_reverse": 10.0}
    (note,) = network.notes
    assert note.startswith("no substance unit is stated: amounts are read as molecules; Level 2")


# -------------------------------------------------------------------- what is refused
