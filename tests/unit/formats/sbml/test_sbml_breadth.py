"""The SBML reader on what files rarely hold: algebraic rules, rates, no math, submodels."""

from __future__ import annotations

import re
import warnings
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from places import TESTS
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
    write,
)

import tauslab as ts
from tauslab.base.errors import ConfigError, ModelError
from tauslab.formats.sbml.reader import read_sbml
from tauslab.model.expressions.expression import looks_back
from tauslab.model.expressions.host_math import evaluate
from tauslab.model.network.diagnosis.check import require_support

SEMANTIC = TESTS / "data" / "semantic"


def _algebraic(*formulas: str) -> tuple[str, str]:
    return "listOfRules", "".join(f"<algebraicRule>{mathml(f)}</algebraicRule>" for f in formulas)


def _ruled(*formulas: str, names: str = "v w", **values: float) -> str:
    """Species X = 10 and Y = 4 in a compartment of size 2, X moved; parameters that may vary."""
    more = "".join(parameter(n, values.get(n), constant=False) for n in names.split())
    return model(
        compartments='<compartment id="c" spatialDimensions="3" size="2" constant="true"/>',
        species=species("X") + species("Y", 'initialAmount="4"', "false"),
        listed=(("listOfParameters", parameter("k", 3.0) + more), _algebraic(*formulas)),
        reactions=reaction("R", "k*X", "X"),
    )


# ---------------------------------------------------------------- algebraic rules


@pytest.mark.parametrize(
    ("formulas", "expected"),
    [
        (["v - X"], {"v": 10.0}),
        (["(k + 1)*v - X"], {"v": 2.5}),
        (["X - v/k"], {"v": 30.0}),
        (["k - (X - 2*v)/4"], {"v": -1.0}),
        (["piecewise(v, X > 5, 2*v) - 3"], {"v": 3.0}),
        (["piecewise(v, X > 50, 2*v) - 3"], {"v": 1.5}),
        (["Y - 2*X"], {"Y": 40.0}),  # a concentration of 20 in a size of 2
        (["v + w - 7", "v - w - X"], {"v": 8.5, "w": -1.5}),
        (["w - v - 1", "v - X"], {"v": 10.0, "w": 11.0}),
    ],
)
def test_what_follows_from_an_algebraic_rule(tmp_path: Path, formulas, expected) -> None:
    network = read_text(tmp_path, _ruled(*formulas, **({} if len(formulas) > 1 else {"w": 1.0})))
    assert not network.features
    actual = start(network)
    assert {name: actual[name] for name in expected} == pytest.approx(expected, rel=1e-15)
    assert expected.keys() <= network.rules.keys()  # and so it holds at all times, by ssa too
    require_support(network, "ssa")


@pytest.mark.parametrize(
    ("formulas", "why"),
    [
        (["v*v - X"], "not linear in v"),
        (["exp(v) - X"], "not linear in v"),
        (["k / v - X"], "not linear in v"),
        (["v - w"], "does not say which of v, w follows"),
        (["X - 10"], "leaves nothing to solve for"),
        (["v - X", "v - 10"], "leaves nothing to solve for"),
        (["v - v + X"], "not linear in v"),
    ],
)
def test_what_an_algebraic_rule_does_not_tell(tmp_path: Path, formulas, why) -> None:
    network = read_text(tmp_path, _ruled(*formulas, v=1.0, w=1.0))
    assert ("algebraic rule", "algebraic rule") in kinds(network)
    with pytest.raises(ModelError, match=why):
        require_support(network, "ode")


def test_an_algebraic_rule_holds_along_a_course(tmp_path: Path) -> None:
    """The rule 0 = total - X - v: v takes up what X loses, X = 10 exp(-3 t)."""
    network = read_text(tmp_path, _ruled("10 - X - v", w=1.0))
    result = ts.run(network, method=ts.ODE(rtol=1e-10), times=[0.0, 0.2, 0.4], n=1, seed=1)
    expected = 10 - 10 * np.exp(-3 * np.array([0.0, 0.2, 0.4]))
    assert np.asarray(result.mean("v")) == pytest.approx(expected, abs=1e-8)


