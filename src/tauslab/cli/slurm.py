"""Batch scripts for SLURM: ``tauslab slurm`` writes one, and `slurm/` holds some that it wrote."""

from __future__ import annotations

import argparse
import re
import shlex
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from tauslab.base.errors import ConfigError
from tauslab.base.files.drafts import write_whole
from tauslab.cli.tools import require_new
from tauslab.options.dask import sbatch_lines, sbatch_words
from tauslab.store.targets import require_place

REQUEUE_SECONDS = 180  # before the time limit; SLURM may be up to a minute early
_TOO_EARLY = 60
_TIME = re.compile(r"(?:([0-9]{1,4})-)?([0-9]{1,6})(?::([0-9]{1,2}))?(?::([0-9]{1,2}))?")
_MPI = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}")
_FIRST_LINE = b"#!/bin/bash\n"
_ANY = '"$@"'  # of a script that takes its command as arguments


@dataclass(frozen=True)
class BatchJob:
    """The resources that a batch script asks of SLURM.

    Parameters
    ----------
    gpus_per_node
        Also the ranks of a node; 0 for ranks without GPUs, of which there are `tasks_per_node`.
    tasks_per_node
        Ranks of a node; 0 for one per GPU, or a single one.
    cpus_per_task
        Cores of a rank.
    time
        Limit, as ``sbatch --time`` takes it: minutes, M:S, H:M:S, D-H, D-H:M or D-H:M:S.
    requeue
        Stop before the limit, go back into the queue, and complete the file there.
    array
        Number of jobs that share the rows of a table of points; 0 for a single job.
    mpi
        ``srun --mpi`` type; None lets the job ask mpi4py which MPI it loads.
    directives
        More options of ``sbatch``, word by word.

    Raises
    ------
    ConfigError
        A number, a time, a type or a word that is not allowed.
    """

    nodes: int = 1
    gpus_per_node: int = 0
    tasks_per_node: int = 0
    cpus_per_task: int = 8
    time: str = "04:00:00"
    requeue: bool = False
    array: int = 0
    mpi: str | None = None
    directives: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check what needs no cluster."""
        for option, value, low in (
            ("--nodes", self.nodes, 1),
            ("--gpus-per-node", self.gpus_per_node, 0),
            ("--tasks-per-node", self.tasks_per_node, 0),
            ("--cpus-per-task", self.cpus_per_task, 1),
            ("--array", self.array, 0),
        ):
            if not low <= value <= 100_000:
                raise ConfigError(f"{option} {value} is not allowed: {low} to 100000")
        limit = seconds_of(self.time)
        if self.requeue and limit <= REQUEUE_SECONDS + _TOO_EARLY:
            raise ConfigError(
                f"--time {self.time} is too short for --requeue, which stops the run "
                f"{REQUEUE_SECONDS} s before the limit: more than "
                f"{(REQUEUE_SECONDS + _TOO_EARLY) // 60} minutes are needed"
            )
        if self.mpi is not None and not _MPI.fullmatch(self.mpi):
            raise ConfigError(
                f"--mpi {self.mpi!r} is not allowed: a type that srun --mpi=list names, such as "
                "pmix or pmi2"
            )
        sbatch_lines(self.directives)
        if self.gpus_per_node and self.tasks_per_node > self.gpus_per_node:
            raise ConfigError(
                f"--tasks-per-node {self.tasks_per_node} is more than --gpus-per-node "
                f"{self.gpus_per_node}: a rank needs a GPU of its own"
            )
        if self.array and (self.nodes > 1 or self.requeue):
            raise ConfigError("--array makes jobs of one node, and not with --requeue")

    @property
    def ranks(self) -> int:
        """Ranks of a node."""
        return self.tasks_per_node or (1 if self.array else self.gpus_per_node) or 1


def seconds_of(time: str) -> int:
    """Seconds of a limit as ``sbatch --time`` takes it.

    >>> [seconds_of(text) for text in ("90", "90:30", "1:30:00", "2-12", "1-00:30")]
    [5400, 5430, 5400, 216000, 88200]

    Raises
    ------
    ConfigError
        It is no time, or none at all.
    """
    found = _TIME.fullmatch(time)
    if found is not None:
        days, first, second, third = (
            None if part is None else int(part) for part in found.groups()
        )
        sixty = [n for n in (second, third) if n is not None]
        if days is not None:
            total = ((days * 24 + (first or 0)) * 60 + (second or 0)) * 60 + (third or 0)
        elif third is not None:
            total = ((first or 0) * 60 + (second or 0)) * 60 + third
        else:
            total = (first or 0) * 60 + (second or 0)
        if total > 0 and all(n < 60 for n in sixty):
            return total
    raise ConfigError(
        f"--time {time!r} is not allowed: minutes, M:S, H:M:S, D-H, D-H:M or D-H:M:S, for example "
        "04:00:00 or 2-00:00"
    )


def batch_script(job: BatchJob, command: Sequence[str] | None = None, name: str = "") -> str:
    """Text of a batch script.

    Parameters
    ----------
    command
        ``run MODEL ...`` as after ``tauslab``; None for a script that takes it, without ``run``,
        as its arguments.
    name
        What the script is called; for its first comment.

    Raises
    ------
    ConfigError
        The command is not one that a batch job can run.
    """
    if command is not None:
        _check(job, command)
    lines = ["#!/bin/bash", *_usage(job, command, name), "#", *_directives(job), ""]
    lines += [*_SETUP, "", *_launch(job), ""]
    if job.array:
        lines += _array(job, command)
    else:
        whole = f"run {_ANY}" if command is None else shlex.join(command)
        plain = [f'"${{launch[@]}}" tauslab {whole}']
        lines += _requeue(whole, goes_on=_grows(command)) if job.requeue else plain
    return "\n".join(lines) + "\n"


def _check(job: BatchJob, command: Sequence[str]) -> None:
    verbs = ("run",) if job.array else ("run", "rdme")
    if not command or command[0] not in verbs:
        given = command[0] if command else "nothing"
        raise ConfigError(
            f"tauslab slurm ... -- {given}: the command after -- is {' or '.join(verbs)}, for "
            "example `-- run model.xml -n 1000000`"
        )
    if job.array and _option(command, "--table") is None:
        raise ConfigError("--array shares the rows of a table: give the command --table FILE.csv")
    if _option(command, "--append") is not None and (job.requeue or job.array):
        raise ConfigError(
            "a job that goes back into the queue would append twice: give --append-to and the "
            "number of trajectories in the end, in place of --append"
        )
    if job.array and {"--first-point"} & {word.partition("=")[0] for word in command}:
        raise ConfigError("--array gives --first-point by itself: leave it out")
    if {"--overwrite", "--resume"} & set(command) and (job.requeue or job.array):
        raise ConfigError(
            "--requeue and --array add --resume by themselves: leave --resume and --overwrite out"
        )
    if job.requeue and _option(command, "--max-time") is not None:
        raise ConfigError(
            "--requeue ends the run by a signal before the limit: leave --max-time out"
        )


def _usage(job: BatchJob, command: Sequence[str] | None, name: str) -> list[str]:
    gpus = f", {job.gpus_per_node} GPUs a node" if job.gpus_per_node else ", no GPUs"
    nodes = "one node" if job.nodes == 1 else "several nodes"
    what = f"# tauslab on {nodes}{gpus}, {job.ranks} ranks a node."
    if job.array:
        what = f"# {job.array} jobs that share the points of a sweep, one GPU each."
    elif job.requeue:
        what += " Longer than a job may be: it goes back into the queue."
    if command is not None:
        return [what]
    table = "TABLE.csv " if job.array else ""
    example = "points.csv examples/schlogl.xml -n 100000" if job.array else (
        "examples/schlogl.xml -n 100000000"
    )  # fmt: skip
    return [
        what,
        f"#   sbatch slurm/{name} {table}MODEL [options of tauslab run]",
        f"#   sbatch slurm/{name} {example} --t-end 10 --record statistics",
    ]


def _directives(job: BatchJob) -> list[str]:
    lines = ["#SBATCH --job-name=tauslab", f"#SBATCH --nodes={job.nodes}"]
    if job.gpus_per_node and not job.array:
        lines += [
            *_comment(
                "Ranks and GPUs of a node: keep these two numbers equal. All its GPUs are "
                "visible to all its ranks, and each takes the one of its node-local rank, so that "
                "halos of a lattice can go from GPU to GPU. With --gpus-per-task=1 instead, each "
                "takes the only one that it sees."
            ),
        ]
    lines.append(f"#SBATCH --ntasks-per-node={job.ranks}")
    if job.gpus_per_node:
        lines.append(f"#SBATCH --gpus-per-node={1 if job.array else job.gpus_per_node}")
    lines += [
        *_comment("Cores for the host's part of a rank, or for all of it with --device cpu."),
        f"#SBATCH --cpus-per-task={job.cpus_per_task}",
    ]
    if job.nodes > 1:
        lines += [
            *_comment(
                "Whole nodes, with all their memory: a neighbour that fills the memory bus or a "
                "GPU would slow every rank."
            ),
            "#SBATCH --exclusive",
            "#SBATCH --mem=0",
        ]
    lines.append(f"#SBATCH --time={job.time}")
    if job.array:
        lines.append(f"#SBATCH --array=0-{job.array - 1}")
    if job.requeue:
        lines += [
            *_comment(
                "So many seconds before the limit this script gets USR1; SLURM may be a "
                "minute early."
            ),
            f"#SBATCH --signal=B:USR1@{REQUEUE_SECONDS}",
            "#SBATCH --requeue",
            "#SBATCH --open-mode=append",
        ]
    lines.append(f"#SBATCH --output=%x-{'%A_%a' if job.array else '%j'}.log")
    return lines + [f"#SBATCH {text}" for text in sbatch_lines(job.directives)]


def _comment(text: str) -> list[str]:
    """Lines of a comment."""
    return textwrap.wrap(
        text, 110, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
    )


_SETUP = [
    "set -euo pipefail",
    "",
    *_comment(
        "SLURM runs a copy of this file: paths start at the directory where sbatch was "
        "called. It must be on a file system that all nodes share: ranks write parts "
        "beside the result."
    ),
    'cd "$SLURM_SUBMIT_DIR"',
    *_comment(
        "On a cluster the site's MPI is the right one; load what mpi4py was built with here:"
    ),
    "# module load cuda openmpi",
    "if [ -f .venv/bin/activate ]; then",
    "    # shellcheck disable=SC1091",
    "    source .venv/bin/activate",
    "fi",
    "",
    *_comment(
        "One cache for all nodes; its keys hold the processor's features, so unlike nodes "
        "do not mix."
    ),
    "export TAUSLAB_CACHE_DIR=${TAUSLAB_CACHE_DIR:-$PWD/.tauslab-cache}",
]


def _launch(job: BatchJob) -> list[str]:
    lines = [
        *_comment(
            "Since SLURM 22.05 srun does not take the cores of a rank from sbatch; without this "
            "line each might be bound to one."
        ),
        "export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}",
        *_comment(
            "srun must speak the language of the MPI that mpi4py loads: pmix for Open MPI, pmi2 "
            "for MPICH and the mpich wheel; `srun --mpi=list` shows what there is. tauslab stops "
            "if ranks do not find each other."
        ),
        *_mpi_type(job.mpi),
        *_comment(
            "Neighbouring ranks on neighbouring cores, as their GPUs are; a rank that dies ends "
            "all."
        ),
        'launch=(srun --mpi="$mpi" --cpu-bind=cores',
        "    --distribution=block:block --kill-on-bad-exit=1)",
        *_comment("In a container that has an MPI of the same kind:"),
        '# launch+=(apptainer exec --nv --bind "$PWD" tauslab.sif)',
    ]
    if job.nodes > 1:
        lines += [
            *_comment("Which GPU and how many cores each rank gets, at the head of the log."),
            '"${launch[@]}" tauslab doctor',
        ]
    return lines


def _mpi_type(given: str | None) -> list[str]:
    """Lines that set ``mpi``: as given, or by the MPI that mpi4py loads on the cluster."""
    if given is not None:
        return [f"mpi=${{TAUSLAB_SRUN_MPI:-{given}}}"]
    return [
        "mpi=${TAUSLAB_SRUN_MPI:-}",
        'if [ -z "$mpi" ]; then',
        '    case "$(python -m mpi4py --mpi-lib-version 2>/dev/null || true)" in',
        '    *MPICH* | *MVAPICH* | *"Intel(R) MPI"*) mpi=pmi2 ;;',
        "    *) mpi=pmix ;;",
        "    esac",
        "fi",
    ]


def _grows(command: Sequence[str] | None) -> bool:
    """Whether a command goes on by itself where it was, without `--resume`."""
    return command is not None and _option(command, "--append-to") is not None


def _requeue(command: str, *, goes_on: bool) -> list[str]:
    whole = command if goes_on else f"{command} --resume"
    return [
        *_comment(
            "srun passes USR1 on to the ranks. They end what they have in hand and exit with 75; "
            "the job goes back into the queue, and the same command completes the file, on however "
            "many ranks there are then."
        ),
        "asked=no",
        "launcher=",
        """trap 'asked=yes; [ -z "$launcher" ] || kill -USR1 "$launcher"' USR1""",
        f'"${{launch[@]}}" tauslab {whole} &',
        "launcher=$!",
        "code=0",
        'wait "$launcher" || code=$?',
        *_comment("The signal ended `wait`, and not yet the ranks."),
        'if [ "$asked" = yes ] && [ "$code" -gt 128 ]; then',
        "    code=0",
        '    wait "$launcher" || code=$?',
        "fi",
        *_comment(
            "Not only 75: a rank may not be ready for signals yet. A failure repeats itself."
        ),
        'if [ "$asked" = yes ] && [ "$code" -ne 0 ]; then',
        '    echo "stopped before the time limit: back into the queue"',
        '    scontrol requeue "$SLURM_JOB_ID"',
        "    exit 0",
        "fi",
        'exit "$code"',
    ]


def _array(job: BatchJob, command: Sequence[str] | None) -> list[str]:
    return [
        *_comment(
            "The table is a CSV file with a line of names. Task i of N takes its rows from "
            "R i / N to R (i + 1) / N of R, and writes a file of its own, named after -o with the "
            "number of the task. All have the seed of the command, and --first-point numbers the "
            "points as in the whole table: the files hold what one job would have given."
        ),
        *(_ARGUMENTS if command is None else _words(command)),
        f"tasks=${{SLURM_ARRAY_TASK_COUNT:-{job.array}}}",
        "task=$((SLURM_ARRAY_TASK_ID - ${SLURM_ARRAY_TASK_MIN:-0}))",
        "rows=$(awk 'END { print NR - 1 }' < \"$table\")",
        "first=$((rows * task / tasks))",
        "end=$((rows * (task + 1) / tasks))",
        'if [ "$first" -eq "$end" ]; then',
        '    echo "task $task of $tasks: $table has $rows rows, and none for this task"',
        "    exit 0",
        "fi",
        'part="${table%.csv}-$task.csv"',
        'awk -v a="$first" -v b="$end" \'NR == 1 || (NR - 2 >= a && NR - 2 < b)\' \\',
        '    < "$table" > "$part"',
        *_comment("A task that ran before goes on where it was."),
        '"${launch[@]}" tauslab run "${words[@]}" --seed "${TAUSLAB_SEED:-$seed}" \\',
        '    --table "$part" --first-point "$first" -o "${out%.h5}-$task.h5" --resume',
    ]


_ARGUMENTS = [
    "table=${1:?give TABLE.csv MODEL [options of tauslab run]}",
    'out="${table%.csv}.h5"',
    "seed=1",
    "words=()",
    "while shift && [ $# -gt 0 ]; do",
    '    case "$1" in',
    "    -o | --output) out=${2:?-o needs a name} && shift ;;",
    "    --output=*) out=${1#*=} ;;",
    "    --seed) seed=${2:?--seed needs a number} && shift ;;",
    "    --seed=*) seed=${1#*=} ;;",
    '    *) words+=("$1") ;;',
    "    esac",
    "done",
]


def _words(command: Sequence[str]) -> list[str]:
    """Lines that set table, name of the result, seed and the other words of a command."""
    table = _option(command, "--table") or ""
    out = _option(command, "-o") or _option(command, "--output")
    name = '"${table%.csv}.h5"' if out is None else shlex.quote(out)
    seed = shlex.quote(_option(command, "--seed") or "1")
    words = shlex.join(_without(command[1:], ("--table", "--seed", "-o", "--output")))
    return [f"table={shlex.quote(table)}", f"out={name}", f"seed={seed}", f"words=({words})"]


def _option(command: Sequence[str], name: str) -> str | None:
    """Value of an option in a command; the last, which is the one that counts."""
    found = None
    for index, word in enumerate(command):
        if word == name and index + 1 < len(command):
            found = command[index + 1]
        elif word.startswith(f"{name}="):
            found = word.partition("=")[2]
    return found


def _without(command: Sequence[str], names: Sequence[str]) -> list[str]:
    """The command without some options and their values."""
    kept, skip = [], False
    for word in command:
        if skip:
            skip = False
        elif word in names:
            skip = True
        elif not word.startswith(tuple(f"{name}=" for name in names)):
            kept.append(word)
    return kept


# The scripts in slurm/, but for those that are written by hand.
WRITTEN = {
    "single_node.sbatch": BatchJob(gpus_per_node=4, time="01:00:00"),
    "multi_node.sbatch": BatchJob(nodes=2, gpus_per_node=4),
    "requeue.sbatch": BatchJob(nodes=2, gpus_per_node=4, requeue=True),
    "array.sbatch": BatchJob(gpus_per_node=1, array=16, time="01:00:00"),
}


def process_slurm(arguments: argparse.Namespace) -> None:
    """``tauslab slurm``: a batch script."""
    names = [field.name for field in fields(BatchJob) if field.name != "directives"]
    given = {name: getattr(arguments, name) for name in names}
    job = BatchJob(
        directives=sbatch_words(arguments.sbatch),
        **{name: value for name, value in given.items() if value is not None},
    )
    text = batch_script(job, arguments.command)
    if arguments.output is None:
        print(text, end="")
        return
    path = arguments.output
    require_place(path)
    require_new(path, overwrite=arguments.overwrite)
    if path.exists() and not _is_script(path):
        raise ConfigError(f"{path} is no batch script, so it is not replaced: give another -o")
    write_whole(path, text)


def _is_script(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_FIRST_LINE)) == _FIRST_LINE
    except OSError:
        return False
