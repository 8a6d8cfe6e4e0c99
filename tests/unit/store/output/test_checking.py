"""Files that are not what was written: one sentence before anything is read of them."""

from __future__ import annotations

import signal
import subprocess
import sys

import h5py
import numpy as np
import pytest
from sample_job import digest, sample_job, sweep_job

from tauslab.base.errors import InputFileError
from tauslab.base.files.seals import SEALED, SEALS, require_sound_heaps, seal
from tauslab.base.files.text import put_attributes, text_array
from tauslab.store.results.open import open_result
from tauslab.store.writers.parts import PartsOptions

VIEW = PartsOptions(segment_bytes=500, merge_bytes=0)


@pytest.fixture
def path(tmp_path):
    made = tmp_path / "a.h5"
    sample_job().with_layout(summaries=("mean:X",)).run(made)
    return made


def reseal(file):
    """Seals of what there is now, as who tampers with a file might make them."""
    entries = file[SEALED][()].astype(str).tolist()
    opened = [entry[1:] for entry in entries if entry[0] == "~" and entry[1:] in file]
    del file[SEALED], file[SEALS]
    seal(file, opened)


def refused(path, match):
    with pytest.raises(InputFileError, match=match) as error:
        digest(path)
    assert "\n" not in str(error.value)
    assert error.value.exit_code == 2


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("format_version", 4, "has format version 4; this tauslab reads 2 to 3"),
        ("format_version", "two", "has no format version"),
        ("seed", -1, "'seed' is -1, not a whole number from 0"),
        ("seed", "one", "'seed' is 'one'"),
        ("block", 0, "'block' is 0, not a whole number from 1"),
        ("block", 4, "its attribute 'block' is another|checksum for each block"),
        ("n", 2**40, "not <i4|not int32"),
        ("grid", "2,2", "a grid without a sweep"),
        ("sweep", "k", "'sweep' does not name what is in /sweep"),
        ("method", "magic", "'method' is 'magic', not ssa or tau or ode"),
        ("method", "rdme", "holds a lattice run"),
        ("storage", "cloud", "'storage' is 'cloud'"),
        ("record", 5, "'record' is no text"),
    ],
)
@pytest.mark.parametrize("sealed", [False, True], ids=["careless", "sealed anew"])
def test_an_attribute_that_was_changed(path, name, value, match, sealed):
    with h5py.File(path, "r+") as file:
        put_attributes(file, {name: value})
        if sealed:
            reseal(file)
    early = ("format_version", "rdme")  # they say what the file is, before seals are looked at
    careless = (
        match
        if name in early or value in early
        else "attributes do not agree with their checksum|" + match
    )
    refused(path, match if sealed else careless)


@pytest.mark.parametrize("sealed", [False, True], ids=["careless", "sealed anew"])
@pytest.mark.parametrize("name", ["status", "time", "counts", "progress/blocks", "model/source",
                                  "progress/checksums", "progress/complete"])  # fmt: skip
def test_a_dataset_that_is_missing_or_another(path, name, sealed):
    whole = path.read_bytes()
    changes = {
        "gone": None,
        "flat": np.zeros(1000),
        "nothing": h5py.Empty("f8"),
        "text": np.array([b"a", b"b"], h5py.string_dtype()),
        "group": "group",
    }
    for change, values in changes.items():
        path.write_bytes(whole)
        with h5py.File(path, "r+") as file:
            del file[name]
            if isinstance(values, str):
                file.create_group(name)
            elif values is not None:
                file[name] = values
            if sealed and change not in ("nothing", "text"):
                reseal(file)
        refused(path, r"a\.h5 is damaged")


@pytest.mark.parametrize("name", ["time", "counts", "species"])
def test_data_that_lie_elsewhere(path, tmp_path, name):
    whole = path.read_bytes()
    with h5py.File(path) as file:
        values, kind = file[name][()], file[name].dtype
    (tmp_path / "raw").write_bytes(values.tobytes())
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = values
    layout = h5py.VirtualLayout(values.shape, kind)
    layout[...] = h5py.VirtualSource("other.h5", "x", values.shape, kind)
    for make, match in (
        (lambda f: f.create_dataset(
            name, values.shape, kind, external=[(str(tmp_path / "raw"), 0, values.nbytes)]
        ), "lie in another file"),
        (lambda f: f.create_virtual_dataset(name, layout), "is a view of other data"),
        (lambda f: f.__setitem__(name, h5py.ExternalLink("other.h5", "x")), "a link to something"),
        (lambda f: f.__setitem__(name, h5py.SoftLink("/status")), "a link to something"),
    ):  # fmt: skip
        path.write_bytes(whole)
        with h5py.File(path, "r+") as file:
            del file[name]
            make(file)
        refused(path, match)


