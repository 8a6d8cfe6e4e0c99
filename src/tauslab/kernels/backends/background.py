"""A cubin that a process of its own compiles into the cache, while this one runs other kernels.

NVRTC has no way to stop, and a thread in it would keep this process from its end. The other process
outlives this one if it must, so that later runs find the cubin.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from tauslab.kernels.backends.cache import compiled, with_headers
from tauslab.kernels.backends.nvrtc import compile_cubin

_running: dict[str, BackgroundCompilation] = {}
_SOURCES = Path(__file__).resolve().parents[3]  # the folder that tauslab is imported from


class BackgroundCompilation:
    """The cubin `key` of `texts[file]` and `flags`, as a process of its own compiles it."""

    def __init__(
        self, key: str, file: str, texts: Mapping[str, str], flags: tuple[str, ...]
    ) -> None:
        paths = [str(_SOURCES), *filter(None, [os.environ.get("PYTHONPATH")])]
        with tempfile.TemporaryFile("w+", encoding="utf-8") as given:
            json.dump([key, file, with_headers(file, texts), flags], given)
            given.seek(0)
            self._process = subprocess.Popen(
                [_interpreter(), "-P", "-m", __name__], stdin=given,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            )  # fmt: skip

    def ended(self) -> bool:
        """Return whether the process has ended, without waiting."""
        return self._process.poll() is not None

    @cached_property
    def path(self) -> Path | None:
        """Path of the cubin, once the process has ended; None where it was not compiled."""
        message, _ = self._process.communicate()
        path = Path(os.fsdecode(message))
        return path if path.is_file() else None


def compile_in_background(
    key: str, file: str, texts: Mapping[str, str], flags: tuple[str, ...]
) -> BackgroundCompilation | None:
    """Compile a cubin in another process, once; None where that has failed."""
    if key not in _running:
        _running[key] = BackgroundCompilation(key, file, texts, flags)
    result = _running[key]
    return None if result.ended() and result.path is None else result


def _interpreter() -> str:
    """Python's own program; refused where another one has it inside, as frozen applications do."""
    program = sys.executable or ""
    if not Path(program).name.lower().startswith(("python", "pypy")):
        raise FileNotFoundError(f"{program!r} is no Python")
    return program


def main() -> None:
    """Compile what standard input says; print its path, in whichever cache had room."""
    key, file, texts, flags = json.load(sys.stdin)
    path, _ = compiled(key, ".cubin", lambda out: _write(out, file, texts, tuple(flags)))
    sys.stdout.buffer.write(os.fsencode(path))


def _write(out: Path, file: str, texts: Mapping[str, str], flags: tuple[str, ...]) -> None:
    out.write_bytes(compile_cubin(file, texts, flags)[0])


if __name__ == "__main__":
    main()
