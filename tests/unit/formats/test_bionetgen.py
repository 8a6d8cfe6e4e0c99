"""Models in rules: what BioNetGen is given, where it is looked for, what is made of its answer.

A small program stands for ``BNG2.pl``; `test_the_true_bionetgen` runs where one is installed.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest

from tauslab.api.api import run
from tauslab.base.errors import ModelError
from tauslab.cli.main import main
from tauslab.formats.bionetgen.generate import find_bionetgen, part
from tauslab.formats.read import read_network

RULES = """\
begin model
begin parameters
  k 0.5   # a rate
end parameters
begin molecule types
  A(x~u~p)
end molecule types
begin seed species
  A(x~u) 10
end seed species
begin observables
  Molecules Phosphorylated A(x~p)
end observables
begin reaction rules
  A(x~u) -> A(x~p) k
end reaction rules
end model
setOption("NumberPerQuantityUnit",6e23)
generate_network({overwrite=>1,max_iter=>3,prefix=>"here/x"})
simulate({method=>"ode",\\
          t_end=>25,n_steps=>10})
"""
NET = """\
# Created by BioNetGen 9.8.7
begin parameters
    1 k 0.5  # Constant
end parameters
begin species
    1 A(x~u) 10
    2 A(x~p) 0
end species
begin reactions
    1 1 2 k #_R1
end reactions
begin groups
    1 Phosphorylated 2
end groups
"""
# It keeps what it was given beside itself, so that a test can look.
PROGRAM = """\
#!{python}
import os, sys
from pathlib import Path
given = Path(sys.argv[1])
here = Path(__file__).parent
with open(here / "runs", "a") as file:
    file.write(f"{{os.getcwd()}} {{os.environ['PERL_HASH_SEED']}}\\n")
(here / "given.bngl").write_text(given.read_text())
if "wrong" in given.read_text():
    print("ERROR: Invalid Molecule name in 'wrong' (must begin with a letter).\\n  at line 9")
    print("ABORT: Reaction rule list could not be read because of errors.", file=sys.stderr)
    sys.exit(1)
