"""Batch scripts for SLURM: ``tauslab slurm`` writes one, and `slurm/` holds some that it wrote."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tauslab.base.errors import ConfigError
from tauslab.base.files.drafts import write_whole
from tauslab.cli.options import given_options
from tauslab.cli.tools import require_new
from tauslab.options.dask import sbatch_lines, sbatch_words
from tauslab.options.values.definition import check_values, option
from tauslab.store.targets import require_place

REQUEUE_SECONDS = 180  # before the time limit; SLURM may be up to a minute early
_TOO_EARLY = 60
_TIME = re.compile(r"(?:([0-9]{1,4})-)?([0-9]{1,6})(?::([0-9]{1,2}))?(?::([0-9]{1,2}))?")
_MPI = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}")
_FIRST_LINE = b"#!/bin/bash\n"
_PYTHON = ("python", "python3")


def _number(name: str, value: int) -> None:
    low = int(name in ("nodes", "cpus_per_task"))
    if not low <= value <= 100_000:
        flag = f"--{name.replace('_', '-')}"
        raise ConfigError(f"{flag} {value} is not allowed: {low} to 100000")


def _count(name: str, default: int, text: str) -> int:
    return option(default, text, flag=f"--{name}", type=int, metavar="N", check=_number)


@dataclass(frozen=True)
class BatchJob:
    """The resources that a batch script asks of SLURM.

    `gpus_per_node` are also the ranks of a node; with 0 there are `tasks_per_node` ranks without
    GPUs, or a single one. With `requeue` the job stops before the limit, goes back into the queue,
    and completes the file there. Without `mpi` the job asks mpi4py which MPI it loads.

    Raises
    ------
    ConfigError
        A number, a time, a type or a word that is not allowed.
    """

    nodes: int = _count("nodes", 1, "number of nodes (1)")
    gpus_per_node: int = _count("gpus-per-node", 0, "GPUs and ranks per node (0)")
    tasks_per_node: int = _count("tasks-per-node", 0, "ranks per node (one per GPU)")
    cpus_per_task: int = _count("cpus-per-task", 8, "cores per rank (8)")
    array: int = _count(
        "array", 0, "number of jobs that share the points of a sweep, or --replicas"
    )
    time: str = option("04:00:00", "time limit (04:00:00)", flag="--time", metavar="LIMIT")
    requeue: bool = option(
        False, "stop before the limit, requeue the job and continue", flag="--requeue",
        action="store_true",
    )  # fmt: skip
    mpi: str | None = option(
        None, "type for srun: pmix, pmi2 (that of mpi4py's MPI)", flag="--mpi", metavar="TYPE"
    )
    directives: tuple[str, ...] = option(
        (), "more options of sbatch, such as '--partition=gpu'", flag="--sbatch", metavar="OPTIONS",
        read=sbatch_words, command_default="",
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Check what needs no cluster."""
        check_values(self)
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
        if self.array and self.nodes > 1:
            raise ConfigError("--array makes jobs of one node: leave --nodes out")

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
    match = _TIME.fullmatch(time)
    if match is not None:
        days, *parts = (None if part is None else int(part) for part in match.groups())
        given = [part for part in parts if part is not None]
        if days is not None or len(given) == 3:  # D-H:M:S, H:M:S; else M:S
            given += [0] * (3 - len(given))
        else:
            given = [0, *given, *[0] * (2 - len(given))]
        total = (((days or 0) * 24 + given[0]) * 60 + given[1]) * 60 + given[2]
        if total > 0 and all(part is None or part < 60 for part in parts[1:]):
            return total
    raise ConfigError(
        f"--time {time!r} is not allowed: minutes, M:S, H:M:S, D-H, D-H:M or D-H:M:S, for example "
        "04:00:00 or 2-00:00"
    )


