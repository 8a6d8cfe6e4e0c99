"""What array operations and engines put on a GPU is in order, whoever is late."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
from late_arrays import be_late

from tauslab.kernels.backends import BackendOptions, get_backend


@pytest.mark.gpu
def test_engines_and_array_operations_wait_for_each_other():
    with closing(get_backend("cuda", BackendOptions())) as gpu:
        first, second = gpu.stream(), gpu.stream(urgent=True)
        array, other = (gpu.upload(np.zeros(1000)) for _ in range(2))
        mirror = gpu.mirror(other)
        for number in (1, 2):  # the first time CuPy compiles, and nobody is late any more
            be_late()
            array[...] = number  # an array operation
            gpu.copy(array, other, first)  # as of an engine
            gpu.download(other, mirror, len(mirror), first)
            first.record().wait()
            assert (mirror == number).all()
            be_late(second)
            gpu.clear(other, second)
            assert float((other + 1).sum()) == len(mirror)


@pytest.mark.gpu
def test_a_recording_is_in_order_with_array_operations():
    with closing(get_backend("cuda", BackendOptions())) as gpu:
        main, edge = gpu.stream(), gpu.stream(urgent=True)
        array, other = (gpu.upload(np.zeros(1000)) for _ in range(2))

        def work() -> None:
            edge.wait_for(main.record())
            gpu.copy(array, other, edge)
            main.wait_for(edge.record())

        recorded = gpu.record_launches(work, main)
        assert recorded is not None
        for number in (1, 2):
            be_late()
            array[...] = number
            recorded.launch(main)
            assert float(other.sum()) == number * len(array)
