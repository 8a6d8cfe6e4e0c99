"""Volumes of labels as microscopes and segmenting programs leave them: axes, voxels, groups."""

from __future__ import annotations

import numpy as np
import pytest

import tauslab as ts
from tauslab import geometry
from tauslab.base.errors import ModelError
from tauslab.formats.read import read
from tauslab.model.geometry.labels import stored_voxel

VOLUME = (np.arange(3 * 4 * 5).reshape(3, 4, 5) // 7 % 3).astype(np.uint8)
MODEL = """
[lattice]
shape = [3, 4, 5]
spacing = 1e-8
step = 1e-6
[[regions]]
shape = "labels"
labels = {0 = "a", 1 = "b", 2 = "c"}
file = "FILE"
OWN
[species]
A = 0
"""


def model(folder, file, own="", **changed):
    text = MODEL.replace("FILE", file).replace("OWN", own)
    for old, new in changed.items():
        text = text.replace(f"{old} = ", f"{old} = {new} #", 1)
    path = folder / "model.toml"
    path.write_text(text)
    return path


def test_axes_are_turned(tmp_path):
    np.save(tmp_path / "v.npy", VOLUME.transpose(2, 0, 1))
    assert (geometry.read_labels(tmp_path / "v.npy", axes="xzy") == VOLUME).all()
    assert (read(model(tmp_path, "v.npy", 'axes = "xzy"')).site_array() == VOLUME).all()
    with pytest.raises(ModelError, match=r"\[3, 4, 5\]: axes say the order in the file"):
        read(model(tmp_path, "v.npy"))
    with pytest.raises(ModelError, match="axes 'xyt': the letters x, y and z"):
        read(model(tmp_path, "v.npy", 'axes = "xyt"'))


def test_voxels_of_another_size_give_each_site_the_label_at_its_centre():
    """20 x 10 x 5 nm become sites of 10 nm: along x the second of two voxels has the centre."""
    lattice = ts.Lattice(shape=(6, 4, 3), spacing=1e-8)
    volume = np.arange(3 * 4 * 6).reshape(3, 4, 6)
    actual = geometry.resample_labels(lattice, volume, (2e-8, 1e-8, 5e-9))
    assert np.array_equal(actual, np.repeat(volume, 2, axis=0)[:, :, 1::2])
    same = ts.Lattice(shape=(3, 4, 6), spacing=3e-8)
    assert np.array_equal(geometry.resample_labels(same, volume, 3e-8), volume)


def test_sizes_that_do_not_fit_are_told_with_the_shape_that_does(tmp_path):
    np.save(tmp_path / "v.npy", np.zeros((12, 20, 30), np.uint8))
    with pytest.raises(ModelError, match=r"the lattice .*: with this voxel .* is \[60, 40, 60\]"):
        read(model(tmp_path, "v.npy", "voxel = [50e-9, 20e-9, 20e-9]"))
    with pytest.raises(ModelError, match=r"has \[3, 4, 5\]: voxel takes other sizes to it"):
        read(model(tmp_path, "v.npy"))
    for wrong in ("0", "[1e-8, -1e-8, 1e-8]"):
        with pytest.raises(ModelError, match="one edge in metres, or three, above 0"):
            read(model(tmp_path, "v.npy", f"voxel = {wrong}"))
    lattice = read(model(tmp_path, "v.npy", "voxel = 10e-9", shape="[12, 20, 30]"))
    assert lattice.shape == (12, 20, 30)


def test_a_file_that_says_another_voxel_is_noted(tmp_path):
    mrcfile = pytest.importorskip("mrcfile")
    with mrcfile.new(tmp_path / "v.mrc") as file:
        file.set_data(VOLUME.astype(np.int16))
        file.voxel_size = (160.0, 160.0, 200.0)  # angstrom: x, y, z
    assert stored_voxel(tmp_path / "v.mrc") == pytest.approx((2e-8, 1.6e-8, 1.6e-8))
    [note] = read(model(tmp_path, "v.mrc")).notes
    assert note == (
        "v.mrc says that its voxels have 20 x 16 x 16 nm along z, y, x; they are taken for "
        "10 x 10 x 10 nm"
    )
    own = "voxel = [20e-9, 16e-9, 16e-9]"
    assert read(model(tmp_path, "v.mrc", own, shape="[6, 6, 8]")).notes == []


def test_the_voxel_of_an_imagej_stack(tmp_path):
    tifffile = pytest.importorskip("tifffile")
    for name, unit in (("um", "um"), ("micro", "\\u00B5m"), ("nm", "nm"), ("inch", "inch")):
        tifffile.imwrite(
            tmp_path / f"{name}.tif", VOLUME, imagej=True, resolution=(50, 40),
            metadata={"axes": "ZYX", "spacing": 0.05, "unit": unit},
        )  # fmt: skip
    assert stored_voxel(tmp_path / "um.tif") == pytest.approx((5e-8, 2.5e-8, 2e-8))
    assert stored_voxel(tmp_path / "micro.tif") == pytest.approx((5e-8, 2.5e-8, 2e-8))
    assert stored_voxel(tmp_path / "nm.tif") == pytest.approx((5e-11, 2.5e-11, 2e-11))
    assert stored_voxel(tmp_path / "inch.tif") is None
    tifffile.imwrite(tmp_path / "plain.tif", VOLUME, photometric="minisblack")
    assert stored_voxel(tmp_path / "plain.tif") is None


def test_a_zarr_group_asks_for_one_of_its_arrays(tmp_path):
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(str(tmp_path / "v.zarr"), mode="w")
    for name in ("raw", "cells"):
        group.create_array(name, shape=VOLUME.shape, dtype=VOLUME.dtype)[:] = VOLUME
    with pytest.raises(ModelError, match="a group of arrays; component names one, of cells, raw"):
        read(model(tmp_path, "v.zarr"))
    actual = read(model(tmp_path, "v.zarr", 'component = "cells"')).site_array()
    assert (actual == VOLUME).all()


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (np.full((3, 4, 5), 1e300), r"holds float64, such as 1e\+300; labels are whole numbers"),
        (np.full((3, 4, 5), np.nan), "holds float64, such as nan; labels are whole numbers"),
        (np.full((3, 4, 5), np.inf), "holds float64, such as inf; labels are whole numbers"),
        (np.full((3, 4, 5), 0.5), "holds float64, such as 0.5; labels are whole numbers"),
        (np.zeros((0, 4, 5), np.uint8), r"holds no voxels: its shape is \[0, 4, 5\]"),
        (np.zeros((3, 4, 5), "M8[s]"), "labels are whole numbers"),
        (np.zeros((4, 5), np.uint8), "has 2 axes; a volume has three"),
    ],
    ids=str,
)
def test_numbers_that_are_no_labels(tmp_path, array, sentence):
    np.save(tmp_path / "v.npy", array)
    with pytest.raises(ModelError, match=sentence):
        geometry.read_labels(tmp_path / "v.npy")


