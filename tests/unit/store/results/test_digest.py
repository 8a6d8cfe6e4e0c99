"""Digests: what changes them, what must not, and one known answer."""

from __future__ import annotations

import hashlib

import h5py
import numpy as np
import pytest
import result_factory as make

from tauslab.base.errors import ConfigError, InputFileError
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.options.record import HistogramSpec
from tauslab.store.format.layout import Chunk, Layout
from tauslab.store.format.statistics import accumulate
from tauslab.store.results import columns
from tauslab.store.results.digest import digest_lines, digest_total
from tauslab.store.results.open import open_result
from tauslab.store.results.result import Result
from tauslab.store.writers.memory import MemoryWriter
from tauslab.store.writers.writer import open_writer

N = 100
EDGES = np.array([60.0, 90.0, 300.0])


def everything():
    """Arrays of a run that records all there is to record."""
    arrays = make.samples(N)
    counts = arrays["counts"]
    return arrays | make.statistics(counts) | make.histogram(counts, EDGES)


def lines(arrays, species=None):
    return digest_lines(Result(arrays, make.attributes(N)), species)


def changed(before, after):
    """Names of the lines that differ."""
    assert [name for name, _ in before] == [name for name, _ in after]
    return [a[0] for a, b in zip(before, after, strict=True) if a != b]


def test_order_and_names():
    assert [name for name, _ in lines(everything())] == [
        "time",
        "species",
        "status",
        "counts/X",
        "counts/Y",
        "observables",
        "statistics/n",
        "statistics/sum/X",
        "statistics/sum/Y",
        "statistics/sumsq_hi/X",
        "statistics/sumsq_hi/Y",
        "statistics/sumsq_lo/X",
        "statistics/sumsq_lo/Y",
        "statistics/histogram/X",
        "statistics/histogram/X_edges",
        "final/X",
        "final/Y",
    ]


def test_known_answer():
    """Spelled out by hand: path, dtype, shape, then little-endian bytes."""
    arrays = {
        "time": np.array([0.0, 1.0]),
        "species": np.array(["A", "B"], object),
        "status": np.array([0, 1, 0], np.uint8),
        "counts": np.arange(12, dtype=np.int32).reshape(3, 2, 2),
    }
    one = np.float64(1).tobytes()
    b = b"".join(value.to_bytes(4, "little") for value in (1, 3, 5, 7, 9, 11))
    expected = {
        "time": b"time\n<f8\n[2]\n" + b"\0" * 8 + one,
        "species": b"species\ntext\n[2]\nA\0B\0",
        "status": b"status\n|u1\n[3]\n\0\1\0",
        "counts/B": b"counts/B\n<i4\n[3, 2]\n" + b,
    }
    actual = digest_lines(Result(arrays, make.attributes(3)))
    for name, content in expected.items():
        assert dict(actual)[name] == hashlib.sha256(content).hexdigest()
    text = "".join(f"{name} {value}\n" for name, value in actual)
    assert digest_total(actual) == hashlib.sha256(text.encode()).hexdigest()


def test_file_and_memory_agree(tmp_path):
    path = make.write(tmp_path / "r.h5", everything())
    with open_result(path) as result:
        assert digest_lines(result) == lines(everything())


@pytest.mark.parametrize("block", [16, 100])
def test_what_the_writers_write_has_the_digest_of_its_arrays(tmp_path, block):
    arrays = everything() | make.real_statistics(make.samples(N)["observables"])
    layout = Layout(
        n=N,
        times=make.TIMES,
        species=make.SPECIES,
        observables=("total", "half"),
        trajectories=True,
        final=True,
        statistics=True,
        histograms=(HistogramSpec("X", 60.0, 300.0, 2),),
        block=block,
        attributes={"method": "ssa", "seed": 1},
    )
    arrays |= make.histogram(arrays["counts"], layout.histograms[0].edges)
    rows = ("status", "counts", "observables", "final")
    chunk = Chunk(0, {name: arrays[name] for name in rows})
    for path in (None, tmp_path / "r.h5"):
        writer = open_writer(path, layout, Communicator())
        writer.write(chunk)
        writer.finish(accumulate(layout, chunk.arrays), [{"device": "cpu"}])
        if isinstance(writer, MemoryWriter):
            actual = digest_lines(Result(writer.result_arrays, writer.attributes))
        else:
            actual = digest_lines(open_result(tmp_path / "r.h5"))
        assert actual == lines(arrays)


