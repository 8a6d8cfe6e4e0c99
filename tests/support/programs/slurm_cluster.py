"""SLURM on one machine, for tests: a controller and two nodes with ranks that are not bound."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Self

_PROGRAMS = ("slurmctld", "slurmd", "slurmstepd", "sbatch", "scontrol", "scancel", "srun")
_CONFIG = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
{plugins}
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
MinJobAge=600
FirstJobId={first}
InactiveLimit=0
JobRequeue=1
KillWait=5
SchedulerParameters=sched_interval=1,sched_min_interval=0,batch_sched_delay=0
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName=DEFAULT CPUs=4 RealMemory=1000 Gres=gpu:4
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={port1}
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={port2}
PartitionName=test Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""


# SLURM shares out devices of these names as GPUs, whatever they are.
_GPUS = """\
AutoDetect=off
NodeName=n[1-2] Name=gpu File={folder}/gpu[0-3]
"""


def find_programs() -> dict[str, str] | None:
    """Paths of SLURM's programs: of the system, or of packages unpacked in TAUSLAB_SLURM.

    Debian names some with the suffix ``-wlm``.
    """
    root = os.environ.get("TAUSLAB_SLURM", "/")
    folders = os.pathsep.join(os.path.join(root, sub) for sub in ("usr/sbin", "usr/bin"))  # noqa: PTH118
    actual = {
        name: shutil.which(name, path=folders) or shutil.which(f"{name}-wlm", path=folders)
        for name in _PROGRAMS
    }
    return None if None in actual.values() else actual


class SlurmCluster:
    """Daemons that run as the user of the tests; a context manager."""

    def __init__(self, folder: Path, programs: dict[str, str]) -> None:
        self._folder = folder
        self._programs = _under_their_names(folder / "bin", programs)
        self._daemons: list[subprocess.Popen[bytes]] = []
        self.environment = dict(os.environ)
        ports = _free_ports(3)
        plugins = ""
        root = os.environ.get("TAUSLAB_SLURM")
        if root is not None:
            library = next(Path(root).glob("usr/lib/*/slurm-wlm"))
            plugins = f"PluginDir={library}"
            self.environment["LD_LIBRARY_PATH"] = f"{library.parent}:{library}"
        beside = {str(Path(path).parent) for path in self._programs.values()}
        self.environment["PATH"] = os.pathsep.join([*beside, os.environ["PATH"]])
        self.environment["SLURM_CONF"] = str(folder / "slurm.conf")
        for sub in ("state", "spool-n1", "spool-n2"):
            (folder / sub).mkdir(parents=True)
        for gpu in range(4):
            (folder / f"gpu{gpu}").symlink_to("/dev/null")
        (folder / "gres.conf").write_text(_GPUS.format(folder=folder))
        (folder / "slurm.conf").write_text(
            _CONFIG.format(
                host=socket.gethostname().split(".")[0], user=getpass.getuser(), folder=folder,
                plugins=plugins, port=ports[0], port1=ports[1], port2=ports[2],
                # MPICH names shared memory after the job, and leaves it where ranks are killed;
                # SLURM cuts MPICH's messages of many characters, so numbers are short.
                first=10 + time.time_ns() // 1000 % 900,
            )
        )  # fmt: skip

    def __enter__(self) -> Self:
        """Start, and wait until both nodes are idle."""
        config, step = self.environment["SLURM_CONF"], self._programs["slurmstepd"]
        self._start("slurmctld", "-f", config, "-c")
        for node in ("n1", "n2"):
            self._start("slurmd", "-f", config, "-N", node, "-d", step)
        deadline = time.monotonic() + 30
        while self.call("scontrol", "show", "nodes").count("State=IDLE ") < 2:
            if time.monotonic() > deadline:
                raise TimeoutError("SLURM did not start: " + self.logs())
            time.sleep(0.2)
        return self

    def __exit__(self, *_: object) -> None:
        """End the jobs, then the daemons."""
        self.call("scancel", "--full", "--state=RUNNING", "--user", getpass.getuser())
        self.call("scancel", "--user", getpass.getuser())
        time.sleep(0.5)
        for daemon in self._daemons:
            daemon.send_signal(signal.SIGTERM)
        for daemon in self._daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def _start(self, name: str, *arguments: str) -> None:
        self._daemons.append(
            subprocess.Popen(
                [self._programs[name], "-D", *arguments],
                env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, start_new_session=True,
            )
        )  # fmt: skip

    def call(self, name: str, *arguments: str, cwd: Path | None = None) -> str:
        """Output of one of SLURM's commands; of both streams, whether it failed or not."""
        done = subprocess.run(
            [self._programs[name], *arguments], env=self.environment, cwd=cwd, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30, check=False,
        )  # fmt: skip
        return done.stdout

    def submit(self, folder: Path, script: Path, *options: str, arguments: list[str]) -> str:
        """Submit a script from a folder; returns the job's number."""
        out = self.call("sbatch", "--parsable", *options, str(script), *arguments, cwd=folder)
        number = out.strip().splitlines()[-1]
        if not number.isdigit():
            raise RuntimeError(f"sbatch: {out}")
        return number

    def state(self, job: str) -> dict[str, str]:
        """What ``scontrol show job`` says."""
        words = self.call("scontrol", "show", "job", job).split()
        return dict(word.partition("=")[::2] for word in words)

    def runs_ended(self, job: str) -> int:
        """How often the batch script of a job has ended, with all that it had started."""
        logs = (log.read_text() for log in self._folder.glob("slurmd-*.log"))
        return sum(log.count(f"[{job}.batch] done with job") for log in logs)

    def wait_for(self, job: str, *states: str, timeout: float = 90.0) -> dict[str, str]:
        """Wait until a job is in one of these states."""
        deadline = time.monotonic() + timeout
        while (state := self.state(job)).get("JobState") not in states:
            if time.monotonic() > deadline:
                raise TimeoutError(f"job {job} is {state}\n{self.logs()}")
            time.sleep(0.1)
        return state

    def logs(self) -> str:
        """The ends of the daemons' logs."""
        return "\n".join(log.read_text()[-2000:] for log in self._folder.glob("*.log"))


def _under_their_names(folder: Path, programs: dict[str, str]) -> dict[str, str]:
    """Links without Debian's suffix: a daemon of another name takes no notice of GPUs."""
    folder.mkdir(parents=True)
    for name, path in programs.items():
        (folder / name).symlink_to(path)
    return {name: str(folder / name) for name in programs}


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
