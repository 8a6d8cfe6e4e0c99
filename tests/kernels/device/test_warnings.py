"""Every kernel compiles without a warning, with every compiler of this machine.

An ordinary run reads each file once, which finds nearly all; `-m validate` also optimises.
"""

from __future__ import annotations

import subprocess

import pytest
from kernel_headers import FEW, headers
from quick_compiling import PLAIN

from tauslab.kernels.backends.cache import CSRC
from tauslab.kernels.backends.compilers import STRICT, find_compilers

ORDINARY = set(dict(headers(FEW)).items())  # each file once
CASES = [
    pytest.param(*case, marks=() if case in ORDINARY else pytest.mark.validate)
    for case in headers()
]


@pytest.mark.parametrize("compiler", find_compilers(), ids=lambda c: c.name)
@pytest.mark.parametrize(("file", "header"), CASES, ids=lambda x: x if x.endswith(".cc") else "")
def test_no_warning(compiler, file, header, tmp_path, monkeypatch, request):
    (tmp_path / "model.h").write_text(header)
    monkeypatch.setenv("TAUSLAB_CXXFLAGS", PLAIN)  # g++ has false warnings for less than -O1
    optimised = "validate" in request.config.option.markexpr
    flags = [*compiler.flags(), *STRICT, *([] if optimised else ["-fsyntax-only"])]
    done = subprocess.run(
        [*compiler.command, *flags, f"-I{tmp_path}", f"-I{CSRC}",
         str(CSRC / file), "-o", str(tmp_path / "kernel.so")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