def test_floats_that_are_labels(tmp_path):
    np.save(tmp_path / "v.npy", np.full((3, 4, 5), 2.0**53))
    assert (geometry.read_labels(tmp_path / "v.npy") == 2**53).all()


@pytest.mark.parametrize("suffix", ["npy", "tif", "mrc", "zarr"])
@pytest.mark.parametrize("content", [b"", b"II*\x00", b"\x93NUMPY\x01\x00", b"{" * 2000])
def test_a_file_that_is_cut_off(tmp_path, suffix, content):
    if suffix != "npy":
        pytest.importorskip({"tif": "tifffile", "mrc": "mrcfile", "zarr": "zarr"}[suffix])
    path = tmp_path / f"v.{suffix}"
    path.write_bytes(content)
    with pytest.raises(ModelError, match="cannot be read: ") as caught:
        geometry.read_labels(path)
    assert str(caught.value).isprintable()
    assert stored_voxel(path) is None


def test_a_header_that_lies_about_the_size(tmp_path):
    header = "{'descr': '|u1', 'fortran_order': False, 'shape': (99999999, 99999999, 9999)}"
    path = tmp_path / "v.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00\x76\x00" + header.ljust(117).encode() + b"\n1")
    with pytest.raises(ModelError, match="cannot be read: "):
        geometry.read_labels(path)


def test_what_tifffile_says_of_damage_is_one_warning(tmp_path, caplog):
    tifffile = pytest.importorskip("tifffile")
    path = tmp_path / "v.tif"
    tifffile.imwrite(path, VOLUME, photometric="minisblack")
    content = bytearray(path.read_bytes())
    at = content.index((282).to_bytes(2, "little"), 8)  # XResolution, of a type that is none
    content[at + 2] = 93
    path.write_bytes(content)
    with pytest.warns(UserWarning, match="v.tif: tifffile says: "):
        assert np.array_equal(geometry.read_labels(path), VOLUME)
    assert not caplog.records


@pytest.mark.parametrize("label", ["\u00b2", "--1", "1" * 5000, "1.5"])
def test_labels_that_are_no_numbers(tmp_path, label):
    np.save(tmp_path / "v.npy", VOLUME)
    path = model(tmp_path, "v.npy")
    path.write_text(path.read_text("utf-8").replace("1 = ", f'"{label}" = ', 1), "utf-8")
    with pytest.raises(ModelError, match="where a table label = type is expected"):
        read(path)
