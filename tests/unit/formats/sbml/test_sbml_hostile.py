"""SBML that libraries cannot bear is answered or refused by a sentence before they read it."""

from __future__ import annotations

import time

import hostile
import pytest
from hostile import MATH, sbml

import tauslab as ts
from tauslab.base.errors import ModelError
from tauslab.formats.sbml.text import scan
from tauslab.model.expressions.host_math import evaluate

X = "<ci>X</ci>"


def read(tmp_path, text):
    path = tmp_path / "m.xml"
    path.write_text(text)
    began = time.process_time()
    try:
        return ts.read(path)
    finally:
        assert time.process_time() - began < hostile.SECONDS


@pytest.mark.parametrize(
    ("number", "value"),
    [
        ('<cn type="e-notation">99999999999999999999999</cn>', 1e23),
        ('<cn type="e-notation">12345678901234567890123<sep/>-3</cn>', 12345678901234567890.123),
        ('<cn type="rational">1<sep/>4</cn>', 0.25),
    ],
)
def test_numbers_are_read_once(tmp_path, number, value):
    """The nearest double of the decimal number that is written."""
    law = read(tmp_path, sbml(f"<apply><plus/>{number}{X}</apply>")).reactions[0].law
    assert evaluate(law, {"X": 0.0}) == value


def test_a_rational_number_by_zero_is_refused(tmp_path):
    with pytest.raises(ModelError, match="1/0"):
        read(tmp_path, sbml(f'<apply><times/><cn type="rational">1<sep/>0</cn>{X}</apply>'))


def test_a_hundred_chained_functions_mean_the_innermost(tmp_path):
    network = read(tmp_path, sbml(f"<apply><ci>f</ci>{X}</apply>", calls=100))
    assert evaluate(network.reactions[0].law, {"X": 7.0}) == 7.0


def test_functions_of_functions_end_at_the_limit_of_depth(tmp_path):
    text = sbml(f"<apply><ci>f</ci>{X}</apply>", calls=17, twice=True)
    doubled = "<bvar><ci>a</ci></bvar><apply><times/><ci>a</ci><ci>a</ci></apply>"
    text = text.replace("<bvar><ci>a</ci></bvar><ci>a</ci>", doubled, 1)
    with pytest.raises(ModelError, match="nested more than 200 deep"):
        read(tmp_path, text)


def test_chained_rules_add_up_and_circles_are_still_found(tmp_path):
    """With so many that libsbml's own search for circles is left out."""
    text = sbml("<ci>p205</ci>", rules=206)
    with pytest.raises(ModelError, match="nested more than 200 deep"):
        read(tmp_path, text)
    text = sbml("<ci>p5</ci>", rules=206)
    circle = text.replace(
        f'<assignmentRule variable="p0"><math {MATH}><ci>k</ci>',
        f'<assignmentRule variable="p0"><math {MATH}><ci>p3</ci>',
    )
    assert circle != text
    with pytest.raises(ModelError, match=r"p[0-3]"):
        read(tmp_path, circle)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("<a>" * 9000, "nested"),
        (f"<apply>{X * 20_001}</apply>", "terms"),
        (f'<a b="{"x" * (5 << 20)}"/>', "characters"),
        (f"<!--{'<' * (5 << 20)}--><a/>", "characters"),
        ("<!--" * 100_000, "well-formed"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "document type"),
    ],
)
def test_what_is_scanned_before_a_library_reads_it(text, told):
    began = time.process_time()
    with pytest.raises(ModelError, match=told):
        scan(text, "m.xml")
    assert time.process_time() - began < hostile.SECONDS


def test_ten_thousand_parameters_take_their_number_and_not_its_square(tmp_path):
    network = ts.Network("many")
    for i in range(4000):
        network.add_parameter(f"p{i}", 1.0)
    began = time.process_time()
    network.parameter_values()
    assert time.process_time() - began < 1.0  # 0.05; as sets of all names it was 2
