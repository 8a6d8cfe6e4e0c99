"""Commands that install packages that tauslab can do without."""

from __future__ import annotations

import re
import shlex

from tauslab.base.errors import ConfigError

_PACKAGE = "tauslab"
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def require_h5py(what: object) -> None:
    """Refuse a file of HDF5 where the package that writes it is not there."""
    from importlib import util

    if util.find_spec("h5py") is None:
        raise ConfigError(f"{what}: HDF5 files need h5py, which is not installed: pip install h5py")


def installing(*packages: str) -> str:
    """The command that installs packages, in the versions that tauslab asks for.

    It names the packages and not an extra of tauslab: so it also works where tauslab was installed
    from a checkout, whose name no index may know.

    >>> installing("plotly")
    "pip install 'plotly>=5.18'"
    """
    from importlib import metadata  # which loads what reads mail

    try:
        required = metadata.requires(_PACKAGE) or []
    except metadata.PackageNotFoundError:
        required = []
    wanted = {m[0]: line.partition(";")[0].strip() for line in required if (m := _NAME.match(line))}
    return f"pip install {' '.join(shlex.quote(wanted.get(name, name)) for name in packages)}"
