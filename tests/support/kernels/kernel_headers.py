"""Every kernel file of the CPU device, with headers that take its branches."""

from __future__ import annotations

from event_models import FLOWING, driven, everything, growing, many
from places import TESTS

from tauslab.formats.sbml.reader import read_sbml
from tauslab.kernels.backends.base import Style
from tauslab.kernels.backends.cuda import CudaBackend
from tauslab.kernels.coupled.codegen import Slopes, common_header, coupled_header, score_header
from tauslab.kernels.events.codegen import events_header
from tauslab.kernels.events.large import behind_counts
from tauslab.kernels.exact.selectors import SELECTORS
from tauslab.kernels.exact.ssa import FIRES_ALL, lanes_header
from tauslab.kernels.exact.table_network import header_of, tables_of
from tauslab.kernels.exact.table_selector import file_of
from tauslab.kernels.lattice.codegen import SECTION, lattice_header, reaction_tables, site_header
from tauslab.kernels.lattice.lowering import lower_lattice
from tauslab.kernels.lattice.planes import planes_header
from tauslab.kernels.leaping.codegen import leap_header
from tauslab.kernels.leaping.event_codegen import event_leap_header
from tauslab.kernels.leaping.fine_tau import fine_header
from tauslab.kernels.network.codegen import table_header, unrolled_header
from tauslab.kernels.network.lowering import Count, changed_by, lower
from tauslab.kernels.ode.codegen import ode_header
from tauslab.kernels.ode.codegen_parts import jacobian_functions
from tauslab.kernels.ode.jacobian import jacobian
from tauslab.kernels.ode.lowering import lower_ode
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.network.counts import round_counts
from tauslab.model.network.past import with_pasts

SBML = TESTS / "data" / "sbml"


def lowered(model):
    network = read_sbml(SBML / f"{model}.xml")
    values = network.parameter_values()
    counts = round_counts(network.initial_amounts(values))
    return lower(network, parameters=values, counts=counts)


def lowered_events(network, flowing=()):
    """The network, of which the reactions `flowing` are equations."""
    amounts = network.initial_amounts()
    parts = changed_by(network, flowing)
    reals = {name: amounts[name] for name in (*network.real_species(), *sorted(parts))}
    counts = {name: round(amount) for name, amount in amounts.items()}
    values = network.parameter_values()
    forward, pasts = with_pasts(network)
    return lower(
        forward, parameters=values, counts=counts, reals=reals, pasts=pasts, flowing=flowing or None
    )


MODELS = ("schlogl", "michaelis_menten", "vilar_oscillator", "toggle_switch", "lac_two_state")
FEW = ("toggle_switch",)  # laws with functions


def headers(models=MODELS):
    of_no_model = ("ensemble/gather", "ensemble/statistics", "ensemble/summaries", "dbn/count",
                   "lattice/place", "polymer/steps")  # fmt: skip
    for name in of_no_model:
        yield f"{name}.cc", ""
    for model in models:
        network = lowered(model)
        yield "ensemble/ssa.cc", unrolled_header(network, Style(branches=True))
        header = unrolled_header(network, CudaBackend.style)
        yield "ensemble/ssa.cc", header
        if FIRES_ALL in header and not network.observables:
            yield "ensemble/ssa_ends.cc", header
        for style in (Style(branches=True), CudaBackend.style):
            yield "coupled/coupled_pairs.cc", coupled_header(network, style)
            yield "coupled/common_paths.cc", common_header(network, style)
            slopes = Slopes(2, ((0, 1, Count(0)), (1, 0, Count(0))), ((0, 0, Count(0)),))
            yield "coupled/score_paths.cc", score_header(network, slopes, style)
        for vectors in (1, 2):
            yield "ensemble/ssa_lanes.cc", lanes_header(network, vectors)
        for selector in SELECTORS[1:]:
            constants = tables_of(network, selector).header()
            yield file_of(selector), table_header(network, constants, 1)
        yield "leaping/fine/fine_tau.cc", fine_header(network, (1, 1))[1]

    yield from _of_lattices()

    for model in ("schlogl", "lac_two_state"):
        network = lowered(model)
        yield "leaping/tau_leap.cc", leap_header(network, Style(branches=True))
        yield "leaping/lanes/tau_lanes.cc", leap_header(network, Style(branches=False))
        yield (
            "leaping/tau_leap_checked.cc",
            leap_header(network, Style(branches=True), checked=True),
        )

    network = read_sbml(SBML / "toggle_switch.xml")
    values = network.parameter_values()
    system = lower_ode(network, parameters=values, varying=tuple(values)[:2])
    actual = jacobian(system)
    yield "ode/rk4.cc", ode_header(system, precision="single", wide=False)
    yield "ode/dopri5.cc", ode_header(system)
    yield "ode/rosenbrock.cc", ode_header(system, more=lambda _, w: jacobian_functions(actual, w))
    yield "ode/rk4.cc", ode_header(system, lanes=True)
    yield "ode/dopri5.cc", ode_header(system, lanes=True)
    yield (
        "ode/rosenbrock.cc",
        ode_header(system, more=lambda _, w: jacobian_functions(actual, w), lanes=True),
    )

    network = everything()
    values = network.parameter_values()
    yield "events/ssa_events.cc", events_header(lowered_events(network))
    yield "events/ssa_flow.cc", events_header(lowered_events(growing()))
    yield "events/ssa_within.cc", events_header(lowered_events(driven(), FLOWING), in_tables=True)
    tabled = behind_counts(lowered_events(network))
    for selector in SELECTORS[1:]:
        yield file_of(selector), header_of(tabled, tables_of(tabled, selector), 1)
    yield "leaping/tau_events.cc", event_leap_header(lowered_events(many()), Style(branches=False))
    yield (
        "leaping/tau_events.cc",
        event_leap_header(lowered_events(growing()), Style(branches=True)),
    )
    system = lower_ode(network, parameters=values)
    actual = jacobian(system)
    yield "ode/dopri5.cc", ode_header(system)
    yield (
        "ode/rosenbrock.cc",
        ode_header(system, more=lambda _, w: jacobian_functions(actual, w, unrolled=True)),
    )


def _of_lattices():
    for slots, boundary in ((8, "periodic"), (16, "reflecting"), (32, "absorbing")):
        model = Lattice("probe", shape=(8, 8, 8), spacing=1e-8, step=1e-6, slots=slots,
                        boundary=boundary)  # fmt: skip
        model.add_species("A", "B")
        model.add_site_type("water")
        model.add_site_type("gel")
        model.add_reaction("2 A -> B", rate=1, volume="site")
        lattice = lower_lattice(model, step=1e-6)
        lattices = 1 << 10 if slots == 32 else 1
        header = planes_header(lattice, cut=slots == 16, lattices=lattices)
        yield "lattice/planes/planes.cc", header
        header = lattice_header(lattice, reaction_tables(lattice.reactions, 2))
        yield "lattice/count.cc", site_header(lattice)
        for name in ("rdme", "replicas", "halo", "sparse/steps"):
            yield f"lattice/{name}.cc", header
        if slots <= 16:
            header = lattice_header(lattice, reaction_tables(lattice.reactions, 2), section=SECTION)
            yield "lattice/sparse/sections.cc", header
