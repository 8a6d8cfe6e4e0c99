"""Arguments of kernels: one struct, passed by value, which the kernel's own text describes.

A kernel takes one struct, for instance::

    struct EnsembleArguments {
        const PhiloxKeys *keys;  // of the seed
        i64 rows;                // trajectories of the launch
    };
    KERNEL(ssa, EnsembleArguments a) { ... }

This text is the only description. Python reads names, types and order of the fields from it, and
takes values by name alone: `Program.arguments`. `with_layout_checks` adds assertions to the text
that a device compiles, so that its compiler proves size and offset of every field.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from tauslab.base.arrays import UintArray
from tauslab.base.errors import KernelCompileError

# Numbers: how `struct` packs them, and their type in ctypes.
_NUMBERS: dict[str, tuple[str, type[Any]]] = {
    "double": ("d", ctypes.c_double),
    "i32": ("i", ctypes.c_int),
    "i64": ("q", ctypes.c_longlong),
    "u32": ("I", ctypes.c_uint),
    "u64": ("Q", ctypes.c_ulonglong),
}
# Types of buffers; what other pointers point to is a struct, or a type that the model decides.
_ELEMENTS: dict[str, np.dtype[Any]] = {
    "double": np.dtype(np.float64), "float": np.dtype(np.float32), "u8": np.dtype(np.uint8),
    **{f"{kind}{bits}": np.dtype(f"{kind}{bits // 8}") for kind in "iu" for bits in (32, 64)},
    "u16": np.dtype(np.uint16),
}  # fmt: skip
_MOST_BYTES = 4096  # that a CUDA kernel takes

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
# A line of a struct: its type, and what is declared of it.
_MEMBER = re.compile(r"(?:const\s+)?(?:struct\s+)?(\w+)\s*((?:\**\s*\w+,?\s*)+)")
# An entry and the type of its only parameter. Numbers for the compiler may stand before its name.
_KERNEL = re.compile(
    r"^\w*KERNEL\w*\((?:[^;{}()]*,)?\s*(\w+),\s*(?:const\s+)?(\w+)\s+\w+\)", re.MULTILINE
)

Values = Mapping[
    str, Any
]  # by name of the field; of a struct in the struct a dict of the same kind


class HasArguments(Protocol):
    """A compiled program, as far as arguments need it."""

    def arguments(self, entry: str, **values: Any) -> Arguments:
        """Arguments of kernel `entry`: a value for every field of the struct that it takes."""


@dataclass(frozen=True)
class _Field:
    """A number or an address in a struct, or in one within it: ``run.rows``."""

    path: str
    offset: int
    size: int
    code: str
    element: np.dtype[Any] | None = None  # of a buffer's type, where the text says it
    is_pointer: bool = False

    def address(self, value: Any) -> int:
        """Address of a buffer.

        Raises
        ------
        TypeError
            Its numbers have another type.
        AttributeError
            It is none.
        """
        if value is None:
            return 0
        if self.element is not None and value.dtype != self.element:
            raise TypeError(
                f"{self.path} is a buffer of {self.element.name}, and {value.dtype} was given"
            )
        if isinstance(value, np.ndarray):  # by `ctypes` it takes four times as long
            return int(value.__array_interface__["data"][0])
        return int(value.data.ptr)


class ArgumentLayout:
    """Places of the fields of a struct, as C lays it out.

    Parameters
    ----------
    name
        The struct.
    texts
        All kernel files, one of which defines it.

    Raises
    ------
    KernelCompileError
        No file defines it, or several do, or a field has a type that Python does not know.
    """

    def __init__(self, name: str, texts: Mapping[str, str]) -> None:
        self.name = name
        self.structure = _structure(name, texts)
        self.size = ctypes.sizeof(self.structure)
        self.fields = tuple(_fields(self.structure, "", 0))
        if self.size > _MOST_BYTES:
            raise KernelCompileError(f"{name} has {self.size} bytes: a kernel takes {_MOST_BYTES}")
        code, end = "=", 0
        for field in self.fields:
            code += f"{field.offset - end}x{field.code}"
            end = field.offset + field.size
        self.packer = struct.Struct(f"{code}{self.size - end}x")
        columns = ("path", "code", "offset")
        names, formats, offsets = ([getattr(f, c) for f in self.fields] for c in columns)
        self.record = np.dtype({
            "names": names, "formats": formats, "offsets": offsets, "itemsize": self.size,
        })  # fmt: skip
        self.places = {field.path: place for place, field in enumerate(self.fields)}
        self.pointers = [place for place, field in enumerate(self.fields) if field.is_pointer]

    def checks(self) -> str:
        """Assertions in C++ that a compiler lays the struct out likewise.

        NVRTC before 13.5 has no ``__builtin_offsetof``: it asserts the sizes alone.
        """
        lines = [f"static_assert(sizeof({self.name}) == {self.size});\n"]
        lines += [
            f"static_assert(sizeof((({self.name} *)nullptr)->{field.path}) == {field.size});\n"
            for field in self.fields
        ]
        lines.append("#if __has_builtin(__builtin_offsetof)\n")
        lines += [
            f"static_assert(__builtin_offsetof({self.name}, {field.path}) == {field.offset});\n"
            for field in self.fields
        ]
        lines.append("#endif\n")
        return "".join(lines)


_NOT_GIVEN = object()


class Arguments:
    """The struct of launches of a kernel; `set` changes fields between them."""

    def __init__(self, layout: ArgumentLayout, values: Values) -> None:
        self._layout = layout
        self._given: list[Any] = [_NOT_GIVEN] * len(layout.fields)
        self._packed: list[Any] = [0] * len(layout.fields)
        self._take(values, "")
        both = zip(layout.fields, self._given, strict=True)
        missing = [field.path for field, value in both if value is _NOT_GIVEN]
        if missing:
            raise TypeError(f"{layout.name} misses {', '.join(missing)}")

    def set(self, **values: Any) -> None:
        """Give fields other values, for later launches; what is the same object costs little.

        Raises
        ------
        TypeError
            There is no such field, or it has another type.
        """
        self._take(values, "")

    def packed(self) -> bytes:
        """The struct as it is now.

        Raises
        ------
        TypeError
            A number does not fit its field.
        """
        try:
            return self._layout.packer.pack(*self._packed)
        except (struct.error, TypeError) as error:
            raise TypeError(f"{self._layout.name}: {error} ({self._values_text()})") from None

    def packed_rows(self, n: int, values: Mapping[str, Any]) -> UintArray:
        """Structs u64 ``[row, word]`` that differ in some fields, by their paths.

        Numbers come from arrays ``[row]``. Each struct has a row of a buffer, by turns where there
        are fewer.
        """
        rows = np.repeat(np.frombuffer(self.packed(), self._layout.record), n)
        for path, value in values.items():
            field = self._layout.fields[self._layout.places[path]]
            if field.is_pointer:
                each = value.nbytes // len(value)
                rows[path] = field.address(value) + np.arange(n) % len(value) * each
            else:
                rows[path] = value
        return rows.view(np.uint64).reshape(n, -1)

    def structure(self) -> ctypes.Structure:
        """The struct for a call by ctypes."""
        made: ctypes.Structure = self._layout.structure.from_buffer_copy(self.packed())
        return made

    def buffers(self) -> list[Any]:
        """Buffers that must live until a launch has run: the struct holds bare addresses."""
        return [self._given[place] for place in self._layout.pointers]

    def _take(self, values: Values, prefix: str) -> None:
        places, given = self._layout.places, self._given
        for name, value in values.items():
            if isinstance(value, dict):
                self._take(value, f"{prefix}{name}.")
                continue
            place = places.get(prefix + name)
            if place is None:
                known = f"its fields: {', '.join(places)}"
                raise TypeError(f"{self._layout.name} has no field {prefix + name!r}; {known}")
            if given[place] is not value:
                self._packed[place] = self._pack(self._layout.fields[place], value)
                given[place] = value

    def _pack(self, field: _Field, value: Any) -> Any:
        if not field.is_pointer:
            return value
        try:
            return field.address(value)
        except AttributeError:
            raise TypeError(
                f"{self._layout.name}: {field.path} is a buffer or None, and {value!r} was given"
            ) from None

    def _values_text(self) -> str:
        numbers = zip(self._layout.fields, self._packed, strict=True)
        return ", ".join(f"{f.path} = {value!r}" for f, value in numbers if not f.is_pointer)


class KeptArguments:
    """Structs of a program's kernels for many short launches: only what changes is packed again."""

    def __init__(self, program: HasArguments) -> None:
        self._program = program
        self._kept: dict[str, Arguments] = {}

    def of(self, entry: str, **values: Any) -> Arguments:
        """Return those of `Program.arguments`, good until the next call for this kernel."""
        kept = self._kept.get(entry)
        if kept is None:
            kept = self._kept[entry] = self._program.arguments(entry, **values)
        else:
            kept.set(**values)
        return kept

    def forget(self) -> None:
        """Let go of all structs, and so of the buffers that they name."""
        self._kept.clear()