@pytest.mark.parametrize("block", [1, 7, 64, 4096])
def test_storage_layout_does_not_count(tmp_path, monkeypatch, block):
    monkeypatch.setattr(columns, "READ_BYTES", 1000)
    path = make.write(tmp_path / "r.h5", everything(), block=block)
    with h5py.File(path, "a") as file:
        layout = {"compression": "gzip", "chunks": (9, 4, 1)}
        counts = file["counts"][()]
        del file["counts"]
        file.create_dataset("counts", data=counts, **layout)
    with open_result(path) as result:
        assert digest_lines(result) == lines(everything())


def test_attributes_derived_values_and_profile_do_not_count(tmp_path):
    arrays = everything() | {"statistics/mean": np.ones((4, 2))}
    path = make.write(tmp_path / "r.h5", arrays, command="another", seed=np.uint64(1))
    with h5py.File(path, "a") as file:
        file["profile/compute"][0] = 99.0
        make.reseal(file)
    with open_result(path) as result:
        assert digest_lines(result) == lines(everything())


@pytest.mark.parametrize(
    ("name", "index", "line"),
    [
        ("time", 1, "time"),
        ("status", 99, "status"),
        ("counts", (99, 3, 1), "counts/Y"),
        ("observables", (0, 0, 0), "observables"),
        ("statistics/n", 0, "statistics/n"),
        ("statistics/sumsq_hi", (0, 0), "statistics/sumsq_hi/X"),
        ("statistics/histogram/X", (0, 0), "statistics/histogram/X"),
        ("final", (7, 1), "final/Y"),
    ],
)
def test_one_changed_value_changes_its_line_only(name, index, line):
    arrays = everything()
    before = lines(arrays)
    arrays[name] = arrays[name].copy()
    arrays[name][index] += 1
    after = lines(arrays)
    assert changed(before, after) == [line]
    assert digest_total(before) != digest_total(after)


@pytest.mark.parametrize(("index", "name"), [(0, "X"), (1, "Y")])
def test_run_of_one_species_agrees_with_a_full_run(index, name):
    arrays = everything()
    alone = make.species_only(arrays, index)
    alone = {k: v for k, v in alone.items() if "observable" not in k}  # none was named
    if name != "X":
        alone = {k: v for k, v in alone.items() if "histogram" not in k}
    assert digest_total(lines(alone)) == digest_total(lines(arrays, [name]))
    assert set(lines(alone)) - set(lines(arrays)) == {lines(alone)[1]}  # the list of species


def test_order_of_chosen_species_does_not_count():
    assert lines(everything(), ["Y", "X"]) == lines(everything(), ["X", "Y"])


def test_unknown_species_is_named():
    with pytest.raises(ConfigError, match=r"'Q' is not a species.*X, Y"):
        lines(everything(), ["X", "Q"])


def test_every_nan_has_the_same_bits():
    arrays = make.samples(N)
    before = lines(arrays)
    bits = arrays["observables"].view(np.uint64)
    bits[np.isnan(arrays["observables"])] = 0xFFF8_0000_0000_1234
    assert lines(arrays) == before
    arrays["observables"][0, 0, 0] = -0.0
    zero = lines(arrays)
    arrays["observables"][0, 0, 0] = 0.0
    assert changed(zero, lines(arrays)) == ["observables"]


def test_shape_and_names_count():
    arrays = make.only(make.samples(N), "counts")
    turned = arrays | {"counts": arrays["counts"].reshape(2 * N, 2, 2)}
    assert changed(lines(arrays), lines(turned)) == ["counts/X", "counts/Y"]
    renamed = arrays | {"species": np.array(["X", "Z"], object)}
    assert dict(lines(renamed))["counts/Z"] != dict(lines(arrays))["counts/Y"]


def test_unfinished_file_is_refused(tmp_path):
    path = make.write(tmp_path / "r.h5", everything(), done=[0, 1])
    with open_result(path) as result, pytest.raises(InputFileError, match="2 of 7 blocks"):
        digest_lines(result)
