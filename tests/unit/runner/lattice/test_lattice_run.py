"""``tauslab rdme``: the file, the command line, warnings, and what is refused."""

from __future__ import annotations

import json
import re
import shutil
import signal
from contextlib import closing
from pathlib import Path

import h5py
import numpy as np
import pytest
from lattice_factory import STEP
from lattice_run_factory import T_END, digest, model, run

import tauslab as ts
from tauslab.base.errors import ConfigError, InputFileError
from tauslab.cli.main import main
from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.kernels.lattice.planes_engine import PlanesEngine
from tauslab.model.lattice.file import write_lattice
from tauslab.options.lattice import LatticeOptions, prepare_lattice
from tauslab.runner.lattice import loop as lattice_loop
from tauslab.store.lattice.writer import LatticeWriter

DATA = Path(__file__).resolve().parents[3] / "data" / "rdme"


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "whole.h5"
    run(path).close()
    return path


def test_the_file_holds_what_the_engine_counts(whole):
    lattice = prepare_lattice(model(), LatticeOptions(t_end=T_END)).lattice
    with ts.open(whole) as result, h5py.File(whole) as file:
        assert result.complete
        assert not whole.with_name("whole.h5.parts").exists()
        assert np.allclose(result.times, np.arange(0, 61, 3) * STEP)
        assert np.allclose(result.frame_times, np.arange(0, 61, 10) * STEP)
        counts, fired = file["counts"][...], file["reactions_fired"][...]
        assert counts[0].tolist() == [400, 300, 0]
        assert fired[-1].min() > 20
        change = np.array([[-1, -1, 1], [1, 1, -1]])
        assert np.array_equal(counts, counts[0] + fired @ change)
        assert np.array_equal(counts, file["counts_by_site_type"][...].sum(axis=1))
        particles = file["lattice/particles"][...]
        assert particles.shape == (7, 4, 6, 7, 8)
        assert np.array_equal(particles[0], lattice.particles(0, 4, 7))
        assert np.array_equal(file["lattice/sites"][0], lattice.sites(0, 4))
        for number in range(3):  # frame 3 is at step 30, sample 10
            assert (particles[3] == number + 1).sum() <= counts[10, number]
        assert result.kymograph("A").shape == (7, 7)


@pytest.mark.parametrize("engine", ["slots", "planes"])
def test_replicas_have_the_same_bits_in_jobs_of_their_own(tmp_path, engine):
    given = {"frame_every": 0, "engine": engine}
    run(tmp_path / "3.h5", replicas=3, **given).close()
    for name, first, count in (("last", 2, 1), ("two", 1, 2)):
        run(tmp_path / f"{name}.h5", first_replica=first, replicas=count, **given).close()
        with h5py.File(tmp_path / "3.h5") as whole, h5py.File(tmp_path / f"{name}.h5") as part:
            own = part["counts"][...].reshape(count, *whole["counts"].shape[1:])
            assert np.array_equal(own, whole["counts"][first : first + count])
    with h5py.File(tmp_path / "two.h5") as file:
        assert file["replica"][...].tolist() == [1, 2]
    with pytest.raises(ConfigError, match=r"first_replica=65535 and replicas=2"):
        run(first_replica=65535, replicas=2)


def test_every_axis_has_a_scale(whole):
    with h5py.File(whole) as file:
        for name in ("counts", "counts_by_site_type", "reactions_fired", "overflow",
                     "lattice/particles", "lattice/sites"):  # fmt: skip
            for dimension in file[name].dims:
                assert len(dimension) == 1, name
                assert dimension[0].shape[0] == file[name].shape[dimension._dimension]


def test_xarray_reads_the_file(whole):
    xarray = pytest.importorskip("xarray")
    with xarray.open_dataset(whole, engine="h5netcdf") as data:
        assert data["counts"].dims == ("time", "species")
        assert data["counts"].sel(species="A")[0] == 400


def test_threads_and_samples_do_not_change_the_frames(whole, tmp_path):
    path = tmp_path / "other.h5"
    with pytest.warns(UserWarning, match="counts are made 4 steps before the end"):
        ts.run(model(), t_end=T_END, count_every=7, frame_every=20, seed=7,
               device=ts.CPU(threads=2), output=path).close()  # fmt: skip
    with h5py.File(whole) as first, h5py.File(path) as second:
        one, other = first["lattice/particles"][::2], second["lattice/particles"][...]
        assert np.array_equal(one, other)
        assert np.array_equal(first["counts"][7], second["counts"][3])