def batch_script(
    job: BatchJob,
    command: Sequence[str] | None = None,
    name: str = "",
    environment: tuple[Path, ...] = (),
) -> str:
    """Text of a batch script.

    Parameters
    ----------
    command
        ``run MODEL ...`` as after ``tauslab``, or ``python FILE ...``; None for a script that takes
        the words after ``run`` as its arguments.
    name
        What the script is called; for its first comment.
    environment
        What `this_environment` gives; by default the job activates a ``.venv`` that it finds.

    Raises
    ------
    ConfigError
        The command is not one that a batch job can run.
    """
    if command is not None:
        _check(job, command)
    mpi = _MPI_OF_MPI4PY if job.mpi is None else f"mpi=${{TAUSLAB_SRUN_MPI:-{job.mpi}}}\n"
    parts = ["#!/bin/bash\n", _usage(job, command, name), _directives(job), _SETUP]
    parts += [_activation(environment), _CHECK, mpi, _LAUNCH]
    parts += [_DOCTOR] if job.nodes > 1 else []
    whole = 'run "$@"' if command is None else shlex.join(command)
    whole = whole if command and command[0] in _PYTHON else f"tauslab {whole}"
    if job.array:
        lattice = command is not None and command[0] == "rdme"
        words = _ARGUMENTS if command is None else f"{_words(command)}tasks={job.array}\n"
        parts += [_SHARE.format(what="replica" if lattice else "point"), words, _TASK]
        whole, again = '"${job[@]}"', ""
    else:
        # A command with --append-to continues its file without --resume.
        grows = command is not None and _option(command, "--append-to") is not None
        again = "" if grows else " --resume"
    if job.requeue:
        of_array = "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"
        wait = _WAIT.replace("$SLURM_JOB_ID", of_array) if job.array else _WAIT
        parts += [_SIGNAL, f'"${{launch[@]}}" {whole}{again} &\n', wait]
    else:
        parts += ["" if job.array else "\n", f'"${{launch[@]}}" {whole}\n']
    return "".join(parts)


def _check(job: BatchJob, command: Sequence[str]) -> None:
    verbs = ("run", "rdme") if job.array or job.requeue else ("run", "rdme", _PYTHON[0])
    if command and command[0] in _PYTHON and _PYTHON[0] in verbs:
        return
    if not command or command[0] not in verbs:
        given = command[0] if command else "nothing"
        raise ConfigError(
            f"tauslab slurm ... -- {given}: the command after -- is {' or '.join(verbs)}, for "
            "example `-- run model.xml -n 1000000`"
        )
    lattice = command[0] == "rdme"
    points = ("--table", "--sweep", "--design")
    if job.array and not lattice and all(_option(command, one) is None for one in points):
        raise ConfigError(
            "--array shares points: give the command --table FILE.csv, --sweep or --design"
        )
    replicas = _option(command, "--replicas") or ""
    if job.array and lattice and not re.fullmatch("[1-9][0-9]{0,5}", replicas):
        raise ConfigError("--array shares the replicas of a lattice: give the command --replicas R")
    shared = int(replicas) if lattice and job.array else _points(command)
    if job.array and shared is not None and job.array > shared:
        raise ConfigError(
            f"--array {job.array} is more than the {shared} "
            f"{'replicas' if lattice else 'points'} of the command, and a task needs one at least"
        )
    if job.array and command[1:] and command[1].startswith("-"):
        raise ConfigError(f"--array: the model comes first, as in `-- {command[0]} cell.toml ...`")
    if _option(command, "--append") is not None and (job.requeue or job.array):
        raise ConfigError(
            "a requeued job would append twice: give --append-to with the final number of "
            "trajectories instead of --append"
        )
    for own in ("--task", "--first-replica" if lattice else "--first-point"):
        if job.array and own in {word.partition("=")[0] for word in command}:
            raise ConfigError(f"--array sets {own}: leave it out")
    if {"--overwrite", "--resume"} & set(command) and (job.requeue or job.array):
        raise ConfigError(
            "--requeue and --array add --resume by themselves: leave --resume and --overwrite out"
        )
    if job.requeue and _option(command, "--max-time") is not None:
        raise ConfigError(
            "--requeue ends the run by a signal before the limit: leave --max-time out"
        )


def _usage(job: BatchJob, command: Sequence[str] | None, name: str) -> str:
    gpus = f"{job.gpus_per_node} GPUs a node" if job.gpus_per_node else "no GPUs"
    nodes = "one node" if job.nodes == 1 else "several nodes"
    about = f"# tauslab on {nodes}, {gpus}, ranks per node: {job.ranks}.\n"
    if job.requeue:
        about += "# Longer than a job may be: it goes back into the queue.\n"
    if job.array:
        each = "one GPU each" if job.gpus_per_node else "no GPUs"
        what = "replicas of a lattice" if command and command[0] == "rdme" else "points of a sweep"
        about = f"# {job.array} jobs that share the {what}, {each}.\n"
    if command is not None:
        return f"{about}#\n"
    table, example, n = ("TABLE.csv ", "points.csv ", 10**5) if job.array else ("", "", 10**8)
    about += _OTHER_TASKS if job.array else ""
    return (
        f"{about}#   sbatch slurm/{name} {table}MODEL [options of tauslab run]\n"
        f"#   sbatch slurm/{name} {example}examples/schlogl.xml -n {n} --t-end 10 "
        f"--record statistics\n{_ON_CPUS if job.gpus_per_node else ''}#\n"
    )


