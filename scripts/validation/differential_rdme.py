"""Random small lattices compared with a master equation that is built independently.

A case has 3 to 6 sites along each axis, one to three site types, faces of all kinds, hops that
differ by species and by the types of both sites, walls, and reactions of order 0 and 1, or up to 2.
For cases of order 1, half of all, linear equations, solved here, give the means, the variances of particles
and the numbers of reactions. For the others the sites become a network for `ssa`. Neither uses code of the
lattice for faces, units or rates of hops.

A row fails if it differs from the exact value by more than the sampling error and the error of the time step
(hops along x, y, z and reactions occur in turn). Of order 0 and 1 this error is computed here; for pairs a
fraction x = a0 tau of the reactions is allowed. The limit of the sampling error is that of normal numbers with a
false alarm in 1e6 runs; the skewness of the rarest counts raises this to at most 1e-4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import h5py
import numpy as np
from outcome import Outcome, say, verdict
from random_lattices import FACES, Case, FloatArray, IntArray, as_lattice, draw_case
from scipy import sparse, stats

import tauslab as ts

Site = tuple[int, int, int]
Sparse = Any  # a matrix of scipy.sparse, which has no types

FALSE_ALARM = 1e-6  # of a run of the script, over all that it compares
FEWEST = 400.0  # particles in all replicas; a mean of fewer is no normal variable
SAMPLES = 2  # half the time and all of it


@dataclass(frozen=True)
class Compared:
    """Measured and expected values, and how far they may be apart."""

    what: str
    found: float
    expected: float
    error: float
    allowance: float

    def z(self) -> float:
        """Standard errors beyond the error of the step."""
        beyond = max(0.0, abs(self.found - self.expected) - self.allowance)
        return beyond / self.error if self.error else (np.inf if beyond > 0 else 0.0)


# ------------------------------------------------------------------ the law


def hops(case: Case) -> Iterator[tuple[int, Site, int, Site | None, float, float]]:
    """Axis, site, species, where it hops to (None: out), its rate, and what comes in from there."""
    for site in np.ndindex(case.types.shape):
        local = int(case.types[site])
        for row, face in enumerate(FACES):
            axis, side = row // 2, 1 if face[1] == "+" else -1
            target = list(site)
            target[axis] += side
            kind, ghost_type, ghost = case.faces[row]
            beyond = not 0 <= target[axis] < case.types.shape[axis]
            if beyond and kind == "reflecting":
                continue
            target[axis] %= case.types.shape[axis]
            to = None if beyond and kind != "periodic" else (target[0], target[1], target[2])
            there = ghost_type if to is None else int(case.types[to])
            for i in range(case.n_species):
                into = case.hop[there, local, i] * ghost[i] if to is None else 0.0
                yield axis, site, i, to, float(case.hop[local, there, i]), float(into)


def as_network(case: Case) -> ts.Network:
    """A species per species and site: what `ssa` runs without error of the time step."""
    network = ts.Network("sites")
    shape = case.types.shape

    def name(i: int, site: Site) -> str:
        return f"S{i}_{np.ravel_multi_index(site, shape)}"

    initial = _initial(case)
    for site in np.ndindex(shape):
        for i in range(case.n_species):
            network.add_species(name(i, site), int(initial[(i, *site)]))
    for _, site, i, to, rate, into in hops(case):
        if rate > 0:
            network.add_reaction(
                f"{name(i, site)} -> {'' if to is None else name(i, to)}", rate=rate
            )
        if into > 0:
            network.add_reaction(f"-> {name(i, site)}", rate=into)
    for site in np.ndindex(shape):
        for reaction in case.reactions:
            if case.types[site] in reaction.types:
                sides = (
                    " + ".join(name(i, site) for i in side)
                    for side in (reaction.reactants, reaction.products)
                )
                network.add_reaction(" -> ".join(sides), rate=reaction.rate)
    return network


def _initial(case: Case) -> IntArray:
    initial = np.zeros((case.n_species, *case.types.shape), np.int64)
    np.add.at(initial, tuple(case.start.T), 1)
    return initial


@dataclass(frozen=True)
class Linear:
    """Channels of a case of order 1: a channel fires at ``rates @ state + births``.

    The state is particles by species and site, then how often each reaction fired. `axis` of a
    channel is 0 to 2 for hops, 3 for reactions.
    """

    rates: Sparse
    births: FloatArray
    changes: Sparse
    axis: IntArray
    initial: FloatArray

    def part(self, axis: int | None = None) -> tuple[Sparse, FloatArray]:
        """Matrix and vector of the mean's equation, of all channels or of one kind."""
        mine = np.flatnonzero(self.axis == axis) if axis is not None else np.arange(len(self.axis))
        changes = self.changes[mine].T
        return (changes @ self.rates[mine]).tocsr(), changes @ self.births[mine]


