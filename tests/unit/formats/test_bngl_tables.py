"""Functions given by tables, in .bngl and .net files."""

from __future__ import annotations

import numpy as np
import pytest

import tauslab as ts
from tauslab.base.errors import ModelError
from tauslab.formats.bionetgen.net import parse_net
from tauslab.formats.bionetgen.tables import without_tables
from tauslab.model.expressions.host_math import evaluate

NET = """begin parameters
 1 kd 0.1
end parameters
begin functions
 1 drive() {table}
end functions
begin species
 1 A() 0
end species
begin reactions
 1 0 1 drive
 2 1 0 kd
end reactions
begin groups
 1 Atot 1
end groups
"""
X, Y = [0, 2, 5, 10], [1, 0, 20, 3]
TABLE = f"tfun({X},{Y},time)"


def values(table, times):
    rule = parse_net(NET.format(table=table), "net").rules["drive"].expression
    return [evaluate(rule, {"time": t}) for t in times]


def test_a_table_is_interpolated_and_constant_outside():
    times = np.linspace(-3, 13, 65)
    np.testing.assert_allclose(values(TABLE, times), np.interp(times, X, Y), atol=1e-12)


def test_a_table_may_be_of_steps():
    text = TABLE[:-1] + ', method=>"step")'
    assert values(text, [-1, 0, 1.9, 2, 7, 10, 11]) == [1, 1, 1, 0, 20, 3, 3]


def test_a_long_table_stays_shallow():
    xs = list(range(1000))
    table = f"tfun({xs},{[x * x for x in xs]},time)"
    assert values(table, [998.5])[0] == pytest.approx((998**2 + 999**2) / 2)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("tfun([0,1],[0],time)", "2 points and 1 values"),
        ("tfun([0,0],[0,1],time)", "do not increase"),
        ("tfun([0,x],[0,1],time)", "must be numbers"),
        ("tfun([0,1],[0,1],time", "a bracket is not closed"),
        ("tfun([0,1],[0,1],time,'cubic')", "after the index only method"),
        ("tfun('drive.tfun',time)", "reads no file: write its table"),
    ],
)
def test_other_tables_are_refused(table, message):
    with pytest.raises(ModelError, match=f"line 5.*{message}"):
        parse_net(NET.format(table=table), "net")


def test_remarks_stay():
    assert without_tables("k 1 # tfun([0\n2") == "k 1 # tfun([0\n2"


def test_trajectories_follow_a_table():
    network = parse_net(NET.format(table="tfun([0,5,10],[0,20,0],time)"), "net")
    exact = ts.run(network, n=4000, t_end=10, points=3, seed=1, device="cpu")
    ode = ts.run(network, method="ode", t_end=10, points=3, device="cpu")
    error = 4 * exact.std("A") / np.sqrt(4000)
    assert (abs(exact.mean("A") - ode["A"][0]) <= error + 1e-6).all()


def test_the_index_may_hold_commas():
    actual = values(f'tfun({X},{Y},max(time,5),method=>"step")', [0, 5, 9, 12])
    assert actual == [20, 20, 20, 3]
