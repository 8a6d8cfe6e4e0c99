"""Numbers for processes that no launcher numbered: the Dask workers of a machine."""

from __future__ import annotations

import errno
import hashlib
import os
import socket
from collections.abc import Mapping
from itertools import count

# Held until the process ends, however it ends: a later process then takes the number. Numbers of
# open sockets, for the interpreter warns at its end of sockets that nobody closed.
_HELD: dict[str, tuple[int, int]] = {}


def node_group(scheduler: str, environment: Mapping[str, str] = os.environ) -> str:
    """A name shared by the processes of a machine that share GPUs and are numbered together.

    The workers of one scheduler. Jobs of SLURM on one node see GPUs of their own, each from index
    0 on, and so do processes that were shown different ones.
    """
    seen = [environment.get(name, "") for name in ("SLURM_JOB_ID", "CUDA_VISIBLE_DEVICES")]
    text = "\0".join([scheduler, *seen])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def local_rank(group: str) -> int:
    """The lowest number from 0 on that no other living process of `group` here has taken.

    A name in the kernel's abstract socket space stands for a number: it takes no file, and the
    kernel frees it at the end of the process, whatever ended it.
    """
    if group not in _HELD:
        _HELD[group] = _take(group)
    return _HELD[group][0]


def _take(group: str) -> tuple[int, int]:
    for number in count():
        held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            held.bind(f"\0tauslab-{os.getuid()}-{group}-{number}")
        except OSError as error:
            held.close()
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            return number, held.detach()
    raise AssertionError