def _directives(job: BatchJob) -> str:
    text = f"#SBATCH --job-name=tauslab\n#SBATCH --nodes={job.nodes}\n"
    text += _RANKS_AND_GPUS if job.gpus_per_node and not job.array else ""
    text += f"#SBATCH --ntasks-per-node={job.ranks}\n"
    if job.gpus_per_node:
        text += f"#SBATCH --gpus-per-node={1 if job.array else job.gpus_per_node}\n"
    text += "# Cores for the host's part of a rank, or for all of it with --device cpu.\n"
    text += f"#SBATCH --cpus-per-task={job.cpus_per_task}\n"
    text += _WHOLE_NODES if job.nodes > 1 and job.gpus_per_node else _MEMORY
    text += f"#SBATCH --time={job.time}\n"
    text += f"#SBATCH --array=0-{job.array - 1}\n" if job.array else ""
    # A task of an array continues its file; any other job would find it and stop.
    text += _REQUEUE if job.requeue else "" if job.array else "#SBATCH --no-requeue\n"
    text += f"#SBATCH --output=%x-{'%A_%a' if job.array else '%j'}.log\n"
    return text + "".join(f"#SBATCH {line}\n" for line in sbatch_lines(job.directives))


_OTHER_TASKS = """\
# For another number of them: sbatch --array=0-63 ...; to repeat some of 64 tasks:
# TAUSLAB_TASKS=64 sbatch --array=2-3 ...
"""
_ON_CPUS = """\
# Nodes without GPUs: sbatch --gpus-per-node=0 --ntasks-per-node=RANKS ..., and --device cpu after
# the model.
"""
_RANKS_AND_GPUS = """\
# Ranks and GPUs of a node: keep these two numbers equal. All its GPUs are visible to all its
# ranks, and each takes the one of its node-local rank, so that halos of a lattice can go from GPU
# to GPU. With --gpus-per-task=1 instead, each takes the only one that it sees.
"""
_WHOLE_NODES = """\
# Whole nodes, with all their memory: a neighbour that fills the memory bus or a GPU would slow
# every rank.
#SBATCH --exclusive
#SBATCH --mem=0
"""
_MEMORY = """\
# Memory per node, where the site's default is too little; a run says beforehand if it needs much.
##SBATCH --mem=16G
"""
_REQUEUE = f"""\
# So many seconds before the limit this script gets USR1; SLURM may be a minute early.
#SBATCH --signal=B:USR1@{REQUEUE_SECONDS}
#SBATCH --requeue
#SBATCH --open-mode=append
"""
_SETUP = """
set -euo pipefail

# SLURM runs a copy of this file: paths start at the directory where sbatch was called. It must be
# on a file system that all nodes share: ranks write parts beside the result.
cd "$SLURM_SUBMIT_DIR"
# On a cluster the site's MPI is the right one; load what mpi4py was built with here:
# module load cuda openmpi
"""
_CHECK = """\
command -v tauslab > /dev/null || {
    echo "tauslab is not found on $(hostname): activate its environment in this script" >&2
    exit 127
}
export OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS:-1}

# Since SLURM 22.05 srun does not take the cores of a rank from sbatch; without this line each
# might be bound to one.
export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}
# srun must speak the language of the MPI that mpi4py loads: pmix for Open MPI, pmi2 for MPICH and
# the mpich wheel; `srun --mpi=list` shows what there is. tauslab stops if ranks do not find each
# other.
"""
_MPI_OF_MPI4PY = """\
mpi=${TAUSLAB_SRUN_MPI:-${SLURM_MPI_TYPE:-}}
if [ -z "$mpi" ]; then
    # Open MPI's text ends with a null byte, of which bash would warn.
    case "$(python -m mpi4py --mpi-lib-version 2>/dev/null | tr -d '\\0' || true)" in
    *CRAY*) mpi=cray_shasta ;;
    *MPICH* | *MVAPICH* | *"Intel(R) MPI"*) mpi=pmi2 ;;
    *) mpi=pmix ;;
    esac
fi
"""
_LAUNCH = """\
# Neighbouring ranks on neighbouring cores, as their GPUs are; a rank that dies ends all.
launch=(srun --mpi="$mpi" --cpu-bind=cores
    --distribution=block:block --kill-on-bad-exit=1)
# In a container that has an MPI of the same kind (then without the check above):
# launch+=(apptainer exec --nv --bind "$PWD" tauslab.sif)
"""
_DOCTOR = """\
# Which GPU and how many cores each rank gets, at the head of the log.
"${launch[@]}" tauslab doctor
"""
_SIGNAL = """
# srun passes USR1 on to the ranks. They end what they have in hand and exit with 75; the job goes
# back into the queue, and the same command completes the file, on however many ranks there are
# then.
asked=no
launcher=
trap 'asked=yes; [ -z "$launcher" ] || kill -USR1 "$launcher"' USR1
"""
_WAIT = """\
launcher=$!
code=0
wait "$launcher" || code=$?
# The signal ended `wait`, and not yet the ranks.
if [ "$asked" = yes ] && [ "$code" -gt 128 ]; then
    code=0
    wait "$launcher" || code=$?
fi
# Not only 75: a rank may not be ready for signals yet. A failure repeats itself.
if [ "$asked" = yes ] && [ "$code" -ne 0 ]; then
    echo "stopped before the time limit: back into the queue"
    scontrol requeue "$SLURM_JOB_ID"
    exit 0
fi
exit "$code"
"""
_SHARE = """
# Task i of N takes {what}s R*i/N up to R*(i+1)/N of R, and writes a file of its own, named after -o
# with the number of the task. All have one seed, which is 1 unless the command has --seed: the
# files hold the numbers of one job, also if some tasks run later (sbatch --array=2-3 ...), and
# `tauslab merge` joins them.
"""
_ARGUMENTS = """\
table=${1:?give TABLE.csv MODEL [options of tauslab run]}
out="${table%.csv}.h5"
seed=1
words=(run --table "$table")
while shift && [ $# -gt 0 ]; do
    case "$1" in
    -o | --output) out=${2:?-o needs a name} && shift ;;
    --output=* | -o=*) out=${1#*=} ;;
    -o*) out=${1#-o} ;;
    --seed) seed=${2:?--seed needs a number} && shift ;;
    --seed=*) seed=${1#*=} ;;
    *) words+=("$1") ;;
    esac
done
# `sbatch --array=0-63` has 64 tasks. If only some of an array are submitted, SLURM does not state
# the number of all.
tasks=${TAUSLAB_TASKS:-}
if [ -z "$tasks" ]; then
    tasks=${SLURM_ARRAY_TASK_COUNT:-0}
    if [ "${SLURM_ARRAY_TASK_MIN:-0} ${SLURM_ARRAY_TASK_MAX:-0}" != "0 $((tasks - 1))" ]; then
        echo "only some tasks of an array: give TAUSLAB_TASKS=N, the number of all its tasks" >&2
        exit 2
    fi
fi
"""
_TASK = r"""
task=$SLURM_ARRAY_TASK_ID
if [ "$task" -ge "$tasks" ]; then
    echo "task $task: this script has tasks 0 to $((tasks - 1))" >&2
    exit 2
fi
here=${SLURM_ARRAY_TASK_COUNT:-$tasks}
some=
if [ "$here" -ne "$tasks" ]; then
    some=", $here of them in this array"
fi
echo "task $task of $tasks$some, seed ${TAUSLAB_SEED:-$seed}"
# A task that ran before continues its file.
job=(tauslab "${words[@]}" --seed "${TAUSLAB_SEED:-$seed}"
    --task "$task/$tasks" -o "${out%.h5}-$task.h5" --resume)
""".lstrip()