def linear(case: Case) -> Linear:
    """The equations of a case whose reactions are of order 0 and 1."""
    shape = (case.n_species, *case.types.shape)
    n = int(np.prod(shape))
    size = n + len(case.reactions)
    rows: list[tuple[int, float, float, list[tuple[int, int]], int]] = []

    def at(i: int, site: Site) -> int:
        return int(np.ravel_multi_index((i, *site), shape))

    for axis, site, i, to, rate, into in hops(case):
        moved = [(at(i, site), -1)] + ([] if to is None else [(at(i, to), 1)])
        rows.append((at(i, site), rate, 0.0, moved, axis))
        rows.append((0, 0.0, into, [(at(i, site), 1)], axis))
    for site in np.ndindex(case.types.shape):
        for number, reaction in enumerate(case.reactions):
            if case.types[site] not in reaction.types:
                continue
            made = [(at(i, site), -1) for i in reaction.reactants]
            made += [(at(i, site), 1) for i in reaction.products] + [(n + number, 1)]
            of = at(reaction.reactants[0], site) if reaction.reactants else 0
            first = bool(reaction.reactants)
            rows.append((of, reaction.rate * first, reaction.rate * (not first), made, 3))
    rows = [row for row in rows if row[1] > 0 or row[2] > 0]
    numbers, sizes = np.arange(len(rows)), (len(rows), size)
    rates = sparse.csr_array(([row[1] for row in rows], (numbers, [row[0] for row in rows])), sizes)
    change = [(by, row, where) for row, one in enumerate(rows) for where, by in one[3]]
    by, row, where = np.array(change).T
    changes = sparse.csr_array((by.astype(float), (row, where)), sizes)  # adds what is there twice
    initial = np.concatenate([_initial(case).ravel(), np.zeros(len(case.reactions))])
    births = np.array([row[2] for row in rows])
    return Linear(rates, births, changes, np.array([row[4] for row in rows]), initial)


