"""The compile cache on machines whose folders cannot be written, or not be trusted."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tauslab.base.errors import ConfigError, DeviceError, KernelCompileError, OutputError
from tauslab.kernels.backends import BackendOptions, compilers, cpu
from tauslab.kernels.backends.base import KernelSource
from tauslab.kernels.backends.cache import cache_directory, compiled, site_cache

CXX_VERSIONS = {
    "x86_64-conda-linux-gnu-g++ (conda-forge gcc 14.2.0) 14.2.0": "g++",
    "g++-12 (SUSE Linux) 12.3.0": "g++",
    "Debian clang version 14.0.6": "clang++",
    "Cray clang version 17.0.1": "clang++",
    "Intel(R) oneAPI DPC++/C++ Compiler 2025.0.0 (2025.0.0.20241008)": "icpx",
}


def test_a_folder_that_cannot_be_made_is_named_in_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TAUSLAB_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.raises(OutputError, match="TAUSLAB_CACHE_DIR") as caught:
        compiled("0" * 64, ".so", lambda out: out.touch())
    assert "\n" not in str(caught.value)


def test_ranks_that_need_the_same_kernel_compile_it_once(tmp_path, monkeypatch):
    """Here threads: a lock belongs to the file that is open, not to the process."""
    monkeypatch.setenv("TAUSLAB_CACHE_DIR", str(tmp_path / "cache"))
    cache_directory()
    built, together = [], threading.Barrier(3)

    def build(out):
        time.sleep(0.2)
        out.touch()
        built.append(out)

    def need(_):
        together.wait()
        return compiled("0" * 64, ".so", build)

    with ThreadPoolExecutor(3) as ranks:
        actual = list(ranks.map(need, range(3)))
    assert len(built) == 1
    assert len({path for path, _ in actual}) == 1
    assert sorted(there for _, there in actual) == [False, True, True]
    assert not list((tmp_path / "cache").glob("*.lock"))


@pytest.fixture
def no_home(tmp_path, monkeypatch):
    """No cache in the home directory: it cannot even be made."""
    (tmp_path / "file").write_text("in the way")
    monkeypatch.delenv("TAUSLAB_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    return tmp_path / f"tauslab-{os.getuid()}"


def test_the_temporary_folder_is_ours_alone(no_home):
    with pytest.warns(UserWarning, match="on this machine alone; set TAUSLAB_CACHE_DIR"):
        assert cache_directory() == no_home
    assert no_home.stat().st_mode & 0o777 == 0o700
    assert cache_directory() == no_home


def test_a_home_over_quota_is_as_one_that_cannot_be_written(tmp_path, monkeypatch):
    """What is compiled goes to the temporary folder; a folder that the user chose is named."""

    def refuse(_):
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    def build(path):
        path.write_text("binary")

    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.delenv("TAUSLAB_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(temporary))
    monkeypatch.setattr("os.fsync", refuse)
    with pytest.warns(UserWarning, match="on this machine alone"):
        actual, there = compiled("0" * 64, ".so", build)
    assert not there
    assert actual.is_relative_to(temporary / f"tauslab-{os.getuid()}")
    assert compiled("0" * 64, ".so", build) == (actual, True)
    monkeypatch.setenv("TAUSLAB_CACHE_DIR", str(tmp_path / "chosen"))
    with pytest.raises(OutputError, match="chosen: Disk quota exceeded; set TAUSLAB_CACHE_DIR"):
        compiled("0" * 64, ".so", build)


def test_a_temporary_folder_of_another_user_is_refused(no_home, monkeypatch):
    no_home.mkdir()
    owner = os.getuid()
    monkeypatch.setattr("os.getuid", lambda: owner + 1)
    no_home.rename(no_home.with_name(f"tauslab-{owner + 1}"))
    with pytest.raises(OutputError, match="belongs to another user"):
        cache_directory()


def test_devices_are_counted_where_the_home_cannot_be_written(tmp_path):
    """CuPy, where it is installed, makes a folder in the home directory when it is imported."""
    (tmp_path / "home").write_text("not a folder")
    environment = {**os.environ, "HOME": str(tmp_path / "home"), "TAUSLAB_CACHE_DIR": str(tmp_path)}
    environment.pop("CUPY_CACHE_DIR", None)
    program = "from tauslab.kernels.backends import device_count; print(device_count('cuda'))"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 0


def test_only_the_compiler_that_is_used_is_asked_for_its_version(monkeypatch):
    """Starting a compiler that is not needed costs time; zig without a cache never ends."""
    requested = []
    monkeypatch.setattr(compilers, "_version", lambda command: requested.append(command) or "1")
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    monkeypatch.delenv("CXX", raising=False)
    compilers.host_compiler.cache_clear()
    try:
        assert compilers.host_compiler().name == "g++"
    finally:
        compilers.host_compiler.cache_clear()
    assert requested == [("/bin/g++", "--version")]


@pytest.mark.parametrize("version", CXX_VERSIONS)
def test_the_compiler_of_the_environment_comes_first_with_the_flags_of_its_family(
    version, monkeypatch
):
    monkeypatch.setattr(compilers, "_version", lambda _: version)
    monkeypatch.setattr("shutil.which", lambda name: f"/opt/{name}")
    monkeypatch.setenv("CXX", "CC -m64")
    first = next(compilers._each_compiler())
    assert (first.name, first.command) == (CXX_VERSIONS[version], ("/opt/CC", "-m64"))
    assert ("-fp-model=precise" in first.flags()) == (first.name == "icpx")


def test_a_compiler_of_the_environment_that_is_missing_is_named(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler -m64")
    with pytest.raises(DeviceError, match="no program 'no-such-compiler'"):
        next(compilers._each_compiler())


def test_a_compiler_of_the_environment_that_fails_is_named(tmp_path):
    source = KernelSource("ensemble/statistics.cc", ("count_statistics",))
    (tmp_path / "build").mkdir()
    compiler = compilers.Compiler("g++", ("/bin/false",), "")
    with pytest.raises(KernelCompileError, match=r"/bin/false cannot .*no message, exit code 1"):
        cpu._build(compiler, source, {}, tmp_path / "build" / "x.so")


def test_kernels_of_a_site_are_taken_and_never_written(tmp_path, monkeypatch):
    """Files of a folder that other users may write are not, since their code would run."""
    site, own, key = tmp_path / "site", tmp_path / "own", "0" * 64
    monkeypatch.setenv("TAUSLAB_CACHE_DIR", str(site))
    made, _ = compiled(key, ".so", lambda out: out.write_text("binary"))
    monkeypatch.setenv("TAUSLAB_CACHE_DIR", str(own))
    monkeypatch.setenv("TAUSLAB_SITE_CACHE", str(site))
    assert compiled(key, ".so", lambda _: pytest.fail("compiled again")) == (made, True)
    other, _ = compiled("1" * 64, ".so", lambda out: out.write_text("another"))
    assert other.is_relative_to(own)
    monkeypatch.setenv("TAUSLAB_SITE_CACHE", str(tmp_path / "nope"))
    with pytest.warns(UserWarning, match=r"TAUSLAB_SITE_CACHE=.*nope is not a folder"):
        site_cache()
    monkeypatch.setenv("TAUSLAB_SITE_CACHE", str(site))
    site.chmod(0o777)
    with pytest.warns(UserWarning, match=r"TAUSLAB_SITE_CACHE=.*site is not used: .*may write"):
        again, there = compiled(key, ".so", lambda out: out.write_text("binary"))
    assert (again.is_relative_to(own), there) == (True, False)


def test_flags_of_the_environment_come_last_and_make_another_library(monkeypatch):
    """A library that was compiled for a sanitizer must not be taken without it."""
    monkeypatch.delenv("TAUSLAB_CXXFLAGS", raising=False)
    plain = compilers.host_compiler().flags()
    monkeypatch.setenv("TAUSLAB_CXXFLAGS", "-O1 '-DNAME=a b'")
    assert compilers.host_compiler().flags() == (*plain, "-O1", "-DNAME=a b")
    monkeypatch.setenv("TAUSLAB_CXXFLAGS", "'-O1")
    with pytest.raises(ConfigError, match="TAUSLAB_CXXFLAGS"):
        compilers.host_compiler().flags()


def test_a_library_is_for_the_instructions_of_one_processor(monkeypatch):
    """A home directory may be shared by machines of which some lack AVX-512."""
    keys = []

    def remember(key, *_):
        keys.append(key)
        raise KernelCompileError("enough")

    monkeypatch.setattr(cpu, "compiled", remember)
    backend = cpu.CpuBackend(BackendOptions(threads=1))
    for features in ("flags : avx2 avx512f", "flags : avx2", "flags : avx2 avx512f"):
        monkeypatch.setattr(cpu, "cpu_features", lambda told=features: told)
        with pytest.raises(KernelCompileError, match="enough"):
            backend.compile(KernelSource("ensemble/statistics.cc", ("count_statistics",)))
    backend.close()
    assert keys[0] == keys[2] != keys[1]


def test_where_the_system_tells_nothing_the_compiler_tells_of_the_processor(monkeypatch):
    def unreadable(*_, **__):
        raise PermissionError

    monkeypatch.setattr("pathlib.Path.read_text", unreadable)
    compilers.cpu_features.cache_clear()
    message = compilers.cpu_features()
    compilers.cpu_features.cache_clear()
    assert "#define __cplusplus" in message


def test_a_folder_that_others_may_write_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("TAUSLAB_CACHE_DIR", str(tmp_path / "cache"))
    path, _ = compiled("a" * 64, ".so", lambda out: out.touch())
    assert path.parent.parent.stat().st_mode & 0o777 == 0o700
    assert path.parent.stat().st_mode & 0o777 == 0o700
    for folder in (path.parent, path.parent.parent):
        folder.chmod(0o770)
        with pytest.raises(OutputError, match=r"other users may write there.*chmod go-w") as actual:
            compiled("a" * 64, ".so", lambda out: out.touch())
        assert "\n" not in str(actual.value)
        folder.chmod(0o700)
    assert compiled("a" * 64, ".so", lambda out: out.touch())[1]


def test_a_build_that_fails_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("TAUSLAB_CACHE_DIR", str(tmp_path))

    def build(out):
        out.write_text("half")
        raise ConfigError("no")

    with pytest.raises(ConfigError, match="no"):
        compiled("a" * 64, ".so", build)
    assert list(tmp_path.iterdir()) == []


def test_a_library_that_the_system_does_not_load_is_reported(tmp_path):
    """As one on a file system mounted noexec, whose folder the message names."""
    library = tmp_path / "ab" / "abc.so"
    library.parent.mkdir()
    library.write_bytes(b"no library")
    with pytest.raises(
        DeviceError, match=f"if {tmp_path} is mounted noexec, set TAUSLAB_CACHE_DIR"
    ):
        cpu._loaded(library)