# ---------------------------------------------------------------- rates of change


_MOVES_U = f'<rateRule variable="u">{mathml("-2*u")}</rateRule>'


def _rated(law: str = "k*X", what: str = "rateOf(X)") -> str:
    return model(
        compartments='<compartment id="c" spatialDimensions="3" size="2" constant="true"/>',
        species=species("X") + species("C", 'initialConcentration="5"', "false"),
        listed=(
            (
                "listOfParameters",
                parameter("k", 3.0)
                + parameter("u", 1.0, constant=False)
                + parameter("v", constant=False),
            ),
            (
                "listOfRules",
                f'<assignmentRule variable="v">{mathml(what)}</assignmentRule>{_MOVES_U}',
            ),
        ),
        reactions=reaction("R", law, "X:2", "C", more='reversible="false"'),
        level=(3, 2),
    )


@pytest.mark.parametrize(
    ("what", "value"),
    [
        ("rateOf(X)", -60.0),
        ("rateOf(C)", 15.0),  # a concentration, in a size of 2
        ("rateOf(u)", -2.0),
        ("rateOf(k)", 0.0),
        ("rateOf(c)", 0.0),
        ("1 + rateOf(u) * rateOf(X)", 121.0),
    ],
)
def test_rates_of_change(tmp_path: Path, what: str, value: float) -> None:
    network = read_text(tmp_path, _rated(what=what))
    assert start(network)["v"] == pytest.approx(value, rel=1e-15)
    require_support(network, "ode")


def test_a_rate_of_change_in_counts_is_refused(tmp_path: Path) -> None:
    network = read_text(tmp_path, _rated())
    assert ("rate of change", "rule for v") in kinds(network)


def test_a_rate_that_depends_on_itself_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="refers to itself within the math formula"):
        read_text(tmp_path, _rated("k*rateOf(X)", "k"))


def test_the_rate_of_what_an_algebraic_rule_gives_is_refused(tmp_path: Path) -> None:
    text = _rated("k*X", "k").replace("</listOfRules>", f"{_algebraic('w - X')[1]}</listOfRules>")
    text = text.replace("<listOfParameters>", f"<listOfParameters>{parameter('w', constant=False)}")
    network = read_text(tmp_path, text.replace(mathml("-2*u"), mathml("1")))
    assert not [kind for kind, _ in kinds(network) if kind == "function"]
    with pytest.raises(ModelError, match=r"'rateOf\(w\)'"):
        read_text(tmp_path, text.replace(mathml("-2*u"), mathml("rateOf(w)")))


# ---------------------------------------------------------------- delays


def _delayed(what: str, rule: str = "k * time") -> str:
    text = _rated(what="k").replace("</listOfRules>", "<!-- --></listOfRules>")
    text = text.replace(
        "<!-- -->",
        f'<assignmentRule variable="w">{mathml(rule)}</assignmentRule>'
        f'<assignmentRule variable="y">{mathml(what)}</assignmentRule>',
    )
    more = parameter("w", constant=False) + parameter("y", constant=False)
    return text.replace("<listOfParameters>", f"<listOfParameters>{more}")


@pytest.mark.parametrize(
    ("what", "value"),
    [
        ("delay(w, 2)", -6.0),  # what the rule is before time 0
        ("1 + delay(w + time, k)", -11.0),
        ("delay(k, 2)", 3.0),
    ],
)
def test_what_the_time_alone_decides_may_be_delayed(tmp_path: Path, what, value) -> None:
    network = read_text(tmp_path, _delayed(what))
    require_support(network, "ode")
    at_start = {**network.parameter_values(), "time": 0.0}
    assert evaluate(network.rule_expressions()["y"], at_start) == value


@pytest.mark.parametrize(
    ("what", "by_ssa"), [("delay(X, 2)", True), ("delay(u, 2)", False), ("delay(w + X, 1)", True)]
)
def test_delays_of_what_moves(tmp_path: Path, what: str, by_ssa: bool) -> None:
    """Counts that reactions change have a past under ssa; what a rate rule moves has none."""
    network = read_text(tmp_path, _delayed(what))
    assert looks_back(network.rules["y"].expression)
    require_support(network, "ode")
    with nullcontext() if by_ssa else pytest.raises(ModelError, match=r"u, .* has a rate rule"):
        require_support(network, "ssa")
    with pytest.raises(ModelError, match="rule for y: delays are not supported by tau"):
        require_support(network, "tau")


