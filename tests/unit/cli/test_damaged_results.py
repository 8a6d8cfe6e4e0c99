"""Damaged results of every kind: one sentence or the right answer, whatever is asked of them.

What is wrong is an exception, a crash, 10 s without an end, and a *wrong answer*: a digest, a table
or a completed run that differs from the undamaged file's. 40 copies of each
kind are read.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from changed_models import box
from fuzz_mutations import change_hdf5
from hostile import Reader, mutated
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tauslab.cli.main import main
from tauslab.store.writers.parts import PartsOptions

MODEL = """[species]
X = 50
Y = 3
[[reactions]]
equation = "X -> Y"
rate = 1
[[reactions]]
equation = "-> X"
rate = 30
"""
WHERE = ("--device", "cpu", "--threads", "1", "--quiet")
SEED = ("--seed", "3")
RUN = ("run", "m.toml", "-n", "24", "--t-end", "2", "--points", "5", "--block", "4")
SSA = (*RUN, "--method", "ssa", "--record")
# A launch of the linear selector is larger than these runs: they would end before they are stopped.
SLOW = (*RUN, "--method", "ssa", "--selector", "tree", "--record")
LATTICE = ("rdme", "box.toml", "--t-end", "0.002", "--count-every", "2", "--frame-every", "5")


@dataclass(frozen=True)
class Kind:
    """How a result is made; `unfinished` ones are stopped after so many questions whether to."""

    words: tuple[str, ...]
    unfinished: int = 0
    merge_bytes: int | None = None  # parts are kept above it
    grows: bool = True


KINDS = {
    "trajectories": Kind((*SSA, "trajectories,statistics,final")),
    "statistics": Kind((*SSA, "statistics,histogram:X:0:100:10")),
    "final": Kind((*SSA, "final,summary:mean:X")),
    "sweep": Kind((*SSA, "trajectories,statistics,summary:mean:Y", "--sweep", "X=list:20,50,70")),
    "tau": Kind((*RUN, "--method", "tau", "--record", "trajectories")),
    "ode": Kind((*RUN, "--method", "ode", "--sample", "X=uniform(10,90)", "--record",
                 "trajectories,statistics,sampled"), grows=False),
    "gzip": Kind((*SSA, "trajectories", "--compress", "4")),
    "view": Kind((*SSA, "trajectories,final"), merge_bytes=0),
    "begun": Kind((*SLOW, "trajectories,statistics"), unfinished=2),
    "begun-statistics": Kind((*SLOW, "statistics"), unfinished=2),
    "begun-parts": Kind((*SLOW, "trajectories"), unfinished=2, merge_bytes=1 << 30),
    "lattice": Kind(LATTICE, grows=False),
    "replicas": Kind((*LATTICE[:4], "--count-every", "4", "--replicas", "2"), grows=False),
    "begun-lattice": Kind((*LATTICE, "--checkpoint-steps", "4"), unfinished=3, grows=False),
    "dbn": Kind(("dbn", "m.toml", "--unknown", "X", "--range", "X=40:60", "--samples", "60",
                 "--t-end", "2", "--points", "4", "--substeps", "4"), grows=False),
}  # fmt: skip


class Sources:
    """An undamaged result of each kind in a folder of its own, and what it answers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.reader = Reader(folder / "asked")
        self.reader.folder.mkdir()
        self.known: dict[str, dict[str, str]] = {}
        for place in (folder, self.reader.folder):
            (place / "m.toml").write_text(MODEL)
            (place / "box.toml").write_text(box("box"))

    def answers(self, kind: str) -> dict[str, str]:
        """What a kind's undamaged files answer; they are made at the first call."""
        place = self.folder / kind
        if not place.exists():
            place.mkdir()
            with pytest.MonkeyPatch.context() as changed:
                changed.chdir(self.folder)
                make(KINDS[kind], place / "r.h5", changed)
            self.copy(kind)
            self.known[kind] = self.ask(kind, grow=True)
        return self.known[kind]

    def copy(self, kind: str) -> Path:
        """A fresh copy of a kind's files where the child works."""
        local = self.reader.folder
        for name in ("r.h5", "again.h5", "table.csv", "none.h5"):
            (local / name).unlink(missing_ok=True)
        shutil.rmtree(local / "r.h5.parts", ignore_errors=True)
        shutil.copytree(self.folder / kind, local, dirs_exist_ok=True)
        return local / "r.h5"

    def ask(self, kind: str, *, grow: bool) -> dict[str, str]:
        """What the files that are there answer; nothing where they are refused."""
        how, read = KINDS[kind], self.reader
        answers = {}

        def digest(name: str = "r.h5") -> str:
            return read.out if read.run("digest", name) == 0 else ""

        read.run("info", "r.h5")
        if not how.unfinished:
            answers["digest"] = digest()
            replica = ("--replica", "0") if how.words[0] == "rdme" else ()
            table = ("export", "r.h5", "-o", "table.csv", *replica)
            if kind != "dbn" and read.run(*table) == 0:
                answers["table"] = (read.folder / "table.csv").read_text()
            if (
                how.words[0] != "dbn"
                and read.run(how.words[0], "r.h5", *WHERE, "-o", "again.h5") == 0
            ):
                answers["again"] = digest("again.h5")
        else:
            assert digest() == "", "a digest of a run that is not finished"
        if read.run(*how.words, *WHERE, *SEED, "-o", "r.h5", "--resume") == 0:
            answers["completed"] = digest()
            if (
                grow
                and how.grows
                and read.run("run", "m.toml", "--append", "4", *WHERE, "-o", "r.h5") == 0
            ):
                answers["longer"] = digest()
        return answers


def make(how: Kind, path: Path, changed: pytest.MonkeyPatch) -> None:
    """Make a result of a kind."""
    if how.merge_bytes is not None:
        path.with_name(f"{path.name}.parts").mkdir()
        sizes = PartsOptions(segment_bytes=500, merge_bytes=how.merge_bytes)
        changed.setattr("tauslab.store.writers.parts.PartsOptions", lambda: sizes)
    if how.unfinished:
        answers = [False] * how.unfinished
        changed.setattr("tauslab.kernels.backends.cpu.LEAST_EVENTS", 0.0)  # else one launch is all
        for command in ("run", "lattice"):
            changed.setattr(f"tauslab.cli.commands.{command}.stop_in_order",
                            lambda *_: lambda: answers.pop() if answers else True)  # fmt: skip
    assert main([*how.words, *WHERE, *SEED, "-o", str(path)]) == (75 if how.unfinished else 0)


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    made = Sources(tmp_path_factory.mktemp("damaged"))
    yield made
    made.reader.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.validate
def test_damaged_results_get_a_sentence_or_the_right_answer(sources, kind):
    known = sources.answers(kind)
    assert all(known.values())

    def one(part, data, dice, grow):
        path = sources.copy(kind)
        parts = sorted(path.with_name(f"{path.name}.parts").glob("*.h5"))
        target = parts[part % len(parts)] if parts and part else path
        if data.draw(st.booleans()):
            target.write_bytes(data.draw(mutated(target.read_bytes())))
        else:
            change_hdf5(target, dice)
        for what, answer in sources.ask(kind, grow=grow).items():
            assert answer in ("", known[what]), what

    every = given(st.integers(0, 3), st.data(), st.randoms(use_true_random=False), st.booleans())
    settings(
        max_examples=40, derandomize=True, deadline=None, database=None,
        suppress_health_check=list(HealthCheck),
    )(every(one))()  # fmt: skip
