"""Lattices that cannot be: a sentence with the limit or the memory, before any is allocated."""

from __future__ import annotations

import math
import tracemalloc

import h5py
import numpy as np
import pytest

import tauslab as ts
from tauslab.base import host
from tauslab.base.errors import ConfigError, ModelError
from tauslab.cli.main import main
from tauslab.model.lattice.diagnosis.time_step import choose_time_step
from tauslab.model.lattice.site_map import ArraySites, UniformSites
from tauslab.model.lattice.values import lattice_values


def box(**more):
    return ts.Lattice("box", **({"shape": (3, 4, 5), "spacing": 32e-9, "step": 1e-4} | more))


def moving(coefficient=1e-12, **more):
    made = box(**more)
    made.add_species("A")
    made.add_diffusion("A", coefficient)
    return made


def step_of(lattice):
    return choose_time_step(lattice, lattice_values(lattice))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"coefficient": 0.1}, r"5.859e\+10 passes of diffusion .* at most 10000 .* um\^2/s"),
        ({"coefficient": 1e300}, "are too many for a double: diffusion coefficients are in m"),
        ({"coefficient": 0.1, "step": None}, r"need steps of 1.71e-15 s, below 1e-12 s: .*um\^2"),
        ({"step": 10.0}, "5.859e.04 passes .* a step of 0.000171 s needs one"),
        ({"reaction_substeps": 5000}, "5000 passes of reactions after a pass of hops; at most"),
    ],
)
def test_a_step_with_too_many_passes(given, sentence):
    with pytest.raises((ModelError, ConfigError), match=sentence):
        step_of(moving(**given))


def test_ten_thousand_passes_are_done():
    assert step_of(moving(step=1.7)).diffusion_substeps == 9961


@pytest.mark.parametrize("spacing", [1e-300, 5e-324, 1e300, 32, -1, math.nan, "x", None])
def test_a_spacing_that_is_not_in_metres(spacing):
    with pytest.raises(ModelError, match="spacing = "):
        box(spacing=spacing)


@pytest.mark.parametrize(
    "shape", [(2**63, 1, 1), (2**21, 2**20, 1), (0, 1, 1), (3, 4), "abc", 5, None, (1, 2, math.nan)]
)
def test_a_shape_that_is_none(shape):
    with pytest.raises(ModelError, match="shape = "):
        box(shape=shape)


def test_a_uniform_lattice_takes_no_memory_before_it_runs():
    tracemalloc.start()
    try:
        large = moving(shape=(4096, 4096, 4096))
        large.place("A", count=1000)
        large.validate()
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
    assert large.type_names == ("default",)


def test_a_uniform_map_is_that_of_an_array_of_zeros():
    for shape in ((3, 4, 5), (7, 501, 601)):
        one, other = UniformSites(shape), ArraySites(np.zeros(shape, np.uint8))
        assert one.sha256 == other.sha256
        assert (one.per_plane == other.per_plane).all()
        assert (one.planes(1, 3) == other.planes(1, 3)).all()
        assert one.shape == other.shape


def test_what_needs_more_memory_than_there_is_says_how_much(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(host, "available_memory", lambda: 1 << 30)
    large = moving(shape=(2048, 1024, 1024))
    with pytest.raises(
        ModelError, match="1024 sites of several types needs 2 GiB of memory; 1 GiB"
    ):
        large.site_array()
    with pytest.raises(ModelError, match="a shape on a lattice of 2147483648 sites needs 24 GiB"):
        ts.geometry.sphere(large, 1e-6)
    text = "t_end = 1e-4\n[lattice]\nshape = [1024, 1024, 1024]\nspacing = 32e-9\nstep = 1e-4\n"
    path = tmp_path / "box.toml"
    path.write_text(text + "[species]\nA = 5\n")
    run = ["rdme", str(path), "--device", "cpu", "-o", str(tmp_path / "o.h5")]
    assert main(["check", str(path)]) == 0
    capsys.readouterr()
    assert main(run) == 2
    message = capsys.readouterr().err
    assert "1024 x 1024 x 1024 sites with 16 slots and 2 samples and frames needs" in message
    assert "1 GiB is available" in message
    path.write_text(text.replace("1024, 1024, 1024", "3, 4, 5") + "[species]\nA = 5\n")
    assert main([*run, "--t-end", "1e9", "--count-every", "1"]) == 2
    assert "TiB of memory" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["box.toml"]


def test_samples_that_the_disk_cannot_hold(monkeypatch, tmp_path, capsys):
    import shutil

    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1 << 20))
    path = moving(t_end=10.0).write(tmp_path / "box.h5")
    assert main(["rdme", str(path), "--count-every", "1", "-o", str(tmp_path / "o.h5")]) == 2
    message = capsys.readouterr().err
    assert "100001 samples and 0 frames are 2.29 MiB or more; 1 MiB are free there" in message


