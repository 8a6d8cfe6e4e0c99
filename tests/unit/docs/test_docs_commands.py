"""What README, docs and examples tell users to type works, word for word but for its size."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest
from docs_blocks import PAGES, ROOT, blocks, commands, shorter, shorter_python

import tauslab as ts
from tauslab.cli.main import _parser, main

DATA = ROOT / "tests" / "data"

# Files that pages speak of, and what stands for them.
MODELS = {
    "schlogl.xml": ROOT / "examples" / "schlogl.xml",
    "telegraph.toml": ROOT / "examples" / "telegraph.toml",
    "BIOMD0000000010.xml": DATA / "sbml" / "BIOMD0000000010.xml",
    "egf.xml": DATA / "sbml" / "BIOMD0000000033.xml",
}
MODEL = """<sbml xmlns="http://www.sbml.org/sbml/level3/version1/core" level="3" version="1">
<model id="model"><listOfCompartments>
<compartment id="cell" size="1" constant="true"/></listOfCompartments><listOfSpecies>{species}
</listOfSpecies><listOfParameters>{parameters}</listOfParameters><listOfReactions>
{reactions}</listOfReactions></model></sbml>"""
_SPECIES = (
    '<species id="{0}" compartment="cell" initialAmount="{1}" hasOnlySubstanceUnits="true" '
    'boundaryCondition="false" constant="false"/>'
)
_REACTION = (
    '<reaction id="R{0}{1}" reversible="false" fast="false"><listOfReactants><speciesReference '
    'species="{0}" stoichiometry="1" constant="true"/></listOfReactants><listOfProducts>'
    '<speciesReference species="{1}" stoichiometry="1" constant="true"/></listOfProducts>'
    '<kineticLaw><math xmlns="http://www.w3.org/1998/Math/MathML"><apply><times/><ci>{2}</ci>'
    "<ci>{0}</ci></apply></math></kineticLaw></reaction>"
)
# Need workers, ranks, a file that takes a minute to make, or are long: their options are read only.
ONLY_READ = (
    "--executor", "lac_two_state.h5", "cell.h5 --replicas", "swept.h5",
    "ras_camp_pka", "egfr_net", "model.bngl", "bench",
)  # fmt: skip
# Fragments that speak of ranks or workers.
NOT_RUN = ("docs/halo.md",)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files that pages speak of, which is where commands run."""
    monkeypatch.chdir(tmp_path)
    for name in ("examples", "scripts", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    for name, path in MODELS.items():
        shutil.copy(path, tmp_path / name)
    names = {"A": 20, "B": 5, "X": 50, "Y": 0}
    moves = (("A", "B", "k1"), ("B", "X", "k2"), ("X", "Y", "k1"))
    (tmp_path / "model.xml").write_text(
        MODEL.format(
            species="".join(_SPECIES.format(*pair) for pair in names.items()),
            parameters="".join(
                f'<parameter id="{k}" value="0.3" constant="true"/>' for k in ("k1", "k2")
            ),
            reactions="".join(_REACTION.format(*move) for move in moves),
        )
    )
    (tmp_path / "points.csv").write_text("c1,X\n3e-7,250\n3.1e-7,100\n")
    (tmp_path / "data.csv").write_text("time,X\n1,50\n2,\n3,41\n")
    (tmp_path / "cell.toml").write_text(blocks("docs/lattice-toml.md", "toml")[0])
    (tmp_path / "dividing.toml").write_text(blocks("docs/populations.md", "toml")[0])
    for name, text in zip(("genes", "metabolism"), blocks("docs/hybrids.md", "toml"), strict=False):
        (tmp_path / f"{name}.toml").write_text(text)
    return tmp_path


def run_lattice(name):
    """A result of a lattice, with frames, for the pages that show what is done with one."""
    ts.run("examples/minde.toml", t_end=0.001, count_every=5, frame_every=10, seed=1, output=name,
           device="cpu")  # fmt: skip


def small_lattice(name):
    """The lattice model of a reader, in a file; t = 10 is 100 steps."""
    lattice = ts.Lattice("cell", shape=(8, 8, 8), spacing=1e-6, step=0.1)
    lattice.add_species("A", "B", "C")
    lattice.add_parameter("D", 1e-13)
    lattice.add_diffusion("*", "D")
    lattice.add_reaction("A + B -> C", rate=1e6, unit="M^-1 s^-1", name="bind")
    lattice.place("A", count=50)
    lattice.place("B", count=50)
    lattice.write(name)


def ready(page):
    """Write the files that a page reads."""
    if page == "docs/petab.md":
        pytest.importorskip("petab", reason="the petab extra is not installed")
        for path in (DATA / "petab" / "0001").iterdir():
            shutil.copy(path, path.name)
        shutil.copy("_0001.yaml", "problem.yaml")
        Path("vectors.tsv").write_text("k1\tk2\n0.8\t0.6\n1\t1\n")
    if page == "docs/lattices.md":
        run_lattice("run.h5")
    if page in {"docs/lattices.md", "docs/rdme.md"}:
        ts.read("cell.toml").write("cell.h5")
    if page == "docs/sweeps.md":
        small_lattice("cell.h5")
    if page == "examples/README.md":
        ts.dbn.build("egf.xml", unknown=["kdMek"], samples=64, t_end=1, points=3,
                     output="egf_ngf.h5")  # fmt: skip


# Such as that of amounts that a design draws and that are rounded, as the pages say.
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("page", [page for page in PAGES if any(commands(page))])
def test_commands_of_a_page(page, folder, capsys):
    ready(page)
    for words in commands(page):
        short = shorter(words)
        if any(text in " ".join(words) for text in ONLY_READ):
            _parser().parse_args(words)
            continue
        code = main(short)
        assert code == 0, f"{page}: tauslab {' '.join(short)}: {capsys.readouterr().err}"


# Of benchmarks, validation and developers: what takes a GPU or an hour is read only.
OTHERS = sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md"))
OTHERS = [
    page
    for page in OTHERS
    if page not in PAGES and not page.startswith("docs/reference/") and any(commands(page))
]


@pytest.mark.parametrize("page", OTHERS)
def test_commands_of_other_pages_are_understood(page):
    for words in commands(page):
        ends = [k for k, word in enumerate(words) if word in {"|", ">"}]
        typed = words[: min(ends, default=len(words))]
        if not any("$" in word for word in typed):  # a variable of the shell
            _parser(typed).parse_args(typed)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")])
def test_python_of_a_page(page, folder):
    # One namespace for a page, which is empty at the start: a block continues the one before.
    names = {}
    if page in {"docs/petab.md", "docs/sweeps.md"}:
        ready(page)
    for code in blocks(page, "python"):
        compiled = compile(shorter_python(code), page, "exec")
        if page not in NOT_RUN:
            exec(compiled, names)  # noqa: S102 - that is the test


SHOWING = [page for page in PAGES if blocks(page, "text")]


@pytest.mark.parametrize("page", SHOWING)
def test_first_example_of_a_page_prints_what_is_shown(page, folder, capsys):
    exec(compile(blocks(page, "python")[0], page, "exec"), {})  # noqa: S102 - that is the test
    printed = capsys.readouterr().out.splitlines()
    shown = blocks(page, "text")[0].splitlines()
    assert [line for line in shown if line not in printed] == []


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "toml")])
def test_toml_of_a_page(page, folder):
    for text in blocks(page, "toml"):
        tomllib.loads(text)
        (folder / "block.toml").write_text(text)
        assert main(["check", "block.toml"]) == 0
