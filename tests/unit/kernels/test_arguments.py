"""Arguments of kernels are read from their text; values that do not fit are refused."""

from __future__ import annotations

import ctypes
import re
import struct

import numpy as np
import pytest

from tauslab.base.errors import KernelCompileError
from tauslab.kernels.backends.arguments import (
    ArgumentLayout,
    Arguments,
    KeptArguments,
    layouts_of,
    with_layout_checks,
)
from tauslab.kernels.backends.cache import csrc_texts

TEXTS = {
    "inner.h": """
struct Inner {
    const double *values;  // [rows, 2]; more: a
    i32 step, stride;      // i64 not_a_field;
    u32 last;
};
""",
    "kernel.cc": """
struct ProbeArguments {
    i32 first;
    Inner inner, other;
    u32 after;
    double by;
    const struct Opaque *opaque, *unknown;
    u64 seed;
};
// KERNEL(not_a_kernel, Inner a) {}
BLOCK_KERNEL(THREADS *GROUPS, 2, probe, const ProbeArguments a) {}
KERNEL(other_probe, Inner a) {}
#define OF(name) \\
    KERNEL(by_macro_##name, double *out, i64 n) {}
""",
}
INNER = {"values": None, "step": 1, "stride": 2, "last": 3}


def layout() -> ArgumentLayout:
    return layouts_of("kernel.cc", TEXTS)["probe"]


def values(**others: object) -> dict[str, object]:
    return {
        "first": -1, "inner": INNER, "other": INNER, "after": 4, "by": 0.5,
        "opaque": None, "unknown": None, "seed": 2**64 - 1, **others,
    }  # fmt: skip


def test_kernels_and_their_structs_are_found():
    assert {name: x.name for name, x in layouts_of("kernel.cc", TEXTS).items()} == {
        "probe": "ProbeArguments",
        "other_probe": "Inner",
    }


def test_structs_are_laid_out_as_c_does():
    # Inner: 8 + 4 + 4 + 4, and 4 more so that the next begins at a multiple of 8.
    actual = {field.path: field.offset for field in layout().fields}
    assert actual == {
        "first": 0, "inner.values": 8, "inner.step": 16, "inner.stride": 20, "inner.last": 24,
        "other.values": 32, "other.step": 40, "other.stride": 44, "other.last": 48, "after": 56,
        "by": 64, "opaque": 72, "unknown": 80, "seed": 88,
    }  # fmt: skip
    assert layout().size == 96


def test_values_go_where_their_names_are():
    array = np.arange(3.0)
    made = Arguments(layout(), values(inner=INNER | {"values": array}))
    assert struct.unpack_from("=i", made.packed(), 0) == (-1,)
    assert struct.unpack_from("=QiiI", made.packed(), 8) == (array.ctypes.data, 1, 2, 3)
    assert struct.unpack_from("=Id", made.packed(), 56)[0] == 4
    assert struct.unpack_from("=dQQQ", made.packed(), 64) == (0.5, 0, 0, 2**64 - 1)
    assert any(buffer is array for buffer in made.buffers())
    assert bytes(made.structure()) == made.packed()
    assert ctypes.sizeof(made.structure()) == 96