def test_replicas_differ_and_the_first_is_the_run_without(whole, tmp_path):
    path = tmp_path / "replicas.h5"
    run(path, replicas=3).close()
    with h5py.File(path) as file, h5py.File(whole) as one:
        assert file["counts"].shape == (3, 21, 3)
        assert file["lattice/particles"].shape == (3, 7, 4, 6, 7, 8)
        assert np.array_equal(file["lattice/particles"][0], one["lattice/particles"][...])
        assert not np.array_equal(file["counts"][0], file["counts"][1])
        assert not np.array_equal(file["lattice/particles"][1, 0], file["lattice/particles"][2, 0])
    assert len(digest(path)) == 64


def test_one_engine_runs_all_replicas_of_a_point(tmp_path, monkeypatch):
    """Each replica has the counts of an engine of its own."""
    made = []
    init = PlanesEngine.__init__

    def counted(self, *given, **named):
        made.append(self)
        init(self, *given, **named)

    monkeypatch.setattr(PlanesEngine, "__init__", counted)
    run(tmp_path / "some.h5", replicas=4, frame_every=0).close()
    assert len(made) == 1
    lattice = made[0].lattice
    cpu = get_backend("cpu", BackendOptions(threads=1))
    with closing(cpu), h5py.File(tmp_path / "some.h5") as file:
        for replica in range(4):
            own = PlanesEngine(cpu, lattice, seed=7, replica=replica)
            own.load_start()
            actual = own.run_sampled(range(3, 61, 3))
            assert np.array_equal(file["counts"][replica, 1:], actual.by_type.sum(axis=1))


def test_without_a_path_the_result_is_temporary():
    result = run(frame_every=0)
    folder = result.path.parent
    assert result.counts("B")[0] == 300
    result.close()
    assert not folder.exists()


def test_a_parameter_of_the_command_takes_effect():
    with run(set={"k": 0.0}) as result, h5py.File(result.path) as file:
        assert file["reactions_fired"][-1, 0] == 0


def test_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_lattice(model(), tmp_path / "cell.h5")
    arguments = ["rdme", "cell.h5", "--t-end", str(T_END), "--count-every", "3", "--frame-every",
                 "10", "--seed", "7", "--device", "cpu", "--threads", "1"]  # fmt: skip
    assert main([*arguments, "-o", "out.h5", "--quiet"]) == 0
    assert main([*arguments, "-o", "out.h5"]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert main([*arguments, "-o", "out.h5", "--overwrite"]) == 0
    message = capsys.readouterr().out
    assert "60 steps" in message
    assert main(["digest", "out.h5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["total"] == digest(tmp_path / "out.h5")
    assert main(["info", "out.h5"]) == 0
    assert "a lattice run" in capsys.readouterr().out
    assert main(["digest", "out.h5", "--species", "A"]) == 0
    assert "counts/A" in capsys.readouterr().out
    assert main(["rdme", "out.h5", "--device", "cpu", "-o", "again.h5", "--quiet"]) == 0
    assert digest(tmp_path / "again.h5") == digest(tmp_path / "out.h5")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"count_every": 0}, "count_every=0"),
        ({"replicas": 0}, "replicas=0"),
        ({"set": {"q": 1}}, "no parameter or species of that name"),
        ({"max_hop": 0.6}, "max_hop=0.6"),
        ({"hooks": [(0, print)]}, "hooks"),
        ({"t_end": -1.0}, "t_end=-1"),
        ({"t_end": "x"}, "t_end='x' is not allowed"),
        ({"replicas": 1.5}, "replicas=1.5 is not allowed: a whole number"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ConfigError, match=message):
        run(**options)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"count_every": 61}, "count_every=61: the run has 60 steps, so counts are made at t = 0 "),
        ({"frame_every": 61}, "frame_every=61: the run has 60 steps, so a frame is made at t = 0 "),
        (
            {"t_end": STEP / 1.005},
            "count_every=3: the run has 1 step, so counts are made at t = 0 ",
        ),
    ],
)
def test_a_run_that_is_counted_at_its_start_alone_says_so(options, told):
    chosen = {"t_end": T_END, "count_every": 3, "quiet": True} | options
    with pytest.warns(UserWarning, match=re.escape(told)):
        task = prepare_lattice(model(), LatticeOptions(**chosen))
    assert 1 in (task.samples, task.frames)
    assert task.times[0] == 0


def test_a_run_that_is_counted_at_its_end_alone_says_nothing():
    chosen = LatticeOptions(t_end=T_END, count_every=60, frame_every=60, quiet=True)
    task = prepare_lattice(model(), chosen)
    assert (task.samples, task.frames) == (2, 2)


