"""The commands and blocks of code that the pages for users show."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import NamedTuple

from places import ROOT

PAGES = [
    str(page.relative_to(ROOT))
    for page in (
        ROOT / "README.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "docs" / "coming-from").glob("*.md")),
        *sorted((ROOT / "examples").glob("*.md")),
    )
]

# Numbers that make a job long, and what a test makes of them.
_SHORTER = (
    ("-n", r"\d+", "8"),
    ("--samples", r".*", "1000"),
    ("--points", r"\d{3,}", "31"),
    ("--nodes", r"\d+", "1"),
    ("--count-every", r"\d+", "5"),
    ("--frame-every", r"\d+", "10"),
    ("--design", r"(\w+):\d+", r"\1:4"),
    ("--sweep", r"(.*:.*:.*):\d+", r"\1:2"),
)
_WITHOUT_N = {"-n", "--append", "--append-to", "--resume", "--until"}
_OVERWRITE = ("run", "rdme", "dbn", "plot", "export", "slurm")


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a language; without one, also those that are indented."""
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(r"(?ms)^```(\w*)\n(.*?)^```$", text)
    fenced = [code for name, code in named if name == language]
    if language:
        return fenced
    outside = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return fenced + re.findall(r"(?<=\n\n)(?:    \S.*\n)+", outside)


class Transcript(NamedTuple):
    """A block that shows what was typed and what came out: ``console`` or ``pycon``."""

    language: str
    text: str

    def commands(self) -> list[tuple[str, str]]:
        """Each line after a ``$``, and what is shown below it."""
        pieces = re.split(r"(?m)^\$ ", self.text)[1:]
        return [(command, shown) for command, _, shown in (p.partition("\n") for p in pieces)]


def transcripts(page: str) -> list[Transcript]:
    """The transcripts of a page, in its order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    actual = re.findall(r"^```(console|pycon)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [Transcript(*pair) for pair in actual]


def commands(page: str) -> Iterator[list[str]]:
    """The words of each ``tauslab`` command, without the launcher and what follows it."""
    for block in blocks(page, ""):
        for line in block.replace("\\\n", " ").splitlines():
            bare = re.sub(r"\s+#.*", "", line.strip())
            bare = re.sub(r"^mpirun -n \d+ ", "", bare)
            if not bare.startswith("tauslab ") or bare.endswith(" ..."):
                continue
            # One line of README names several commands, without saying tauslab again.
            for part in re.split(r"; | · ", bare):
                words = shlex.split(part)
                yield words[words[0] == "tauslab" :]


def shorter(words: list[str]) -> list[str]:
    """The same job, small; what an earlier command wrote is written anew."""
    words = list(words)
    for option, pattern, small in _SHORTER:
        for k, word in enumerate(words[1:], start=1):
            if words[k - 1] == option:
                words[k] = re.sub(f"^{pattern}$", small, word)
    if words[0] == "run" and not _WITHOUT_N & set(words):
        words += ["-n", "8"]
    if words[0] == "rdme":
        end = words.index("--t-end") if "--t-end" in words else len(words)
        words[end : end + 2] = ["--t-end", "0.002" if "--extend" in words else "0.001"]
    if words[0] in _OVERWRITE and not {"--", "--resume", "--append"} & set(words):
        words.append("--overwrite")
    return words


def shorter_python(code: str) -> str:
    """The same calls, small."""
    code = re.sub(r"\bn=[\d_]+", "n=8", code)
    code = re.sub(r"\b(walkers|rounds)=\d+, ", "", code)
    rare = r"ts\.weighted_ensemble\(\s*(net|cube), "
    code = re.sub(rare, r"ts.weighted_ensemble(\1, walkers=4, runs=2, rounds=5, ", code)
    code = re.sub(r"\bt_end=\d{3,}", "t_end=60", code)
    code = re.sub(r"\bbeads=\d+", "beads=60", code)
    code = re.sub(r"\bsamples=[\d_]+", "samples=1000", code)
    code = re.sub(r"\bdelta=0\.01\b", "delta=0.05", code)  # of a sequential test
    code = re.sub(r"\((\"sobol\"), \d+\)", r"(\1, 4)", code)
    code = re.sub(r"hooks=\[\(\d+, ", "hooks=[(10, ", code)
    return re.sub(r"(frame|count)_every=[\d_]+", r"\1_every=5", code)
