"""Sanitizers that watch kernels keep what they report, whatever pytest does with their output."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
import sanitize

WRONG = """
#include <stdlib.h>
extern "C" __attribute__((visibility("default"))) long whole(double x) { return (long)x; }
extern "C" __attribute__((visibility("default"))) int beyond(int place) {
    char *cells = (char *)calloc(8, 1);
    const int found = cells[place];
    free(cells);
    return found;
}
"""
TEST = """
import ctypes

def test_passes():
    library = ctypes.CDLL({path!r})
    library.whole(ctypes.c_double(float("nan")))
    library.beyond(9)
"""


def installed(name: str) -> bool:
    """Whether g++ has a sanitizer's library."""
    compiler = shutil.which("g++")
    if compiler is None or sys.platform != "linux":
        return False
    requested = [compiler, f"-print-file-name={name}"]
    return subprocess.run(requested, capture_output=True, text=True, check=True).stdout[0] == "/"


@pytest.mark.validate
@pytest.mark.skipif(
    not (installed("libasan.so") and installed("libubsan.so")), reason="no sanitizers of g++"
)
def test_reports_of_both_libraries_are_kept(tmp_path):
    check = sanitize.checks(tmp_path)["address"]
    source, library = tmp_path / "wrong.cc", tmp_path / "wrong.so"
    source.write_text(WRONG)
    build = ["g++", "-shared", "-fPIC", *check.flags.split(), "-o", str(library), str(source)]
    subprocess.run(build, check=True)
    (tmp_path / "test_wrong.py").write_text(TEST.format(path=str(library)))
    command = [sys.executable, "-c", sanitize.START, "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, f"--rootdir={tmp_path}", str(tmp_path / "test_wrong.py")],
        cwd=tmp_path, env=sanitize.environment(check, None), check=False, capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0
    actual = " ".join(sanitize.reports(tmp_path))
    assert "heap-buffer-overflow" in actual
    assert "nan is outside the range" in actual
