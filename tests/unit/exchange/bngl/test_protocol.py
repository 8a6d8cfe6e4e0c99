"""Actions of BioNetGen files: what they compute, and what is refused."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

import h5py
import numpy as np
import pytest

from tauslab.base.errors import ConfigError
from tauslab.cli.main import main
from tauslab.exchange.bngl.protocol import Protocol
from tauslab.formats.bionetgen.generate import actions_of
from tauslab.formats.bionetgen.net import parse_net

NET = """\
begin parameters
    1 kf 1
    2 kr 3
    3 A0 40
    4 kd 0.1
end parameters
begin species
    1 A(s~u,b) A0
    2 A(s~p,b) 0
    3 D() 10
end species
begin reactions
    1 1 2 kf
    2 2 1 kr
    3 3 0 kd
end reactions
begin groups
    1 Up 2
    2 All 1,2
    3 Left 3
end groups
"""
ACTIONS = """\
generate_network({overwrite=>1})
simulate({method=>"ode",t_end=>10,n_steps=>2,suffix=>"equil",steady_state=>1,print_CDAT=>0})
setConcentration("D()","2*A0")
saveConcentrations()
simulate({method=>"ode",t_end=>1,n_steps=>2,suffix=>"go"})
setConcentration("A(b,s~u)",100)
setParameter("kf",2)
simulate({method=>"ode",continue=>1,t_end=>2,n_steps=>2,suffix=>"go"})
resetConcentrations()
parameter_scan({parameter=>"kf",par_min=>0.1,par_max=>10,n_scan_pts=>3,log_scale=>1, \\
    method=>"ode",t_end=>1,n_steps=>1,suffix=>"s"})
