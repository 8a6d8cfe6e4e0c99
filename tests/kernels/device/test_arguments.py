"""Structs of arguments arrive on every device as given, and another layout does not build."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from tauslab.base.errors import KernelCompileError
from tauslab.kernels.backends.arguments import layouts_of
from tauslab.kernels.backends.base import KernelSource, LaunchGrid
from tauslab.kernels.backends.cache import csrc_texts

PROBE = """
#include "device/prelude.h"

struct Small {  // 16 bytes travel in registers of the processor
    u64 *out;
    double real;
};

struct Large {
    i32 first;
    Small small;
    u32 second;
    i64 third, fourth;
    u64 *out;
};

KERNEL(small_probe, const Small a) {
    if (GLOBAL_ID == 0) a.out[0] = as_bits(a.real);
}

KERNEL(large_probe, const Large a) {
    if (GLOBAL_ID != 0) return;
    a.out[0] = (u64)(i64)a.first;
    a.out[1] = as_bits(a.small.real);
    a.out[2] = a.second;
    a.out[3] = (u64)a.third;
    a.out[4] = (u64)a.fourth;
    a.out[5] = (u64)a.out;
    a.out[6] = (u64)a.small.out;
}

BLOCK_KERNEL(32, 1, block_probe, const Large a) {
    if (BLOCK_ID == 0 && THREAD_ID == 0) a.out[0] += (u64)a.third;
}
"""
ENTRIES = ("small_probe", "large_probe", "block_probe")
WORDS = 7


def source_of(text: str) -> KernelSource:
    return KernelSource("arguments_probe.cc", ENTRIES, {"arguments_probe.cc": text})


def has_offsets(backend) -> bool:
    """Whether the device's compiler knows the offset of a field; NVRTC does since 13.5."""
    refusal = "#if !__has_builtin(__builtin_offsetof)\n#error\n#endif\n"
    try:
        backend.compile(source_of(PROBE + refusal))
    except KernelCompileError:
        return False
    return True


@pytest.fixture
def probe(backend):
    program, stream = backend.compile(source_of(PROBE)), backend.stream()
    out = backend.empty((WORDS,), np.uint64)
    backend.clear(out, stream)
    return program, stream, out


def words_of(backend, out, stream) -> list[int]:
    mirror = backend.mirror(out)
    backend.download(out, mirror, WORDS, stream)
    stream.record().wait()
    return [int(word) for word in mirror]


def bits(value: float) -> int:
    return int(struct.unpack("=Q", struct.pack("=d", value))[0])


def test_a_struct_of_two_words_arrives(backend, probe):
    program, stream, out = probe
    program.launch("small_probe", 1, program.arguments("small_probe", out=out, real=-0.1), stream)
    assert words_of(backend, out, stream)[0] == bits(-0.1)


def test_every_field_arrives(backend, probe):
    program, stream, out = probe
    arguments = program.arguments(
        "large_probe", first=-5, second=2**32 - 1, third=-(2**63), fourth=np.int64(7), out=out,
        small={"out": None, "real": 1e300},
    )  # fmt: skip
    program.launch("large_probe", 1, arguments, stream)
    actual = words_of(backend, out, stream)
    assert actual[:5] == [2**64 - 5, bits(1e300), 2**32 - 1, 2**63, 7]
    assert actual[5] != 0
    assert actual[6] == 0


@pytest.mark.parametrize("together", [False, True])
def test_changes_between_launches_are_for_later_ones(backend, probe, together):
    """Launches wait in a stream while their struct is changed for the next."""
    program, stream, out = probe
    arguments = program.arguments(
        "block_probe", first=0, second=0, third=0, fourth=0, out=out,
        small={"out": None, "real": 0.0},
    )  # fmt: skip
    for number in range(1, 101):
        arguments.set(third=number)
        program.launch_blocks("block_probe", LaunchGrid(1, 32, together), arguments, stream)
    arguments.set(third=1 << 40)
    assert words_of(backend, out, stream)[0] == 5050


@pytest.mark.parametrize(
    ("field", "swapped"),
    [
        ("i64 third, fourth;", "i64 fourth, third;"),
        ("i64 third, fourth;", "i64 third;"),
        ("i64 third, fourth;", "i64 third, fourth, fifth;"),
        ("i32 first;", "i64 first;"),
        ("u32 second;", "u32 second, more, most;"),
        ("u64 *out;\n    double real;", "double real;\n    u64 *out;"),
    ],
)
def test_a_struct_of_another_layout_does_not_build(backend, field, swapped):
    layouts = layouts_of("probe.cc", csrc_texts() | {"probe.cc": PROBE})
    assert field in PROBE
    changed = PROBE.replace(field, swapped) + layouts["large_probe"].checks()
    if sorted(field) == sorted(swapped) and not has_offsets(backend):
        pytest.skip("this compiler cannot tell where a field begins")
    with pytest.raises(KernelCompileError, match=r"assert|has no member|fourth"):
        backend.compile(source_of(changed))
