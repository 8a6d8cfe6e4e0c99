"""Cases with exact answers of tests/data/ensembles, as models and arguments."""

from __future__ import annotations

import json

import numpy as np
from places import ROOT

import tauslab as ts


def case(name):
    """The whole case."""
    return json.loads((ROOT / "tests/data/ensembles" / f"{name}.json").read_text())


def network(found, name="case"):
    """Its model."""
    net, model = ts.Network(name), found["model"]
    for species, count in model["species"].items():
        net.add_species(species, count)
    for parameter, value in model["parameters"].items():
        net.add_parameter(parameter, value)
    for reaction in model["reactions"]:
        net.add_reaction(reaction["equation"], rate=reaction["rate"])
    return net


def course(found):
    """Data, observation models and initial laws."""
    columns = np.array(found["data"], float).T
    data = dict(zip(found["data_columns"], columns, strict=True))
    observe = {
        one["species"]: f"{one['kind']}({one.get('sd', one.get('p'))})" for one in found["observe"]
    }
    initial = {k: f"poisson({v['mean']})" for k, v in found.get("initial", {}).items()}
    return data, observe, initial