def this_environment() -> tuple[Path, ...]:
    """Return the script that activates this environment and, for conda, its argument.

    Returns
    -------
    ``(bin/activate,)`` of a venv, ``(bin/activate of conda, environment)``, or nothing.
    """
    prefix = Path(sys.prefix)
    conda = Path(os.environ.get("CONDA_EXE") or "conda").with_name("activate")
    if (prefix / "conda-meta").is_dir() and conda.is_file():
        return conda, prefix
    own = prefix / "bin" / "activate"
    return (own,) if sys.prefix != sys.base_prefix and own.is_file() else ()


def _activation(environment: tuple[Path, ...]) -> str:
    """Lines that activate an environment, or the one in the folder of the job."""
    script, *more = map(str, environment or (Path(".venv/bin/activate"),))
    source = shlex.join(["source", script, *more])
    if more:  # scripts of conda read variables that are not set
        source = f"set +u\n    {source}\n    set -u"
    return (
        f"if [ -f {shlex.quote(script)} ]; then\n    # shellcheck disable=SC1091\n"
        f"    {source}\nfi\n"
    )


def _words(command: Sequence[str]) -> str:
    """Lines that set the name of the result, the seed and the other words of a command."""
    table = _option(command, "--table")
    name = _option(command, "--output", "-o")
    if name is None:
        name = (
            f"{Path(command[1]).stem}.h5" if table is None else f"{table.removesuffix('.csv')}.h5"
        )
    seed = _option(command, "--seed") or "1"
    words = shlex.join(_without(command, ("--seed", "--output", "-o")))
    return f"out={shlex.quote(name)}\nseed={shlex.quote(seed)}\nwords=({words})\n"