def layouts_of(file: str, texts: Mapping[str, str]) -> dict[str, ArgumentLayout]:
    """Layouts of the arguments of all kernels in a file, by kernel."""
    return dict(_layouts_of(file, tuple(texts.items())))


@lru_cache(maxsize=64)  # to find the structs takes as long as the rest of a short run's start
def _layouts_of(file: str, named: tuple[tuple[str, str], ...]) -> dict[str, ArgumentLayout]:
    texts = dict(named)
    result: dict[str, ArgumentLayout] = {}
    for entry, name in _KERNEL.findall(_COMMENT.sub("", texts[file])):
        if name in _NUMBERS:  # the last of several parameters
            continue
        same = (layout for layout in result.values() if layout.name == name)
        result[entry] = next(same, None) or ArgumentLayout(name, texts)
    return result


def with_layout_checks(
    file: str, texts: Mapping[str, str], layouts: Mapping[str, ArgumentLayout] | None = None
) -> dict[str, str]:
    """The texts, with assertions of the layouts at the end of `file`.

    `layouts` are those of `layouts_of`, where they are known.
    """
    result = layouts_of(file, texts) if layouts is None else layouts
    by_name = {layout.name: layout for layout in result.values()}
    checks = "".join(layout.checks() for layout in by_name.values())
    head = "\n// What Python takes the arguments for (backends/arguments.py).\n" if checks else ""
    return {**texts, file: f"{texts[file]}{head}{checks}"}


