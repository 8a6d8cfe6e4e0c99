"""How models look in a terminal, in a notebook and as pictures."""

from __future__ import annotations

import pickle
import re
import sys

import numpy as np
import pytest
from generated_networks import cyclic_chain

import tauslab as ts
from tauslab.base.errors import ConfigError, ModelError, OutputError
from tauslab.base.html import Listing, card, table
from tauslab.views.figures import shown_name
from tauslab.views.scene import Sample, draw_scene, surface

BAD = '<script>alert("x")</script> & <b>'


def enzyme() -> ts.Network:
    net = ts.Network("enzyme")
    net.add_species("S", 250)
    net.add_species("P")
    net.add_parameter("k", 0.1)
    net.add_reaction("S <-> P", rate=("k", 0.2))
    net.add_reaction("2 P ->", rate=0.01)
    net.add_reaction("S -> P", law="5 * S / (10 + S)")
    return net


def spotted() -> ts.Lattice:
    lattice = ts.Lattice("spotted", shape=(6, 8, 10), spacing=32e-9)
    lattice.add_site_type("water")
    lattice.add_site_type("gel", np.indices((6, 8, 10))[2] < 4)
    lattice.add_species("A", "B")
    lattice.add_parameter("k", 1e6)
    lattice.add_diffusion("A", 1e-12)
    lattice.add_reaction("2 A <-> B", rate=("k", 1.0), unit="M^-1 s^-1")
    lattice.place("A", 300, site_type="gel")
    lattice.place("B", positions=[[0, 0, 0], [5, 7, 9]])
    return lattice


# --- texts


def test_print_lists_reactions_as_equations_with_the_rates_that_were_given():
    lines = str(enzyme()).splitlines()
    assert lines[0] == "network enzyme"
    assert lines[-4:] == [
        "  R1:         S -> P    rate k",
        "  R1_reverse: P -> S    rate 0.2",
        "  R3:         2 P -> 0  rate 0.01",
        "  R4:         S -> P    law 5.0 * S / (10.0 + S)",
    ]
    assert repr(enzyme()) == "<Network enzyme: 2 species, 4 reactions, 1 parameters>"


def test_a_listed_equation_and_rate_build_the_same_reaction():
    net, again = enzyme(), ts.Network("enzyme")
    for name, species in net.species.items():
        again.add_species(name, species.initial)
    again.add_parameter("k", 0.1)
    for line in str(net).splitlines()[-4:]:
        actual = re.fullmatch(r"  (\w+): +(.*?)  +(rate|law) (.*)", line)
        again.add_reaction(actual[2], name=actual[1], **{actual[3]: actual[4]})
    assert again == net


def test_of_a_large_network_the_first_reactions_are_listed_and_a_large_law_is_named():
    net = cyclic_chain(5000)
    text = str(net)
    assert len(text.splitlines()) < 80
    assert "  and 4980 more" in text
    assert len(net._repr_html_()) < 60_000
    law = "X"
    for _ in range(12):
        law = f"({law}) * ({law})"
    net = ts.Network()
    net.add_species("X", 1)
    net.add_reaction("X ->", law=law)
    assert "an expression of 8191 operations" in str(net)


def test_names_and_notes_are_escaped_in_html():
    net = enzyme()
    net.name, net.notes, net.labels = BAD, [BAD], {"S": BAD}
    lattice = spotted()
    lattice.name, lattice.notes = BAD, [BAD]
    for page in (net._repr_html_(), lattice._repr_html_(), table((BAD,), [(BAD,)]), card(BAD, {})):
        assert "<script>" not in page
        assert "&lt;script&gt;" in page
        assert " & <b>" not in page


def test_a_lattice_says_what_it_holds_and_checks_itself():
    text = str(spotted())
    assert "  R1_reverse  B -> 2 A  1 s^-1" in text
    assert "  A  gel  300" in text
    assert "site types: water 288, gel 192" in text
    report = spotted().check()
    assert isinstance(report, Listing)
    assert repr(report).splitlines()[0].startswith("lattice spotted: 6 x 8 x 10 sites")
    assert "particles: A 300, B 2" in report


# --- the builder


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (lambda m: m.add_diffusion("A", 1e-12, within="gell"), "'gell' is not a site type"),
        (lambda m: m.add_diffusion("A", 1e-12, source="gell"), "'gell' is not a site type"),
        (lambda m: m.add_diffusion("A", "D"), "'D' is not a parameter; parameters: k"),
        (lambda m: m.add_reaction("A ->", rate=1, site_types="gell"), "'gell' is not a site type"),
        (lambda m: m.add_reaction("A ->", rate="kk"), "'kk' is not a parameter"),
        (lambda m: m.add_reaction("A <-> B", rate=1), r"rate=\(forward, reverse\) is needed"),
        (lambda m: m.add_reaction("A -> B", rate=(1, 2)), "a pair, and 'A -> B' has no '<->'"),
        (lambda m: m.add_reaction("A <-> B <-> A", rate=(1, 2)), "exactly one '<->'"),
        (lambda m: m.place("A", 3, site_type="gell"), "'gell' is not a site type"),
        (lambda m: m.place("A", "many", site_type="gel"), "'many' is not a parameter"),
        (lambda m: m.set_boundary("z", "absorbing", site_type="gell"), "'gell' is not a site type"),
    ],
)
def test_a_lattice_names_a_mistake_where_it_is_written(add, message):
    with pytest.raises(ModelError, match=message):
        add(spotted())


