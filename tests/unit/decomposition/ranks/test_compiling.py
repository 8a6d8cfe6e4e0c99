"""A user who waits for a compiler is told so, once."""

from __future__ import annotations

import io

import pytest

from tauslab.decomposition.ranks.progress import showing_compilers
from tauslab.kernels.backends import cache


class _Terminal(io.StringIO):
    def isatty(self):
        return True


class _Clock:
    now = 0.0

    def __call__(self):
        return self.now


def build(folder, monkeypatch, clock, keys, seconds, out, **given):
    monkeypatch.setenv("TAUSLAB_CACHE_DIR", str(folder))

    def compiler(path):
        clock.now += seconds
        path.write_bytes(b"binary")

    with showing_compilers(quiet=given.get("quiet", False), stream=out, clock=clock):
        for key in keys:
            cache.compiled(key, ".so", compiler)


@pytest.mark.parametrize(
    ("out", "shown"),
    [
        (io.StringIO(), "compiling the model (3 s, once)\n"),
        (_Terminal(), "compiling the model ...\rcompiling the model (3 s, once)\n"),
    ],
    ids=["log", "terminal"],
)
def test_the_first_run_tells_and_the_second_has_nothing_to(tmp_path, monkeypatch, out, shown):
    clock = _Clock()
    build(tmp_path, monkeypatch, clock, ["aa", "bb"], 1.5, out)
    assert out.getvalue() == shown
    build(tmp_path, monkeypatch, clock, ["aa", "bb"], 1.5, out)
    assert out.getvalue() == shown, "the cache had both"
    assert cache.listeners == []


def test_what_is_short_or_unwanted_is_not_told(tmp_path, monkeypatch):
    out = io.StringIO()
    build(tmp_path, monkeypatch, _Clock(), ["aa"], 0.1, out)
    build(tmp_path, monkeypatch, _Clock(), ["bb"], 9.0, out, quiet=True)
    assert out.getvalue() == ""


def test_a_compiler_that_fails_is_not_heard_for_ever(tmp_path, monkeypatch):
    monkeypatch.setenv("TAUSLAB_CACHE_DIR", str(tmp_path))

    def fails(path):
        raise ValueError(path)

    with pytest.raises(ValueError, match="aa"), showing_compilers(quiet=False):
        cache.compiled("aa", ".so", fails)
    assert cache.listeners == []
