"""``--ode-solver auto``: which solver a pilot chooses, and that files hold it."""

from __future__ import annotations

import numpy as np
import pytest

import tauslab as ts
from tauslab.base.errors import ConfigError
from tauslab.cli.main import main
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.options.ensemble import Options
from tauslab.runner.ensemble.from_file import with_stored_choices
from tauslab.store.results.open import open_result


def van_der_pol() -> ts.Network:
    """Stiff where mu is large."""
    network = ts.Network("van_der_pol")
    network.add_parameter("mu", 1.0)
    network.add_species("x", 2.0)
    network.add_species("y", 0.0)
    network.add_rate("x", "y")
    network.add_rate("y", "mu * (1 - x * x) * y - x")
    return network


def run(mu: list[float], **options: object) -> ts.Result:
    settings = {"times": [0.0, 200.0], "seed": 1, "device": "cpu", "method": "ode", **options}
    return ts.run(van_der_pol(), n=len(mu), set={"mu": np.array(mu)}, **settings)


def test_stiff_equations_are_found(tmp_path):
    """Of a few trajectories one that is stiff decides; a run that goes on does not choose again."""
    path = tmp_path / "stiff.h5"
    with run([1.0, 1.0, 1.0, 1000.0], output=path) as stiff:
        assert stiff.attributes["ode_solver"] == "rosenbrock"
        assert "which takes more than" in str(stiff.attributes["method_choice"])
        # By Radau of scipy with rtol 1e-11, atol 1e-13.
        assert stiff.amounts("x")[3, 1] == pytest.approx(1.85820595, rel=1e-6)
    options = Options(np.array([0.0, 200.0]), method=ts.ODE(), output=path, resume=True)
    assert with_stored_choices(options, Communicator()).method.solver == "rosenbrock"


def test_other_equations_stay_explicit():
    chosen = run([1.0, 1.5])
    assert chosen.attributes["ode_solver"] == "dopri5"
    explicit = run([1.0, 1.5], method=ts.ODE(solver="dopri5"))
    assert chosen.amounts("x").tobytes() == explicit.amounts("x").tobytes()


def test_the_choice_is_told_and_the_same_again(capsys, tmp_path):
    model = tmp_path / "m.toml"
    model.write_text('[species]\nX = 4\n[rules]\nX = "-X"\n')
    lines = []
    for name in ("a.h5", "b.h5"):
        command = ["run", str(model), "--method", "ode", "--t-end", "1", "-n", "1", "--seed", "1"]
        command.append("--verbose")
        assert main([*command, "--device", "cpu", "-o", str(tmp_path / name)]) == 0
        message = capsys.readouterr().out.splitlines()
        lines += [line for line in message if line.startswith("solver: ")]
    assert lines == [lines[0]] * 2
    assert lines[0].startswith("solver: dopri5 (")
    with open_result(tmp_path / "a.h5") as result:
        assert result.attributes["ode_solver"] == "dopri5"


def test_networks_of_dbn_name_their_solver():
    assert ts.ODE().settings("dopri5").solver == "dopri5"
    assert ts.ODE().settings().solver == "auto"
    with pytest.raises(ConfigError, match=r'auto"? is not possible'):
        ts.ODE(solver="auto").settings("dopri5")
