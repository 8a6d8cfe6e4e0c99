"""Every header of the kernels compiles alone: it includes what it uses."""

from __future__ import annotations

import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from kernel_headers import FEW, headers

from tauslab.kernels.backends.cache import CSRC, csrc_texts
from tauslab.kernels.backends.compilers import find_compilers

# Of a GPU, of a team of several threads, of dense tables, of equations that look back: no model
# that kernels of a CPU are tried with has them.
ELSEWHERE = {
    "device/cuda.h", "device/work_stealing_cuda.h", "team/team_of_lanes.h",
    "tables/rejection/tree_of_lanes.h", "tables/dense.h", "ode/past/history.h", "ode/past/steps.h",
}  # fmt: skip
OF_EVENTS = ("events/", "tables/events/team_events")


def _included(text: str, texts: dict[str, str]) -> set[str]:
    """What a text includes, and what that includes."""
    actual: set[str] = set()
    new = [text]
    while new:
        names = set(re.findall(r'#\s*include "(.*?)"', new.pop())) & set(texts) - actual
        actual |= names
        new += [texts[name] for name in names]
    return actual


def _models() -> dict[str, str]:
    """For each header a `model.h` of a kernel that includes it."""
    texts, models = csrc_texts(), {}
    for file, model in headers(FEW):
        for name in _included(texts[file], texts) | _included(model, texts):
            fits = "QUEUE_LENGTH" in model or not name.startswith(OF_EVENTS)
            if name.endswith(".h") and fits and name not in ELSEWHERE:
                models.setdefault(name, model)
    return models


@pytest.mark.validate
def test_every_header_compiles_alone(tmp_path):
    compiler = next(iter(find_compilers()), None)
    if compiler is None:
        pytest.skip("no C++ compiler")
    flags = [flag for flag in compiler.flags() if flag not in {"-O3", "-shared"}]

    def complaint(item: tuple[str, str]) -> str:
        name, model = item
        folder = tmp_path / name.replace("/", "_")
        folder.mkdir()
        (folder / "model.h").write_text(model)
        (folder / "alone.cc").write_text(f'#include "{name}"\n')
        done = subprocess.run(
            [*compiler.command, *flags, "-fsyntax-only", f"-I{folder}", f"-I{CSRC}",
             str(folder / "alone.cc")],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.stderr if done.returncode else ""

    models = _models()
    assert len(models) > 80
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        complaints = [one for one in pool.map(complaint, models.items()) if one]
    assert not complaints, "\n".join(complaints)


def test_no_lambda_is_generic():
    """NVRTC before 13 takes what a generic lambda becomes for a function of the host."""
    generic = re.compile(r"\[[&=]?\]\s*\([^)]*\bauto\b")
    files = [path for path in CSRC.rglob("*") if path.suffix in {".h", ".cc"}]
    assert not [path.name for path in files if generic.search(path.read_text())]