def test_memory_is_that_of_the_control_group(monkeypatch, tmp_path):
    group = tmp_path / "cgroup" / "job" / "step"
    group.mkdir(parents=True)
    proc = tmp_path / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text("MemTotal: 100000000 kB\nMemAvailable: 50000000 kB\n")
    (proc / "self" / "cgroup").write_text("0::/job/step\n")
    monkeypatch.setattr(host, "PROC", proc)
    monkeypatch.setattr(host, "GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(host, "_address_space", lambda: iter(()))
    assert host.available_memory() == 50_000_000 << 10
    for folder, limit in ((group, "max"), (group.parent, str(3 << 30))):
        (folder / "memory.max").write_text(limit + "\n")
        (folder / "memory.current").write_text(str(2 << 30))
    (group.parent / "memory.stat").write_text(f"anon 5\ninactive_file {1 << 29}\n")
    assert host.available_memory() == (1 << 30) + (1 << 29)
    (proc / "self" / "cgroup").write_text("7:memory:/old\n")  # version 1
    old = tmp_path / "cgroup" / "memory" / "old"
    old.mkdir(parents=True)
    (old / "memory.limit_in_bytes").write_text(str(1 << 30))
    (old / "memory.usage_in_bytes").write_text(str(1 << 29))
    assert host.available_memory() == 1 << 29


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda m: m.place("A", count=2**63), r"9.223372037e\+18 particles are placed in"),
        (lambda m: m.place("A", count=1e300), r"1e\+300 particles are placed in 60 sites"),
        (lambda m: m.place("A", concentration=1e300), "inf particles are placed in 60 sites"),
        (lambda m: m.place("A", positions=[[1, 1], [1, 1, 1]]), "positions are .*whole numbers"),
        (lambda m: m.place("A", positions=[[[[]]] * 2]), "whole numbers .particle, 3."),
        (lambda m: m.set_boundary("x", "held", concentrations={"A": 1}), "particles in a ghost"),
        (lambda m: m.set_boundary("x", "held", concentrations={"A": 1e300}), "inf particles in a"),
        (lambda m: m.set_boundary("x", "held", concentrations=3), "numbers by species are"),
        (lambda m: m.add_reaction("A ->", rate=1, volume=0), "volume = 0 m.3: it must be finite"),
        (
            lambda m: m.add_reaction("A ->", rate=1, volume="lettuce"),
            "'lettuce' is not a site type",
        ),
        (lambda m: m.add_reaction("A ->", rate=1, name="a\x1b[2J"), "printable characters"),
        (lambda m: m.add_reaction("A ->", rate=1, name="a\0"), "printable characters"),
        (lambda m: m.add_reaction(3, rate=1), "its equation 3 is not a text"),
        (lambda m: m.add_species("B\n"), "is not a name: letters A-Z"),
        (lambda m: m.add_species(7), "takes names alone; place puts 7 particles"),
    ],
)
def test_what_is_wrong_is_named(change, sentence):
    def changed():
        made = moving()
        change(made)
        made.validate()

    with pytest.raises(ModelError, match=sentence) as caught:
        changed()
    assert str(caught.value).isprintable()


def test_the_name_of_a_volume_of_a_first_order_reaction_changes_nothing():
    models = []
    for volume in (None, "site", "lattice", "default", 1e-18):
        made = moving()
        made.add_reaction("A ->", rate=3.0, volume=volume)
        models.append(lattice_values(made).rates.tolist())
    assert models == [[[3.0]]] * 5


def test_seventy_thousand_species_are_too_many_and_fewer_are_quick():
    made = box()
    with pytest.raises(ModelError, match="a lattice has at most 65535 species"):
        made.add_species(*(f"S{i}" for i in range(70_000)))
    made.add_diffusion("*", 1e-12)
    made.place("S7", count=3)
    assert step_of(made).diffusion_substeps == 1  # took a minute where each was looked up


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda g, m: g.box(m, (math.nan, 0, 0), (1, 1, 1)), "is no point"),
        (lambda g, m: g.sphere(m, 1e-8, (1e308, 0, 0)), "is no point"),
        (lambda g, m: g.sphere(m, math.inf), "must be finite and above 0"),
        (lambda g, m: g.obstacles(m, np.ones(m.shape, bool), 1e300, 0.5, seed=1), "larger than"),
        (lambda g, m: g.obstacles(m, np.ones(m.shape, bool), 1e-8, 0.5, seed=-1), "seed -1; it"),
        (lambda g, m: g.obstacles(m, np.ones(m.shape, bool), 1e-8, 0.5, seed=2**64), "2.64 - 1"),
    ],
)
def test_shapes_that_are_none(call, sentence):
    with pytest.raises(ModelError, match=sentence):
        call(ts.geometry, box())


def test_many_steps_of_growth_fill_the_lattice():
    mask = np.zeros((3, 4, 5), bool)
    mask[0, 0, 0] = True
    assert ts.geometry.dilate(mask, 10**300, 6).all()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda f: f.__delitem__("model/sites_per_plane"), "there is no /model/sites_per_plane"),
        (lambda f: f.create_group("model/positions/5"), "there is no /model/positions/0"),
        (lambda f: f["model/sites_per_plane"].__setitem__((0, 0), -1), "does not sum to 20 sites"),
        (lambda f: _replace(f, "model/sites", np.zeros((3, 4))), "float64 .3, 4.; uint8 .z, y, x."),
        (lambda f: _replace(f, "model/canonical", np.zeros(3)), "is not TOML"),
        (lambda f: _link(f, "model/source"), "there is no /model/source"),
    ],
)
def test_a_damaged_model_file(tmp_path, capsys, change, sentence):
    path = moving().write(tmp_path / "m.h5")
    with h5py.File(path, "r+") as file:
        change(file)
    assert main(["check", str(path)]) == 2
    message = capsys.readouterr().err
    assert (
        sentence.replace(".", "") in message.replace("[", "").replace("]", "")
        or sentence in message
    )
    assert message.count("\n") == 1


def _replace(file, name, value):
    del file[name]
    file[name] = value


def _link(file, name):
    del file[name]
    file[name] = h5py.ExternalLink("/nowhere.h5", "/x")
