"""`tauslab merge`: a view of parts becomes one file, and damage is noticed."""

from __future__ import annotations

import json
import re

import h5py
import pytest
from lattice_run_factory import digest as lattice_digest
from lattice_run_factory import run as lattice_run
from places import ROOT
from sample_job import sample_job
from sampling import ordinary

import tauslab as ts
from tauslab.base.errors import ConfigError, InputFileError, StoppedEarly
from tauslab.cli.main import main
from tauslab.cli.merge import merge
from tauslab.options.sweep import OF_ALL_POINTS
from tauslab.store.results.digest import digest_lines
from tauslab.store.results.open import open_result
from tauslab.store.writers.parts import PartsOptions

VIEW = PartsOptions(segment_bytes=500, merge_bytes=0)


def lines(path):
    with open_result(path) as result:
        return digest_lines(result)


@pytest.mark.parametrize("compress", ordinary([0, 6], 6))
def test_a_view_becomes_one_file(tmp_path, compress, capsys):
    path, job = tmp_path / "a.h5", sample_job()
    job.run(path, 3, parts=VIEW)
    before = lines(path)
    assert main(["merge", str(path), "--compress", str(compress)]) == 0
    assert "is one file now" in capsys.readouterr().out
    assert lines(path) == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.h5"]
    job.check(path)
    with h5py.File(path) as file:
        assert (file["counts"].compression == "gzip") == bool(compress)
        assert file.attrs["command"] == b"x"
    assert "is complete in one file: nothing to merge (files of the tasks" in merge(path)
    with pytest.raises(ConfigError, match=r"is one file already, and --compress is for parts"):
        merge(path, 6)


def test_damage_is_noticed(tmp_path):
    path = tmp_path / "a.h5"
    sample_job().run(path, 2, parts=VIEW)
    with h5py.File(tmp_path / "a.h5.parts" / "r0001-000.h5", "r+") as file:
        file["counts"][0, 0, 0] += 1
    with pytest.raises(InputFileError, match=r"a\.h5 is damaged.*/counts do not agree with"):
        merge(path)


def test_an_unfinished_result_is_refused(tmp_path):
    sample_job().run(tmp_path / "a.h5", 2, stop_after=1)
    with pytest.raises(InputFileError, match="is unfinished: --resume completes it"):
        merge(tmp_path / "a.h5")


SCHLOGL = str(ROOT / "examples" / "schlogl.toml")
VALUES = (3, 29, 31, 305, 295)


def run_points(folder, name, values, *options, seed=5):
    """The result of a run of a table of initial amounts, `values`."""
    table = folder / f"{name}.csv"
    table.write_text("X\n" + "".join(f"{v}\n" for v in values))
    output = str(folder / f"{name}.h5")
    words = ["run", SCHLOGL, "-n", "20", "--t-end", "0.5", "--device", "cpu"]
    assert (
        main([*words, "--quiet", "--table", str(table), "-o", output, f"--seed={seed}", *options])
        == 0
    )
    return output


@pytest.mark.parametrize(
    "record",
    ordinary(["trajectories,final", "statistics,histogram:X:0:800:20"], "trajectories,final"),
)
def test_files_of_an_array_become_the_result_of_one_run(tmp_path, record, capsys):
    given = ("--record", record)
    whole = run_points(tmp_path, "whole", VALUES, *given)
    parts = [
        run_points(tmp_path, "a", VALUES[:2], *given),
        run_points(tmp_path, "b", VALUES[2:3], "--first-point", "2", *given),
        run_points(tmp_path, "c", VALUES[3:], "--first-point", "3", *given),
    ]
    merged = str(tmp_path / "merged.h5")
    assert main(["merge", *parts[::-1], "-o", merged]) == 0
    message = capsys.readouterr().out
    assert "merged.h5 holds 5 points from 3 files, made without --task: missing points" in message
    assert main(["digest", whole, merged]) == 0
    with open_result(merged) as result, open_result(whole) as one:
        assert result.attributes["model_sha256"] == one.attributes["model_sha256"]
        result.data.verify()
    assert main(["merge", *parts, "-o", merged]) == 2
    assert "exists: give --overwrite or another -o" in capsys.readouterr().err
    assert main(["merge", *parts, "-o", parts[0], "--overwrite"]) == 2
    more = ["run", merged, "--append-to", "22", "--quiet", "--device", "cpu"]
    assert main(more) == 0