def _structure(name: str, texts: Mapping[str, str]) -> type[ctypes.Structure]:
    """The struct for ctypes, which lays it out by the rules of C."""
    head = f"struct {name} {{"
    owners = [file for file, text in texts.items() if head in text]
    if len(owners) != 1:
        where = f"is defined in {', '.join(owners)}" if owners else "is not defined in any file"
        raise KernelCompileError(f"struct {name}, the arguments of a kernel, {where}")
    body = texts[owners[0]].split(head)[1].split("\n};")[0]
    members: list[tuple[str, Any]] = []
    elements: dict[str, Any] = {}
    for line in filter(None, map(str.strip, _COMMENT.sub("", body).split(";"))):
        member = _MEMBER.fullmatch(line)
        if member is None:
            raise KernelCompileError(f"{owners[0]}: {name} has a field that Python cannot: {line}")
        kind = member[1]
        for declared in member[2].split(","):
            field = declared.strip(" *\n")
            if "*" in declared:
                members.append((field, ctypes.c_void_p))
                elements[field] = _ELEMENTS.get(kind)
            elif kind in _NUMBERS:
                members.append((field, _NUMBERS[kind][1]))
            else:
                members.append((field, _structure(kind, texts)))
    return type(name, (ctypes.Structure,), {"_fields_": members, "elements": elements})


def _fields(structure: Any, path: str, begin: int) -> Iterator[_Field]:
    """Numbers and addresses in order, with those of structs within."""
    codes = {kind: code for code, kind in _NUMBERS.values()}
    for name, kind in structure._fields_:
        place = getattr(structure, name)
        own, offset = path + name, begin + place.offset
        if issubclass(kind, ctypes.Structure):
            yield from _fields(kind, f"{own}.", offset)
        elif name in structure.elements:
            yield _Field(own, offset, place.size, "Q", structure.elements[name], is_pointer=True)
        else:
            yield _Field(own, offset, place.size, codes[kind])