def test_both_ways_are_two_reactions():
    net = enzyme()
    assert [r.name for r in net.reactions[:2]] == ["R1", "R1_reverse"]
    assert net.reactions[1].net_change() == {"P": -1, "S": 1}
    net.add_reaction("S <-> P", law=("a * S", "b * P"), parameters={"a": 1, "b": 2}, name="L")
    assert net.parameter_values() == {
        "k": 0.1,
        "L_a": 1,
        "L_b": 2,
        "L_reverse_a": 1,
        "L_reverse_b": 2,
    }
    for given in ({"rate": 1}, {"rate": (1, 2, 3)}, {"law": "S"}):
        with pytest.raises(ModelError, match=r"goes both ways: (rate|law)=\(forward, reverse\)"):
            net.add_reaction("S <-> P", **given)
    with pytest.raises(ModelError, match="rate is a pair, and 'S -> P' has no '<->'"):
        net.add_reaction("S -> P", rate=(1, 2))


# --- pictures


def test_long_names_are_shortened_and_none_is_hidden():
    assert shown_name("X") == "X"
    assert len(shown_name("x" * 1000)) == 20
    assert not shown_name("_P").startswith("_")
    assert shown_name("a$b$") == r"a\$b\$"


def test_a_notebook_shows_a_figure_without_magic(tmp_path):
    pytest.importorskip("matplotlib")
    figure = spotted().plot()
    content, size = figure._repr_png_()
    assert content.startswith(b"\x89PNG")
    width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))
    assert (width, height) == pytest.approx((2 * size["width"], 2 * size["height"]), abs=2)
    again = pickle.loads(pickle.dumps(figure))
    assert again._repr_png_()[1] == size


def test_geometry_is_drawn_in_planes(tmp_path):
    pytest.importorskip("matplotlib")
    lattice = spotted()
    figure = lattice.plot(tmp_path / "planes.pdf")
    assert (tmp_path / "planes.pdf").read_bytes().startswith(b"%PDF")
    assert len(figure.axes) == 3
    sites = lattice.site_array()
    for axis, axes in enumerate(figure.axes):
        drawn = axes.images[0].get_array()
        assert (drawn == sites.take(sites.shape[axis] // 2, axis)).all()
    assert len(figure.legends) == 1
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["water", "gel"]
    one = lattice.plot(axis="x", at=9).axes
    assert (one[0].images[0].get_array() == 0).all()
    for options, message in (
        ({"axis": "w"}, "not an axis"),
        ({"axis": "x", "at": 10}, "plane 10 is not in the lattice: 0 to 9"),
        ({"at": 1}, "name that too"),
        ({"path": tmp_path / "a.jpg"}, r"\.png, \.svg or \.pdf"),
    ):
        with pytest.raises(ConfigError, match=message):
            lattice.plot(**options)


def test_a_surface_is_closed_and_has_the_area_of_its_cells():
    rng = np.random.default_rng(3)
    cells = rng.random((4, 5, 6)) < 0.4
    corners, triangles = surface(cells)
    sides = np.pad(cells, 1).astype(int)
    faces = sum(int(np.abs(np.diff(sides, axis=axis)).sum()) for axis in range(3))
    a, b, c = (corners[triangles[:, i]] for i in range(3))
    areas = np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2
    assert np.allclose(areas, 0.5)
    assert areas.sum() == faces
    edges = np.concatenate([np.stack([a, b], 1), np.stack([b, c], 1), np.stack([c, a], 1)])
    ends = {tuple(sorted(map(tuple, edge))) for edge in edges.tolist()}
    counted = [tuple(sorted(map(tuple, edge))) for edge in edges.tolist()]
    assert all(counted.count(edge) % 2 == 0 for edge in list(ends)[:60])
    assert corners.min() >= 0
    assert (corners.max(0) <= cells.shape).all()


def test_particles_are_thinned_out_evenly():
    sample = Sample(1000)
    for first in range(0, 64, 8):
        sample.add(np.full((8, 10, 10), 2, np.uint8), first)
    assert sample.seen == 12_800
    assert sample.every == 16
    places = sample.places()
    assert len(places) == pytest.approx(800, abs=140)  # 5 standard deviations
    assert (np.histogram(places[:, 0], 4, (0, 64))[0] > 130).all()
    few = Sample(1000)
    few.add(np.array([[[0, 3]]], np.uint8), 5)
    assert few.every == 1
    assert np.floor(few.places()).tolist() == [[5, 0, 1]] * 3


def test_a_view_is_one_page_that_says_what_was_left_out(tmp_path):
    pytest.importorskip("plotly")
    view = spotted().view()
    page = view.save(tmp_path / "view.html").read_text()
    assert not re.search(r"<(?:script|link)[^>]*(?:src|href)=", page)
    assert view.remark == ""
    dots = next(trace for trace in view.figure.data if trace.name == "B")
    assert len(dots.x) == 2
    assert "srcdoc" in view._repr_html_()
    sites = np.zeros((300, 4, 4), np.uint8)
    sites[100:200] = 1
    sample = Sample(10)
    sample.add(np.ones((300, 4, 4), np.uint8), 0)
    large = draw_scene(
        (300, 4, 4), 1e-8, title=BAD, sites=sites, site_types=("a", "b"), particles={"X": sample}
    )
    assert "site types at every 4. site" in large.remark
    assert "of 4,800 X" in large.remark
    assert large.remark in large.figure.layout.title.text
    assert "<script>alert" not in large.page()
    with pytest.raises(ConfigError, match=r"written as \.html"):
        view.save(tmp_path / "view.png")
    with pytest.raises(OutputError, match="cannot be written"):
        view.save(tmp_path / "none" / "view.html")


def test_plotly_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly", None)
    with pytest.raises(ConfigError, match=r"a view needs plotly: pip install"):
        spotted().view()
