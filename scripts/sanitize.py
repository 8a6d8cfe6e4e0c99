"""Run the kernels' tests with kernels that watch themselves: memory, arithmetic, races.

    python scripts/sanitize.py address           # AddressSanitizer and UBSan, all engines
    python scripts/sanitize.py thread            # ThreadSanitizer, what runs on several threads
    python scripts/sanitize.py assertions        # libstdc++'s own checks, where it is used
    python scripts/sanitize.py address --fuzz 50 # random networks and lattices alone, 50 of each
    python scripts/sanitize.py address tests/kernels/lattice/test_rdme.py -k crowded

Kernels are compiled with TAUSLAB_CXXFLAGS, which the compile cache tells apart, and the sanitizer's
library is loaded before Python, which is not instrumented itself: only what kernels do is seen.  Of
emulated blocks, whose threads are fibers, local arrays are checked by UBSan alone; heap and shared
memory by both.  Needs g++ with its sanitizers and Linux.  Reports are kept in the folder that is
printed; exits 1 if there is one, or a test fails.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KERNELS = ROOT / "tests" / "kernels"
FUZZ = "tests/kernels/exact/test_random_models.py"
# The libraries that are preloaded are for this process, not for the compilers that it starts. Each has a
# file for its reports: of libraries that are told one by their options all but the last write none.
START = """
import ctypes, os, sys
for path in os.environ.pop("LD_PRELOAD", "").split():
    report = os.environ["TAUSLAB_REPORTS"] + "-" + os.path.basename(path)
    ctypes.CDLL(path).__sanitizer_set_report_path(report.encode())
