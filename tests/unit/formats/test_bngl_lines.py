"""What BioNetGen is given of a .bngl file: nothing that its Perl could take for code."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tauslab.base.errors import ModelError
from tauslab.cli.main import main
from tauslab.formats.bionetgen.generate import find_bionetgen, part
from tauslab.formats.read import read_network
from tauslab.model.network.canonical import canonical_text

BLOCKS = """\
begin parameters
k 1
end parameters
begin molecule types
A()
end molecule types
begin seed species
A() 10
end seed species
begin observables
Molecules Total A()
end observables
begin functions
f() k*Total
end functions
begin reaction rules
A() -> 0 k
end reaction rules
"""
# Every one ran a command of a shell, or would in a version of BioNetGen that evaluates the line.
HOSTILE_ACTIONS = [
    'generate_network({max_stoich=>{A=>do{system("touch RUN");5}}})',
    "generate_network({max_iter=>`touch RUN`})",
    "generate_network({max_iter=>system('touch RUN')})",
    "generate_network({max_iter=>3});system('touch RUN');({})",
    "generate_network(do{system('touch RUN');{}})",
    'generate_network({"max_iter"=>"@{[system(q(touch RUN))]}"})',
    "generate_network({check_iso=>$ENV{HOME}})",
    "generate_network({max_agg=>1, unknown=>2})",
    'version("2.0"); system("touch RUN");',
    'version("2.2.6@{[system(q(touch RUN))]}")',
    'setOption("a",system("touch RUN"))',
    'setOption("SpeciesLabel","HNauty");system("touch RUN");("x")',
    'setOption("NumberPerQuantityUnit","@{[system(q(touch RUN))]}")',
    'setOption("volumeUnits","$x")',
    'setOption("unheard_of",1)',
    'setModelName("x"); system("touch RUN")',
    'setModelName("../../x")',
    'setModelName("$(touch RUN)")',
    'substanceUnits("Number"); system("touch RUN")',
    "substanceUnits(`touch RUN`)",
]
HOSTILE_LINES = [
    ("k 1", "k `touch RUN`"),
    ("k 1", 'k system("touch RUN")'),
    ("k 1", "k $ENV{HOME}"),
    ("k 1", "k @{[1]}"),
    ("k 1", "k 1; 2"),
    ("k 1", "k exec(1)"),
    ("k 1", "k 1 2"),
    ("k 1", "k (1"),
    ("k 1", "k"),
    ("k 1", "k 1\x00"),
    ("k 1", "k \u0661"),
    ("k 1", "k 1\n2 TFUN(Total,'/etc/passwd')"),
    ("f() k*Total", "f() TFUN(Total)"),
    ("f() k*Total", "f() k*Total[0]"),
    ("f() k*Total", "f() unheard(Total)"),
    ("A() 10", 'A() "10"'),
    ("A() 10", "A() 10'"),
    ("Molecules Total A()", "Species Total A()==1;system(1)"),
    ("Molecules Total A()", "Molecules Total A(\\\\1)"),
    ("A() -> 0 k", 'A() -> 0 FunctionProduct("f()","f()")'),
    ("A() -> 0 k", "A() -> 0 k # fine\\\n `touch RUN`"),
    ("A() -> 0 k", "A() -> 0 k)"),
    ("begin molecule types", "begin actions\nwhat?\nend actions\nbegin molecule types"),
    ("begin molecule types", "begin protocols\nend protocols\nbegin molecule types"),
    ("end molecule types", "end seed species"),
    ("end molecule types", "begin seed species"),
    ("end reaction rules", ""),
    ("begin molecule types", "begi_n model\nbegin molecule types"),
    ("begin molecule types", "system model\nbegin molecule types"),
]


@pytest.mark.parametrize("action", HOSTILE_ACTIONS)
def test_actions_that_are_not_plain_are_refused(action: str) -> None:
    with pytest.raises(ModelError, match=r"^line 19: .") as caught:
        part(BLOCKS + action + "\n")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("plain", "hostile"), HOSTILE_LINES)
def test_lines_that_are_not_of_the_block_are_refused(plain: str, hostile: str) -> None:
    assert plain in BLOCKS
    with pytest.raises(ModelError, match=r"^line \d+[:,] .") as caught:
        part(BLOCKS.replace(plain, hostile))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("block", ["actions", "protocol"])
@pytest.mark.parametrize("action", HOSTILE_ACTIONS)
def test_a_block_of_actions_is_no_way_around(action: str, block: str) -> None:
    with pytest.raises(ModelError, match=r"^line 20: ."):
        part(f"{BLOCKS}begin {block}\n{action}\nend {block}\n")


def test_actions_that_are_not_run_leave_nothing_behind() -> None:
    others = 'readFile({file=>"/etc/passwd"})\nsystem("touch RUN")\nwriteXML({prefix=>`ls`})\n'
    assert part(BLOCKS + others).text == part(BLOCKS).text.replace(
        "generate_network", "\n\n\ngenerate_network"
    )


def test_all_that_is_given_is_of_known_forms() -> None:
    text = (
        'version("2.5.0+")\nsetModelName("plain")\nsubstanceUnits(\'Number\');\nbegin model\n'
        'setOption("SpeciesLabel","HNauty","MoleculesObservables","CountAll")\n'
        + BLOCKS
        + 'end model\nsetOption("NumberPerQuantityUnit",6.02e23);\n'
        'generate_network({overwrite=>1,max_stoich=>{\'A\'=>3},max_iter=>"7",prefix=>"a/b"});\n'
        "simulate({method=>'ode',t_end=>9})\n"
    )
    rules = part(text)
    assert (rules.name, rules.t_end) == ("plain", 9.0)
    without_model = rules.text.replace("begin model\n", "").replace("end model\n", "")
    outside = re.sub(r"(?ms)^begin (\w+ ?\w+)\n.*?^end \1\n", "", without_model)
    assert [line for line in outside.split("\n") if line] == [
        'version("2.5.0+")',
        'substanceUnits("Number")',
        'setOption("SpeciesLabel","HNauty","MoleculesObservables","CountAll")',
        'setOption("NumberPerQuantityUnit",6.02e23)',
        "generate_network({max_stoich=>{A=>3},max_iter=>7,overwrite=>1})",
    ]
    assert rules.text.isascii()
    assert not set(rules.text) & set("`;\\[]'#")


def test_lines_keep_their_numbers_and_are_joined_as_bionetgen_joins_them() -> None:
    text = BLOCKS.replace("k 1", "k 1 + \\  # one\n  2*\\\n3\nk_\\\n2 4  # four")
    given = part(text).text.splitlines()
    assert given[:6] == ["begin parameters", "", "", "k 1 +   2*3", "", "k_2 4"]
    assert given.index("A() -> 0 k") == text.splitlines().index("A() -> 0 k")


@pytest.mark.parametrize(
    "line",
    [
        "1 k = 2.5e-3*exp(-1)^2", "lbl: k if(a>=1 && b!=2 || !c,-1,min(1,2,.5))", "k 1 == 2",
        "k rint(_pi*2)+_e-sum(1,2)/avg(3)", "k 1~=2",
    ],
)  # fmt: skip
def test_parameters_that_are_read(line: str) -> None:
    assert line in part(BLOCKS.replace("k 1", line)).text


@pytest.mark.parametrize(
    ("plain", "line"),
    [
        ("A() -> 0 k", "lbl: @EC:A(b!+,s~x!?)@PM + $B%x <-> A(b!1).B(a!1) k, Sat(k,k) TotalRate"),
        ("A() -> 0 k", "%x:A() -> A() f(x)*2^k include_reactants(1,B) DeleteMolecules priority=5"),
        ("A() 10", "$@EC::A(b,s~x) 3*(k+1)/2"),
        ("Molecules Total A()", "Species Total {MatchOnce}A(b!1).A(b!1)>=3, B()==2 C*"),
        ("A()", "Pop() population"),
    ],
)
def test_patterns_that_are_read(plain: str, line: str) -> None:
    assert line in part(BLOCKS.replace(plain, line, 1)).text


@pytest.mark.parametrize("action", HOSTILE_ACTIONS)
def test_the_true_bionetgen_runs_nothing(
    action: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if find_bionetgen() is None:
        pytest.skip("no BioNetGen (pip install bionetgen)")
    path = tmp_path / "hostile.bngl"
    path.write_text(BLOCKS + action.replace("RUN", str(tmp_path / "RUN")) + "\n")
    assert main(["check", str(path)]) == 2
    assert not (tmp_path / "RUN").exists()
    assert capsys.readouterr().err.startswith(f"tauslab: {path}: line 19: ")


def test_the_true_bionetgen_takes_a_name(tmp_path: Path) -> None:
    if find_bionetgen() is None:
        pytest.skip("no BioNetGen (pip install bionetgen)")
    path = tmp_path / "model.bngl"
    path.write_text(BLOCKS + 'setModelName("plain")\n')
    assert read_network(path).name == "plain"


NETWORKS = {
    "receptor": (14, 29, ["Rp", "Big", "Two", "Tot", "Lt"], "@EC::L(r,r)", 3.0),
    "energy": (5, 8, ["SE"], "S(e,k~U)", None),
    "functions": (7, 14, ["X1"], "X(p~0,p~0,q)", None),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_true_bionetgen_makes_the_same_networks_as_of_the_file_itself(
    name: str, data: Path, tmp_path: Path
) -> None:
    program = find_bionetgen()
    if program is None:
        pytest.skip("no BioNetGen (pip install bionetgen)")
    path = data / "bngl" / f"{name}.bngl"
    network = read_network(path)
    recorded = [rule.name for rule in network.rules.values() if rule.recorded]
    first = network.labels[next(iter(network.species))]
    actual = (len(network.species), len(network.reactions), recorded, first, network.t_end)
    assert actual == NETWORKS[name]
    text = re.sub(r"(?m)^\s*(simulate|saveParameters)\(.*", "", path.read_text("utf-8"))
    text = re.sub(r"(?s)begin actions(.*)end actions", r"\1", text)
    (tmp_path / "itself.bngl").write_text(text)
    environment = {**os.environ, "PERL_HASH_SEED": "0"}
    command = ["perl", str(program), "itself.bngl"]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    itself = read_network(tmp_path / "itself.net")
    both = (
        re.sub(r"(?m)^(t_end|source_digest) = .*\n", "", canonical_text(read))
        for read in (itself, network)
    )
    assert next(both) == next(both)


@pytest.mark.parametrize("name", NETWORKS)
def test_nothing_of_a_good_model_is_lost(name: str, data: Path) -> None:
    text = (data / "bngl" / f"{name}.bngl").read_text("utf-8")
    given = part(text).text
    for line in re.sub(r"\\\n", "", re.sub(r"#.*", "", text)).split("\n"):
        is_kept = line.strip() and not re.match(r"\s*(generate|simulate|save|begin|end)", line)
        assert not is_kept or line.strip().replace(" ", "") in given.replace(" ", ""), line
