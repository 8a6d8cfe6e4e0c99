"""Files of state: what was damaged, changed or foreign is refused by a sentence."""

from __future__ import annotations

import numpy as np
import pytest
from places import TESTS

import tauslab as ts
from tauslab.base.errors import ConfigError, InputFileError
from tauslab.base.files.seals import dataset_sum
from tauslab.store.state import State, StateFile

WHAT = "file of things"
ARRAYS = {
    "counts": np.arange(12, dtype=np.int32).reshape(3, 4),
    "weights": np.linspace(0.1, 1.0, 3),
    "active": np.array([True, False, True]),
    "step": np.int64(7),
    "more/solver": np.bytes_("rk4"),
}
DATA = {"time": [1.0, 2.0], "X": [4, 6]}


@pytest.fixture
def file(tmp_path):
    made = StateFile(tmp_path / "s.h5", "things", WHAT)
    made.write(ARRAYS, {"time": 1.5, "seed": np.uint64(2**64 - 1)})
    return made


def same(found: State) -> bool:
    return set(found) == set(ARRAYS) and all(
        found[k].tobytes() == np.asarray(v).tobytes() for k, v in ARRAYS.items()
    )


def test_what_was_written_is_read(file):
    actual = file.read()
    assert same(actual)
    assert actual.take("counts", np.int32, 3, None).tolist() == ARRAYS["counts"].tolist()
    assert actual.take("active", bool, 3).tolist() == [True, False, True]
    assert (actual.whole("step", 0, 7), actual.real("time"), actual.whole("seed")) == (
        7,
        1.5,
        2**64 - 1,
    )
    assert actual.below("more").text("solver") == "rk4"


