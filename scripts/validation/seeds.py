"""Answers to many seeds in processes of one thread each: kept as they come, and within a time."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, TypeAlias

Key: TypeAlias = tuple[str | int, ...]
_LIBRARIES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def answers(
    ask: Callable[..., Any],
    asked: Sequence[Key],
    *,
    jobs: int = 1,
    seconds: float | None = None,
    keep: Path | None = None,
) -> dict[Key, Any]:
    """Call ``ask(*key)`` for keys in their order, until `seconds` are over.

    Parameters
    ----------
    ask
        A function of a module, whose answers JSON can hold.
    keep
        A line of JSON for each answer; what it has is not asked again.
    """
    result = dict(_kept(keep))
    left = [key for key in asked if key not in result]
    for key, answer in _asked(ask, left, jobs, math.inf if seconds is None else seconds):
        result[key] = answer
        if keep is not None:
            with keep.open("a", encoding="utf-8") as file:
                file.write(json.dumps([key, answer]) + "\n")
    return {key: result[key] for key in asked if key in result}


def _kept(keep: Path | None) -> Iterator[tuple[Key, Any]]:
    if keep is not None and keep.is_file():
        text = keep.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]  # a run that was killed may have cut its last line
        keep.write_text(whole, encoding="utf-8")
        for line in whole.splitlines():
            key, answer = json.loads(line)
            yield tuple(key), answer


def _asked(
    ask: Callable[..., Any], keys: Sequence[Key], jobs: int, seconds: float
) -> Iterator[tuple[Key, Any]]:
    end = time.monotonic() + seconds
    if jobs == 1:
        for key in keys:
            if time.monotonic() >= end:
                return
            yield key, ask(*key)
        return
    os.environ.update(dict.fromkeys(_LIBRARIES, "1"))  # of the processes
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        left = {pool.submit(ask, *key): key for key in keys}
        try:
            for done in as_completed(left, None if math.isinf(seconds) else seconds):
                yield left.pop(done), done.result()
        except TimeoutError:  # those that began come to their end: a slow one is no other
            pool.shutdown(cancel_futures=True)
            yield from ((key, one.result()) for one, key in left.items() if not one.cancelled())
