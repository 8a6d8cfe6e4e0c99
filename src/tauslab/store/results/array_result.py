"""Results of analyses: arrays and a few numbers, which are all of a result and of its file."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import Array
from tauslab.base.errors import ConfigError, InputFileError, OutputError, TauslabError
from tauslab.base.files.opening import at_home, reading
from tauslab.base.files.seals import SealedFile
from tauslab.base.html import card, escape, table
from tauslab.base.option_names import opt
from tauslab.base.unknown import Hinting
from tauslab.options.values.result_name import require_result_name
from tauslab.store.checking.opening import ended_by_signals, kind_of, known_attributes, open_hdf5
from tauslab.store.format.versions import head_of_file
from tauslab.store.results.columns import texts
from tauslab.store.results.digest import Lines, dataset_digest, digest_total
from tauslab.store.results.tables import Columns, ResultTable, to_pandas
from tauslab.store.state import State, write_sealed

if TYPE_CHECKING:
    import h5py  # imported where it is used: an h5py that was built with MPI starts MPI
    import pandas as pd
    import xarray

_MOST_ROWS = 20  # in a notebook
_NOTHING: Mapping[str, Any] = {}


class ArrayResult(Hinting, ABC):
    """Results of analyses consist of arrays by name, and a few numbers and texts.

    ``==`` compares objects; `digest` compares contents.
    """

    # A class says how it becomes arrays and attributes, and how it comes of them. Its file,
    # digest, tables and look in a notebook follow.
    # Methods that a file may name; axes of each array of it, where an axis is an array too, and an
    # array of fewer axes has the last ones; arrays that a file may lack.
    _METHODS: ClassVar[tuple[str, ...]]
    _AXES: ClassVar[Mapping[str, str]]
    _OPTIONAL: ClassVar[tuple[str, ...]] = ()
    _absent: Collection[str] = ()  # arrays that the file lacks from which this was read

    @abstractmethod
    def arrays(self) -> dict[str, Array]:
        """All arrays by name, as a file and a digest have them."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Facts that ``tauslab info --json`` prints; None for a number that is not finite."""

    @abstractmethod
    def lines(self) -> list[str]:
        """The result in the lines that ``tauslab info`` prints."""

    @abstractmethod
    def _tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        """Tables by name, the usual one first."""

    def table(self, what: str | None = None) -> ResultTable:
        """The table that ``tauslab export`` writes; `what` names one where there are several.

        Raises
        ------
        ConfigError
            There is no such table.
        """
        tables = self._tables()
        if what not in (None, *tables):
            known = ", ".join(tables)
            raise ConfigError(f"{opt('what', what)}: {type(self).__name__} has the tables {known}")
        return tables[what or next(iter(tables))]()

    @abstractmethod
    def _attributes(self) -> dict[str, Any]:
        """Attributes of the root of a file; ``method`` is one of `_METHODS`."""

    @classmethod
    def axes_of(cls, names: Collection[str]) -> Mapping[str, str]:
        """Axes of each array, by the names of all that there are."""
        del names
        return cls._AXES

    @classmethod
    @abstractmethod
    def _of(cls, stored: State) -> Self:
        """The result that a file holds."""

    def save(
        self, path: str | os.PathLike[str], settings: Mapping[str, Any] = _NOTHING, *,
        overwrite: bool = False,
    ) -> Path:  # fmt: skip
        """Write an HDF5 file, which `tauslab.open` reads.

        Parameters
        ----------
        settings
            Numbers and texts to note in the file.
        overwrite
            Replace a file that is there. One with the same contents is replaced anyway, so that all
            ranks may save.

        Raises
        ------
        ConfigError
            The name is that of a table or a picture.
        OutputError
            The file is there already, or cannot be written.
        """
        own = at_home(path)
        require_result_name(own)
        if own.exists() and not overwrite and not self._is_in(own):
            raise OutputError(f"{own} exists; overwrite=True replaces it")
        arrays = self._recorded()
        axes = self.axes_of(arrays)

        def attach(file: h5py.File) -> None:
            for name in arrays:
                if axes[name] == name:
                    file[name].make_scale(name)
            for name, array in arrays.items():
                for axis, scale in enumerate(_axes(axes[name], array)):
                    if scale != name:
                        file[name].dims[axis].attach_scale(file[scale])

        contents: dict[str, npt.ArrayLike] = {"progress/complete": np.uint8(1), **arrays}
        attributes = head_of_file() | self._attributes() | dict(settings)
        write_sealed(own, attributes, contents, attach)
        return own

    def _is_in(self, path: Path) -> bool:
        """Return whether a file holds the same contents."""
        try:
            return type(self).load(path).digest() == self.digest()
        except TauslabError:
            return False

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote.

        Raises
        ------
        InputFileError
            The file is missing, damaged or of another kind.
        """
        path = Path(path)
        if kind_of(path) not in cls._METHODS:
            if not path.is_file():
                raise InputFileError(f"{path}: there is no such file")
            raise InputFileError(f"{path} holds no result of {' or '.join(cls._METHODS)}")
        with reading(path, InputFileError), open_hdf5(path) as file:
            with ended_by_signals():
                attributes = known_attributes(path, file, InputFileError)
                sealed = SealedFile(path, file)
                for name in sealed.names:
                    sealed.require(name)
            known = cls.axes_of(sealed.names)
            for name in known:
                if name not in sealed.names and name not in cls._OPTIONAL:
                    raise sealed.damaged(f"it has no /{name}")
            arrays = {name: _values(file[name]) for name in known if name in sealed.names}
        result = cls._of(State(path, attributes, arrays))
        object.__setattr__(result, "_absent", known.keys() - arrays)  # classes are frozen
        return result

    def _recorded(self) -> dict[str, Array]:
        return {name: array for name, array in self.arrays().items() if name not in self._absent}

    def digest_lines(self) -> Lines:
        """Name and SHA-256 of every array that the version of the file recorded."""
        return digest_of(self._recorded())

    def digest(self) -> str:
        """SHA-256 of all arrays, the total that ``tauslab digest`` prints of the file."""
        return digest_total(self.digest_lines())

    def to_pandas(self, what: str | None = None) -> pd.DataFrame:
        """The table that ``tauslab export`` writes as a `pandas.DataFrame`.

        Raises
        ------
        ConfigError
            There is no table `what`.
        """
        return to_pandas(self.table(what))

    def to_xarray(self) -> xarray.Dataset:
        """All arrays by name as an `xarray.Dataset`, with numbers and texts as attributes."""
        import xarray

        result = self.arrays()
        axes = self.axes_of(result)
        arrays = {n: (_axes(axes[n], values), values) for n, values in result.items()}
        return xarray.Dataset(
            {name: one for name, one in arrays.items() if axes[name] != name},
            coords={name: one for name, one in arrays.items() if axes[name] == name},
            attrs=self._numbers() | self._attributes(),
        )

    def _numbers(self) -> dict[str, str | int | float]:
        """Facts that are one number or text."""
        return {k: v for k, v in self.facts().items() if isinstance(v, str | int | float)}

    def _repr_html_(self) -> str:
        shown = self.table()
        columns = next(shown.pieces)
        rows = [
            [_cell(column[i]) for column in columns] for i in range(len(columns[0]))[:_MOST_ROWS]
        ]
        lines = f"<pre>{escape(chr(10).join(self.lines()))}</pre>"
        more = len(columns[0]) - _MOST_ROWS
        facts = {name: _cell(value) for name, value in self._numbers().items()}
        return card(type(self).__name__, facts, [lines, table(shown.header, rows, more=more)])


class FieldResult(ArrayResult):
    """Base of frozen dataclasses whose fields are arrays and attributes of the file.

    Arrays are named in `_AXES`, in the order of file and digest; an axis without a field is counted
    from 0. Fields of type float, int, bool and str are attributes; None is left out, and a NaN
    where the field has a default.
    """

    # Fields by the names of arrays and attributes, where they differ.
    _FIELDS: ClassVar[Mapping[str, str]] = {"parameter": "parameters"}

    def arrays(self) -> dict[str, Array]:
        """All arrays by name, as a file and a digest have them."""
        given: dict[str, Array] = {}
        sizes: dict[str, int] = {}
        for name, axes in self._AXES.items():
            value = getattr(self, self._FIELDS.get(name, name), None)
            if value is None:
                continue
            array = np.asarray(value)
            given[name] = array.astype(np.uint8) if array.dtype == bool else array
            sizes |= dict(zip(_axes(axes, array), array.shape, strict=True))
        counted = {axis: np.arange(n) for axis, n in sizes.items() if axis not in given}
        return {name: (given | counted)[name] for name in self._AXES if name in given | counted}

    def _attributes(self) -> dict[str, Any]:
        result: dict[str, Any] = {"method": self._METHODS[0]}
        for name, own in self._stored_fields().items():
            value = getattr(self, own.name)
            if own.type not in _SCALARS or value is None or (_may_lack(own) and np.isnan(value)):
                continue
            result[name] = np.uint64(value) if own.type in _WHOLE else value
        return result

    @classmethod
    def _of(cls, stored: State) -> Self:
        values = {}
        for name, own in cls._stored_fields().items():
            if name in stored or name in stored.attributes or not _may_lack(own):
                read = _SCALARS.get(cast("str", own.type))
                values[own.name] = _field(own, stored[name]) if read is None else read(stored, name)
        return cls(**values)

    @classmethod
    def _stored_fields(cls) -> dict[str, Field[Any]]:
        """Fields by the names that a file has."""
        names = {field: name for name, field in cls._FIELDS.items()}
        return {names.get(own.name, own.name): own for own in fields(cast("Any", cls))}


# How a field of this type is read of an attribute.
_SCALARS: Mapping[str, Callable[[State, str], Any]] = {
    "float": State.real,
    "int": State.whole,
    "int | None": State.whole,
    "bool": lambda stored, name: bool(stored.whole(name, 0, 1)),
    "str": State.text,
}
_WHOLE = ("int", "int | None", "bool")


def _may_lack(own: Field[Any]) -> bool:
    return own.default is not MISSING or own.default_factory is not MISSING


def _field(own: Field[Any], array: Array) -> Any:
    if str(own.type).startswith("tuple"):
        return tuple(array.tolist())
    return array.astype(bool) if own.type == "BoolArray" else array


def named_columns(columns: Mapping[str, Array]) -> ResultTable:
    """A table of columns by name, all of them in one piece."""
    piece: Columns = list(columns.values())
    return ResultTable(tuple(columns), iter([piece]))


def digest_of(arrays: Mapping[str, Array]) -> Lines:
    """Name and SHA-256 of every dataset."""
    return [(name, dataset_digest(name, array)) for name, array in arrays.items()]


def numbers_or_none(values: npt.ArrayLike) -> Any:
    """Numbers as JSON has them, in lists as the array is: None for what is no number."""
    array = np.asarray(values)
    return np.where(np.isfinite(array), array.astype(object), np.array(None)).tolist()


def _axes(names: str, array: Array) -> list[str]:
    return names.split()[-array.ndim :]


def _values(dataset: h5py.Dataset) -> Array:
    return np.array(texts(dataset)) if dataset.dtype.kind == "S" else dataset[()]


def _cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)