def test_files_that_are_not_one_array_are_not_joined(tmp_path, capsys):
    first = run_points(tmp_path, "a", VALUES[:2])
    last = run_points(tmp_path, "c", VALUES[3:], "--first-point", "3")
    other = run_points(tmp_path, "d", VALUES[2:], "--first-point", "2", seed=6)
    out = ["-o", str(tmp_path / "all.h5")]
    for files, sentence in (
        ([first, last], "ends before point 2 and .*c.h5 begins with point 3"),
        ([first, first], "points 0 to 1 are in .*a.h5 and in .*a.h5: give each file"),
        ([first, other], "d.h5 is of another run than .*a.h5: their seed differs"),
    ):
        assert main(["merge", *files, *out]) == 2
        assert re.search(sentence, capsys.readouterr().err)
    assert main(["merge", first, last]) == 2
    assert "give it by -o FILE" in capsys.readouterr().err
    assert not (tmp_path / "all.h5").exists()


TELEGRAPH = str(ROOT / "examples" / "telegraph.toml")
GRID = ["run", TELEGRAPH, "-n", "4", "--t-end", "0.5", "--device", "cpu", "--quiet", "--seed", "5",
        "--sweep", "k_on=list:1,2,3", "--sweep", "M=list:29,31"]  # fmt: skip


def test_tasks_of_an_array_lack_no_point_unseen(tmp_path, capsys):
    whole = str(tmp_path / "whole.h5")
    assert main([*GRID, "-o", whole]) == 0
    parts = [str(tmp_path / f"a{task}.h5") for task in range(3)]
    for task, path in enumerate(parts):
        assert main([*GRID, "--task", f"{task}/3", "-o", path]) == 0
    out = str(tmp_path / "all.h5")
    for files, sentence in (
        (parts[:2], "points 4 to 5 of 6 are missing: give the files of all tasks"),
        (parts[1:], "points 0 to 1 of 6 are missing"),
        (parts[1:2], "points 0 to 1 and points 4 to 5 of 6 are missing"),
    ):
        assert main(["merge", *files, "-o", out]) == 2
        assert sentence in capsys.readouterr().err
    some = str(tmp_path / "some.h5")
    assert main(["merge", *parts[:2], "-o", some, "--incomplete"]) == 0
    assert "some.h5 holds 4 of 6 points from 2 files" in capsys.readouterr().out
    assert main(["info", some]) == 0
    assert "incomplete array: points 0 to 3 of 6;" in capsys.readouterr().out
    gap = str(tmp_path / "gap.h5")
    assert main(["merge", parts[0], parts[2], "-o", gap]) == 2
    assert "begins with point 4: give all files of the array, or --incomplete" in (
        capsys.readouterr().err
    )
    assert main(["merge", parts[2], parts[0], "-o", gap, "--incomplete"]) == 0
    assert main(["info", gap]) == 0
    assert "incomplete array: points 0-1,4-5 of 6;" in capsys.readouterr().out
    with open_result(gap) as result, open_result(whole) as one:
        assert result.points["k_on"].tolist() == [1, 1, 3, 3]
        assert (result.counts() == one.counts()[[0, 1, 4, 5]]).all()
    for command in (["run", gap, "-o", out], ["merge", gap, parts[1], "-o", out]):
        assert main(command) == 2
        assert "lacks points in the middle" in capsys.readouterr().err
    assert main(["merge", some, parts[2], "-o", out]) == 0
    assert main(["digest", whole, out]) == 0
    with open_result(out) as result, open_result(whole) as one:
        own = {name: value for name, value in result.attributes.items() if name in OF_ALL_POINTS}
        assert (own, result.attributes["grid"]) == ({}, one.attributes["grid"])
    capsys.readouterr()

    other = [*GRID[:-1], "M=list:29,32", "--task", "2/3", "-o", str(tmp_path / "b.h5")]
    assert main(other) == 0
    assert main(["merge", *parts[:2], str(tmp_path / "b.h5"), "-o", out, "--overwrite"]) == 2
    assert "b.h5 is of another array than" in capsys.readouterr().err
    changed = [*GRID[:-1], "M=list:29,31,33", "--task", "0/9", "-o", parts[0], "--resume"]
    assert main(changed) == 2
    capsys.readouterr()