# ---------------------------------------------------------------- no math, no species, Level 1


def test_values_computed_from_an_amount_follow_it_or_are_given_too(tmp_path: Path) -> None:
    """In SBML, p = 2 X, and Y = X + 1 at the start; setting X left p at 20."""
    assigned = "".join(
        f'<initialAssignment symbol="{name}">{mathml(formula)}</initialAssignment>'
        for name, formula in {"p": "2*v", "q": "k*p", "Y": "X + 1"}.items()
    )
    values = parameter("k", 3.0) + "".join(parameter(name) for name in "pq")
    lists = (
        ("listOfParameters", values + parameter("v", constant=False)),
        ("listOfInitialAssignments", assigned),
        ("listOfRules", f'<assignmentRule variable="v">{mathml("X")}</assignmentRule>'),
    )
    text = model(
        species=species("X") + species("Y"), listed=lists, reactions=reaction("R", "p", "", "X")
    )
    network = read_text(tmp_path, text)
    never = "computes [pq] from the initial amount of X, and it would not follow"
    options = {"method": "ode", "times": [0.0, 1.0], "device": "cpu"}
    with pytest.raises(ConfigError, match=never):
        ts.run(network, set={"X": 50}, **options)
    with pytest.raises(ConfigError, match=never):
        ts.run(network, sweep={"X": [50, 60]}, **options)
    with pytest.raises(ConfigError, match=never):
        ts.run(network, n=2, initial={"X": [50, 60]}, **options)
    with pytest.raises(ConfigError, match="p is computed from it and would not follow"):
        ts.cme(network, times=[0, 1], initial={"X": "poisson(5)"}, set={"Y": 1})
    with pytest.raises(ConfigError, match=never):
        ts.Ensemble(network, 4, set={"X": 50}, seed=1)
    first = ts.run(network, **options)  # p stays what it was where a run goes on
    assert ts.run(network, initial=first, **options).mean("X") == pytest.approx([30, 50])
    result = ts.run(network, set={"p": 100, "q": 300}, sweep={"X": [50, 60]}, **options)
    assert result.mean("X") == pytest.approx(np.array([[50, 150], [60, 160]]))
    assert result.mean("Y")[:, 0] == pytest.approx([51, 61])


def test_elements_without_math_do_nothing(tmp_path: Path) -> None:
    text = model(
        species=species("X"),
        listed=(
            ("listOfParameters", parameter("k", 3.0) + parameter("v", 2.0, constant=False)),
            ("listOfInitialAssignments", '<initialAssignment symbol="X"/>'),
            ("listOfRules", '<assignmentRule variable="v"/><algebraicRule/>'),
        ),
        reactions=reaction("R", "k*v*X", "X", more='reversible="false"'),
        level=(3, 2),
    )
    network = read_text(tmp_path, text)
    assert propensities(network) == {"R": 60.0}
    assert not network.features
    assert any("without math" in note for note in network.notes)


_LEVEL_1 = """<?xml version="1.0" encoding="UTF-8"?>
<sbml xmlns="http://www.sbml.org/sbml/level1" level="1" version="2"><model name="old">
<listOfCompartments><compartment name="c" volume="2"/></listOfCompartments>
<listOfSpecies>
<species name="A" compartment="c" initialAmount="6"/>
<species name="B" compartment="c" initialAmount="0"/>
</listOfSpecies>
<listOfParameters><parameter name="k" value="5"/></listOfParameters>
<listOfReactions><reaction name="R" reversible="false">
<listOfReactants><speciesReference species="A" stoichiometry="2"/></listOfReactants>
<listOfProducts><speciesReference species="B"/></listOfProducts>
<kineticLaw formula="k * pow(A, 2) * c"/></reaction></listOfReactions></model></sbml>
"""


