"""Builds sdist and wheel, installs them in fresh environments, and runs README's ten lines in each.

Every environment must print one digest; without a compiler the run must end in one sentence.

    python scripts/install_matrix.py --pythons 3.11,3.12,3.13 -o matrix.md

The environments are in a temporary folder. It needs the network, and interpreters that `uv` finds or
in ~/.pyenv.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ("as", "ld", "ldd", "uname")  # what a compiler needs that CXX names


def main() -> None:
    """Build, install, run; exit 1 unless all digests are equal."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--pythons", default="3.11,3.12,3.13,3.14", help="versions, between commas")
    parser.add_argument("-o", "--output", type=Path, help="file for the table (Markdown)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tauslab-install-") as folder:
        rows = matrix(Path(folder), options.pythons.split(","))
    table = "\n".join([
        "| Python | distribution | dependencies | compiler | seconds | result |",
        "|---|---|---|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ])  # fmt: skip
    print(table)
    if options.output:
        options.output.write_text(table + "\n", encoding="utf-8")
    digests = {row[-1] for row in rows if row[3] != "none" and row[-1] != "no interpreter"}
    failed = len(digests) != 1 or any("Traceback" in row[-1] for row in rows)
    sys.exit(failed)


def matrix(folder: Path, versions: list[str]) -> list[list[str]]:
    """Rows of the table: one per environment."""
    tools = environment(folder / "tools", sys.executable)
    check(tools, "-m", "pip", "install", "-q", "build", "uv")
    built = [distributions(tools, folder / name) for name in ("dist", "again")]
    wheel, sdist = built[0]
    for one, other in zip(*built, strict=True):
        print(f"{one.name}: two builds {'agree' if digest(one) == digest(other) else 'differ'}")
    program = folder / "ten_lines.py"
    program.write_text(ten_lines(), encoding="utf-8")
    uv, rows = tools.parent / "uv", []
    for version in versions:
        python = interpreter(uv, version)
        if python is None:
            rows.append([version, "", "", "", "", "no interpreter"])
            continue
        for kind, archive, oldest in (
            ("wheel", wheel, False),
            ("wheel", wheel, True),
            ("sdist", sdist, False),
        ):
            at = folder / f"{version}-{kind}-{oldest}"
            installed = environment(at, python)
            resolution = ["--resolution", "lowest-direct"] if oldest else []
            check(uv, "pip", "install", "-q", "--python", installed, *resolution, archive)
            cases = ("found",) if oldest or kind == "sdist" else ("found", "CXX alone", "none")
            for case in cases:
                took, result = run(installed, program, at, case)
                rows.append(
                    [version, kind, "oldest" if oldest else "newest", case, f"{took:.0f}", result]
                )
                print(*rows[-1], flush=True)
        shutil.rmtree(at)
    return rows


def distributions(python: Path, out: Path) -> tuple[Path, Path]:
    """Wheel and sdist, from a copy of what git tracks, with the time of the last commit."""
    source = out / "source"
    source.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True)
    subprocess.run(["tar", "-x", "-C", source], input=archive.stdout, check=True)
    last = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    epoch = {"SOURCE_DATE_EPOCH": last.stdout.strip()}
    check(python, "-m", "build", "-o", out, source, environ=epoch)
    return next(out.glob("*.whl")), next(out.glob("*.tar.gz"))


def ten_lines() -> str:
    """README's example, and its digest."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    result = re.search(r"## Ten lines\s+```python\n(.*?)```", text, re.DOTALL)
    assert result is not None
    return result[1] + "print(result.digest())\n"


def interpreter(uv: Path, version: str) -> str | None:
    """An interpreter of this version, or None."""
    for path in sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python3")):
        return str(path)
    result = subprocess.run(
        [uv, "python", "find", "--no-python-downloads", version],
        check=False,
        capture_output=True,
        text=True,
    )
    return result.stdout.strip() or None


def environment(at: Path, python: str) -> Path:
    """The interpreter of a new virtual environment."""
    check(python, "-m", "venv", at)
    return at / "bin" / "python"


def run(python: Path, program: Path, at: Path, compiler: str) -> tuple[float, str]:
    """Seconds and digest of the ten lines, or the last line of an error; kernels compile anew."""
    links = at / "path"
    links.mkdir(exist_ok=True)
    for name in TOOLS:
        if (result := shutil.which(name)) and not (links / name).exists():
            (links / name).symlink_to(result)
    path = os.environ["PATH"] if compiler == "found" else str(links)
    environ = {
        "PATH": path,
        "MPLBACKEND": "Agg",
        "HOME": str(at / compiler),
        "XDG_CACHE_HOME": str(at / compiler),
    }
    (at / compiler).mkdir()
    if compiler == "CXX alone":
        environ["CXX"] = shutil.which("g++") or shutil.which("clang++") or "c++"
    started = time.perf_counter()
    done = subprocess.run(
        [python, program], env=environ, check=False, capture_output=True, text=True, cwd=at
    )
    message = (done.stdout or done.stderr).strip().splitlines() or ["nothing"]
    return time.perf_counter() - started, message[-1]


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check(*command: str | Path, environ: dict[str, str] | None = None) -> None:
    """Run a command, which must succeed."""
    subprocess.run(
        command, check=True, env={**os.environ, **(environ or {})}, stdout=subprocess.DEVNULL
    )


if __name__ == "__main__":
    main()