def test_no_flipped_bit_gives_other_numbers(file, tmp_path):
    good, rng, refused = file.path.read_bytes(), np.random.default_rng(1), 0
    for at in rng.choice(8 * len(good), 120, replace=False):
        bad = bytearray(good)
        bad[at // 8] ^= 1 << (at % 8)
        file.path.write_bytes(bad)
        try:
            assert same(file.read())
        except InputFileError:
            refused += 1
    assert refused > 10  # much of a small file is of nobody


@pytest.mark.parametrize(
    "ask",
    [
        lambda s: s.take("missing", np.int32, 3),
        lambda s: s.take("counts", np.int64, 3, 4),
        lambda s: s.take("counts", np.int32, 3, 5),
        lambda s: s.take("counts", np.int32, 12),
        lambda s: s.take("nan", np.float64, 2),
        lambda s: s.whole("step", 8),
        lambda s: s.whole("nan"),
        lambda s: s.real("one_nan"),
        lambda s: s.whole("weights"),
        lambda s: s.text("step"),
    ],
)
def test_what_fits_nothing_is_refused(file, ask):
    file.write({**ARRAYS, "nan": np.array([0.0, np.nan]), "one_nan": np.nan})
    with pytest.raises(InputFileError, match=r"s\.h5 is damaged"):
        ask(file.read())


def test_what_lies_elsewhere_is_not_read(file, tmp_path):
    """Values in another file, links, and views, though their names and types are as they were."""
    h5py = pytest.importorskip("h5py")
    secret = tmp_path / "secret"
    secret.write_bytes(np.linspace(0.1, 1.0, 3).tobytes())
    good = file.path.read_bytes()

    def outside(h5, name):
        h5.create_dataset(name, (3,), "f8", external=[(str(secret), 0, 24)])

    def view(h5, name):
        layout = h5py.VirtualLayout((3,), "f8")
        layout[:] = h5py.VirtualSource(str(tmp_path / "copy.h5"), name, (3,))
        h5.create_virtual_dataset(name, layout)

    def external(h5, name):
        h5[name] = h5py.ExternalLink(str(tmp_path / "copy.h5"), name)

    def soft(h5, name):
        h5["copy"] = ARRAYS["weights"]
        h5[name] = h5py.SoftLink("/copy")

    (tmp_path / "copy.h5").write_bytes(good)
    for change in (outside, view, external, soft):
        file.path.write_bytes(good)
        with h5py.File(file.path, "r+") as h5:
            del h5["weights"]
            change(h5, "weights")
        with pytest.raises(InputFileError, match="weights"):
            file.read()


def test_a_dataset_that_claims_more_than_the_file_holds_is_not_read(file):
    """As somebody may write and seal: its values would be read for ever."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(file.path, "r+") as h5:
        before = {entry: i for i, entry in enumerate(h5["progress/sealed"][()].tolist())}
        at = before[b"weights"]
        sums = h5["progress/seals"][()]
        del h5["weights"]
        huge = h5.create_dataset("weights", (1 << 40,), "f8", chunks=(1 << 20,))
        sums[at] = dataset_sum("weights", huge.dtype, huge.shape, ())
        h5["progress/seals"][...] = sums
    with pytest.raises(InputFileError, match="weights"):
        file.read()


def test_other_kinds_and_earlier_versions_are_refused(file, tmp_path):
    h5py = pytest.importorskip("h5py")
    with pytest.raises(InputFileError, match="is no file of others"):
        StateFile(file.path, "others", "file of others").read()
    with h5py.File(file.path, "r+") as h5:
        del h5["progress"]
    begun = TESTS / "data" / "earlier" / "chains_begun.h5"  # its texts are of no fixed length
    for earlier in (file, StateFile(begun, "chains", "file of chains")):
        with pytest.raises(InputFileError, match="earlier version"):
            earlier.read()


# ---------------------------------------------- the four stores, changed and sealed anew


def model():
    net = ts.Network("immigration")
    net.add_species("X", 4)
    net.add_parameter("k", 10.0)
    net.add_reaction("-> X", rate="k")
    net.add_reaction("X ->", rate=0.5)
    return net


def filtered(path):
    return ts.particle_filter(
        model(), DATA, observe={"X": "poisson"}, n=8, seed=1, device="cpu", checkpoint=path,
        set={"k": np.linspace(5.0, 12.0, 8)},
    ).log_likelihood  # fmt: skip


def walked(path):
    return ts.pmmh(
        model(), DATA, priors={"k": "uniform(1,20)"}, observe={"X": "poisson"}, n=8, steps=3,
        warm_up=0, seed=1, device="cpu", checkpoint=path,
    ).log_likelihood.tolist()  # fmt: skip


RARE = {"target": "X >= 9", "t_end": 1.0, "seed": 1, "device": "cpu", "runs": 2, "rounds": 2}


def weighted(path):
    return ts.weighted_ensemble(model(), **RARE, walkers=3, bins=3, checkpoint=path).runs.tolist()


def come_near(path):
    return ts.abc_smc(
        model(), DATA, {"k": "uniform(1,20)"}, n=8, generations=2, seed=1, device="cpu",
        checkpoint=path,
    ).values.tolist()  # fmt: skip


def drawn(path):
    return ts.smc2(
        model(), DATA, {"k": "uniform(1,20)"}, observe={"X": "poisson"}, n=4, draws=8, seed=1,
        threshold=1, device="cpu", checkpoint=path,
    ).values.tolist()  # fmt: skip


STORES = {
    "particles": filtered, "chains": walked, "weighted": weighted, "abc": come_near,
    "smc2": drawn,
}  # fmt: skip


def kind_of(path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path) as h5:
        return h5.attrs["format"].decode().removeprefix("tauslab ")


def changes(array):
    """Other types, shapes and values that somebody may put in the place of an array."""
    yield "type", np.zeros(array.shape, "S4" if array.dtype.kind == "f" else "f4")
    yield "longer", np.concatenate([np.atleast_1d(array)] * 2)
    yield "flat", np.zeros(0, array.dtype)
    if array.dtype.kind == "f":
        yield "nan", np.full_like(array, np.nan)
        yield "infinite", np.full_like(array, np.inf)
    if array.dtype.kind in "iu":
        yield "largest", np.full_like(array, np.iinfo(array.dtype).max)
        yield "least", np.full_like(array, np.iinfo(array.dtype).min)
    yield "missing", None


def tried(store, path, every):
    """How many changes of a store's file were refused, and how many passed."""
    store(path)
    file = StateFile(path, kind_of(path), "")
    good = file.read()
    attributes = {
        k: v if isinstance(v, str | float) else np.uint64(v)
        for k, v in good.attributes.items()
        if k not in ("format", "tauslab_version")
    }
    refused = number = 0
    for name, array in good.items():
        for _, other in changes(array):
            number += 1
            if number % every:
                continue
            changed = {k: v for k, v in good.items() if k != name}
            file.write(changed if other is None else {**changed, name: other}, attributes)
            try:
                store(path)
            except (InputFileError, ConfigError):
                refused += 1
    return refused, number


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("every", [13, pytest.param(1, marks=pytest.mark.validate)])
@pytest.mark.parametrize("name", STORES)
def test_a_store_that_was_changed_and_sealed_anew_gives_no_traceback(name, every, tmp_path):
    refused, number = tried(STORES[name], tmp_path / "c.h5", every)
    assert refused > (number // every) / 3


@pytest.mark.parametrize("name", STORES)
def test_a_store_with_a_flipped_bit_is_refused(name, tmp_path):
    path = tmp_path / "c.h5"
    message = STORES[name](path)
    good = path.read_bytes()
    file = StateFile(path, kind_of(path), "")
    arrays = file.read()
    largest = max(arrays, key=lambda key: arrays[key].nbytes)
    at = good.find(arrays[largest].tobytes())
    assert at > 0
    bad = bytearray(good)
    bad[at + arrays[largest].nbytes // 2] ^= 64
    path.write_bytes(bad)
    with pytest.raises(InputFileError, match=r"c\.h5 is damaged"):
        STORES[name](path)
    path.write_bytes(good)
    assert STORES[name](path) == message
