"""Tables counted on the device against tables counted in NumPy, entry by entry."""

from __future__ import annotations

import numpy as np
import pytest

from tauslab.base.errors import ConfigError
from tauslab.kernels.dbn import count_tables as dbn
from tauslab.kernels.dbn import entries as dbn_entries
from tauslab.kernels.dbn.count_tables import CountTables
from tauslab.kernels.dbn.entries import Entries, Keys, NodeFamily

TIMES, ROWS, BATCHES = 6, 700, 3
EDGES = [
    np.array([-1.0, -0.3, 0.4, 1.0]),
    np.array([0.0, 0.5, 1.0, 1.5, 2.0]),
    np.array([3.0, 3.0]),  # a quantity that never changes has one interval
    np.array([0.1, 0.2, 0.3]),
]
FAMILIES = [NodeFamily("x", 0, (0, 1, 3)), NodeFamily("y", 1, (0, 1)), NodeFamily("c", 2, (2,))]


def batches(dtype=np.float64):
    rng = np.random.default_rng(3)
    for _ in range(BATCHES):
        values = np.empty((TIMES, 3, ROWS), dtype)
        values[:, 0] = rng.uniform(-1.2, 1.2, (TIMES, ROWS))
        values[:, 1] = rng.uniform(0.0, 2.0, (TIMES, ROWS))
        values[:, 1, ::3] = 2.0  # the upper edge belongs to the last interval
        values[:, 2] = 3.0
        values[3:, 0, 5] = np.nan
        values[4, 1, 6] = np.inf
        yield values, rng.uniform(0.1, 0.3, (1, ROWS)).astype(dtype)


def bins_of(values, edges):
    actual = np.clip(np.searchsorted(edges[1:-1], values, "right"), 0, len(edges) - 2)
    return np.where(np.isfinite(values), actual, -1)


def expected(families=FAMILIES, dtype=np.float64, rows=ROWS):
    tables = [{} for _ in families]
    cells = [np.zeros((TIMES, len(e) + 2), int) for e in EDGES]
    for values, parameters in batches(dtype):
        before = []
        for t in range(TIMES):
            now = [bins_of(v[:rows], e) for v, e in zip(values[t], EDGES, strict=False)]
            for q, (x, e) in enumerate(zip(values[t], EDGES, strict=False)):
                x = x[:rows]  # noqa: PLW2901
                good = np.isfinite(x)
                cells[q][t, : len(e) - 1] += np.bincount(now[q][good], minlength=len(e) - 1)
                ends = [(x[good] < e[0]).sum(), (x[good] > e[-1]).sum(), (~good).sum()]
                cells[q][t, len(e) - 1 :] += ends
            now.append(bins_of(parameters[0, :rows], EDGES[3]))
            if t:
                for table, family in zip(tables, families, strict=True):
                    for row in range(rows):
                        digits = [before[p][row] for p in family.parents] + [now[family.node][row]]
                        if min(digits) < 0:
                            continue
                        key = (t - 1, *map(int, digits))
                        table[key] = table.get(key, 0) + 1
            before = now
    return tables, cells


def count(backend, dtype=np.float64, rows=ROWS, room=ROWS):
    tables = CountTables(backend, EDGES, 3, FAMILIES, TIMES, room)
    stream = backend.stream()
    tables.clear(stream)
    for values, parameters in batches(dtype):
        drawn = backend.upload(parameters[:, :rows])  # kept until the stream is done with it
        tables.begin(drawn, rows, stream)
        for t in range(TIMES):
            uploaded = backend.upload(values[t][:, :rows])
            tables.add(uploaded, t, rows, stream)
            stream.record().wait()
            tables.make_room(stream)
    return tables, stream


def listed(entries, keys):
    steps, bins = keys.digits(entries.high, entries.low)
    np.testing.assert_array_equal(keys.words(steps, bins), (entries.high, entries.low))
    numbers = np.column_stack([steps, bins]).tolist()
    return list(zip(map(tuple, map(ints, numbers)), entries.counts.tolist(), strict=True))