def test_level_1(tmp_path: Path) -> None:
    """Names are identifiers, a species in a law is a concentration: 5 x (6/2)^2 x 2 = 90."""
    network = read_text(tmp_path, _LEVEL_1)
    assert list(network.species) == ["A", "B"]
    assert network.reactions[0].net_change() == {"A": -2, "B": 1}
    assert propensities(network) == {"R": 90.0}
    network = read_text(tmp_path, _LEVEL_1.replace(' volume="2"', ""))  # then it is 1
    assert propensities(network) == {"R": 180.0}


def test_errors_that_touch_nothing_are_one_warning(tmp_path: Path) -> None:
    good = model(species=species("X"), reactions=reaction("R", "X", "X"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = read_text(tmp_path, good)
    bad = good.replace('<model id="m"', '<model id="m" areaUnits="nothing" lengthUnits="neither"')
    with pytest.warns(
        UserWarning, match=r"line 3: .*\(and 1 more\): this does not touch"
    ) as actual:
        network = read_text(tmp_path, bad)
    assert len(actual) == 1
    assert network == expected
    amounts = good.replace('substanceUnits="item"', 'substanceUnits="nothing"')
    with pytest.raises(ModelError, match="there is no unit 'nothing', which amounts are in"):
        read_text(tmp_path, amounts)


# ---------------------------------------------------------------- submodels


def test_submodels_are_put_together() -> None:
    """Case 01165 takes its submodel from the file beside it."""
    path = SEMANTIC / "01165" / "01165-sbml-l3v2.xml"
    network = read_sbml(path)
    assert not [f for f in network.features if f.kind == "package"]
    assert "A__S" in network.species or len(network.species) > 1
    assert network.source_text is not None
    assert "externalModelDefinition" not in network.source_text  # a result reruns from itself


def test_submodels_come_from_files_beside_the_model(tmp_path: Path) -> None:
    path = SEMANTIC / "01165" / "01165-sbml-l3v2.xml"
    text = path.read_text(encoding="utf-8")
    with pytest.raises(ModelError, match="which is no file at that place beside the model"):
        read_sbml(write(tmp_path, text))
    with pytest.raises(ModelError, match="which is no file at that place beside the model"):
        read_sbml(write(tmp_path, text.replace("enzyme_model-l3v2.xml", "http://a.b/c.xml")))
    (tmp_path / "enzyme_model-l3v2.xml").write_text("<!DOCTYPE a><sbml/>", encoding="utf-8")
    with pytest.raises(ModelError, match="declares a document type"):
        read_sbml(write(tmp_path, text))


_COMP = (
    '<?xml version="1.0" encoding="UTF-8"?>'
    '<sbml xmlns="http://www.sbml.org/sbml/level3/version2/core" level="3" version="2" '
    'xmlns:comp="http://www.sbml.org/sbml/level3/version1/comp/version1" comp:required="true">'
    '<model id="m"><comp:listOfSubmodels>{}</comp:listOfSubmodels></model>{}</sbml>'
)


def _submodel(name: str, of: str) -> str:
    return f'<comp:submodel comp:id="{name}" comp:modelRef="{of}"/>'


def test_submodels_that_double_are_counted_before_they_are_made(tmp_path: Path) -> None:
    """20 definitions, each of two of the next: 2^21 submodels in 5 kB."""
    definitions = "".join(
        f'<comp:modelDefinition id="x{i}"><comp:listOfSubmodels>{_submodel("A", f"x{i + 1}")}'
        f"{_submodel('B', f'x{i + 1}')}</comp:listOfSubmodels></comp:modelDefinition>"
        for i in range(20)
    )
    last = '<comp:modelDefinition id="x20"/>'
    listed = f"<comp:listOfModelDefinitions>{definitions}{last}</comp:listOfModelDefinitions>"
    with pytest.raises(ModelError, match="has 2097151 submodels; 10000 is the limit"):
        read_sbml(write(tmp_path, _COMP.format(_submodel("A", "x0"), listed)))


def test_a_file_that_is_its_own_submodel_is_refused(tmp_path: Path) -> None:
    source = (
        "<comp:listOfExternalModelDefinitions>"
        '<comp:externalModelDefinition comp:id="x" comp:source="model.xml" comp:modelRef="m"/>'
        "</comp:listOfExternalModelDefinitions>"
    )
    with pytest.raises(ModelError) as caught:
        read_sbml(write(tmp_path, _COMP.format(_submodel("A", "x"), source)))
    assert "subsequent errors" not in str(caught.value)


def test_a_constant_that_is_infinite_is_refused(tmp_path: Path) -> None:
    network = read_text(tmp_path, model(species=species("X")))
    network.add_rule("far", "1/0")
    with pytest.raises(ModelError, match="far is inf at all times"):
        ts.run(network, method="ode", times=[0.0, 1.0], seed=1)


@pytest.mark.parametrize("name", ["ssa", "ode"])
def test_a_model_without_species_has_rules(tmp_path: Path, name: str) -> None:
    text = model(
        listed=(
            ("listOfParameters", parameter("k", 3.0) + parameter("v", constant=False)),
            ("listOfRules", f'<assignmentRule variable="v">{mathml("2*k")}</assignmentRule>'),
        )
    )
    network = read_text(tmp_path, text)
    path = tmp_path / "out.h5"
    ts.run(network, method=name, n=1, times=[0.0, 1.0], seed=1, output=path)
    with ts.open(path) as result:
        assert np.asarray(result.mean("v")).tolist() == [6.0, 6.0]
        assert result.species == ()
    with pytest.raises(ModelError, match="has no species"):
        ts.run(network, method="tau", times=[0.0, 1.0], seed=1)


@pytest.mark.parametrize(("text", "value"), [("4.9E-324", 2.2250738585072014e-308), ("1e-900", 0)])
def test_amounts_below_all_normal_numbers(tmp_path: Path, text: str, value: float) -> None:
    good = model(species=species("X"), reactions=reaction("R", "X", "X"))
    tiny = re.sub(r'initialAmount="[^"]*"', f'initialAmount="{text}"', good)
    assert tiny != good
    assert read_text(tmp_path, tiny).initial_amounts({})["X"] == value


def test_errors_of_a_picture_touch_nothing(tmp_path: Path) -> None:
    """The package layout says how a model looks: what lacks a size there is no reason to refuse."""
    name = "http://www.sbml.org/sbml/level3/version1/layout/version1"
    picture = (
        f'<listOfLayouts xmlns="{name}"><layout id="l" other="1"><dimensions width="1"/></layout>'
        "</listOfLayouts>"
    )
    good = model(species=species("X"), reactions=reaction("R", "X", "X"))
    bad = good.replace("</model>", f"{picture}</model>").replace(
        "<sbml ", f'<sbml xmlns:layout="{name}" layout:required="false" ', 1
    )
    with pytest.warns(UserWarning, match="this does not touch"):
        assert list(read_text(tmp_path, bad).species) == ["X"]


_PACKAGES = "http://www.sbml.org/sbml/level3/version1"
_STYLES = (
    f'<listOfLayouts xmlns="{_PACKAGES}/layout/version1"><r:listOfGlobalRenderInformation '
    f'xmlns:r="{_PACKAGES}/render/version1"><r:globalRenderInformation r:id="a"/>'
    "</r:listOfGlobalRenderInformation></listOfLayouts>"
)


@pytest.mark.parametrize(("level", "picture"), [((2, 4), ""), ((3, 1), _STYLES)])
def test_errors_of_pictures_that_libsbml_counts_in_the_core(
    tmp_path: Path, level: tuple[int, int], picture: str
) -> None:
    """COPASI writes layouts of Level 3 into Level 2, and styles without the package render."""
    good = model(
        species=species("X"),
        reactions=reaction("R", "X", "X", level=level[0]),
        attributes="",
        level=level,
    )
    declared = f' xmlns:layout="{_PACKAGES}/layout/version1" layout:required="false" level="'
    bad = good.replace("</model>", f"{picture}</model>").replace(' level="', declared, 1)
    with pytest.warns(UserWarning, match="this does not touch"):
        network = read_text(tmp_path, bad)
    assert (list(network.species), len(network.reactions)) == (["X"], 1)
