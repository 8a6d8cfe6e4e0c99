"""A second run of a lattice takes what the first prepared, unless model or options differ."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Callable

import numpy as np
import pytest

import tauslab as ts
from tauslab.base.option_names import listening
from tauslab.options.lattice import LatticeOptions
from tauslab.runner.lattice import kept


def model() -> ts.Lattice:
    lattice = ts.Lattice("kept", shape=(4, 4, 6), spacing=1e-8, step=1e-6, slots=8, t_end=1e-5)
    lattice.add_parameter("k", 2.0)
    lattice.add_site_type("cytoplasm")
    lattice.add_site_type("wall", mask=np.indices(lattice.shape).sum(axis=0) == 0)
    lattice.add_species("A", "B")
    lattice.add_diffusion("*", 1e-13)
    lattice.add_reaction("A -> B", rate="k")
    lattice.add_reaction("B + B -> A", rate=1e-3, volume="site")
    lattice.place("A", positions=np.array([[0, 0, 1], [1, 2, 3]]))
    lattice.place("B", count=5, site_type="cytoplasm")
    lattice.set_boundary("x+", "absorbing")
    return lattice


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of models that were prepared."""
    names: list[str] = []
    usual = kept.prepare_lattice

    def prepare(lattice: ts.Lattice, options: LatticeOptions) -> object:
        names.append(lattice.name)
        return usual(lattice, options)

    monkeypatch.setattr(kept, "prepare_lattice", prepare)
    return names


def test_seeds_and_files_share_what_is_prepared(prepared: list[str]) -> None:
    lattice = model()
    first = kept.kept_task(lattice, LatticeOptions(seed=1))
    second = kept.kept_task(lattice, LatticeOptions(seed=2, overwrite=True))
    assert prepared == ["kept"]
    assert second.options.seed == 2
    assert second.lattice is first.lattice
    assert second.sha256 == first.sha256 == kept.prepare_lattice(model(), first.options).sha256
    for options in (
        LatticeOptions(seed=1, set={"k": 3.0}),
        LatticeOptions(seed=1, t_end=2e-5),
        LatticeOptions(seed=1, engine="slots"),
    ):
        prepared.clear()
        kept.kept_task(lattice, options)
        assert prepared == ["kept"]


def _changes() -> dict[str, Callable[[ts.Lattice], object]]:
    return {
        "parameter": lambda m: m.add_parameter("other", 1.0),
        "reaction": lambda m: m.reactions.pop(),
        "reactants": lambda m: m.reactions[0].reactants.update(B=1),
        "species": lambda m: m.add_species("C"),
        "name": lambda m: setattr(m, "name", "other"),
        "boundary": lambda m: m.set_boundary("x+", "reflecting"),
        "sites": lambda m: m.paint("wall", np.indices(m.shape).sum(axis=0) == 1),
        "site in place": lambda m: m.sites.array.__setitem__((3, 3, 3), 1),
        "position in place": lambda m: m.placements[0].positions.__setitem__((0, 2), 2),
    }


@pytest.mark.parametrize("change", list(_changes()))
def test_a_lattice_that_was_changed_is_prepared_anew(change: str, prepared: list[str]) -> None:
    lattice, options = model(), LatticeOptions(seed=1)
    before = kept.kept_task(lattice, options)
    prepared.clear()
    _changes()[change](lattice)
    after = kept.kept_task(lattice, options)
    assert len(prepared) == 1
    assert after.lattice is not before.lattice


def test_what_is_kept_warns_again_and_ends_with_its_model() -> None:
    lattice = model()
    lattice.place("B", count=2.5, site_type="cytoplasm")
    message = []
    for _ in range(2):
        with listening() as heard, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kept.kept_task(lattice, LatticeOptions(seed=1))
        message.append(list(map(str, heard)))
    assert message[0] == message[1]
    assert any("not whole" in sentence for sentence in message[0])
    ended = weakref.ref(lattice)
    del lattice
    gc.collect()
    assert ended() is None


def test_hooks_are_neither_compared_nor_kept() -> None:
    """They may hold arrays, which have no one truth, and the model itself."""

    class Feeding:
        def __init__(self, lattice: ts.Lattice, rates: list[float]) -> None:
            self.lattice, self.rates = lattice, np.array(rates)

        def __eq__(self, other: object) -> bool:
            return bool(self.rates == getattr(other, "rates", None))

        __hash__ = None  # type: ignore[assignment]

        def __call__(self, view: ts.LatticeView) -> None:
            view.add("A", [(1, 1, 1)])

    lattice = model()
    for rates in ([1.0, 2.0], [1.0, 3.0]):
        hooks = [(5, Feeding(lattice, rates))]
        ts.run(lattice, seed=1, device="cpu", quiet=True, hooks=hooks).close()
    gone = weakref.ref(lattice)
    del lattice, hooks
    gc.collect()
    assert gone() is None
