"""CPU devices whose new memory holds what others left there: no number that a kernel may read."""

from __future__ import annotations

import contextlib

import numpy as np

from tauslab.kernels.backends import BackendOptions
from tauslab.kernels.backends.cpu import CpuBackend

LEFT_THERE = 0xA5


class Dirty(CpuBackend):
    """New memory is never zero."""

    def empty(self, shape, dtype):
        memory = super().empty(shape, dtype)
        memory.reshape(-1).view(np.uint8)[...] = LEFT_THERE
        return memory


@contextlib.contextmanager
def dirty_cpu(threads=1, *, sites_of_a_block=CpuBackend.sites_of_a_block):
    """Open such a device; close it."""
    opened = Dirty(BackendOptions(threads=threads))
    opened.sites_of_a_block = sites_of_a_block
    yield opened
    opened.close()