@pytest.mark.parametrize("part", ["../a.h5.parts/r0001-000.h5", "/etc/passwd", "b.h5"])
def test_a_view_shows_parts_beside_it_only(tmp_path, part):
    job = sample_job()
    job.run(tmp_path / "a.h5", 2, parts=VIEW)
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        shape, kind = file["counts"].shape, file["counts"].dtype
        del file["counts"]
        layout = h5py.VirtualLayout(shape, kind)
        layout[...] = h5py.VirtualSource(part, "counts", shape, kind)
        file.create_virtual_dataset("counts", layout)
    refused(tmp_path / "a.h5", "which is no part of it")


@pytest.mark.filterwarnings("ignore:.* ended early")
def test_values_are_compared_as_they_are_read(path):
    """A count of one block: what does not need that block can be read."""
    with h5py.File(path, "r+") as file:
        file["counts"][7, 1, 0] += 1
    with open_result(path) as result:
        assert result.data["counts"][:6].shape == (6, 4, 2)
        assert result.data["counts"][9:, :, 0].shape == (14, 4)
        assert result.status.shape == (23,)
        for read in (
            lambda: result.data["counts"][7],
            lambda: result.data["counts"][[1, 7], :, 0],
            lambda: result.data["counts"][..., 1],
            lambda: result.counts("protein_Y"),
            result.to_xarray,
            lambda: np.asarray(result.data["counts"]),
        ):
            with pytest.raises(InputFileError, match="trajectories 6 to 8 of /counts do not agree"):
                read()
    refused(path, "checksum of block 2")


@pytest.mark.parametrize("name", ["statistics/sum", "statistics/histogram/X", "profile/compute"])
def test_sums_are_compared(path, name):
    with h5py.File(path, "r+") as file:
        file[name][0] += 1
    refused(path, f"/{name} does not agree with its checksum")


@pytest.mark.parametrize("ranks", [1, 2])
def test_whatever_writes_leaves_checksums(tmp_path, ranks):
    """Merged, shown as one, compressed."""
    from tauslab.store.writers.writer import Storage

    job = sample_job()
    for index, options in enumerate(({}, {"parts": VIEW}, {"how": Storage(compress=3)})):
        path = tmp_path / f"{index}.h5"
        job.run(path, ranks, **options)
        with h5py.File(path) as file:
            assert (file["progress/checksums"][()] != 0).all()
        with open_result(path) as result:
            result.data.verify()


def test_swept_rows_are_compared_where_they_lie(tmp_path):
    path = tmp_path / "a.h5"
    sweep_job(6).run(path)
    with h5py.File(path, "r+") as file:
        file["counts"][2, 3, 0, 0] += 1
    with open_result(path) as result:
        assert result.data["counts"][:2].shape[0] == 2
        assert result.data["counts"][0:1, 3:5].shape[:2] == (1, 2)
        for key in ((2, 3), (slice(2, 3), slice(3, 4)), (slice(None), 3), (..., 0)):
            with pytest.raises(InputFileError, match="of /counts do not agree"):
                _ = result.data["counts"][key]


def test_a_heap_that_would_keep_hdf5_busy_is_refused(tmp_path):
    """A zeroed object in a heap: HDF5 2.0 goes round in it for ever."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["texts"] = np.array(["a" * 50] * 40, object)
    require_sound_heaps(path)
    data = bytearray(path.read_bytes())
    at = data.index(b"GCOL") + 200
    data[at : at + 2000] = bytes(2000)
    path.write_bytes(bytes(data))
    with pytest.raises(InputFileError, match="a heap of it is"):
        require_sound_heaps(path)


def test_a_signal_ends_what_hdf5_does_not(tmp_path):
    """While a file is opened SIGTERM ends the process, though a run would stop in order."""
    program = """if True:
        import os, signal, time
        from tauslab.decomposition.ranks.stopping import stop_on_signals
        from tauslab.store.checking.opening import ended_by_signals
        stop_on_signals()
        with ended_by_signals():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(20)
    """
    done = subprocess.run([sys.executable, "-c", program], check=False, timeout=60)
    assert done.returncode == -signal.SIGTERM


def test_texts_have_fixed_lengths(path):
    actual = []
    with h5py.File(path) as file:
        file.visititems(lambda _, item: actual.append(getattr(item, "dtype", np.dtype("u1"))))
        actual += [file.attrs.get_id(name).dtype for name in file.attrs]
    assert {dtype.kind for dtype in actual} <= set("iufS")
    assert text_array(["é", ""]).tolist() == ["é".encode(), b""]
    assert text_array([]).shape == (0,)
