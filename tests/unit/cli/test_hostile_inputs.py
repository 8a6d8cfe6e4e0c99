"""Inputs that somebody made to do harm: an answer or a sentence, in time, and nothing else written.

A few of each kind by default; ``-m validate`` reads 1,500.
"""

from __future__ import annotations

import importlib.util
import shutil
from contextlib import suppress

import changed_models
import hostile
import numpy as np
import pytest
from fuzz_damage import odd_options
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from places import ROOT, TESTS

import tauslab as ts
from tauslab.base.errors import TauslabError
from tauslab.base.files.seals import SEALED, SEALS, seal

FEW, MANY = 3, 250
EXAMPLES = ROOT / "examples"
SHORT = ("--seed", "1", "--device", "cpu", "--threads", "1", "--quiet")
PETAB = TESTS / "data" / "petab" / "0010"


def many(count):
    return settings(
        max_examples=count, derandomize=True, deadline=None, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip


def needs(package):
    missing = importlib.util.find_spec(package) is None
    return pytest.mark.skipif(missing, reason=f"{package} is not installed")


counts = pytest.mark.parametrize(
    "count", [FEW, pytest.param(MANY, marks=pytest.mark.validate)], ids=["few", "many"]
)


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    made = hostile.Reader(folder / "here")
    made.folder.mkdir()
    (folder / "victim").write_text("SECRET")
    yield made
    made.close()
    assert (folder / "victim").read_text() == "SECRET"
    assert sorted(p.name for p in folder.iterdir()) == ["here", "victim"]


def every(count, strategy, test):
    """Call `test` with `count` examples of a strategy."""
    many(count)(given(strategy)(test))()


@pytest.fixture(scope="module")
def model_reader(tmp_path_factory):
    """One that compiles nothing, and starts no BioNetGen."""
    first = "import changed_models; changed_models.stop_before_programs()"
    made = hostile.Reader(tmp_path_factory.mktemp("models"), first)
    yield made
    made.close()


@pytest.mark.parametrize("kind", changed_models.KINDS)
@counts
def test_changed_models(model_reader, kind, count):
    """Checked, and run up to the compiler where that finds nothing wrong."""

    def one(model, method):
        suffix, data = model
        (model_reader.folder / f"m{suffix}").write_bytes(data)
        if model_reader.run("check", f"m{suffix}") != 0:
            return
        on_lattice = kind in ("lattice", "h5") or (kind == "lm" and b"Lattice" in data)
        short = ("-n", "2", "--points", "3", "--max-steps", "2000", *method)
        command = ("rdme",) if on_lattice else ("run", *short)
        output = ("-o", "r.h5", "--overwrite", *changed_models.BRIEF)
        model_reader.run(command[0], f"m{suffix}", *command[1:], *output)

    methods = st.sampled_from(changed_models.METHODS)
    many(2 * count)(given(changed_models.changed_models(kind), methods)(one))()


@counts
def test_changed_labels(model_reader, count):
    def one(volume):
        name, files = volume
        shutil.rmtree(model_reader.folder / "x.zarr", ignore_errors=True)
        for inside, data in files.items():
            path = model_reader.folder / inside
            path.parent.mkdir(exist_ok=True, parents=True)
            path.write_bytes(data)
        (model_reader.folder / "x.toml").write_text(changed_models.labelled(name))
        model_reader.run("check", "x.toml")

    every(count, changed_models.changed_labels(), one)


ODD = (
    None, 0, -1, 1.5, float("nan"), float("inf"), 1e300, 2**63, 10**30, True, "", "A", "k", "q",
    "\x1b[2J", b"x", [], [1, 2], [[1, 1], [1, 1, 1]], {}, {"A": 1}, (1, 2), (2, 1), (0, 0, 0),
    (4096, 4096, 4096), (2**40, 1, 1), np.zeros(3), np.full((3, 4, 5), np.nan), np.int64(3), ...,
)  # fmt: skip


def lattice_calls(dice):
    """A lattice by the builder, with one odd argument."""
    made = {"shape": (3, 4, 5), "spacing": 32e-9, "step": 1e-4, "t_end": 1e-3}
    calls = [
        ("add_species", ("A", "B"), {}),
        ("add_parameter", ("k", 3.0), {}),
        ("add_diffusion", ("A", 1e-12), {}),
        ("add_reaction", ("A -> B",), {"rate": "k"}),
        ("add_reaction", ("A + B -> A",), {"rate": 1e6, "unit": "M^-1 s^-1"}),
        ("set_boundary", ("x", "held"), {"concentrations": {"A": 1e-5}}),
        ("place", ("A",), {"count": 10}),
        ("place", ("B",), {"positions": [[0, 1, 2]]}),
    ]
    if dice.random() < 0.3:
        key = dice.choice((*made, "slots", "name", "reaction_substeps"))
        made[key] = dice.choice(ODD)
    else:
        at = dice.randrange(len(calls))
        method, words, more = calls[at]
        odd = dice.choice(ODD)
        if more and dice.random() < 0.7:
            calls[at] = method, words, {**more, dice.choice(list(more)): odd}
        else:
            place = dice.randrange(len(words))
            calls[at] = method, (*words[:place], odd, *words[place + 1 :]), more
    try:
        lattice = ts.Lattice(**made)
        for method, words, more in calls:
            getattr(lattice, method)(*words, **more)
        lattice.validate()
    except TypeError as error:  # as Python says of an argument of a wrong type
        raise TauslabError(f"a wrong type: {error}") from None


def dbn_call(dice):
    chosen = {
        "unknown": ["wash_out_km"], "ranges": {"wash_out_km": (20, 80)}, "samples": 50,
        "t_end": 1.0, "points": 3, "method": ts.ODE(substeps=4), "intervals": 3, "seed": 1,
        "device": ts.CPU(threads=1),
    }  # fmt: skip
    key = dice.choice((*chosen, "block", "edges", "sample", "set", "spacing", "counting", "output"))
    chosen[key] = dice.choice(ODD)
    ts.dbn.build(EXAMPLES / "enzyme.toml", **chosen)


@pytest.mark.parametrize("build", [lattice_calls, dbn_call])
@counts
def test_odd_arguments(tmp_path, monkeypatch, build, count):
    """A lattice by the builder, or a network of probabilities: made or refused."""
    monkeypatch.chdir(tmp_path)

    def one(dice):
        with suppress(TauslabError):
            build(dice)

    every(count, st.randoms(use_true_random=False), one)


@counts
def test_models(reader, count):
    def one(data):
        (reader.folder / "m.xml").write_bytes(data)
        reader.run("check", "m.xml")

    every(count, hostile.models(), one)


@pytest.mark.validate
@counts
@needs("libsedml")
def test_archives(reader, count):
    def one(data):
        (reader.folder / "a.omex").write_bytes(data)
        shutil.rmtree(reader.folder / "out", ignore_errors=True)
        reader.run("run", "a.omex", "-o", "out", "--device", "cpu", "--quiet")

    every(count, hostile.archives(), one)


@pytest.mark.validate
@counts
@needs("antimony")
def test_antimony(reader, count):
    def one(data):
        (reader.folder / "m.ant").write_bytes(data)
        reader.run("check", "m.ant")

    every(count, hostile.antimony(), one)


@pytest.mark.validate
@counts
@needs("petab")
def test_petab(reader, count):
    base = {p.name: p.read_bytes() for p in PETAB.iterdir() if not p.name.endswith("solution.yaml")}

    def one(files):
        for name, data in files.items():
            (reader.folder / name).write_bytes(data)
        reader.run("petab", "_0010.yaml", "--device", "cpu")

    every(count, hostile.petab_files(base), one)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Results of several kinds, as bytes."""
    folder = tmp_path_factory.mktemp("results")
    net = ts.Network("immigration")
    net.add_species("X", 4)
    net.add_reaction("-> X", rate=10.0)
    net.add_reaction("X ->", rate=0.5)
    common = {"seed": 1, "device": "cpu"}
    ts.run(net, n=3, times=[0.0, 1.0], output=folder / "ensemble.h5", **common)
    ts.weighted_ensemble(
        net, target="X >= 9", t_end=1.0, runs=2, rounds=2, walkers=3, bins=3,
        output=folder / "rare.h5", **common,
    )  # fmt: skip
    return [path.read_bytes() for path in sorted(folder.glob("*.h5"))]


@counts
def test_results(reader, results, count):
    mutated = st.one_of([hostile.mutated(data) for data in results])

    def one(data):
        (reader.folder / "r.h5").write_bytes(data)
        for command in (("info",), ("export", "-o", "r.csv", "--overwrite"), ("digest",)):
            reader.run(command[0], "r.h5", *command[1:])

    every(count, mutated, one)


def commands(model):
    """Commands that succeed, to which options are added."""
    run = ["run", model, "-o", "r.h5", "--overwrite", "-n", "2", "--t-end", "0.1", *SHORT]
    yield from ([*run, "--method", method] for method in ("ssa", "tau", "ode"))
    yield ["rdme", str(EXAMPLES / "minde.toml"), "--t-end", "1e-4", "-o", "l.h5", *SHORT]
    yield from ([command, "r0.h5"] for command in ("info", "digest", "plot", "export", "check"))
    yield ["slurm", "--", "run", model]
    yield ["dbn", str(EXAMPLES / "enzyme.toml"), "--unknown", "wash_out_km", "--samples", "50",
           "--t-end", "1", "--points", "3", "--substeps", "4", "--range", "wash_out_km=20:80",
           "-o", "n.dbn.h5", *SHORT]  # fmt: skip


@counts
def test_odd_options(reader, results, count):
    (reader.folder / "r0.h5").write_bytes(results[0])
    known = list(commands(str(EXAMPLES / "telegraph.toml")))

    def one(command, dice):
        reader.run(*odd_options(command, dice))

    dice = st.randoms(use_true_random=False)
    many(2 * count)(given(st.sampled_from(known), dice)(one))()


MODEL = '[species]\nX = 5\n[[reactions]]\nequation = "X ->"\nrate = 1\n'


def sealed_anew(path, name, values):
    """Put other values in a result's place of progress, and make its checksums again."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "r+") as file:
        opened = [e.decode()[1:] for e in file[SEALED][()].tolist() if e.startswith(b"~")]
        for one in (name, SEALED, SEALS):
            del file[one]
        file[name] = values
        seal(file, opened)


@pytest.mark.parametrize("name", ["progress/checksums", "progress/blocks", "progress/block_size"])
def test_progress_of_another_type_is_a_sentence(reader, results, name):
    path = reader.folder / "s.h5"
    for values in (np.full((1, 2), np.nan), np.full(1, b"x"), np.full((1, 2), -1)):
        path.write_bytes(results[0])
        sealed_anew(path, name, values)
        assert reader.run("export", "s.h5", "-o", "s.csv", "--overwrite") == 2
        assert reader.run("info", "s.h5") == 2


NAMES = ("o.h5", "o.h5.parts", "o.h5.tauslab-lock", "o.h5.tauslab-tmp", "o.h5.append", "o.csv")


@counts
def test_links(reader, results, count):
    """Planted at the names that a run and an export use, and at those of temporary files once."""
    (reader.folder / "m.toml").write_text(
        '[species]\nX = 5\n[[reactions]]\nequation = "X ->"\nrate = 1\n'
    )
    (reader.folder / "good.h5").write_bytes(results[0])
    victim = reader.folder.parent / "victim"

    def one(names, target, resume):
        for name in NAMES:
            path = reader.folder / name
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(
                missing_ok=True
            )
        for name in names:
            (reader.folder / name).symlink_to(target)
        how = "--resume" if resume else "--overwrite"
        reader.run("run", "m.toml", "-n", "3", "--t-end", "1", "--seed", "1", "-o", "o.h5",
                   "--quiet", "--device", "cpu", "--threads", "1", how)  # fmt: skip
        reader.run("export", "good.h5", "-o", "o.csv", "--overwrite")
        assert victim.read_text() == "SECRET"

    targets = st.sampled_from(("../victim", "../here", "nowhere", "good.h5"))
    many(count)(given(st.sets(st.sampled_from(NAMES), min_size=1), targets, st.booleans())(one))()
