"""Read a model file in any of the formats, chosen by its suffix.

The reader of a format is imported when a file of that format is read.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tauslab.base.errors import ModelError
from tauslab.base.files.opening import beside, open_h5, reading
from tauslab.base.files.seals import require_format, require_undamaged, safe_attributes
from tauslab.base.files.text import plain
from tauslab.model.expressions.expression import DEEPEST
from tauslab.model.names import check_names
from tauslab.model.network.network import Network

if TYPE_CHECKING:
    from tauslab.model.lattice.lattice import Lattice


def read(path: str | Path) -> Network | Lattice:
    """Read a model: SBML, Antimony, BioNetGen, StochPy, TOML, ``.lm``, or in our own files.

    `Network.source_text` holds the model as it was given, `Network.source_path` its name.

    Raises
    ------
    ModelError
        The suffix is not one of `READERS`, or the file is missing, malformed or not a model.
    """
    path = Path(path)
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        if path.is_dir():
            raise ModelError(f"{path}: is a folder, not a model")
        given = f"its suffix is {path.suffix!r}" if path.suffix else "it has no suffix"
        known = ", ".join(READERS)
        raise ModelError(f"{path}: {given}; a model is one of {known}{beside(path, READERS)}")
    try:
        if not path.is_file():
            trouble = "it is a folder"
            if not path.is_dir():
                trouble = f"there is no such file{beside(path, READERS)}"
            raise ModelError(f"{path}: cannot be read: {trouble}")
    except OSError as error:  # its folder may not be looked into, or no file has so long a name
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        with reading(path):
            model = reader(path)
    except RecursionError:
        raise ModelError(f"{path}: operations are nested more than {DEEPEST} deep") from None
    if isinstance(model, Network):
        try:
            check_names(model)
        except ModelError as error:
            raise ModelError(f"{path}: {error}") from None
    return model


def is_hybrid_file(path: Path) -> bool:
    """Return whether TOML is of a hybrid: it has tables ``[[parts]]``."""
    try:
        return re.search(r"(?m)^\s*\[\[\s*parts\s*\]\]", path.read_text("utf-8")) is not None
    except (OSError, UnicodeDecodeError):
        return False  # the reader says what is wrong


def read_network(path: str | Path) -> Network:
    """Read a well-stirred model.

    Raises
    ------
    ModelError
        As `read`, or the file holds a lattice.
    """
    return well_stirred(read(path), path)


def well_stirred(model: Network | Lattice, path: str | Path) -> Network:
    """Return the model that was read from `path`, if it is not a lattice.

    Raises
    ------
    ModelError
        It is one.
    """
    if not isinstance(model, Network):
        raise ModelError(f"{path} is a lattice: run it with tauslab rdme")
    return model


def _by(place: str) -> Callable[[Path], Network | Lattice]:
    """The reader ``module:function`` of a format, imported when it is called."""

    def read_file(path: Path) -> Network | Lattice:
        module, _, function = place.partition(":")
        model: Network | Lattice = getattr(
            importlib.import_module(f"tauslab.formats.{module}"), function
        )(path)
        return model

    return read_file


def _read_own_toml(path: Path) -> Network | Lattice:
    """TOML of a network, or of a lattice if it has a table ``[lattice]``."""
    from tauslab.formats.toml.network import read_toml_bytes, read_toml_text
    from tauslab.formats.toml.values import is_lattice_text

    if is_hybrid_file(path):
        raise ModelError(f"{path} is a hybrid: run it by its path, with tauslab run or ts.run")
    text = read_toml_bytes(path)
    if not is_lattice_text(text):
        return read_toml_text(text, path)
    from tauslab.formats.toml.lattice import read_lattice_text

    return read_lattice_text(text, path)


def _read_hdf5(path: Path) -> Network | Lattice:

    try:
        with open_h5(path) as file, reading(path):
            require_undamaged(path, file)
            lattice = "model/canonical" in file and "model/sites" in file
    except OSError as error:
        raise ModelError(f"{path}: cannot be read as HDF5: {error}") from None
    if not lattice:
        return read_result_model(path)
    from tauslab.formats.lattice_hdf5 import read_lattice_file

    return read_lattice_file(path)


_UNITS = ("amount_unit", "time_unit")  # that a result names beside its model


def read_result_model(path: str | Path) -> Network:
    """Read the model that a result file was made with.

    The network comes from the normal form in the file, so that it gives the same bits even where
    the reader of the source's format has changed since.  `Network.source_text` is the original
    source and `Network.source_path` its bare name.

    Raises
    ------
    ModelError
        The file is not HDF5, not one of ours, or holds no model.
    """
    from tauslab.formats.toml.network import read_toml_text

    path = Path(path)
    try:
        with open_h5(path) as file, reading(path):
            require_undamaged(path, file)
            require_format(path, safe_attributes(file), "a result", ModelError)
            if "model/canonical" not in file or "model/source" not in file:
                raise ModelError(f"{path}: holds no model, as /model/canonical and /model/source")
            canonical = _decoded(file["model/canonical"][()])
            source = _decoded(file["model/source"][()])
            name = plain(file["model/source"].attrs.get("name", ""))
            units = {key: plain(file.attrs[key]) for key in _UNITS if key in file.attrs}
    except OSError as error:
        raise ModelError(f"{path}: cannot be read as HDF5: {error}") from None
    original = Path(Path(name or path.name).name)
    network = read_toml_text(canonical, path)
    network.name = original.stem
    network.source_path, network.source_text = original, source
    for key, unit in units.items():
        setattr(network, key, str(unit))
    return network


def _decoded(value: Any) -> str:
    """Text of an HDF5 attribute or data set, which h5py gives as bytes or as text."""
    return value.decode() if isinstance(value, bytes) else str(value)


READERS: Mapping[str, Callable[[Path], Network | Lattice]] = {
    ".xml": _by("sbml.reader:read_sbml"),
    ".sbml": _by("sbml.reader:read_sbml"),
    ".ant": _by("antimony:read_antimony"),
    ".net": _by("bionetgen.net:read_net"),
    ".bngl": _by("bionetgen.generate:read_bngl"),
    ".psc": _by("stochpy:read_psc"),
    ".toml": _read_own_toml,
    ".lm": _by("lattice_microbes.lattice:read_lm"),
    ".h5": _read_hdf5,
}
