"""Mutated models end in an answer or in one sentence; and the children that fuzzing runs them in.

200 cases of ``scripts/fuzz/fuzz_models.py``; docs/validation/fuzz.md tells of many more.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from ast import literal_eval
from pathlib import Path

import pytest
from fuzz_children import Ending, Limits, Tally, dice_of
from fuzz_mutations import CHANGES, changed_bytes, changed_text
from places import script

SEED = 3


@pytest.mark.parametrize("cases", [30, pytest.param(400, marks=pytest.mark.validate)])
def test_mutated_models(cases: int) -> None:
    command = [sys.executable, str(script("fuzz_models.py")), str(cases), "--seed", str(SEED)]
    done = subprocess.run(
        [*command, "--jobs", "2"], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f" 0 faults of {cases} (" in " " + done.stdout.splitlines()[-1]
    # Most changes make a model wrong, but enough must be read and lowered.
    counts = dict(
        reversed(part.split(" ended "))
        for part in done.stdout.splitlines()[-1].partition("(")[2].partition(")")[0].split(", ")
    )
    assert int(counts["0"]) > 0.15 * cases


def _act(what: str) -> int:
    """What a child does, by its word."""
    print(f"said {what}")
    if what == "raises":
        raise ValueError("an error")
    if what == "dies":
        os.kill(os.getpid(), signal.SIGSEGV)
    if what == "spins":
        while True:
            pass
    if what == "takes memory":
        return len(bytearray(1 << 33)) & 1
    if what == "leaves":
        sys.exit("a usage error")
    if what == "prints a traceback":
        print("Traceback (most recent call last):", file=sys.stderr)
    if what == "starts another":
        print(subprocess.Popen(["sleep", "600"]).pid)
    return {"two": 2, "seven": 7}.get(what, 0)


ENDS = {
    "nothing": ("0", False), "two": ("2", False), "seven": ("7", True), "leaves": ("1", False),
    "raises": ("traceback", True), "prints a traceback": ("traceback", True),
    "dies": ("SIGSEGV", True), "spins": ("hang", True), "takes memory": ("traceback", True),
    "starts another": ("0", False),
}  # fmt: skip


def test_how_children_end() -> None:
    found = dict(_run(list(ENDS), Limits(seconds=2, memory=1 << 30)))
    assert {what: (ending.how, ending.is_fault) for what, ending in found.items()} == ENDS
    for what in ("nothing", "two", "leaves", "raises"):
        assert found[what].out == f"said {what}\n"
    assert found["raises"].signature.endswith("ValueError: an error")
    assert "in _act" in found["spins"].said
    # What a child leaves running is ended with it.
    pid = int(found["starts another"].out.split()[-1])
    end = time.monotonic() + 20
    while _is_alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    assert not _is_alive(pid)


def _is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text("ascii")
    return False


def _run(cases: list[str], limits: Limits) -> list[tuple[str, Ending]]:
    """Run them in a process that has no threads: forking this one could meet a lock."""
    program = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "from fuzz_children import *; import test_fuzz\n"
        f"found = list(in_children({cases!r}, test_fuzz._act, jobs=3, limits={limits!r}))\n"
        "print(repr([(case, vars(ending)) for case, ending in found]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *filter(None, sys.path), str(Path(__file__).parent)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [(case, Ending(**values)) for case, values in literal_eval(done.stdout)]


def test_a_tally_keeps_faults_apart() -> None:
    said = 'File "/x/src/tauslab/model/a.py", line {} in f\nKeyError: 1'
    tally = Tally()
    for case, line in (("a", 3), ("b", 3), ("c", 4)):
        tally.add(case, Ending("traceback", said.format(line), "", 0.5))
    tally.add("d", Ending("0", "", "", 0.1))
    assert tally.report().splitlines() == [
        "3 faults of 4 (3 ended traceback, 1 ended 0); the slowest took 0.5 s: c",
        "  2 x traceback at tauslab/model/a.py:3 f KeyError: 1; first: a",
        "  1 x traceback at tauslab/model/a.py:4 f KeyError: 1; first: c",
    ]


def test_changes_are_functions_of_the_seed() -> None:
    text = "begin parameters\n1 k 2.5e-3\nend parameters\n" * 3
    for kind in range(50):
        once, again = (changed_text(text, dice_of(5, "net", kind)) for _ in range(2))
        assert once == again
    assert len({changed_text(text, dice_of(5, "net", kind)) for kind in range(50)}) > 40
    content = bytes(range(256))
    assert len({changed_bytes(content, dice_of(5, "lm", kind)) for kind in range(50)}) > 40


@pytest.mark.parametrize("change", sorted(set(CHANGES), key=lambda change: change.__name__))
@pytest.mark.parametrize("text", ["", "x", "\n\n", "<a><b>1</b></a>"])
def test_every_change_takes_any_text(change: object, text: str) -> None:
    assert callable(change)
    for number in range(20):
        assert isinstance(change(text, dice_of(1, "x", number)), str)
