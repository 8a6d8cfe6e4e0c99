"""What a modeller who knows observables and patterns, not numbers of species, is told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tauslab as ts
from tauslab.cli.main import main
from tauslab.store.results.samples import main_quantities


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    """Fourteen states, the last counted by an observable."""
    species = "".join(f" {i} A(x~{i}) {10 if i == 1 else 0}\n" for i in range(1, 15))
    steps = "".join(f" {i} {i} {i + 1} 2\n" for i in range(1, 14))
    path = tmp_path / "chain.net"
    path.write_text(
        f"begin species\n{species}end species\nbegin reactions\n{steps}end reactions\n"
        "begin groups\n 1 Last 14\nend groups\n"
    )
    return path


def test_observables_stand_first(chain: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = chain.with_suffix(".h5")
    run = ["run", str(chain), "--t-end", "9", "-n", "4", "--points", "3", "--seed", "1"]
    assert main([*run, "--device", "cpu", "-o", str(output)]) == 0
    assert "\n  Last at t = 9: mean" in capsys.readouterr().out
    with ts.open(output) as result:
        assert main_quantities(result)[:2] == ("Last", "S1")
        with pytest.raises(ts.ConfigError, match=r"it has Last, S1, S2, .*, S14$"):
            result.mean("Other")
    few = ts.run(chain, t_end=1, n=2, seed=1, species="S1,Last", device="cpu")
    assert main_quantities(few) == ("S1", "Last")
    np.testing.assert_array_equal(few.mean("S1")[0], 10)


def test_check_tells_patterns(chain: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(chain)]) == 0
    message = capsys.readouterr().out
    assert "observables: Last\n" in message
    assert "patterns: S1 is A(x~1), S2 is A(x~2), " in message
    assert "selector of ssa: linear, an event changes the inputs of 1.92 propensities" in message


@pytest.mark.parametrize(
    "option",
    [
        ["--species", "Last,A(x~3)"],
        ["--set", "A(x~3)=5"],
        ["--sweep", "A(x~3)=lin:1:2:2"],
        ["--record", "summary:mean:A(x~3)"],
    ],
)
def test_a_pattern_in_place_of_a_name(
    chain: Path, option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(chain), "--t-end", "9", "--device", "cpu", *option]) == 2
    assert capsys.readouterr().err.rstrip().endswith("; A(x~3) is called S3")


def test_a_histogram_of_an_observable(chain: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = ["run", str(chain), "--t-end", "9", "--device", "cpu"]
    assert main([*run, "--record", "histogram:Last:0:5:5"]) == 2
    assert "Last: an observable, not a count; record trajectories" in capsys.readouterr().err


def test_equations_with_a_rate_of_time_and_a_negative_one(tmp_path: Path) -> None:
    """dA/dt = 2 t - 1, of two reactions without reactants, whose rates are constants of a kind."""
    path = tmp_path / "clock.net"
    path.write_text(
        "begin functions\n 1 f() 2*time()\nend functions\nbegin species\n 1 A() 5\nend species\n"
        "begin reactions\n 1 0 1 f\n 2 0 1 -1\nend reactions\n"
    )
    result = ts.run(path, method="ode", n=1, times=[0.0, 1.0, 4.0], seed=1, device="cpu")
    np.testing.assert_allclose(result.amounts("A")[0], [5, 5, 17], rtol=1e-9)
