"""Options are said once: the command line, Python, errors and pages read the same definitions."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

import pytest

import tauslab as ts
from tauslab.base.option_names import assigned
from tauslab.cli.commands import dbn, lattice, run
from tauslab.cli.main import main
from tauslab.options.lattice import LatticeKeywords, LatticeOptions
from tauslab.options.values.definition import (
    GROUPS,
    attribute_names,
    declared,
    definitions,
    destination,
    on_command_line,
    option,
)


@pytest.mark.parametrize("command", [run, lattice, dbn])
def test_every_option_has_help_a_group_and_a_place_in_python(command):
    for actual, one in definitions(*command.OPTIONS):
        assert one.help if one.flags else one.doc, actual.name
        assert one.group in GROUPS, actual.name
        assert one.doc or not one.python or one.flags == ("--executor",), actual.name


@pytest.mark.parametrize("command", ["run", "rdme", "dbn"])
def test_help_is_in_groups(capsys, command):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    message = capsys.readouterr().out
    places = [message.find(f"\n{group}:\n") for group in GROUPS]
    assert -1 not in places
    assert places == sorted(places)


def test_what_a_file_stores_is_left_open_by_the_parser():
    """So that a file which is run again gives what the command does not say."""
    for _, one in definitions(*run.OPTIONS, *lattice.OPTIONS):
        if one.stored and one.flags and one.action != "append":
            assert one.command_default is None, one.flags
    names = ("count_every", "frame_every", "replicas", "first_replica", "max_hop", "seed")
    assert attribute_names(LatticeKeywords) == (*names, "keep_state")


def test_an_option_is_one_field():
    @declared
    @dataclass(frozen=True)
    class Walk:
        """A walk.

        Parameters
        ----------
        {options}
        """

        stride: float = option(1.0, "length of a step", flag="--stride", group="method",
                               type=float, metavar="L", unit="m",
                               doc="Length of a step.")  # fmt: skip

    (one,) = on_command_line(Walk)
    assert (destination(one), one.command_default) == ("stride", 1.0)
    assert "stride\n    Length of a step. [m]" in inspect.getdoc(Walk)
    assert f"{assigned('stride')}0 is not allowed" == "stride=0 is not allowed"


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda net: ts.run(net, t_end=0), "t_end=0 is not allowed: a finite time above 0"),
        (ts.run, "give one, for example t_end=10"),
        (lambda net: ts.run(net, t_end=1, n=0), "n=0 is not allowed"),
        (lambda net: ts.run(net, t_end=1, resume=True), "resume=True needs the output file"),
        (lambda net: ts.run(net, t_end=1, sample="k=uniform(0,1)"), 'sample= needs method="ode"'),
        (lambda _: ts.Auto(epsilon=2), "epsilon=2 is not allowed: above 0, at most 1"),
        (lambda _: ts.TauLeaping(epsilon=10**400), "is not allowed: above 0, at most 1"),
        (lambda _: ts.SSA(team=3), "team=3 is not allowed; allowed are 1, 8, 32, 128"),
        (lambda _: ts.ODE(solver="dopri5", substeps=2), 'substeps= is for solver="rk4"'),
        (lambda _: ts.CPU(threads=-1), "threads=-1 is not allowed"),
        (lambda _: ts.Output("a.h5", compress=12), "compress=12 is not allowed"),
        (lambda net: ts.dbn.build(net, t_end=1, samples=0), "samples=0 is not allowed"),
        (lambda net: ts.simulator(net, ["k"], seed=-1), "seed=-1 is not allowed"),
    ],
)
def test_errors_from_python_speak_python(call, sentence):
    net = ts.Network("decay")
    net.add_parameter("k", 1.0)
    net.add_species("X", 10)
    net.add_reaction("X ->", rate="k")
    with pytest.raises(ts.ConfigError) as caught:
        call(net)
    assert sentence in str(caught.value)
    assert "--" not in str(caught.value)


def test_a_seed_of_a_lattice_may_be_a_whole_float():
    seed = LatticeOptions(seed=1e3).seed  # type: ignore[arg-type]
    assert (seed, type(seed)) == (1000, int)
    with pytest.raises(ts.ConfigError, match=r"seed=0\.5 is not allowed"):
        LatticeOptions(seed=0.5)  # type: ignore[arg-type]