def test_points_of_a_design_are_shared_after_they_are_drawn(tmp_path):
    design = [*GRID[:-4], "--sweep", "k_on=lin:1:2", "--design", "lhs:3"]
    files = [str(tmp_path / f"{name}.h5") for name in ("all", "0", "1", "merged")]
    assert main([*design, "-o", files[0]]) == 0
    for task in (0, 1):
        assert main([*design, "--task", f"{task}/2", "-o", files[1 + task]]) == 0
    assert main(["merge", *files[1:3], "-o", files[3]]) == 0
    assert main(["digest", files[0], files[3]]) == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--task", "3/3"], "write I/N, task I of N, with I from 0 to N - 1"),
        (["--task", "1"], "write I/N"),
        (["--task", "0/7"], "6 points are too few for 7 tasks; use at most 6"),
        (["--task", "0/2", "--first-point", "2"], "leave out --first-point"),
    ],
)
def test_a_task_that_is_none_is_refused(tmp_path, words, sentence, capsys):
    assert main([*GRID, *words, "-o", str(tmp_path / "a.h5")]) == 2
    assert sentence in capsys.readouterr().err
    without = [word for word in GRID if word not in ("--seed", "5")]
    assert main([*without, "--task", "0/2", "-o", str(tmp_path / "a.h5")]) == 2
    assert "--task needs --seed" in capsys.readouterr().err
    assert not (tmp_path / "a.h5").exists()


def test_other_points_of_a_file_of_an_array_are_numbered_anew(tmp_path):
    """Those of the file have numbers of the array."""
    net = ts.Network("decay")
    net.add_species("X", 9)
    net.add_parameter("k", 1.0)
    net.add_reaction("X ->", rate="k")
    chosen = {"n": 3, "times": [1.0], "seed": 1, "device": "cpu"}
    first, other = {"k": [1.0, 2.0, 3.0, 4.0]}, {"k": [5.0, 6.0]}
    own = tmp_path / "own.h5"
    ts.run(net, **chosen, sweep=first, task="1/2", output=own).close()
    wanted = ts.run(net, **chosen, sweep=other)
    for given in ({}, {"task": "0/1", "seed": 1}):
        actual = ts.run(own, sweep=other, device="cpu", **given)
        assert (actual.counts("X") == wanted.counts("X")).all()