def test_later_values_leave_what_was_packed():
    made = Arguments(layout(), values())
    before = made.structure()
    made.set(first=7, inner={"last": 9})
    assert before.first == -1
    assert before.inner.last == 3
    assert made.structure().first == 7
    assert made.structure().inner.last == 9
    assert made.structure().inner.stride == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"frist": 1}, "no field 'frist'"),
        ({"inner": {**INNER, "lats": 1}}, "no field 'inner.lats'"),
        ({"inner": 3}, "no field 'inner'"),
        ({"opaque": 3}, "opaque is a buffer or None, and 3 was given"),
        ({"inner": INNER | {"values": np.zeros(2, np.float32)}}, "buffer of float64, and float32"),
        ({"first": 1.0}, "first = 1.0"),
        ({"first": 2**31}, "first = 2147483648"),
        ({"seed": -1}, "seed = -1"),
        ({"by": None}, "by = None"),
        ({"after": np.zeros(2)}, "after = array"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    with pytest.raises(TypeError, match=message):
        Arguments(layout(), values(**change)).packed()


def test_a_missing_field_is_named():
    given = values(inner={"values": None, "step": 1, "last": 3})
    del given["seed"]
    with pytest.raises(TypeError, match=r"ProbeArguments misses inner\.stride, seed"):
        Arguments(layout(), given)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("i64 many[3];", "a field that Python cannot: i64 many"),
        ("long n;", "struct long, the arguments of a kernel, is not defined"),
        ("int bits : 3;", "a field that Python cannot"),
    ],
)
def test_fields_that_nobody_lays_out_are_refused(field, message):
    texts = {"a.cc": f"struct A {{\n    {field}\n}};\nKERNEL(run, A a) {{}}\n"}
    with pytest.raises(KernelCompileError, match=message):
        layouts_of("a.cc", texts)


def test_two_structs_of_a_name_are_refused():
    texts = TEXTS | {"again.h": TEXTS["inner.h"]}
    with pytest.raises(KernelCompileError, match=r"is defined in inner\.h, again\.h"):
        layouts_of("kernel.cc", texts)


def test_more_than_a_kernel_takes_is_refused():
    fields = "".join(f"    i64 f{i};\n" for i in range(513))
    texts = {"a.cc": f"struct A {{\n{fields}}};\nKERNEL(run, A a) {{}}\n"}
    with pytest.raises(KernelCompileError, match="A has 4104 bytes: a kernel takes 4096"):
        layouts_of("a.cc", texts)


def test_every_field_is_checked_where_it_is_compiled():
    text = with_layout_checks("kernel.cc", TEXTS)["kernel.cc"]
    assert text.startswith(TEXTS["kernel.cc"])
    assert "static_assert(sizeof(ProbeArguments) == 96);" in text
    assert text.count("__builtin_offsetof(ProbeArguments, ") == len(layout().fields)
    assert text.count("static_assert(sizeof(Inner)") == 1


def test_every_kernel_takes_one_struct():
    texts = dict(csrc_texts())
    files = [file for file in texts if file.endswith(".cc")]
    actual = {file: layouts_of(file, texts) for file in files}
    for file in files:
        kernels = len(re.findall(r"^\s*\w*KERNEL\w*\((?!name)", texts[file], re.MULTILINE))
        assert len(actual[file]) == kernels, file
    names = {entry: layout.name for own in actual.values() for entry, layout in own.items()}
    assert (names["ssa"], names["ssa_lanes"]) == ("SsaArguments", "EnsembleArguments")
    assert names["ssa_table"] == names["ssa_rejection"] == "TableArguments"
    assert max(layout.size for own in actual.values() for layout in own.values()) < 512


def test_kept_structs_follow_what_changes():
    class Probe:
        made = 0

        def arguments(self, entry: str, **values: object) -> Arguments:
            self.made += 1
            return Arguments(layouts_of("kernel.cc", TEXTS)[entry], values)

    probe = Probe()
    kept = KeptArguments(probe)
    first, second = np.zeros(2), np.ones(2)
    for array, step in ((first, 1), (first, 2**30), (second, 2**30), (None, 5), (first, 5)):
        given = INNER | {"values": array, "step": step}
        actual = kept.of("probe", **values(inner=given))
        assert actual.packed() == Arguments(layout(), values(inner=given)).packed()
        assert all(buffer is array for buffer in actual.buffers() if buffer is not None)
    assert probe.made == 1
    kept.of("other_probe", **INNER)
    assert probe.made == 2
    with pytest.raises(TypeError, match=r"no field 'inner\.more'"):
        kept.of("probe", inner={"more": 1})