def ints(row):
    return [int(x) for x in row]


def agree(counted, rows=ROWS, dtype=np.float64):
    tables, stream = counted
    wanted, cells = expected(dtype=dtype, rows=rows)
    for actual, keys, table in zip(tables.tables(stream), tables.keys, wanted, strict=True):
        assert listed(actual, keys) == sorted(table.items())
    variables, parameters = tables.cells(stream)
    np.testing.assert_array_equal(variables, np.concatenate(cells[:3], axis=1))
    prior = sum(np.bincount(bins_of(p[0, :rows], EDGES[3]), minlength=2) for _, p in batches(dtype))
    np.testing.assert_array_equal(parameters[:2], prior)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_dense_tables_have_every_count(backend, dtype):
    agree(count(backend, dtype), dtype=dtype)


def test_hash_tables_have_every_count_and_grow(backend, monkeypatch):
    monkeypatch.setattr(dbn, "_DENSE_BYTES", 0)
    monkeypatch.setattr(dbn, "_capacity_for", lambda n: 1 << max(4, int(np.log2(n / 0.7)) + 1))
    tables, stream = count(backend)
    assert len(tables._sparse) == 3
    assert tables._sparse[0]._capacity >= 256  # it began with room for what 36 entries need
    agree((tables, stream))


def test_one_large_and_several_small_tables(backend, monkeypatch):
    monkeypatch.setattr(dbn, "_DENSE_BYTES", 8 * 5 * 50)
    tables, stream = count(backend)
    assert [t.name for t in tables._sparse] == ["x"]
    agree((tables, stream))


@pytest.mark.parametrize("rows", [1, 31, 33, 699])
def test_a_batch_may_be_smaller_than_its_room(backend, rows):
    agree(count(backend, rows=rows, room=712), rows=rows)


def test_keys_of_two_words(backend, monkeypatch):
    monkeypatch.setattr(dbn, "_DENSE_BYTES", 0)
    monkeypatch.setattr(dbn_entries, "_WORD", 25)
    tables, stream = count(backend)
    assert [keys.split for keys in tables.keys] == [1, 1, 0]
    agree((tables, stream))


def test_entries_that_cannot_be_numbered_are_refused_by_name():
    hub = NodeFamily("hub", 0, tuple(range(28)))  # as in a model of thrombin signalling
    assert Keys.of(hub, [5] * 28, 101).split == 2
    hub = NodeFamily("hub", 0, tuple(range(59)))
    with pytest.raises(ConfigError, match=r"table of hub has 8\.67e\+41 entries.*59 nodes"):
        Keys.of(hub, [5] * 59, 101)


def test_parts_are_merged_in_any_order():
    def entries(*rows):
        return Entries(*(np.array(column, np.uint64) for column in zip(*rows, strict=True)))

    parts = [entries((0, 3, 5), (1, 1, 1)), entries((0, 1, 2), (0, 3, 1)), entries((1, 1, 4))]
    for order in (parts, parts[::-1]):
        merged = Entries.merged(order)
        assert merged.low.tolist() == [1, 3, 1]
        assert merged.counts.tolist() == [2, 6, 5]


def test_a_table_larger_than_memory_is_refused_by_name(backend, monkeypatch):
    monkeypatch.setattr(dbn, "_DENSE_BYTES", 0)
    monkeypatch.setattr(type(backend), "free_memory", lambda self: 1000)
    with pytest.raises(ConfigError, match="the table of x, of 360 entries, needs"):
        CountTables(backend, EDGES, 3, FAMILIES, TIMES, ROWS)


def test_small_tables_that_are_too_large_together_are_refused_by_name(backend, monkeypatch):
    monkeypatch.setattr(type(backend), "free_memory", lambda self: 1000)
    with pytest.raises(ConfigError, match=r"counting 3 tables of .* the largest that of x with"):
        CountTables(backend, EDGES, 3, FAMILIES, TIMES, ROWS)