simulate({method=>"ode",t_end=>1,n_steps=>1,suffix=>"after"})
parameter_scan({parameter=>"kr",par_scan_vals=>[3,1],reset_conc=>0,method=>"ode",t_end=>1})
writeSBML()
"""
# What BioNetGen 2.9.3 writes for these actions, to 9 digits.
UP = {
    "m_equil": [0, 10.0000001, 10],
    "m_go": [10, 10, 10, 41.2091090, 43.7709089],
    "m_s": [1.68268671, 10, 30.7691837],
    "m_after": [10, 30.7691837],
    "m_kr": [30.7692308, 36.3635429],
}


def ran(actions: str, n: int = 1) -> dict[str, Mapping[str, np.ndarray]]:
    protocol = Protocol(parse_net(NET, "m"), n, 5, {"device": "cpu"})
    protocol.run(actions_of(actions))
    return {one.name: one.columns for one in protocol.reports}


def test_a_protocol_as_bionetgen_runs_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.net").write_text(NET, encoding="utf-8")
    (tmp_path / "m.bngl").write_text(f"begin actions\n{ACTIONS}end actions\n", encoding="utf-8")
    command = ["run", str(tmp_path / "m.net"), "--protocol", "-o", str(tmp_path / "out")]
    command += ["--device", "cpu"]
    assert main(command) == 0
    message = capsys.readouterr().out
    assert "line 15: writeSBML has no effect" in message
    assert "seed " in message
    with h5py.File(tmp_path / "out" / "reports.h5") as file:
        assert {*file["m.net"]} == {*UP}
    for name, wanted in UP.items():
        with (tmp_path / "out" / "m.net" / f"{name}.csv").open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        np.testing.assert_allclose([float(row["Up"]) for row in rows], wanted, rtol=1e-7)
        if name == "m_go":
            assert [float(row["time"]) for row in rows] == [0, 0.5, 1, 1.5, 2]
            np.testing.assert_allclose(
                [float(row["Left"]) for row in rows], 80 * np.exp(-0.05 * np.arange(5)), rtol=1e-7
            )
    assert main(command) == 1
    assert "--overwrite replaces it" in capsys.readouterr().err
    assert main([*command, "--t-end", "3"]) == 2
    assert "--t-end is not for a protocol" in capsys.readouterr().err


def test_each_trajectory_continues_from_its_own_state() -> None:
    step = '"ssa",continue=>1,t_end=>{0},n_steps=>1'
    first = 'simulate({method=>"ssa",t_end=>5,n_steps=>1})\n'
    actual = ran(
        f"{first}simulate({{method=>{step.format(9)}}})\naddConcentration('D()',7)\n"
        f'simulate({{method=>{step.format(9.01)},suffix=>"more"}})\n'
        'parameter_scan({parameter=>"kd",par_scan_vals=>[0,1e6],method=>"ssa",t_end=>1})',
        n=40,
    )
    left = actual["m"]["Left"]
    assert left.shape == (40, 3)
    assert (np.diff(left, axis=1) <= 0).all()
    assert (left[:, 0] == 10).all()
    assert len({*left[:, 1]}) > 2
    more = actual["m_more"]
    assert (more["time"] == [9, 9.01]).all()
    assert (more["Left"][:, 0] == left[:, 2] + 7).all()
    scan = actual["m_kd"]
    assert (scan["Left"] == np.stack([more["Left"][:, 1], np.zeros(40)], axis=1)).all()
    assert ran(first, n=40)["m"]["Left"].tolist() == left[:, :2].tolist()


@pytest.mark.parametrize(
    ("actions", "said"),
    [
        *(
            (f'simulate({{method=>"ode",t_end=>1,{key}=>"{text}"}})', f"the {key} .* is not a pl")
            for key in ("prefix", "suffix")
            for text in ("a/../../../../esc", "/esc", "out/run", "..", ".", " ", "a:b", "a\\\\b")
        ),
        (
            'parameter_scan({parameter=>"kf",method=>"ode",t_end=>1,suffix=>"../s"})',
            "line 1: parameter_scan: the suffix '../s' is not a plain file name",
        ),
        ("quit()", "line 1: quit is not supported in a protocol; simulate, "),
        ("\nbifurcate({})", "line 2: bifurcate is not supported"),
        ('simulate({method=>"nf",t_end=>1})', "simulate: the method 'nf' is not supported; ode"),
        ('simulate({method=>"ode",t_end=>1,stop_if=>"A>3"})', "'stop_if' is not supported"),
        ("simulate({t_end=>1})", "the method '' is not supported"),
        ('simulate({method=>"ode"})', "t_end is not given"),
        ('simulate({method=>"ode",t_end=>0})', "t_end must be above 0, where it starts"),
        ('simulate({method=>"ode",t_end=>kx})', "simulate: 'kx'"),
        ('simulate({method=>"ode",t_end=>1,n_steps=>0.5})', "n_steps is a whole number"),
        ('simulate({method=>"ode",t_end=>1,t_start=>3,continue=>1})', "it continues at 0, so"),
        ('simulate({method=>"ode",t_end=>1},3)', "cannot read"),
        ('setConcentration("B()",3)', r"B\(\) is not a species of the network, such as A\(s~u"),
        ('setConcentration("D()",Up)', "setConcentration: 'Up'"),
        ('setConcentration("D()")', "give a name and a value"),
        ('setParameter("q",3)', "'q' is not a parameter of the network"),
        ('resetConcentrations("x")', "no concentrations are saved as 'x'"),
        ("resetParameters()", "no parameters are saved as ''"),
        ('parameter_scan({parameter=>"kf",method=>"ode",t_end=>1})', "give par_min, par_max and"),
    ],
)
def test_refused(actions: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        ran(actions)


def test_a_start_later_than_0_is_refused_where_the_time_matters() -> None:
    timed = NET.replace(
        "begin reactions", "begin functions\n 1 f() 1+time\nend functions\nbegin reactions"
    )
    protocol = Protocol(parse_net(timed, "m"), 1, 5, {})
    with pytest.raises(ConfigError, match="the network uses the time: a start at 1 is not"):
        protocol.run(actions_of('simulate({method=>"ode",t_start=>1,t_end=>2})'))


def test_parameters_are_saved_and_reset() -> None:
    actual = ran(
        'saveParameters()\nsetParameter("A0","30+kr")\nsimulate({method=>"ode",t_end=>1})\n'
        'resetParameters()\nresetConcentrations()\nsimulate({method=>"ode",t_end=>1})'
    )
    assert [float(one["All"][0, 0]) for one in actual.values()] == [33, 40]
    assert [*actual] == ["m", "m_2"]


def test_names_of_reports_have_no_quotes() -> None:
    given = (
        'prefix=>"a b",suffix=>"c.d"', "prefix=>'one'", "prefix=>two", 'prefix=>"",suffix=>""',
        'prefix=>"\u00e9"',
    )  # fmt: skip
    actual = ran("\n".join(f'simulate({{method=>"ode",t_end=>1,{one}}})' for one in given))
    assert [*actual] == ["a b_c.d", "one", "two", "m", "\u00e9"]


def test_a_continuation_extends_the_last_simulation_of_its_name() -> None:
    simulate = 'simulate({{method=>"ode",suffix=>"x",n_steps=>1,t_end=>{}}})\n'
    twice = f"{simulate.format(10)}setConcentration('D()',7)\n{simulate.format(10)}"
    actual = ran(f"{twice}{simulate.format('20,continue=>1')}")
    assert {name: one["time"][0].tolist() for name, one in actual.items()} == {
        "m_x": [0, 10],
        "m_x_2": [0, 10, 20],
    }
    left = actual["m_x_2"]["Left"][0]
    np.testing.assert_allclose(left, 7 * np.exp([0, -1, -2]), rtol=1e-6)


def test_a_scan_is_not_continued() -> None:
    goes_on = 'simulate({{method=>"ode",suffix=>"x",continue=>1,t_end=>{},n_steps=>1}})\n'
    scan = 'parameter_scan({parameter=>"kf",par_scan_vals=>[1,2],method=>"ode",t_end=>1,'
    actual = ran(f'{scan}suffix=>"x"}})\n{goes_on.format(2)}{goes_on.format(3)}')
    assert actual["m_x"]["kf"].tolist() == [[1, 2]]
    assert actual["m_x_2"]["time"].tolist() == [[1, 2, 3]]
