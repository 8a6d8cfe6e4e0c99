"""The wheel holds what the checkout holds, and works outside it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from places import ROOT, TESTS

LAYERS = ("model", "kernels", "decomposition", "runner")
# Not the links at the root, so that a checkout without links is what gets built.
SOURCES = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "examples", "src")


def run(*command: str | Path, cwd: Path, path: Path | None = None) -> subprocess.CompletedProcess:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """A wheel built from a copy of the sources, without the network."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("*.egg-info", "__pycache__")
            shutil.copytree(ROOT / name, source / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, source / name)
    build = "from setuptools.build_meta import build_wheel; print(build_wheel('..'))"
    done = run(sys.executable, "-c", build, cwd=source)
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.split()[-1]


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """Folder with the wheel in it."""
    target = tmp_path_factory.mktemp("installed")
    options = ("--no-deps", "--no-index", "--no-compile", "--quiet", "--target", target)
    done = run(sys.executable, "-m", "pip", "install", *options, wheel, cwd=target)
    assert done.returncode == 0, done.stderr
    return target


def python(program: str, installed: Path, cwd: Path) -> subprocess.CompletedProcess:
    # -P keeps the working directory off the path; the folder stands before an editable install.
    return run(sys.executable, "-P", "-c", program, cwd=cwd, path=installed)


def test_the_wheel_holds_every_source_file(wheel):
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if name.startswith("tauslab/")}
        licences = [name for name in archive.namelist() if name.endswith("LICENSE")]
    package = ROOT / "src" / "tauslab"
    local = {
        f"tauslab/{path.relative_to(package)}"
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    local |= {f"tauslab/examples/{path.name}" for path in (ROOT / "examples").glob("*.*")}
    assert inside == local
    assert len(licences) == 1
    assert "tauslab/py.typed" in inside
    assert "tauslab/kernels/csrc/ensemble/ssa.cc" in inside


def test_layers_import_from_the_wheel_and_are_no_packages_of_their_own(installed, tmp_path):
    program = (
        "import importlib as i, importlib.util as u\n"
        f"for layer in {LAYERS}:\n"
        "    print(i.import_module('tauslab.' + layer).__file__, u.find_spec(layer), sep=' : ')"
    )
    done = python(program, installed, tmp_path)
    assert done.returncode == 0, done.stderr
    places = [installed / "tauslab" / layer / "__init__.py" for layer in LAYERS]
    assert done.stdout.splitlines() == [f"{place} : None" for place in places]


def test_kernel_sources_are_found(installed, tmp_path):
    program = "from tauslab.kernels.backends.cache import csrc_texts; print(sorted(csrc_texts()))"
    done = python(program, installed, tmp_path)
    assert done.returncode == 0, done.stderr
    csrc = ROOT / "src" / "tauslab" / "kernels" / "csrc"
    assert done.stdout.strip() == str(
        sorted(path.relative_to(csrc).as_posix() for path in csrc.rglob("*") if path.is_file())
    )


def test_the_console_script_runs_the_wheel(installed, tmp_path):
    model = TESTS / "data" / "sbml" / "schlogl.xml"
    script = installed / "bin" / "tauslab"
    done = run(sys.executable, "-P", script, "check", model, cwd=tmp_path, path=installed)
    assert done.returncode == 0, done.stderr
    assert "schlogl" in done.stdout
    example = run(
        sys.executable, "-P", script, "example", "telegraph", cwd=tmp_path, path=installed
    )
    assert example.stdout == (ROOT / "examples" / "telegraph.toml").read_text()


def test_metadata(installed, tmp_path):
    program = (
        "import importlib.metadata as m, json; d = m.distribution('tauslab');"
        "print(json.dumps([d.version, d.metadata.get_all('Provides-Extra'), str(d._path)]))"
    )
    done = python(program, installed, tmp_path)
    assert done.returncode == 0, done.stderr
    version, extras, path = json.loads(done.stdout)
    assert Path(path).parent == installed
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert {"all", "mpi", "cuda12", "cuda13", "dask", "formats", "view", "zig", "test"} <= set(
        extras
    )


def test_the_source_distribution_holds_what_packagers_need(tmp_path):
    """Tests, pages, examples and job scripts, so that a packager can test what is built."""
    source = tmp_path / "source"
    ignored = shutil.ignore_patterns(".*", "*.egg-info", "__pycache__", "data", "reference")
    shutil.copytree(ROOT, source, ignore=ignored, symlinks=True)
    build = "from setuptools.build_meta import build_sdist; print(build_sdist('..'))"
    done = run(sys.executable, "-c", build, cwd=source)
    assert done.returncode == 0, done.stderr
    with tarfile.open(tmp_path / done.stdout.split()[-1]) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    needed = {
        "CHANGELOG.md",
        "CITATION.cff",
        "LICENSE",
        "docs/index.md",
        "examples/minde.toml",
        "scripts/test",
        "src/tauslab/kernels/csrc/ensemble/ssa.cc",
        "tests/conftest.py",
    }
    assert needed <= inside, needed - inside
    assert any(name.startswith("slurm/") for name in inside)


def test_two_builds_of_the_source_distribution_have_the_same_bytes(tmp_path):
    """Times, rights and the order of files do not count; those of the archive are given."""
    digests = []
    for number, folder in enumerate(("one", "other")):
        source = tmp_path / folder
        (source / "src" / "small").mkdir(parents=True)
        shutil.copy(ROOT / "setup.py", source)
        (source / "pyproject.toml").write_text('[project]\nname = "small"\nversion = "1"\n')
        for name in ("b", "a")[:: 1 - 2 * number]:
            (source / "src" / "small" / f"{name}.py").write_text(f"{name} = 1\n")
            (source / "src" / "small" / f"{name}.py").chmod(0o664 - 0o020 * number)
            os.utime(source / "src" / "small" / f"{name}.py", (10**9 * number, 10**9 * number))
        program = (
            "import os; os.environ['SOURCE_DATE_EPOCH'] = '1700000000';"
            "from setuptools.build_meta import build_sdist; print(build_sdist('..'))"
        )
        done = run(sys.executable, "-c", program, cwd=source)
        assert done.returncode == 0, done.stderr
        built = tmp_path / done.stdout.split()[-1]
        with tarfile.open(built) as archive:
            files = [one for one in archive if one.isfile()]
            assert {one.name.rpartition("/")[2] for one in files} >= {"a.py", "b.py", "setup.py"}
            assert {one.mtime for one in files} == {1_700_000_000}
        digests.append(hashlib.sha256(built.read_bytes()).hexdigest())
    assert digests[0] == digests[1]
