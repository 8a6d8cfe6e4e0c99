"""Commands that install the packages of an extra."""

from __future__ import annotations

import re
import shlex

from tauslab.base.errors import ConfigError

_PACKAGE = "tauslab"
_MARKER = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")


def require_h5py(what: object) -> None:
    """Refuse a file of HDF5 where the package that writes it is not there."""
    from importlib import util

    if util.find_spec("h5py") is None:
        raise ConfigError(f"{what}: HDF5 files need h5py, which is not installed: pip install h5py")


def installing(extra: str) -> str:
    """The command that installs the packages of an extra.

    It names the packages and not the extra: so it also works where tauslab was installed from a
    checkout, whose name no index may know.

    >>> installing("plot")
    "pip install 'matplotlib>=3.8'"
    """
    from importlib import metadata  # which loads what reads mail

    try:
        required = metadata.requires(_PACKAGE) or []
    except metadata.PackageNotFoundError:
        required = []
    parts = (line.partition(";") for line in required)
    words = [
        shlex.quote(name.strip())
        for name, _, marker in parts
        if (found := _MARKER.search(marker)) and found[1] == extra
    ]
    return f"pip install {' '.join(words) or shlex.quote(f'.[{extra}]')}"
