"""Warps that hop in a tile each give the bits of a thread that goes through all sites."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from emulation import EmulatedLattices
from lattice_factory import binding, digest, empty_lattice, engine_on, lowered, state_of, typed
from sampling import ordinary

from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.kernels.lattice.codegen import in_warp_tiles, words_in_registers
from tauslab.kernels.lattice.engine import LatticeEngine
from tauslab.kernels.lattice.state import Slab
from tauslab.model.lattice.placement import ParticleStart

THREADS = 128
NARROW = (19, 40)  # sites of a plane along y and x; a plane ends in a half-filled tile


def wide():
    model = empty_lattice((3, 9, 35), {f"S{i}": 0.1 for i in range(300)}, slots=8)
    for i in range(0, 299, 2):
        model.add_reaction(f"S{i} + S{i + 1} -> S{(7 * i) % 300}", rate=3000, volume="site")
    for i in range(300):
        model.place(f"S{i}", count=4)
    return lowered(model)


# Planes that end within a tile, on it, and of which one tile is nearly empty; all faces; sites that
# fit registers, some that do not, and most that do not.
MODELS = {
    "periodic": lambda: binding((4, 21, 37), 1.6),
    "periodic, whole tiles": lambda: binding((3, 32, 64), 0.3),
    "crowded": lambda: binding((3, 18, 33), 4.8, slots=8),
    "full": lambda: binding((3, 17, 32), 7.5),
    "reflecting": lambda: binding((3, 19, 40), 2.5, boundary="reflecting"),
    "absorbing": lambda: binding((3, 19, 40), 2.5, boundary="absorbing"),
    "typed": lambda: typed((4, 17, 45)),
    "typed periodic": lambda: typed((3, 16, 34), boundary="periodic", slots=8, fill=2.5),
    "wide": wide,
    "periodic, tall tiles": lambda: binding((2, 70, 37), 1.6),
}
TALL = "periodic, tall tiles"


def test_only_lattices_whose_sites_fit_registers_are_done_in_lanes(cpu):
    assert words_in_registers(binding((4, 21, 37), 1.6)) == 2
    assert words_in_registers(binding((4, 21, 37), 4.8)) == 4
    assert not in_warp_tiles(binding((4, 21, 37), 7))  # too full
    assert not in_warp_tiles(binding((4, 21, 37), 4.8, slots=8))
    assert not in_warp_tiles(binding((4, 21, 37), 1.6, slots=32))
    assert not in_warp_tiles(binding((4, 21, 7), 1.6))  # narrower than a warp
    assert engine_on(cpu, binding((4, 21, 37), 1.6)).plan.warps == 1


WIDE = (
    "periodic",
    "full",
    "reflecting",
    "typed",
    "wide",
    TALL,
)  # whose sites have four words
CASES = [(m, 2, (-1) ** i) for i, m in enumerate(MODELS)]
CASES += [(m, 4, (-1) ** i) for i, m in enumerate(WIDE)]


@pytest.mark.parametrize(("name", "words", "order"), ordinary(CASES, CASES[-1]))
def test_lanes_give_the_same_bits(cpu, tmp_path, name, words, order, monkeypatch):
    monkeypatch.setattr(ParticleStart, "crowding", 0.0 if words == 2 else 3.0)
    lattice = MODELS[name]()
    assert words_in_registers(lattice) == words
    backend = EmulatedLattices(tmp_path, THREADS, order, counter=cpu)
    expected = engine_on(cpu, lattice)
    actual = engine_on(backend, lattice, together=False, tall=name == TALL)
    assert actual.plan.tile.y == (32 if name == TALL else 16)
    assert actual.plan.warps == THREADS // 32
    counts = expected.run_sampled([3, 8])
    assert np.array_equal(actual.run_sampled([3, 8]).by_type, counts.by_type)
    assert digest(actual) == digest(expected)
    backend.close()


class OneType:
    """Sites of a lattice of which only the planes that are asked for are in memory."""

    def planes(self, z0, z1):
        return np.zeros((z1 - z0, *NARROW), np.uint8)


@pytest.mark.validate
def test_site_numbers_pass_32_bits_within_a_plane(cpu, tmp_path, monkeypatch):
    """The planes around site 2^32 of a lattice that is larger than memory."""
    monkeypatch.setattr(ParticleStart, "crowding", 0.0)
    sites = NARROW[0] * NARROW[1]
    middle = 2**32 // sites
    assert 0 < 2**32 - middle * sites < sites
    lattice = replace(binding((5, *NARROW), 0), shape=(middle + 5, *NARROW), site_map=OneType())
    particles = np.zeros((5, *NARROW, lattice.slots), np.uint8)
    particles[..., 0] = np.arange(5 * sites).reshape(5, *NARROW) % 4
    backend = EmulatedLattices(tmp_path, THREADS, 1, counter=cpu)
    slab, digests = Slab(middle - 2, middle + 3), []
    for device in (cpu, backend):
        engine = LatticeEngine(device, lattice, seed=5, slab=slab)
        engine.load(state_of(lattice, particles))
        engine.run(4)
        assert engine.save().fired.min() > 0
        digests.append(digest(engine))
    assert engine.plan.warps == THREADS // 32
    assert digests[0] == digests[1]
    backend.close()


def filling_up(shape):
    """Particles come from nowhere, about four a site in thirty steps."""
    model = empty_lattice(shape, {"A": 0.1, "B": 0.05})
    model.add_reaction("-> A", rate=3000, volume="site")
    model.add_reaction("A -> B", rate=30)
    model.place("B", count=10)
    return lowered(model)


@pytest.mark.parametrize(
    "device",
    [
        pytest.param("emulated", marks=pytest.mark.validate),
        pytest.param("cuda", marks=pytest.mark.gpu),
    ],
)
def test_a_lattice_that_fills_up_is_done_as_one_that_began_full(cpu, tmp_path, device):
    """Lanes keep two words of a site, then four, and in the end sites are done through memory."""
    lattice = filling_up((3, 18, 33) if device == "emulated" else (6, 34, 70))
    if device == "cuda":
        backend = get_backend("cuda", BackendOptions())
    else:
        backend = EmulatedLattices(tmp_path, THREADS, 1, counter=cpu)
    backend.sites_together = 0  # the lattice is small, and taken for a large one
    expected, actual = engine_on(cpu, lattice), engine_on(backend, lattice)
    assert not actual.plan.together
    words = []
    for _ in range(6):
        assert np.array_equal(
            actual.run_sampled([4, 9]).by_type, expected.run_sampled([4, 9]).by_type
        )
        assert digest(actual) == digest(expected)
        words.append(words_in_registers(actual.lattice))
    assert [w for i, w in enumerate(words) if i == 0 or w != words[i - 1]] == [2, 4, 0]
    actual.load(state_of(lattice, lattice.particles(0, lattice.shape[0], 1)))
    actual.run_sampled([1])
    assert words_in_registers(actual.lattice) == 2, "a lattice that is emptied again"
    backend.close()
