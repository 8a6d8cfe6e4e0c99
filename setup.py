"""An sdist that is the same from two builds, and a wheel that holds the folder `examples`.

Times, owners and the order of files of the sdist are fixed. `SOURCE_DATE_EPOCH` is the time that
files get (1980 without it). All else is in pyproject.toml.
"""

from __future__ import annotations

import gzip
import os
import tarfile
from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

_EARLIEST = 315532800  # 1980, the first year of a wheel's files


class ReproducibleSdist(sdist):
    """Packs the tree that setuptools collects."""

    def make_archive(self, base_name: Any, format: str, *args: Any, **kwargs: Any) -> str:  # noqa: A002 - setuptools calls it so
        """Write ``base_name.tar.gz`` of the folder that `sdist` has filled."""
        if format != "gztar":
            return str(super().make_archive(base_name, format, *args, **kwargs))
        folder, path = Path(kwargs["base_dir"]), f"{base_name}.tar.gz"
        epoch = int(os.environ.get("SOURCE_DATE_EPOCH", _EARLIEST))

        def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
            member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            return member

        with (
            Path(path).open("wb") as raw,
            gzip.GzipFile("", "wb", fileobj=raw, mtime=epoch) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for one in [folder, *sorted(folder.rglob("*"))]:
                archive.add(one, recursive=False, filter=plain)
        return path


class WithExamples(build_py):
    """Copies the examples into the package, where `tauslab example` finds them."""

    def run(self) -> None:
        """Build as usual, then copy; an installation in place reads them in the checkout."""
        super().run()
        if not self.editable_mode:
            for path in sorted(Path("examples").glob("*.*")):
                target = Path(self.build_lib, "tauslab", "examples", path.name)
                self.mkpath(str(target.parent))
                self.copy_file(str(path), str(target))


setup(cmdclass={"build_py": WithExamples, "sdist": ReproducibleSdist})
