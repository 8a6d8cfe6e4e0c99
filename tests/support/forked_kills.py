"""A program: runs a job again and again, each time killed by SIGKILL a little later.

``forked_kills.py FOLDER RECORD STEP`` leaves ``FOLDER/LIVES.h5`` as each kill left it.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from mortal_disk import MortalDisk, SigKill
from sample_job import CRASH_JOBS


def main(folder: Path, record: str, step: int) -> None:
    job, counted = CRASH_JOBS[record](), MortalDisk()
    job.run(folder / "whole.h5", disk=counted)
    for lives in range(0, counted.used, step):
        child = os.fork()
        if child == 0:
            try:
                job.run(folder / f"{lives}.h5", disk=SigKill(lives))
            finally:
                os._exit(1)  # it should have been killed
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status)
        assert os.WTERMSIG(status) == signal.SIGKILL


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