given.with_suffix(".net").write_text({net!r})
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A BNG2.pl, in a folder that BNGPATH names."""
    path = tmp_path / "bng" / "BNG2.pl"
    path.parent.mkdir()
    path.write_text(PROGRAM.format(python=sys.executable, net=NET))
    path.chmod(0o755)
    monkeypatch.setenv("BNGPATH", str(path.parent))
    return path


@pytest.fixture
def no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BNGPATH", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


def _model(tmp_path: Path, text: str = RULES) -> Path:
    path = tmp_path / "model.bngl"
    path.write_text(text)
    return path


def test_actions_are_taken_out_and_lines_stay() -> None:
    rules = part(RULES)
    kept, given = rules.text.splitlines(), RULES.splitlines()
    blocks = [line.partition("#")[0].rstrip() for line in given[:17]]
    assert [line.split() for line in kept[:17]] == [line.split() for line in blocks]
    assert kept[17:] == [
        'setOption("NumberPerQuantityUnit",6e23)',
        *["", "", ""],
        "generate_network({max_iter=>3,overwrite=>1})",
    ]
    assert rules.t_end == 25
    assert [(action.line, action.name) for action in rules.left_out] == [(20, "simulate")]


@pytest.mark.parametrize(
    ("action", "generated"),
    [
        ("", "generate_network({overwrite=>1})"),
        ("generate_network()", "generate_network({overwrite=>1})"),
        ("generate_network({})", "generate_network({overwrite=>1})"),
        ("generate_network({overwrite=>0});", "generate_network({overwrite=>1})"),
        ("generate_network({max_stoich=>{R=>4,L=>2},suffix=>'a,b'})",
         "generate_network({max_stoich=>{R=>4,L=>2},overwrite=>1})"),
        ("generate_network( { TextReaction=>1, max_agg=>5 } ) # all",
         "generate_network({max_agg=>5,overwrite=>1})"),
        ("begin actions\n1 generate_network({check_iso=>0})\nend actions",
         "generate_network({check_iso=>0,overwrite=>1})"),
    ],
)  # fmt: skip
def test_what_bounds_the_network_is_kept(action: str, generated: str) -> None:
    text = "begin parameters\nk 1\nend parameters\n" + action + "\n"
    assert part(text).text.splitlines()[-1] == generated


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("readFile({file=>'a.bngl'})\nsimulate({t_end=>1})", "only readFile, simulate: give"),
        ("# nothing", "holds no blocks of a model: give the file"),
        ("begin parameters\nend parameters\nwhat is this", "line 3: 'what is this' is neither"),
    ],
)
def test_no_model(text: str, reason: str) -> None:
    with pytest.raises(ModelError) as caught:
        part(text)
    assert reason in str(caught.value)


def test_read(program: Path, tmp_path: Path) -> None:
    path = _model(tmp_path)
    network = read_network(path)
    assert list(network.species) == ["S1", "S2"]
    assert network.labels["S2"] == "A(x~p)"
    assert network.rules["Phosphorylated"].recorded
    assert (network.name, network.t_end, network.source_text) == ("model", 25.0, RULES)
    assert network.source_path == path
    assert network.notes == [
        f"the network was generated by BioNetGen 9.8.7, {program}",
        "actions of the file are not run: simulate of line 20",
    ]
    assert (program.parent / "given.bngl").read_text() == part(RULES).text
    folder, hash_seed = (program.parent / "runs").read_text().split()
    assert hash_seed == "0"
    assert not Path(folder).exists(), "the temporary folder is gone"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bng", "model.bngl"]


def test_run(program: Path, tmp_path: Path) -> None:
    result = run(_model(tmp_path), n=2, points=2, seed=1, device="cpu")
    assert result.times[-1] == 25.0
    assert result.observables == ("Phosphorylated",)
    assert (program.parent / "runs").read_text().count("\n") == 1


def test_settings_that_are_not_run_are_warned_of(program: Path, tmp_path: Path) -> None:
    path = _model(tmp_path, RULES + 'setParameter("k",2)\naddConcentration("A(x~u)",5)\n')
    with pytest.warns(UserWarning, match=r"model\.bngl: line 22: setParameter \(and 1 more\) is"):
        read_network(path)


def test_bionetgen_complains(program: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        read_network(_model(tmp_path, RULES.replace("A(x~u) 10", "wrong 10")))
    assert str(caught.value) == (
        f"{tmp_path / 'model.bngl'}: {program} made no network of it: Invalid Molecule name in "
        "'wrong' (must begin with a letter) at line 9"
    )


def test_a_program_that_makes_nothing(program: Path, tmp_path: Path) -> None:
    program.write_text(f"#!{sys.executable}\nprint('bye')\n")
    with pytest.raises(ModelError, match=r"BNG2\.pl made no network of it: bye"):
        read_network(_model(tmp_path))
    program.write_text("#!/no/such/perl\n")
    with pytest.raises(ModelError, match=r"BNG2\.pl cannot run: No such file or directory; it"):
        read_network(_model(tmp_path))


def test_a_network_that_cannot_be_read(program: Path, tmp_path: Path) -> None:
    program.write_text(PROGRAM.format(python=sys.executable, net=NET.replace("1 1 2 k", "1 1 2")))
    with pytest.raises(
        ModelError, match=r"in the network that BioNetGen 9\.8\.7 generated: line 1"
    ):
        read_network(_model(tmp_path))


HOSTILE = [
    "generate_network({max_iter=>system('touch x')})",
    'version("2.0"); system("touch x");',
    'setOption("a",system("touch x"))',
    'setModelName("x"); system("touch x")',
    'substanceUnits("Number"); system("touch x")',
    "begin parameters\n k2 `touch x`\nend parameters",
]


@pytest.mark.parametrize("line", HOSTILE)
def test_bionetgen_is_not_even_started(line: str, program: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"model\.bngl: line \d+[:,] .*touch x|belong"):
        read_network(_model(tmp_path, line + "\n" + RULES))
    assert [path.name for path in program.parent.iterdir()] == ["BNG2.pl"]


def test_a_name_is_taken_and_not_given(program: Path, tmp_path: Path) -> None:
    network = read_network(_model(tmp_path, RULES + "setModelName('plain_name-2')\n"))
    assert network.name == "plain_name-2"
    assert "plain_name" not in (program.parent / "given.bngl").read_text()


def test_time_and_memory_are_limited(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAUSLAB_BNGL_SECONDS", "1")
    program.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(600)\n")
    with pytest.raises(ModelError, match=r"has not made its network in 1 s; give generate_network"):
        read_network(_model(tmp_path))
    monkeypatch.setenv("TAUSLAB_BNGL_GIB", "much")
    with pytest.raises(ModelError, match=r"TAUSLAB_BNGL_GIB is 'much', not a whole number"):
        read_network(_model(tmp_path))


def test_no_bionetgen(no_program: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _model(tmp_path)
    assert main(["run", str(path), "--t-end", "1"]) == 2
    message = capsys.readouterr().err
    assert (
        "BioNetGen, which makes a network of rules, is not found: 'pip install bionetgen'"
        in message
    )
    assert "run model.net" in message
    (tmp_path / "model.net").write_text(NET)
    with pytest.raises(ModelError, match=r"is not found; .*model\.net may be one: run it"):
        read_network(path)


def test_where_it_is_found(
    program: Path, no_program: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_bionetgen() is None
    monkeypatch.setenv("PATH", str(program.parent))
    assert find_bionetgen() == program
    monkeypatch.setenv("BNGPATH", str(tmp_path))
    with pytest.raises(ModelError, match=r"BNGPATH is '.*', which holds no BNG2\.pl"):
        find_bionetgen()


def test_the_python_package(
    no_program: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Spec:
        submodule_search_locations = (str(tmp_path),)

    monkeypatch.setattr("importlib.util.find_spec", lambda name: Spec())
    monkeypatch.setattr("sys.platform", "linux")
    assert find_bionetgen() is None
    (tmp_path / "bng-linux").mkdir()
    (tmp_path / "bng-linux" / "BNG2.pl").write_text("")
    assert find_bionetgen() == tmp_path / "bng-linux" / "BNG2.pl"


def test_the_true_bionetgen(tmp_path: Path) -> None:
    if find_bionetgen() is None:
        pytest.skip("no BioNetGen (pip install bionetgen)")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        network = read_network(_model(tmp_path))
    assert [network.labels[name] for name in network.species] == ["A(x~u)", "A(x~p)"]
    assert network.notes[0].startswith("the network was generated by BioNetGen ")