def test_the_last_count_is_told_where_it_is_not_the_end(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_lattice(model(), "cell.h5")
    given = ["rdme", "cell.h5", "--t-end", str(T_END), "--seed", "7", "--device", "cpu"]
    for every, message in (
        ("20", ", seed"),
        ("40", f" (counted last at t = {40 * STEP:g} s), seed"),
    ):
        assert main([*given, "--count-every", every, "--frame-every", "60",
                     "-o", f"{every}.h5"]) == 0  # fmt: skip
        shown = capsys.readouterr().out
        assert f"60 steps to t = {60 * STEP:g} s{message} 7, 2 frames\n" in shown


def test_a_full_list_does_not_show_in_the_file(whole, tmp_path, monkeypatch):
    original = PlanesEngine.__init__

    def tight(self, *arguments, **options):
        original(self, *arguments, **{**options, "capacity": 3})

    monkeypatch.setattr(PlanesEngine, "__init__", tight)
    path = tmp_path / "tight.h5"
    run(path).close()
    assert digest(path) == digest(whole)


def test_a_divided_step_is_as_many_whole_steps(tmp_path):
    """Two parts of a step are two steps of half the length: the same counts, frames, times."""
    paths = tmp_path / "divided.h5", tmp_path / "halved.h5"
    for path, length, every in zip(paths, (STEP, STEP / 2), (1, 2), strict=True):
        lattice = model()
        lattice.step, lattice.reaction_substeps = length, 2 // every
        run(path, lattice, max_hop=0.1, count_every=3 * every, frame_every=10 * every).close()
    with h5py.File(paths[0]) as divided, h5py.File(paths[1]) as halved:
        assert divided.attrs["diffusion_substeps"] == 2
        assert halved.attrs["diffusion_substeps"] == 1
        for name in ("time", "counts", "reactions_fired", "overflow", "lattice/particles"):
            assert np.array_equal(divided[name][...], halved[name][...]), name


@pytest.mark.filterwarnings("always")
def test_fast_pairs_are_warned_of_by_the_run_and_by_check(tmp_path, capsys):
    """One sentence where hops should come between reactions, the same from all three."""
    lattice = model()
    lattice.add_reaction("A + B ->", rate="10 * k", volume="site", name="fast")
    with pytest.warns(UserWarning, match="hops and reactions alternate") as seen:
        run(lattice=lattice, t_end=STEP, count_every=1, frame_every=1).close()
    assert len(seen) == 1
    sentence = str(seen[0].message).removeprefix("test: ").replace("max_hop=", "--max-hop ")
    path = tmp_path / "cell.h5"
    write_lattice(lattice, path)
    assert main(["check", str(path)]) == 0
    assert f"warning: {sentence}" in capsys.readouterr().out.splitlines()
    command = ["rdme", str(path), "--t-end", str(STEP), "--seed", "1", "--device", "cpu", "-o"]
    assert main([*command, str(tmp_path / "a.h5"), "--quiet"]) == 0
    assert capsys.readouterr().err == f"tauslab: warning: test: {sentence}\n"
    fewer = ["--set", "k=30", "--max-hop", "0.05"]
    assert main([*command, str(tmp_path / "b.h5"), *fewer, "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["check", str(path), *fewer]) == 0
    text = capsys.readouterr().out
    assert "warning: reaction fast" not in text
    assert "3 passes of diffusion with hop probability up to 0.05 to a side, 3 passes of" in text
    for refused in (["check", str(path)], [*command, str(tmp_path / "c.h5")]):
        assert main([*refused, "--max-hop", "0.5"]) == 2
        assert "--max-hop 0.5" in capsys.readouterr().err
        assert main([*refused, "--set", "no=1"]) == 2
        assert "no parameter or species of that name" in capsys.readouterr().err


def still(**given):
    site = ts.Lattice("still", shape=(1, 1, 1), spacing=1e-7, step=1e-3, **given)
    site.add_species("A")
    site.add_reaction("A ->", rate=1.0)
    site.place("A", count=10)
    return site


def test_an_end_within_a_step_is_reported():
    with pytest.warns(UserWarning, match="a step is 0.001 s, so the run ends at 0.001 s, not at"):
        assert ts.run(still(), t_end=1e-9, seed=1, device="cpu").times.tolist() == [0, 1e-3]
    with pytest.warns(UserWarning, match="the run ends at 0.005 s, not at t_end=0.0041"):
        assert ts.run(still(), t_end=0.0041, seed=1, device="cpu").times[-1] == 0.005
    assert ts.run(still(), t_end=0.004, seed=1, device="cpu").times[-1] == 0.004


def test_a_run_without_hops_is_told():
    site = ts.Lattice("far", shape=(2, 2, 2), spacing=0.05, step=1e-3)  # um were meant
    site.add_species("A")
    site.add_diffusion("A", 1e-12)
    site.place("A", count=10)
    with pytest.warns(UserWarning, match=r"hop 2.4e-12 times .*the spacing, 0.05, in metres"):
        ts.run(site, t_end=1e-3, seed=1, device="cpu")


def test_a_result_in_memory_keeps_no_checkpoints(tmp_path, monkeypatch):
    """Nobody can go on with them, and of small lattices they took three quarters of the time."""
    pieces = []
    usual = LatticeWriter.write_piece
    monkeypatch.setattr(
        LatticeWriter, "write_piece", lambda self, piece: (pieces.append(1), usual(self, piece))
    )
    given = {"t_end": 0.01, "replicas": 6, "seed": 1, "device": "cpu"}
    own = ts.run(still(), **given).replica_counts("A")
    assert not pieces
    result = ts.run(still(), output=tmp_path / "a.h5", **given)
    kept = result.replica_counts("A")
    assert len(pieces) == 6
    assert np.array_equal(own, kept)
    other = result.at(replica=5)
    assert other.replica == 5
    assert np.array_equal(other.counts("A"), kept[5])


def test_truncated_passes_are_told_and_kept(tmp_path, capsys):
    """A site with 2e7 reactions in a step, of which 262,208 have draws: no word of it is lost."""
    lattice = ts.Lattice("fast", shape=(1, 1, 2), spacing=1e-8, step=1e-3, slots=8)
    lattice.add_species("A", "B")
    for equation in ("A -> B", "B -> A"):
        lattice.add_reaction(equation, rate=2e10)
    lattice.place("A", positions=[(0, 0, 1)])
    with pytest.warns(UserWarning, match="in 2 passes of a site reactions are lost"):
        result = run(tmp_path / "fast.h5", lattice, t_end=2e-3, count_every=1, frame_every=0)
    with result:
        assert result.truncated_passes == 2
        assert "reactions lost in 2 passes of sites" in repr(result)
        with h5py.File(result.path) as file:
            assert file["truncated_passes"][...].tolist() == [0, 1, 2]
            assert file["reactions_fired"][-1].tolist() == [262_208, 262_208]
    assert main(["info", str(tmp_path / "fast.h5")]) == 0
    assert "warning: in 2 passes of a site reactions are lost" in capsys.readouterr().out
    with (
        ts.Ensemble(lattice, 1, seed=7, device="cpu") as particles,
        pytest.warns(UserWarning, match="in 1 pass of a site"),
    ):
        particles.advance(1e-3)


def earlier() -> ts.Lattice:
    """Of files that a version wrote whose sites had one reaction in a pass at most."""
    lattice = ts.Lattice("earlier", shape=(1, 1, 2), spacing=1e-8, step=1e-3, t_end=4e-3,
                         boundary="periodic", slots=8)  # fmt: skip
    lattice.add_species("A", "B")
    lattice.add_diffusion("*", 1e-15)
    lattice.add_reaction("A -> B", rate=100.0)
    lattice.place("A", count=6)
    return lattice


def test_files_without_a_count_of_truncated_passes_are_read_and_not_resumed(tmp_path):
    with ts.open(DATA / "earlier_whole.h5") as result:
        assert result.counts("A").tolist() == [6, 5, 4, 2, 2]
        assert (result.complete, result.truncated_passes) == (True, 0)
    path = shutil.copy(DATA / "earlier_begun.h5", tmp_path)
    with pytest.raises(InputFileError, match="bits of version 1"):
        ts.run(earlier(), seed=1, device="cpu", output=path, resume=True)
    with ts.open(path) as result:
        assert len(result.times) == 2


def test_firings_of_a_reaction_are_counted(tmp_path):
    with run(tmp_path / "fired.h5") as result:
        for column, name in enumerate(result.reactions):
            stored = result.data["reactions_fired"][()][:, column]
            assert (result.fired(name) == stored).all()
            assert stored[-1] > 0
        with pytest.raises(ConfigError, match="'none' is no reaction of"):
            result.fired("none")


def test_sigterm_ends_a_run_with_a_checkpoint(tmp_path, monkeypatch):
    """A job's limit: hooks exist in Python alone, where no command listens to signals."""
    monkeypatch.setattr(lattice_loop, "_BATCH_SECONDS", 1e-9)  # a batch is a step
    usual = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    requested = []

    def hook(view):
        if view.step % 4 == 0:
            view.add("A", [[0, 0, 0]])
        if view.step == 3 and not requested:
            requested.append(True)
            signal.raise_signal(signal.SIGTERM)

    path, given = (
        tmp_path / "a.h5",
        {"t_end": 0.01, "seed": 1, "device": "cpu", "hooks": [(1, hook)]},
    )
    try:
        with pytest.raises(ts.StoppedEarly, match="resume"):
            ts.run(still(), output=path, **given)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        assert ts.open(path).unfinished
        ended = ts.run(still(), output=path, resume=True, **given)
        assert ended.digest() == ts.run(still(), **given).digest()
    finally:
        signal.signal(signal.SIGTERM, usual)