def _option(command: Sequence[str], *names: str) -> str | None:
    """Value of an option in a command; the last, which is the one that counts."""
    result = None
    for index, word in enumerate(command):
        if word in names and index + 1 < len(command):
            result = command[index + 1]
        elif (value := _attached(word, names)) is not None:
            result = value
    return result


def _points(command: Sequence[str]) -> int | None:
    """Points of a command's --design or --sweep; None of a table, or of what `run` refuses."""
    if (design := _option(command, "--design")) is not None:
        number = design.rpartition(":")[2]
        return int(number) if number.isdecimal() else None
    pairs = zip(command, [*command[1:], ""], strict=True)
    given = [after if word == "--sweep" else _attached(word, ("--sweep",)) for word, after in pairs]
    points = 1 if any(given) and _option(command, "--table") is None else None
    for axis in filter(None, given if points else ()):
        kind, _, rest = axis.partition("=")[2].partition(":")
        number = str(rest.count(",") + 1) if kind == "list" else rest.rpartition(":")[2]
        points = points * int(number) if points and number.isdecimal() else None
    return points


def _attached(word: str, names: Sequence[str]) -> str | None:
    """Value in the word of an option, such as ``--output=FILE``, ``-o=FILE`` or ``-oFILE``."""
    for name in names:
        if word.startswith(f"{name}="):
            return word[len(name) + 1 :]
        if len(name) == 2 and word.startswith(name) and word != name:
            return word[2:]
    return None


def _without(command: Sequence[str], names: Sequence[str]) -> list[str]:
    """The command without some options and their values."""
    kept, skip = [], False
    for word in command:
        if skip:
            skip = False
        elif word in names:
            skip = True
        elif _attached(word, names) is None:
            kept.append(word)
    return kept


def process_slurm(arguments: argparse.Namespace) -> None:
    """``tauslab slurm``: a batch script."""
    job = BatchJob(**given_options(arguments, BatchJob))
    text = batch_script(job, arguments.command, environment=this_environment())
    if arguments.output is None:
        print(text, end="")
    else:
        _write(arguments.output, text, overwrite=arguments.overwrite)
    for name in _missing(arguments.command):
        print(
            f"tauslab: warning: there is no file {name} in this folder: call sbatch in the folder "
            "that has it",
            file=sys.stderr,
        )


def _write(path: Path, text: str, *, overwrite: bool) -> None:
    require_place(path)
    require_new(path, overwrite=overwrite)
    if path.exists() and not _is_script(path):
        raise ConfigError(f"{path} is no batch script, so it is not replaced: give another -o")
    write_whole(path, text)


def _missing(command: Sequence[str]) -> list[str]:
    """Files of a command (model, table, times) that do not exist in this folder."""
    files = [_option(command, one) for one in ("--table", "--times")]
    files += [command[1]] if command[1:] and not command[1].startswith("-") else []
    return [name for name in files if name is not None and not Path(name).exists()]


def _is_script(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_FIRST_LINE)) == _FIRST_LINE
    except OSError:
        return False