import pytest
sys.exit(pytest.main())
"""
# These compile for other devices or compilers, or compare compilers, and run no kernel of ours.
NO_KERNELS = ("test_cuda_compile", "test_ode_cuda_compile", "test_warnings", "test_cache")
# They compare compilers, or load NVRTC, which finds no parts of its own beside a sanitizer.
LEFT_OUT = "not registers and not compilers"
THREADED = ("test_ssa", "test_rdme", "test_rdme_together", "test_halo", "test_fine_tau", "test_ode",
            "test_dbn_count", "test_summaries", "test_random_models")  # fmt: skip
WORD = ("runtime error:", "ERROR: AddressSanitizer", "WARNING: ThreadSanitizer", "FATAL:")
_SIZED = "-O1 -g1 -fno-omit-frame-pointer"
_UNDEFINED = "undefined,float-cast-overflow"
# The first asks of a flag whether it is SURROUNDED, which none becomes there, while others become
# LISTED; the second reads words that are written once, and takes part only if they are free.
_HARMLESS = "race:make_list\nrace:Slots::put\n"
# ThreadSanitizer knows no fences: what kernels order by a fence and a relaxed addition is ordered
# by the addition, 4 being acquire and release.
_NO_FENCES = "-Wno-tsan -U__ATOMIC_RELAXED -D__ATOMIC_RELAXED=4"


@dataclass(frozen=True)
class Check:
    """Flags for kernels, libraries that come before Python, settings, and the tests to run."""

    flags: str
    libraries: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    tests: tuple[str, ...] = ()


def kernel_tests() -> tuple[str, ...]:
    """Tests that run kernels."""
    result = (path for path in KERNELS.rglob("test_*.py") if path.stem not in NO_KERNELS)
    return tuple(str(path.relative_to(ROOT)) for path in sorted(result))


def checks(folder: Path) -> dict[str, Check]:
    """Every check by name; reports go to `folder`."""
    log = f"log_path={folder / 'report'}"
    own = {"TAUSLAB_REPORTS": str(folder / "report")}
    harmless = folder / "harmless"
    harmless.write_text(_HARMLESS, encoding="utf-8")
    return {
        "address": Check(
            f"{_SIZED} -fsanitize=address,{_UNDEFINED} -fsanitize-recover=address,{_UNDEFINED}",
            ("libasan.so", "libubsan.so"),
            {
                "ASAN_OPTIONS": f"{log}:detect_leaks=0:halt_on_error=0:"
                "detect_stack_use_after_return=0:allocator_may_return_null=1",
                "UBSAN_OPTIONS": f"{log}:print_stacktrace=1",
                "PYTHONMALLOC": "malloc",
                **own,
            },
            kernel_tests(),
        ),
        "thread": Check(
            f"{_SIZED} -fsanitize=thread {_NO_FENCES}",
            ("libtsan.so",),
            # Python's locks order what kernels do; its own reads and writes are none of ours.
            {
                "TSAN_OPTIONS": f"{log}:suppressions={harmless}:exitcode=0:"
                "ignore_noninstrumented_modules=1",
                **own,
            },
            tuple(
                str(path.relative_to(ROOT))
                for name in THREADED
                for path in (ROOT / "tests/kernels").rglob(f"{name}.py")
            ),
        ),
        "assertions": Check(
            "-O1 -D_GLIBCXX_ASSERTIONS", tests=("tests/statistics/test_exact_rdme.py",)
        ),
    }


def environment(check: Check, cases: int | None) -> dict[str, str]:
    """Environment of the process that runs the tests."""
    result = dict(os.environ) | dict(check.settings) | {"TAUSLAB_CXXFLAGS": check.flags}
    result["PYTHONPATH"] = os.pathsep.join(
        filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH", "")))
    )
    if cases is not None:
        result["TAUSLAB_FUZZ_CASES"] = str(cases)
    if check.libraries:
        result["LD_PRELOAD"] = " ".join(library(name) for name in check.libraries)
    return result


def library(name: str) -> str:
    """Path of a library of g++."""
    requested = ["g++", f"-print-file-name={name}"]
    path = subprocess.run(requested, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(path).is_absolute():
        sys.exit(f"{name} is not installed: it comes with g++, or as a package of that name")
    return path


def reports(folder: Path) -> Counter[str]:
    """Reports by place, and how often each came."""
    result: Counter[str] = Counter()
    for path in folder.glob("report*"):
        lines = path.read_text(errors="replace", encoding="utf-8").splitlines()
        for number, line in enumerate(lines):
            if any(word in line for word in WORD):
                where = [x for x in lines[number + 1 : number + 8] if ".h:" in x or ".cc:" in x]
                result[f"{line.split('==')[-1].strip()}  {where[0].strip() if where else ''}"] += 1
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("check", choices=("address", "thread", "assertions"))
    parser.add_argument("--fuzz", type=int, metavar="N", help="random models alone, N of each kind")
    options, given = parser.parse_known_args(arguments)
    if platform.system() != "Linux" or shutil.which("g++") is None:
        sys.exit("sanitizers need Linux and g++")
    folder = Path(tempfile.mkdtemp(prefix=f"tauslab-{options.check}-"))
    check = checks(folder)[options.check]
    named = any(
        not word.startswith("-") and Path(word.partition("::")[0]).exists() for word in given
    )
    tests = () if named else (FUZZ,) if options.fuzz is not None else check.tests
    command = [sys.executable, "-c", START, "-q", "-p", "no:cacheprovider", "--timeout=3600"]
    if "-k" not in given:
        command += ["-k", LEFT_OUT]
    if options.check == "thread":  # which wants memory at the places it knows
        command = ["setarch", platform.machine(), "-R", *command]
    done = subprocess.run(
        [*command, *tests, *given], cwd=ROOT, env=environment(check, options.fuzz), check=False
    )
    result = reports(folder)
    for text, times in result.most_common():
        print(f"{times} x {text}")
    print(f"{sum(result.values())} reports, pytest exited {done.returncode}; see {folder}")
    return int(bool(result) or done.returncode != 0)


if __name__ == "__main__":
    sys.exit(main())