def moments(law: Linear, groups: FloatArray, t_end: float) -> tuple[FloatArray, FloatArray]:
    """Means and variances of sums of the state ``[sample, group]``: Runge and Kutta, order 4.

    The covariance obeys C' = A C + C A' + sum of channels' changes, weighted by their rates.
    """
    matrix, vector = law.part()
    steps = SAMPLES * int(np.ceil(40 * t_end))
    h = t_end / steps

    def slope(mean: FloatArray, cov: FloatArray) -> tuple[FloatArray, FloatArray]:
        fired = law.rates @ mean + law.births
        turned = matrix @ cov
        made = (law.changes.T @ sparse.diags_array(fired) @ law.changes).toarray()
        return matrix @ mean + vector, turned + turned.T + made

    mean, cov = law.initial, np.zeros((len(law.initial),) * 2)
    means, variances = [], []
    for step in range(1, steps + 1):
        k1 = slope(mean, cov)
        k2 = slope(mean + h / 2 * k1[0], cov + h / 2 * k1[1])
        k3 = slope(mean + h / 2 * k2[0], cov + h / 2 * k2[1])
        k4 = slope(mean + h * k3[0], cov + h * k3[1])
        mean = mean + h / 6 * (k1[0] + 2 * k2[0] + 2 * k3[0] + k4[0])
        cov = cov + h / 6 * (k1[1] + 2 * k2[1] + 2 * k3[1] + k4[1])
        if step % (steps // SAMPLES) == 0:
            means.append(groups @ mean)
            variances.append(np.einsum("gi,ij,gj->g", groups, cov, groups))
    return np.array(means), np.array(variances)


def in_turn(law: Linear, groups: FloatArray, t_end: float, step: float) -> FloatArray:
    """Means if hops along x, y and z and reactions take turns: what the time step does to them."""
    parts = [law.part(axis) for axis in (2, 1, 0, 3)]
    mean, means = law.initial, []
    steps = round(t_end / step)
    for number in range(1, steps + 1):
        for matrix, vector in parts:
            mean = mean + step * (matrix @ mean + vector)
        if number % (steps // SAMPLES) == 0:
            means.append(groups @ mean)
    return np.array(means)


# ------------------------------------------------------------------ the comparison


def lattice_runs(
    case: Case, step: float, t_end: float, replicas: int, seed: int, device: Any
) -> tuple[FloatArray, FloatArray]:
    """Particles ``[replica, sample, type, species]``; how often reactions fired, with no types."""
    every = round(t_end / step) // SAMPLES
    with TemporaryDirectory() as folder:
        path = Path(folder) / "case.h5"
        ts.run(as_lattice(case, step, seed), t_end=t_end, count_every=every, replicas=replicas,
               seed=seed, device=device, output=path).close()  # fmt: skip
        with h5py.File(path) as file:
            result = file["counts_by_site_type"][:, 1:], file["reactions_fired"][:, 1:]
    return np.asarray(result[0], np.float64), np.asarray(result[1], np.float64)


def compare(
    case: Case, order: int, replicas: int, seed: int, *, step: float = 0.005, t_end: float = 1.0,
    device: Any = "cpu", tested: Case | None = None,
) -> list[Compared]:  # fmt: skip
    """Run a case, or `tested` in its place, and compare it with the exact values of the case."""
    by_type, fired = lattice_runs(tested or case, step, t_end, replicas, seed, device)
    result = by_type.reshape(replicas, SAMPLES, -1)
    groups = _groups(case)
    allowance = _of_turns(case, groups, t_end, step)
    if order > 1:
        allowance += _of_pairs(case, by_type.mean(axis=0), fired.mean(axis=0), step)
    names = [f"S{i} in t{k}" for k in range(case.n_types) for i in range(case.n_species)]
    if order == 1:
        names += [f"R{i + 1} fired" for i in range(len(case.reactions))]
        result = np.concatenate([result, fired], axis=2)
        means, variances = moments(linear(case), groups, t_end)
        errors = np.sqrt(variances / replicas)
        reported = _means(names, result, means, errors, allowance)
        return reported + _spreads(names, result, variances, allowance)
    expected = _by_ssa(case, t_end, replicas, seed, device)
    errors = np.sqrt((expected.var(axis=0) + result.var(axis=0)) / replicas)
    return _means(names, result, expected.mean(axis=0), errors, allowance[:, : result.shape[2]])


def _of_turns(case: Case, groups: FloatArray, t_end: float, step: float) -> FloatArray:
    """Loss of hops and reactions of order 0 and 1 by taking turns, from two lengths of step."""
    law = linear(replace(case, reactions=tuple(r for r in case.reactions if len(r.reactants) < 2)))
    groups = groups[:, : len(law.initial)]
    fine = in_turn(law, groups, t_end, step / 8)
    return np.asarray(np.abs(in_turn(law, groups, t_end, step) - fine) * 8 / 7)


def _groups(case: Case) -> FloatArray:
    """Rows that sum the state by type and species, then each reaction's count."""
    n_sites = case.types.size
    size = case.n_species * n_sites + len(case.reactions)
    rows = np.zeros((case.n_types * case.n_species + len(case.reactions), size))
    for k, i in np.ndindex(case.n_types, case.n_species):
        row = rows[k * case.n_species + i]
        row[i * n_sites : (i + 1) * n_sites] = case.types.ravel() == k
    for number in range(len(case.reactions)):
        rows[case.n_types * case.n_species + number, case.n_species * n_sites + number] = 1
    return rows


def _of_pairs(case: Case, counts: FloatArray, fired: FloatArray, step: float) -> FloatArray:
    """Bound of pairs by taking turns ``[sample, type and species, then reaction]``.

    A share x of the reactions of each kind, x = a0 tau of a site with one set of reactants and what
    else is there on average.
    """
    local = np.concatenate([np.zeros((1, *counts.shape[1:])), counts]).max(axis=0)
    density = local.sum(axis=0) / case.types.size
    alone = sum(r.rate * float(np.prod([density[i] for i in r.reactants])) for r in case.reactions)
    x = np.array([step * (r.rate + alone) for r in case.reactions])
    share = x * fired
    moved = np.zeros((len(fired), case.n_types, case.n_species))
    for number, reaction in enumerate(case.reactions):
        for i in (*reaction.reactants, *reaction.products):
            moved[:, :, i] += share[:, number, None]
    return np.concatenate([moved.reshape(len(fired), -1), share], axis=1)


def _by_ssa(case: Case, t_end: float, runs: int, seed: int, device: Any) -> FloatArray:
    """Particles ``[run, sample, type and species]`` of the network of the case."""
    times = [t_end * (k + 1) / SAMPLES for k in range(SAMPLES)]
    with ts.run(as_network(case), n=runs, times=times, seed=seed, device=device) as result:
        counts = np.asarray(result.data["counts"], np.float64)
    by_site = counts.reshape(runs, SAMPLES, case.types.size, case.n_species)
    kinds = case.types.ravel()
    summed = [by_site[:, :, kinds == k].sum(axis=2) for k in range(case.n_types)]
    return np.concatenate(summed, axis=2)


def _means(
    names: Sequence[str], found: FloatArray, expected: FloatArray, errors: FloatArray,
    allowance: FloatArray,
) -> list[Compared]:  # fmt: skip
    reported = []
    for k, i in np.ndindex(expected.shape):
        if max(float(expected[k, i]), float(found[:, k, i].mean())) * len(found) >= FEWEST:
            what = f"mean of {names[i]}, sample {k + 1}"
            reported.append(Compared(what, float(found[:, k, i].mean()), float(expected[k, i]),
                                 float(errors[k, i]), float(allowance[k, i])))  # fmt: skip
    return reported


def _spreads(
    names: Sequence[str], found: FloatArray, expected: FloatArray, allowance: FloatArray
) -> list[Compared]:
    """Variances; their error is that of the sample, by its fourth moment.

    They are allowed three times what means are, as they are quadratic in what is lost.
    """
    reported = []
    for k, i in np.ndindex(expected.shape):
        values = found[:, k, i]
        if values.mean() * len(values) >= FEWEST and expected[k, i] > 0:
            about = (values - values.mean()) ** 2
            error = float(about.std() / np.sqrt(len(values)))
            what = f"variance of {names[i]}, sample {k + 1}"
            reported.append(Compared(what, float(values.var(ddof=1)), float(expected[k, i]), error,
                                 3 * float(allowance[k, i])))  # fmt: skip
    return reported


def limit(comparisons: int, false_alarm: float = FALSE_ALARM) -> float:
    """Standard errors that one of so many normal numbers exceeds with this probability."""
    return float(stats.norm.isf(false_alarm / max(1, comparisons) / 2))


def run(given: Any) -> Outcome:
    """Draw cases, and compare."""
    device = "cuda" if given.device == "cuda" else "cpu"
    reported: list[tuple[str, Compared]] = []
    for seed in range(given.seed, given.seed + given.number):
        order = 1 + seed % 2
        case = draw_case(seed, order)
        own = compare(case, order, given.replicas, seed, device=device)
        say(f"case {seed}: worst z {max(one.z() for one in own):.2f}")
        reported += [(f"{seed}, order {order}, {case.types.shape}", one) for one in own]
    most = limit(len(reported))
    about = f"{given.replicas} replicas, {device}. A row passes with z <= {most:.2f}."
    numbers = [(one.found, one.expected, one.error, one.allowance, one.z()) for _, one in reported]
    rows = [
        [name, one.what, *(f"{x:.5g}" for x in values), verdict(good=values[-1] <= most)]
        for (name, one), values in zip(reported, numbers, strict=True)
    ]
    columns = {
        "case": "seed, order and shape of the lattice",
        "of": "mean or variance of a number of particles or reactions",
        "lattice": "measured value",
        "expected": "exact value",
        "error": "standard error",
        "step allows": "allowed error of the time step",
        "z": "standard errors beyond the allowed error",
        "verdict": "pass or FAIL",
    }
    return Outcome("Random lattices", about, columns, rows)