def test_digests_of_several_files_are_compared(tmp_path, capsys):
    first, other = (run_points(tmp_path, name, VALUES[:k]) for name, k in (("a", 1), ("b", 2)))
    capsys.readouterr()
    assert main(["digest", first, first, "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)) == [first]
    assert main(["digest", first, other]) == 1
    message = capsys.readouterr()
    assert [line.split()[1] for line in message.out.splitlines()] == [first, other]
    assert "these results differ" in message.err


@pytest.mark.parametrize(
    "options", [{}, {"frame_every": 0, "sweep": {"k": [500.0, 900.0]}}], ids=["frames", "sweep"]
)
def test_replicas_of_lattices_are_joined(tmp_path, capsys, options):
    lattice_run(tmp_path / "whole.h5", replicas=4, **options).close()
    assert main(["merge", str(tmp_path / "whole.h5")]) == 2
    assert "is the one file of a lattice run: nothing to merge" in capsys.readouterr().err
    for first, count in ((0, 2), (2, 1), (3, 1)):
        path = tmp_path / f"a{first}.h5"
        lattice_run(path, replicas=count, first_replica=first, **options).close()
    files = [str(tmp_path / f"a{first}.h5") for first in (3, 0, 2)]
    merged = str(tmp_path / "merged.h5")
    assert main(["merge", *files, "-o", merged]) == 0
    assert "merged.h5 holds 4 replicas from 3 files" in capsys.readouterr().out
    assert lattice_digest(merged) == lattice_digest(tmp_path / "whole.h5")
    assert not [path for path in tmp_path.iterdir() if path.suffix != ".h5"]
    assert main(["info", merged]) == 0
    assert main(["merge", *files[:2], "-o", str(tmp_path / "b.h5")]) == 2
    message = capsys.readouterr().err
    assert "a0.h5 ends before replica 2" in message
    assert "a3.h5 begins with replica 3" in message
    lattice_run(tmp_path / "other.h5", first_replica=4, seed=8, **options).close()
    assert main(["merge", *files, str(tmp_path / "other.h5"), "-o", str(tmp_path / "b.h5")]) == 2
    assert "other.h5 is of another run than" in capsys.readouterr().err
    assert not (tmp_path / "b.h5").exists()


def test_tasks_of_a_lattice_lack_no_replica_unseen(tmp_path, capsys):
    for task in (0, 1):
        lattice_run(tmp_path / f"a{task}.h5", replicas=3, task=(task, 2), seed=7).close()
    files, out = [str(tmp_path / f"a{task}.h5") for task in (0, 1)], str(tmp_path / "all.h5")
    assert main(["merge", files[1], "-o", out]) == 2
    assert "replica 0 of 3 is missing" in capsys.readouterr().err
    assert main(["merge", files[1], "-o", out, "--incomplete"]) == 0
    assert "holds 2 of 3 replicas" in capsys.readouterr().out
    assert main(["info", out]) == 0
    assert "incomplete array: replicas 1 to 2 of 3" in capsys.readouterr().out
    assert main(["merge", *files, "-o", out, "--overwrite"]) == 0
    assert "holds 3 replicas from 2 files\n" in capsys.readouterr().out
    again = str(tmp_path / "again.h5")
    assert main(["rdme", files[1], "--seed", "7", "--quiet", "-o", again, "--device", "cpu"]) == 0
    assert main(["info", again]) == 0
    assert "incomplete array: replicas 1 to 2 of 3" in capsys.readouterr().out
    assert main(["info", out]) == 0
    assert "incomplete" not in capsys.readouterr().out


def test_a_merge_that_fails_leaves_what_was_there(tmp_path, capsys):
    """A frame that cannot be read is found while the frames before it are being written."""
    for first in (0, 1):
        lattice_run(tmp_path / f"a{first}.h5", first_replica=first).close()
    with h5py.File(tmp_path / "a1.h5") as file:
        frames = file["lattice/particles"].id
        chunk = frames.get_chunk_info(frames.get_num_chunks() - 1)
    with (tmp_path / "a1.h5").open("r+b") as file:
        file.seek(chunk.byte_offset)
        file.write(bytes(chunk.size))
    out = tmp_path / "all.h5"
    command = ["merge", str(tmp_path / "a0.h5"), str(tmp_path / "a1.h5"), "-o", str(out)]
    assert main(command) == 2
    assert "damaged" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"a0.h5", "a1.h5"}

    looks = iter([False, True])
    with pytest.raises(StoppedEarly):
        lattice_run(out, stop=lambda: next(looks, True))
    parts = out.with_name("all.h5.parts")
    before = {path: path.read_bytes() for path in (out, *parts.iterdir())}
    assert len(before) > 1
    assert main([*command, "--overwrite"]) == 2
    assert {path: path.read_bytes() for path in (out, *parts.iterdir())} == before
    lattice_run(out, resume=True).close()
    assert lattice_digest(out) == lattice_digest(tmp_path / "a0.h5")
    assert {path.name for path in tmp_path.iterdir()} == {"a0.h5", "a1.h5", "all.h5"}
