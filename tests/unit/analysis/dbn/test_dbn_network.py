"""Tables, files and exports of dynamic Bayesian networks whose probabilities are known."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from dbn_factory import A_NEXT, B_NEXT, STRUCTURE, known_network

from tauslab import dbn
from tauslab.analysis.dbn.results.export import export_network, time_points, unrolled
from tauslab.analysis.dbn.results.file import network_digest_lines
from tauslab.analysis.dbn.results.network import from_trajectories
from tauslab.base.errors import ConfigError, InputFileError
from tauslab.base.files.seals import seal


@pytest.fixture(scope="module")
def network():
    return known_network()


def test_tables_are_the_known_ones(network):
    for step in (0, 1):
        a, b = network.table("A", step), network.table("B", step)
        for (own, q), shares in A_NEXT.items():
            np.testing.assert_allclose(a[own, q], np.array(shares) / 12, rtol=1e-15)
        for (own, other), shares in B_NEXT.items():
            np.testing.assert_allclose(b[own, other], np.array(shares) / 12, rtol=1e-15)
    np.testing.assert_array_equal(network.marginal("A")[0], [0.25, 0.75])
    np.testing.assert_array_equal(network.marginal("B")[0], [0.5, 0.25, 0.25])
    np.testing.assert_array_equal(network.marginal("q")[2], [0.5, 0.5])


@pytest.mark.parametrize("step", [-1, 2, 99, 0.5])
def test_a_step_that_is_not_there_has_no_table(network, step):
    """Step -1 is none: it would have been a table of the marginal at the start."""
    with pytest.raises(ConfigError, match=r"step=.* is not allowed: a whole number from 0 to 1"):
        network.table("A", step)
    with pytest.raises(ConfigError, match=r"step=.* is not allowed"):
        network.rows("A", step)


def test_a_parameter_has_no_table(network):
    with pytest.raises(ConfigError, match="q is an unknown parameter, which keeps its interval"):
        network.table("q", 0)


def test_probabilities_are_shares_of_their_row(network):
    table = network.tables["B"]
    shares = table.probabilities()
    for entry in range(len(table.counts)):
        a, b, own = table.bins[entry]
        assert shares[entry] == pytest.approx(B_NEXT[a, b][own] / 12, rel=1e-14)
    rows = network.rows("B", 1)
    assert rows.parents.tolist() == [[a, b] for a in (0, 1) for b in (0, 1, 2)]


def test_a_configuration_that_never_occurred_gets_the_marginal():
    values = np.array([[[0.25, 0.5], [0.75, 1.5]], [[0.25, 1.5], [0.25, 2.5]]])
    edges = {"A": [0, 0.5, 1], "B": [0, 1, 2, 3], "q": [0, 1]}
    actual = from_trajectories(STRUCTURE, np.array([0.0, 1.0]), values, np.full((2, 1), 0.5), edges)
    table = actual.table("B", 0)
    np.testing.assert_array_equal(table[0, 0], [0, 1, 0])
    np.testing.assert_array_equal(table[1, 2], [0, 0.5, 0.5])
    np.testing.assert_allclose(table.sum(axis=-1), 1)


def test_a_trajectory_that_is_not_finite_is_counted_apart():
    values = np.full((4, 3, 2), 0.4)
    values[1, 1:, 0] = np.nan
    values[2, 2, 1] = 7.0
    edges = {"A": [0, 0.5, 1], "B": [0, 1, 2, 3], "q": [0, 1]}
    actual = from_trajectories(STRUCTURE, np.arange(3.0), values, np.full((4, 1), 0.5), edges)
    np.testing.assert_array_equal(actual.outside["A"], [[0, 0, 0], [0, 0, 1], [0, 0, 1]])
    np.testing.assert_array_equal(actual.outside["B"], [[0, 0, 0], [0, 0, 0], [0, 1, 0]])
    assert actual.marginals["B"][2].tolist() == [3, 0, 1]
    assert actual.samples == 4
    offsets, counts = actual.tables["B"].offsets, actual.tables["B"].counts
    # To the first step A of the second trajectory was finite, afterwards it decides no more.
    assert counts[: offsets[1]].sum() == 4
    assert counts[offsets[1] :].sum() == 3


def test_a_file_holds_the_whole_network(network, tmp_path):
    path = tmp_path / "x.h5"
    dbn.save(network, path)
    actual = dbn.load(path)
    assert actual.structure == network.structure
    for name in ("A", "B"):
        for part in ("offsets", "bins", "counts"):
            expected = getattr(network.tables[name], part)
            np.testing.assert_array_equal(getattr(actual.tables[name], part), expected)
        np.testing.assert_array_equal(actual.marginals[name], network.marginals[name])
    with h5py.File(path) as file:
        assert file["dbn/parents/B"].asstr()[:].tolist() == ["A", "B"]
        shares = file["dbn/tables/B/probabilities"][:]
    np.testing.assert_array_equal(shares, network.tables["B"].probabilities())


def test_a_count_more_changes_the_digest(network, tmp_path):
    dbn.save(network, tmp_path / "x.h5")
    dbn.save(network, tmp_path / "y.h5")
    lines = network_digest_lines(tmp_path / "x.h5")
    assert lines == network_digest_lines(tmp_path / "y.h5")
    with h5py.File(tmp_path / "y.h5", "a") as file:
        file["dbn/tables/A/counts"][0] += 1
    with pytest.raises(InputFileError, match=r"tables/A/counts does not agree with its checksum"):
        network_digest_lines(tmp_path / "y.h5")
    with h5py.File(tmp_path / "y.h5", "a") as file:
        del file["progress/sealed"], file["progress/seals"]
        seal(file)
    changed = network_digest_lines(tmp_path / "y.h5")
    assert [a[0] for a, b in zip(lines, changed, strict=True) if a != b] == ["dbn/tables/A/counts"]


def test_a_file_that_holds_no_network_is_refused(network, tmp_path):
    with pytest.raises(InputFileError, match="there is no such file"):
        dbn.load(tmp_path / "none.h5")
    (tmp_path / "text.h5").write_text("no")
    with pytest.raises(InputFileError, match="holds no dynamic Bayesian network"):
        dbn.load(tmp_path / "text.h5")
    dbn.save(network, tmp_path / "x.h5")
    with h5py.File(tmp_path / "x.h5", "a") as file:
        del file["dbn/tables/B/counts"]
    with pytest.raises(InputFileError, match=r"x\.h5 is damaged.*it has no /dbn/tables/B/counts"):
        dbn.load(tmp_path / "x.h5")


def test_names_that_are_not_there_are_refused(network):
    with pytest.raises(ConfigError, match="'C' is not a node of this network; it has A, B, q"):
        network.bins("C")
    assert network.bin_of("B", 1.0) == 1
    assert [network.bin_of("B", x) for x in (-5, 2.99, 3.0, 9)] == [0, 2, 2, 2]


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ConfigError, match="must be"):
        from_trajectories(STRUCTURE, np.arange(3.0), np.zeros((2, 3, 1)), np.zeros((2, 1)), {})
    with pytest.raises(ConfigError, match="A has no intervals"):
        from_trajectories(STRUCTURE, np.arange(3.0), np.zeros((2, 3, 2)), np.zeros((2, 1)), {})


def read_bif(text):
    """States and tables of BIF text, by node."""
    tables = {}
    for block in text.split("probability ( ")[1:]:
        name = block.split(" ")[0]
        lines = block.split("{\n")[1].split("}")[0].strip().splitlines()
        numbers = [line.strip(" ;").split(")")[-1].removeprefix("table ") for line in lines]
        tables[name] = np.array([[float(x) for x in row.split(",")] for row in numbers])
    return tables


def test_bif_text_has_every_probability(network, tmp_path):
    export_network(network, tmp_path / "x.bif")
    tables = read_bif((tmp_path / "x.bif").read_text())
    assert sorted(tables) == sorted(name for name, _, _ in unrolled(network))
    np.testing.assert_array_equal(tables["B_t2"], network.table("B", 1).reshape(6, 3))
    np.testing.assert_array_equal(tables["A_t1"], network.table("A", 0).reshape(4, 2))
    np.testing.assert_array_equal(tables["q"], [[0.5, 0.5]])


def test_a_part_of_the_time_points_is_exported(network, tmp_path):
    export_network(network, tmp_path / "x.bif", 1, 2)
    tables = read_bif((tmp_path / "x.bif").read_text())
    assert sorted(tables) == ["A_t1", "A_t2", "B_t1", "B_t2", "q"]
    np.testing.assert_array_equal(tables["A_t1"], network.marginal("A")[1:2])


def test_exports_that_cannot_be_are_refused(network, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match=r"exported as \.bif"):
        export_network(network, tmp_path / "x.net")
    with pytest.raises(ConfigError, match="time points 1 to 3: the network has 0 to 2"):
        export_network(network, tmp_path / "x.bif", 1, 3)
    with pytest.raises(ConfigError, match='steps="3": write A:B'):
        time_points("3")
    monkeypatch.setattr("tauslab.analysis.dbn.results.export.MOST_PROBABILITIES", 20)
    with pytest.raises(ConfigError, match="2 steps written out have 52 probabilities, of B"):
        export_network(network, tmp_path / "x.bif")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore")  # pgmpy's own
@pytest.mark.parametrize("by", ["object", "file"])
def test_pgmpy_gives_the_same_posterior(network, by, tmp_path):
    pytest.importorskip("pgmpy")
    from pgmpy.inference import VariableElimination
    from pgmpy.readwrite import BIFReader

    if by == "object":
        model, seen = dbn.to_pgmpy(network), {"B_t2": 1, "A_t1": 1}
    else:
        export_network(network, tmp_path / "x.bif")
        model = BIFReader(str(tmp_path / "x.bif")).get_model()
        seen = {"B_t2": "b1", "A_t1": "b1"}
    assert model.check_model()
    evidence = {"B": np.ones((3, 3)), "A": np.ones((3, 2))}
    evidence["B"][2] = [0, 1, 0]
    evidence["A"][1] = [0, 1]
    beliefs = dbn.exact(network, evidence)
    requested = VariableElimination(model)
    for name, expected in (
        ("q", beliefs.probabilities["q"][0]),
        ("A_t0", beliefs.probabilities["A"][0]),
        ("B_t1", beliefs.probabilities["B"][1]),
        ("A_t2", beliefs.probabilities["A"][2]),
    ):
        actual = requested.query([name], evidence=seen, show_progress=False).values
        np.testing.assert_allclose(actual, expected, rtol=1e-12)
