"""Rate laws of BioNetGen reactions: Sat, MM and Hill against the formulas, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tauslab.base.errors import ModelError
from tauslab.formats.bionetgen.net import read_net_text
from tauslab.model.expressions.expression import to_text
from tauslab.model.expressions.host_math import evaluate
from tauslab.model.network.network import Reaction

STATE = {"a": 7.0, "b": 5.0, "c": 3.0, "k": 2.0, "K": 4.0, "L": 9.0, "n": 1.5}


def _reaction(reactants: str, rate: str) -> Reaction:
    text = f"""
begin parameters
 1 k 2
 2 K 4
 3 L 9
 4 n 1.5
end parameters
begin species
 1 a() 7
 2 b() 5
 3 c() 3
end species
begin reactions
 1 {reactants} 0 {rate}
end reactions
"""
    (reaction,) = read_net_text(text, Path("here.net")).reactions
    return reaction


def _michaelis_menten(k: float, km: float, substrate: float, enzyme: float) -> float:
    """By bisection of what the free substrate has to fulfil, S = s - E S / (K + S)."""
    low, high = 0.0, substrate
    for _ in range(200):
        free = (low + high) / 2
        if free + enzyme * free / (km + free) < substrate:
            low = free
        else:
            high = free
    return k * enzyme * low / (km + low)


@pytest.mark.parametrize(
    ("reactants", "rate", "propensity", "limit"),
    [
        ("1", "Sat k K", 2 * 7 / (4 + 7), None),
        ("1,2", "Sat k K", 2 * 7 / (4 + 7) * 5, None),
        ("2,1", "Sat k K", 2 * 5 / (4 + 5) * 7, None),
        ("1,2", "0.5*Sat k K L", 0.5 * 2 * 7 / (4 + 7) * 5 / (9 + 5), None),
        ("1,1", "Sat k K L", 2 * 7 / (4 + 7) * 6 / (9 + 7), 2 * 7 / (4 + 7) * 7 / (9 + 7)),
        ("1,1,2", "Sat k K", 2 * 7 / (4 + 7) * 6 * 5, 2 * 7 / (4 + 7) * 7 * 5),
        ("1,2", "MM k K", _michaelis_menten(2, 4, 7, 5), None),
        ("2,1", "3*MM k K", 3 * _michaelis_menten(2, 4, 5, 7), None),
        ("1,2,3", "MM k K", _michaelis_menten(2, 4, 7, 5 + 3), None),
        ("1", "Hill k K n", 2 * 7**1.5 / (4**1.5 + 7**1.5), None),
        ("1,2", "2*Hill k K n", 2 * 2 * 7**1.5 / (4**1.5 + 7**1.5) * 5, None),
        ("1,1", "Hill k K n", 2 * 7**1.5 / (4**1.5 + 7**1.5) * 6,
         2 * 7**1.5 / (4**1.5 + 7**1.5) * 7),
        ("1,2", "Ele k", 2 * 7 * 5, None),
        ("1,2", "3*Ele k", 3 * 2 * 7 * 5, None),
    ],
)  # fmt: skip
def test_laws(reactants: str, rate: str, propensity: float, limit: float | None) -> None:
    reaction = _reaction(reactants, rate)
    assert evaluate(reaction.law, STATE) == pytest.approx(propensity, rel=1e-13)
    assert (reaction.limit is None) == (limit is None)
    if reaction.limit is not None and limit is not None:
        assert evaluate(reaction.limit, STATE) == pytest.approx(limit, rel=1e-13)


@pytest.mark.parametrize(
    ("reactants", "rate"), [("1,2", "Sat k K L"), ("1,2", "MM k K"), ("1,2", "Hill k K n")]
)
def test_nothing_happens_without_the_first_reactant(reactants: str, rate: str) -> None:
    """Exactly zero, or a count would fall below it."""
    law = _reaction(reactants, rate).law
    for b in (0.0, 1.0, 3.0, 7.0, 1e9):
        assert evaluate(law, STATE | {"a": 0.0, "b": b}) == 0.0, to_text(law)


def test_symmetric_saturation_ends_with_one_molecule() -> None:
    assert evaluate(_reaction("1,1", "Sat k K L").law, STATE | {"a": 1.0}) == 0.0


def test_a_parameter_may_have_the_name_of_a_law() -> None:
    text = "begin parameters\n1 MM 3\nend parameters\nbegin species\n1 a() 7\nend species\n"
    text += "begin reactions\n1 1 0 2*MM\nend reactions\n"
    (reaction,) = read_net_text(text, Path("here.net")).reactions
    assert evaluate(reaction.law, {"MM": 3.0, "a": 7.0}) == 42.0
    assert math.isfinite(evaluate(reaction.law, {"MM": 0.0, "a": 0.0}))


@pytest.mark.parametrize(
    ("reactants", "rate", "reason"),
    [
        ("1", "Sat k", "Sat takes 2 constants, not 1"),
        ("1,2", "Sat k K L n", "Sat takes 2 to 3 constants, not 4"),
        ("0", "Sat k K", "Sat needs 1 or more reactants, not 0"),
        ("1", "MM k K", "MM needs 2 or more reactants, not 1"),
        ("1,2", "MM k K L", "MM takes 2 constants, not 3"),
        ("1", "Hill k K", "Hill takes 3 constants, not 2"),
        ("1", "Sat(k,K)", "the rate law Sat is not supported as 'Sat(k,K)'"),
        ("1,2", "FunctionProduct(k,K)", "the rate law FunctionProduct is not supported"),
        ("1", "2*Arrhenius(k,K)", "the rate law Arrhenius is not supported"),
    ],
)
def test_refused(reactants: str, rate: str, reason: str) -> None:
    with pytest.raises(ModelError) as caught:
        _reaction(reactants, rate)
    assert str(caught.value).startswith("here.net: line 14, reaction R1: ")
    assert reason in str(caught.value)
