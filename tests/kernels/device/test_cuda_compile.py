"""Every CUDA kernel compiles without a GPU, stays in registers, and contracts nothing.

To optimise all of them takes NVRTC minutes: an ordinary run compiles every file as far as PTX, and
sees the registers of those that most runs need; of others `-m validate` does.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from cuda_usage import (
    NEWEST,
    OLDER,
    OLDEST,
    REGISTERS,
    SOME,
    check,
    compile_quickly,
    compile_usage,
    require_nvrtc,
)
from event_models import (
    FLOWING,
    crowd,
    driven,
    every_distribution,
    everything,
    forced,
    growing,
    looking_back,
    many,
    waiting,
)
from generated_networks import colloidal_aggregation
from kernel_headers import lowered_events
from places import ROOT, TESTS
from sampling import ordinary

from tauslab.base.errors import KernelCompileError
from tauslab.formats.read import read
from tauslab.formats.sbml.reader import read_sbml
from tauslab.kernels.backends.cache import CSRC, csrc_texts
from tauslab.kernels.backends.cuda import THREADS_PER_BLOCK, CudaBackend
from tauslab.kernels.backends.nvrtc import compile_cubin, nvrtc_flags
from tauslab.kernels.coupled.codegen import Slopes, common_header, coupled_header, score_header
from tauslab.kernels.events.codegen import events_header
from tauslab.kernels.events.large import behind_counts
from tauslab.kernels.exact.selectors import SELECTORS
from tauslab.kernels.exact.ssa import FIRES_ALL
from tauslab.kernels.exact.table_network import TEAMS, header_of, tables_of
from tauslab.kernels.exact.table_selector import entry_of, file_of
from tauslab.kernels.lattice.codegen import (
    SECTION,
    lattice_header,
    reaction_tables,
    site_header,
)
from tauslab.kernels.lattice.lowering import lower_lattice
from tauslab.kernels.lattice.planes import planes_header
from tauslab.kernels.leaping import event_codegen
from tauslab.kernels.leaping.codegen import leap_header
from tauslab.kernels.leaping.event_codegen import event_leap_header
from tauslab.kernels.leaping.fine_tau import LAYOUT, fine_header
from tauslab.kernels.leaping.langevin import langevin_header
from tauslab.kernels.network.codegen import table_header, tails_of, unrolled_header
from tauslab.kernels.network.lowering import Count, LoweredNetwork, lower
from tauslab.kernels.network.thinning import thinned
from tauslab.kernels.particles.proposals import size_header
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.lattice.placement import ParticleStart
from tauslab.model.network.network import Network

DATA = TESTS / "data" / "sbml"
PARTICLES = {
    "ancestors": {
        "add_in_order", "guess_pieces", "guess_groups", "guess_row", "guess_starts", "count_units",
        "join_units", "find_row", "find_starts", "add_pieces", "find_ancestors",
    },
    "initial": {"draw_initial"},
    "moments": {"moments", "terms", "count_held", "add_blocks", "add_chunks", "list_held"},
    "status": {"largest_status"},
    "weigh": {
        "weigh_particles", "share_weights", "reduce_sums", "reduce_maxima", "level_weights",
    },
}  # fmt: skip
PROBE = TESTS / "support" / "kernels" / "csrc_math_probe.cc"

# Whole powers, mass action, Hill terms, functions, and the largest that are still unrolled.
UNROLLED = ("schlogl", "michaelis_menten", "vilar_oscillator", "toggle_switch", "dimerization",
            "lac_two_state", "heat_shock_mass_action", "BIOMD0000000012")  # fmt: skip
# The one that takes most of what a kernel has; two others with `-m validate`.
TABLES = (
    "ras_camp_pka",
    *(pytest.param(name, marks=pytest.mark.validate)
      for name in ("heat_shock_mass_action", "toggle_switch")),
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _nvrtc():
    require_nvrtc()


@pytest.fixture(params=[*OLDER, NEWEST])
def architecture(request) -> str:
    require_nvrtc(request.param)
    return request.param


def lowered(network: Network, varied: tuple[str, ...] = ()) -> LoweredNetwork:
    values = network.parameter_values()
    counts = {name: round(x) for name, x in network.initial_amounts(values).items()}
    return lower(network, parameters=values, counts=counts, varying=varied)


def model(name: str) -> Network:
    return read_sbml(DATA / f"{name}.xml")


# The most functions and the most reactions; `schlogl` and `vilar_oscillator` stand below.
@pytest.mark.parametrize("name", ordinary(UNROLLED, "toggle_switch"))
def test_unrolled_kernels_stay_in_registers(name, architecture):
    header = unrolled_header(lowered(model(name)), CudaBackend.style, literals=8)
    usage = compile_usage("ensemble/ssa.cc", csrc_texts() | {"model.h": header}, architecture)
    check(usage, {"ssa"}, SOME)


@pytest.mark.parametrize(
    "name", ordinary(["schlogl", "michaelis_menten", "vilar_oscillator"], "vilar_oscillator")
)
def test_pairs_stay_in_registers(name, architecture):
    """All arrays are indexed by numbers that are known at compile time."""
    for file, header, entries in (
        ("coupled_pairs", coupled_header, {"coupled_pairs"}),
        ("common_paths", common_header, {"common_paths"}),
    ):
        text = header(lowered(model(name), ("c1", "k1")), CudaBackend.style)
        texts = csrc_texts() | {"model.h": text}
        usage = compile_usage(f"coupled/{file}.cc", texts, architecture)
        print(file, usage)
        check(usage, entries)


@pytest.mark.validate
@pytest.mark.parametrize("name", ordinary(["schlogl", "michaelis_menten"], "michaelis_menten"))
def test_scores_stay_in_registers(name, architecture):
    texts = csrc_texts() | {"model.h": scores_of(lowered(model(name)))}
    check(compile_usage("coupled/score_paths.cc", texts, architecture), {"score_paths"})


def scores_of(network: LoweredNetwork) -> str:
    """A header as of two parameters, each a factor of half of the rates."""
    laws = [(j, j % 2, Count(0)) for j in range(len(network.reactions))]
    return score_header(network, Slopes(2, tuple(laws), ()), CudaBackend.style)


@pytest.mark.validate
@pytest.mark.parametrize(
    ("entry", "network"),
    [
        ("events/ssa_events", everything),
        pytest.param("leaping/tau_events", growing, marks=pytest.mark.validate),
        pytest.param("events/ssa_events", every_distribution, marks=pytest.mark.validate),
        pytest.param("events/ssa_events", waiting, marks=pytest.mark.validate),
        pytest.param("events/ssa_events", looking_back, marks=pytest.mark.validate),
        pytest.param("events/ssa_flow", looking_back, marks=pytest.mark.validate),
        pytest.param("events/ssa_flow", growing, marks=pytest.mark.validate),
        pytest.param("leaping/tau_events", many, marks=pytest.mark.validate),
    ],
)
def test_events_compile_and_contract_nothing(entry, network, architecture):
    """Their state lies in local memory: queues are indexed by numbers known at run time."""
    lowered, leaps = lowered_events(network()), entry.startswith("leaping")
    header = event_leap_header(lowered, CudaBackend.style) if leaps else events_header(lowered)
    texts = csrc_texts() | {"model.h": header}
    assert set(compile_usage(f"{entry}.cc", texts, architecture)) == {entry.split("/")[1]}


def test_rates_that_follow_the_time_need_little_local_memory(architecture):
    actual = thinned(lowered_events(forced()), np.zeros((1, 1)), 8.0, 128)
    assert actual is not None
    header = unrolled_header(actual.network, CudaBackend.style, literals=8)
    texts = csrc_texts() | {"model.h": header}
    check(compile_usage("ensemble/ssa.cc", texts, architecture), {"ssa"}, SOME)


@pytest.mark.validate
@pytest.mark.parametrize("team", TEAMS)
@pytest.mark.parametrize("selector", SELECTORS[1:])
def test_events_compile_for_teams(selector, team, architecture):
    network = behind_counts(lowered_events(crowd(14)))
    header = header_of(network, tables_of(network, selector), team)
    texts = csrc_texts() | {"model.h": header}
    entry = entry_of(selector)
    stack, _, _, registers = compile_usage(file_of(selector), texts, architecture)[entry]
    print(f"{entry}: {registers} registers, {stack} bytes of local memory")
    # What one thread calls for a team to look at triggers has its own; the queue is elsewhere.
    alone, together = (2048, 1152) if selector == "rssa" else (1408, 640)
    assert stack <= (alone if team == 1 else together)
    assert registers <= (REGISTERS if team == 1 else 80)


def test_a_network_with_varying_constants_stays_in_registers(architecture):
    network = model("vilar_oscillator")
    network = lowered(network, tuple(network.parameter_values()))
    assert len(network.constants) > 10
    header = unrolled_header(network, CudaBackend.style, literals=8)
    usage = compile_usage("ensemble/ssa.cc", csrc_texts() | {"model.h": header}, architecture)
    check(usage, {"ssa"})


@pytest.mark.parametrize("lanes", ordinary([8, 32], 8))
def test_lanes_that_share_a_trajectory_stay_in_registers(lanes, architecture):
    network = lowered(read(ROOT / "examples" / "galactose_switch.toml"))
    assert tails_of(network)
    header = unrolled_header(network, CudaBackend.style, literals=8, lanes=lanes)
    usage = compile_usage("ensemble/ssa.cc", csrc_texts() | {"model.h": header}, architecture)
    check(usage, {"ssa"}, SOME)


@pytest.mark.parametrize("lanes", [1, 8])
def test_states_that_are_kept_cost_no_registers(lanes, architecture):
    header = unrolled_header(lowered(model("schlogl")), CudaBackend.style, literals=8, lanes=lanes)
    texts = csrc_texts() | {"model.h": f"{header}#define KEEPS_STATES\n"}
    usage = compile_usage("ensemble/ssa.cc", texts, architecture)
    check(usage, {"ssa"}, SOME)
    assert usage["ssa"][-1] <= 72


def ends_of(name: str) -> str:
    header = unrolled_header(lowered(model(name)), CudaBackend.style, literals=8)
    assert FIRES_ALL in header
    return header


def test_final_states_leave_registers_for_ten_blocks(architecture):
    texts = csrc_texts() | {"model.h": ends_of("schlogl")}
    usage = compile_usage("ensemble/ssa_ends.cc", texts, architecture)
    check(usage, {"ssa_ends"})
    assert usage["ssa_ends"][-1] <= 48 or architecture == OLDEST


def test_a_swept_rate_costs_no_registers(architecture):
    """A register more than 72 would mean fewer threads at a time."""
    header = unrolled_header(lowered(model("schlogl"), ("c3",)), CudaBackend.style, literals=8)
    usage = compile_usage("ensemble/ssa.cc", csrc_texts() | {"model.h": header}, architecture)
    check(usage, {"ssa"}, SOME)
    assert usage["ssa"][-1] <= 72


@pytest.mark.validate
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("team", ordinary(TEAMS, 32))
@pytest.mark.parametrize("selector", ordinary(SELECTORS[1:], "pdm", "rssa"))
def test_table_kernels_need_little_local_memory(name, team, selector, architecture):
    # The partial sums of a group of 32 (256 bytes, twice inlined) are indexed at run time, so a
    # thread has them in local memory, which stays in the first cache; a warp has them in registers.
    # `rssa` has also a batch of 32 candidates there, and what it hands to functions seldom called.
    network = lowered(model(name))
    header = table_header(network, tables_of(network, selector).header(), team)
    texts = csrc_texts() | {"model.h": header}
    entry = entry_of(selector)
    stack, _, _, registers = compile_usage(file_of(selector), texts, architecture)[entry]
    print(f"{entry}: {registers} registers, {stack} bytes of local memory")
    alone, together = (1664, 512) if selector == "rssa" else (1024, 128)
    assert stack <= (alone if team == 1 else together)
    assert registers <= (REGISTERS if team == 1 else 80)


@pytest.mark.validate
@pytest.mark.parametrize("team", ordinary(TEAMS, 32))
def test_dense_kernels_need_little_local_memory(team, architecture):
    network = lowered(colloidal_aggregation(80))
    book = tables_of(network, "pdm")
    assert book["IS_DENSE"]
    book.constant("SHARED_PARTS", int(team >= 32))
    texts = csrc_texts() | {"model.h": table_header(network, book.header(), team)}
    stack, _, _, registers = compile_usage("tables/ssa_table.cc", texts, architecture)["ssa_table"]
    assert stack <= (1024 if team == 1 else 256)
    assert registers <= (REGISTERS if team == 1 else 80)


@pytest.mark.validate
@pytest.mark.parametrize("team", ordinary([8, 32], 8))
def test_narrow_numbers_and_fast_memory_compile(team, architecture):
    network = lowered(model("ras_camp_pka"))
    book = tables_of(network, "pdm")
    book.macro("WIDE_WHOLE", value=False)
    book.constant("SHARED_PARTS", 3 if team == 32 else 0)
    texts = csrc_texts() | {"model.h": table_header(network, book.header(), team)}
    assert compile_usage("tables/ssa_table.cc", texts, architecture)["ssa_table"][-1] <= 80


@pytest.mark.validate
@pytest.mark.parametrize("name", TABLES)
def test_leaps_from_tables_leave_room_for_two_blocks(name, architecture):
    # 64 registers, so that 1,024 threads hide each other's waits; choices of one warp spill.
    texts = csrc_texts() | {"model.h": fine_header(lowered(model(name)), LAYOUT)[1]}
    stack, stores, _, registers = compile_usage("leaping/fine/fine_tau.cc", texts, architecture)[
        "fine_tau"
    ]
    print(f"fine_tau: {registers} registers, {stack} bytes of local memory")
    assert registers <= 64
    assert max(stack, stores) <= 1024


@pytest.mark.validate
@pytest.mark.parametrize(
    "name", ordinary(["schlogl", "michaelis_menten", "toggle_switch"], "michaelis_menten")
)
def test_leaps_of_small_networks_do_not_spill(name, architecture):
    # Propensities before the leap and counts, to go back to: 16 bytes of local memory a reaction.
    network = lowered(model(name))
    texts = csrc_texts() | {"model.h": leap_header(network, CudaBackend.style)}
    usage = compile_usage("leaping/tau_leap.cc", texts, architecture)
    stack, stores, loads, registers = usage["tau_leap"]
    print(f"tau_leap: {registers} registers, {stack} bytes of local memory")
    assert (stores, loads) == (0, 0)
    assert stack <= 16 * len(network.reactions)
    assert registers <= 128


@pytest.mark.validate
@pytest.mark.parametrize(
    "name", ordinary(["schlogl", "michaelis_menten", "ras_camp_pka"], "michaelis_menten")
)
def test_checked_leaps_need_little_local_memory(name, architecture):
    # 128 registers leave room for 4 blocks on a processor; what large networks spill for it grows
    # with the number of their reactions.
    network = lowered(model(name))
    texts = csrc_texts() | {"model.h": leap_header(network, CudaBackend.style, checked=True)}
    usage = compile_usage("leaping/tau_leap_checked.cc", texts, architecture)
    stack, stores, loads, registers = usage["tau_leap_checked"]
    print(f"{registers} registers, {stack} bytes of local memory, {stores} + {loads} spilled")
    assert registers <= 128
    assert stack <= 24 * (len(network.species) + len(network.reactions))
    assert stores + loads <= 340 * len(network.reactions)


LINES = {"LINE_THREADS": 768, "LINE_BLOCKS": 1, "MOST_LINES": 40, "LINE_BYTES": 160_000}


def lattice_texts(
    slots: int,
    species: int,
    *,
    small: bool = False,
    section: int = 0,
    lines: bool = False,
    shape: tuple[int, int, int] = (8, 8, 8),
) -> dict[str, str]:
    model = Lattice("probe", shape=shape, spacing=1e-8, step=1e-6, slots=slots)
    model.add_species(*(f"S{i}" for i in range(species)))
    model.add_diffusion("*", 1e-12)
    model.add_reaction("S0 + S1 -> S2", rate=1, volume="site")
    model.add_reaction("S2 -> S0 + S1", rate=1)
    lattice = lower_lattice(model)
    tables = reaction_tables(lattice.reactions, species)
    more = LINES | {"DRAWS_LINES_AHEAD": 1} if lines else None
    header = lattice_header(lattice, tables, small=small, section=section, more=more)
    return csrc_texts() | {"model.h": header, "site alone": site_header(lattice)}


@pytest.mark.validate
@pytest.mark.parametrize(
    ("slots", "species", "small"),
    [(16, 3, True), (8, 3, False), (32, 300, True), (32, 3, False), (16, 300, False)],
)
def test_lattice_kernels_need_little_local_memory(slots, species, small, architecture):
    # The rare path of a reaction may keep some registers in local memory.
    texts = lattice_texts(slots, species, small=small)
    usage = compile_usage("lattice/rdme.cc", texts, architecture)
    assert set(usage) == {"rdme_xy", "rdme_z", "rdme_steps"}
    if small:
        usage |= compile_usage("lattice/replicas.cc", texts, architecture)
        usage |= compile_usage("lattice/sparse/steps.cc", texts, architecture)
        if slots == 16:
            texts = lattice_texts(slots, species, small=small, section=SECTION)
            usage |= compile_usage("lattice/sparse/sections.cc", texts, architecture)
    for name, (stack, stores, _, registers) in usage.items():
        if name == "rdme_steps" and not small:
            continue  # which a GPU does not run
        print(f"{name}: {registers} registers, {stack} bytes of local memory")
        # A block of many lattices has to know where the one that it does begins.
        assert max(stack, stores) <= (320 if name == "rdme_replicas" else 160)
        assert registers <= 128
    counting = texts | {"model.h": texts["site alone"]}
    usage = compile_usage("lattice/count.cc", counting, architecture)
    check(usage, {"rdme_count", "rdme_filled_tiles"})
    usage = compile_usage("lattice/change.cc", texts, architecture)
    check(usage, {"rdme_become", "rdme_list", "rdme_take", "rdme_edit"})
    usage = compile_usage("lattice/reshape.cc", texts, architecture)
    check(usage, {"rdme_leave", "rdme_ask", "rdme_enter", "rdme_nearest"})


@pytest.mark.validate
@pytest.mark.parametrize(("slots", "species"), [(16, 3), (16, 300)])
def test_lines_need_little_local_memory(slots, species, architecture):
    """24 warps of a block leave 80 registers; sites that do not fit go through local memory."""
    texts = lattice_texts(slots, species, small=True, lines=True)
    usage = compile_usage("lattice/lines/steps.cc", texts, architecture)
    ((stack, stores, _, registers),) = usage.values()
    print(f"{registers} registers, {stack} bytes of local memory")
    assert registers <= 80
    assert stack <= 320
    assert stores <= 192


@pytest.mark.validate
@pytest.mark.parametrize(("slots", "words"), [(16, 4), (16, 2), (8, 2)])
def test_sites_in_registers_need_little_local_memory(slots, words, architecture, monkeypatch):
    monkeypatch.setattr(ParticleStart, "crowding", 3.0 if words == 4 else 0.0)
    texts = lattice_texts(slots, 3, shape=(8, 64, 64))
    assert f"WORDS_IN_REGISTERS {words}" in texts["model.h"]
    usage = compile_usage("lattice/rdme.cc", texts, architecture)
    for name in ("rdme_xy", "rdme_z"):
        stack, stores, loads, registers = usage[name]
        print(f"{name}: {registers} registers, {stack} bytes of local memory")
        assert max(stack, stores, loads) <= 400  # outside the loop over rows, but for a few
        assert registers <= 128


def planes_texts(
    slots: int,
    *,
    held: bool = False,
    still: bool = False,
    shape: tuple[int, int, int] = (8, 8, 40),
) -> dict[str, str]:
    """Of A + B <-> C in two types of sites, one of which slows A, or where none hops."""
    model = Lattice("probe", shape=shape, spacing=1e-8, step=1e-6, slots=slots)
    model.add_species("A", "B", "C")
    model.add_site_type("water")
    model.add_site_type("gel")
    if not still:
        model.add_diffusion("*", 1e-12)
        model.add_diffusion("A", 3e-13, within="gel")
    model.add_reaction("A + B -> C", rate=1, volume="site")
    model.add_reaction("C -> A + B", rate=1)
    if held:
        model.set_boundary("x-", "held", concentrations={"A": 1e-5})
    return csrc_texts() | {"model.h": planes_header(lower_lattice(model))}


@pytest.mark.validate
@pytest.mark.parametrize(
    ("slots", "held", "shape", "most"),
    [
        (8, False, (8, 8, 40), 168),
        (16, False, (8, 8, 40), 168),
        (32, False, (8, 8, 40), 168),
        (16, True, (8, 8, 40), 168),
        (16, False, (64, 128, 128), 80),
    ],
)
def test_planes_need_little_local_memory(slots, held, shape, most, architecture):
    """4 blocks of the 96 threads of a small lattice leave 168 registers, 8 of a larger one 80."""
    texts = planes_texts(slots, held=held, shape=shape)
    usage = compile_usage("lattice/planes/planes.cc", texts, architecture)
    for name, (stack, stores, _, registers) in usage.items():
        print(f"{name}: {registers} registers, {stack} bytes of local memory")
        assert registers <= most
        assert max(stack, stores) <= 320


def test_changes_of_planes_need_little_local_memory(architecture):
    """The counts of a word of all species are looked up by species."""
    usage = compile_usage("lattice/planes/change.cc", planes_texts(16), architecture)
    check(usage, {"planes_become", "planes_list", "planes_take", "planes_edit"}, 512)


@pytest.mark.parametrize(("slots", "species"), ordinary([(8, 3), (32, 300)], (32, 300)))
def test_messages_between_slabs_stay_in_registers(slots, species, architecture):
    usage = compile_usage("lattice/halo.cc", lattice_texts(slots, species), architecture)
    check(usage, {"halo_pack", "halo_wait", "halo_unpack", "halo_advance"})
    assert max(registers for *_, registers in usage.values()) <= 64


def test_placing_stays_in_registers(architecture):
    usage = compile_usage("lattice/place.cc", csrc_texts(), architecture)
    check(usage, {"place_sites", "place_given", "place_drawn", "place_again"})


def test_statistics_stay_in_registers(architecture):
    usage = compile_usage("ensemble/statistics.cc", csrc_texts(), architecture)
    check(usage, {"count_statistics", "count_histogram", "real_ranges", "real_statistics"})


@pytest.mark.validate
def test_tables_of_networks_stay_in_registers(architecture):
    usage = compile_usage("dbn/count.cc", csrc_texts(), architecture)
    check(usage, {"bin_double", "bin_single", "count_dense", "count_sparse", "move_entries"})


@pytest.mark.validate
def test_summaries_stay_in_registers(architecture):
    usage = compile_usage("ensemble/summaries.cc", csrc_texts(), architecture)
    check(usage, {"oscillation", "first_passage", "extinction", "time_above", "statistic"})


def test_rows_of_particles_stay_in_registers(architecture):
    check(compile_usage("ensemble/gather.cc", csrc_texts(), architecture), {"gather_rows"})
    usage = compile_usage("events/divide.cc", csrc_texts(), architecture)
    assert max(usage["divide_cells"][:3]) <= 64  # around calls of rare functions


@pytest.mark.validate
def test_weights_of_particles_stay_in_registers(architecture):
    for name in ("initial", "weigh"):  # the others need few
        usage = compile_usage(f"particles/{name}.cc", csrc_texts(), architecture)
        # Two blocks of 32 numbers lie in local memory at most, and what calls of densities spill.
        check(usage, PARTICLES[name], 512)


def test_steps_of_polymers_stay_in_registers(architecture):
    check(compile_usage("polymer/steps.cc", csrc_texts(), architecture), {"polymer_steps"})


@pytest.mark.validate
def test_portable_functions_stay_in_registers(architecture):
    texts = csrc_texts() | {PROBE.name: PROBE.read_text()}
    kernels = {"probe", "probe_random", "probe_philox", "probe_draw", "probe_unit"}
    check(compile_usage(PROBE.name, texts, architecture), kernels)


def every_file() -> list[tuple[str, str]]:
    """Every kernel file of a GPU with a header, but those of equations."""
    small, large = lowered(model("schlogl")), lowered(model("toggle_switch"))
    flowing = lowered_events(growing())
    tables = {name: tables_of(large, name).header() for name in ("pdm", "rssa")}
    tabled = behind_counts(lowered_events(everything()))
    of_events = {
        file_of(name): header_of(tabled, tables_of(tabled, name), 32) for name in ("pdm", "rssa")
    }
    texts = lattice_texts(16, 3, small=True, lines=True)
    lattice = texts["model.h"]
    headers = {
        "coupled/common_paths.cc": common_header(small, CudaBackend.style),
        "coupled/coupled_pairs.cc": coupled_header(small, CudaBackend.style),
        "coupled/score_paths.cc": scores_of(small),
        "dbn/count.cc": "",
        "ensemble/gather.cc": "",
        "ensemble/ssa.cc": unrolled_header(small, CudaBackend.style, literals=8),
        "ensemble/ssa_ends.cc": ends_of("schlogl"),
        "ensemble/statistics.cc": "",
        "ensemble/summaries.cc": "",
        "events/divide.cc": "",
        "events/ssa_events.cc": events_header(lowered_events(everything())),
        "events/ssa_flow.cc": events_header(lowered_events(growing())),
        "events/ssa_within.cc": events_header(lowered_events(driven(), FLOWING)),
        "lattice/change.cc": lattice,
        "lattice/count.cc": texts["site alone"],
        "lattice/halo.cc": lattice,
        "lattice/lines/steps.cc": lattice,
        "lattice/objects.cc": "",
        "lattice/place.cc": "",
        "lattice/planes/change.cc": planes_texts(16)["model.h"],
        "lattice/planes/planes.cc": planes_texts(16)["model.h"],
        "lattice/rdme.cc": lattice,
        "lattice/replicas.cc": lattice,
        "lattice/reshape.cc": lattice,
        "lattice/sparse/sections.cc": lattice_texts(16, 3, small=True, section=SECTION)["model.h"],
        "lattice/sparse/steps.cc": lattice,
        **dict.fromkeys((f"particles/{name}.cc" for name in PARTICLES), ""),
        "particles/proposals.cc": size_header(3),
        "polymer/steps.cc": "",
        "leaping/langevin.cc": langevin_header(flowing, ["auto"] * len(flowing.reactions)),
        "leaping/tau_events.cc": event_leap_header(lowered_events(everything()), CudaBackend.style),
        "leaping/fine/fine_tau.cc": fine_header(large, LAYOUT)[1],
        "leaping/tau_leap.cc": leap_header(small, CudaBackend.style),
        "leaping/tau_leap_checked.cc": leap_header(small, CudaBackend.style, checked=True),
        "tables/rejection/ssa_rejection.cc": table_header(large, tables["rssa"], 32),
        "tables/ssa_table.cc": table_header(large, tables["pdm"], 32),
    }
    files = {path.relative_to(CSRC).as_posix() for path in CSRC.rglob("*.cc")}
    elsewhere = {file for file in files if file.startswith("ode/")}  # in test_ode_cuda_compile.py
    elsewhere |= {"ensemble/ssa_lanes.cc", "leaping/lanes/tau_lanes.cc"}  # of a CPU alone
    assert files - elsewhere == set(headers)
    return [*headers.items(), *of_events.items()]


def test_every_file_compiles(monkeypatch):
    for file, header in every_file():
        compile_quickly(file, csrc_texts() | {"model.h": header})
    compile_quickly(PROBE.name, csrc_texts() | {PROBE.name: PROBE.read_text()})
    compile_quickly("lattice/planes/planes.cc", planes_texts(16, still=True))
    monkeypatch.setattr(ParticleStart, "crowding", 3.0)
    texts = lattice_texts(16, 3, shape=(8, 64, 64))
    assert "WORDS_IN_REGISTERS 4" in texts["model.h"]
    compile_quickly("lattice/rdme.cc", texts)


def test_other_headers_compile(monkeypatch):
    """Leaps of rates that follow the time, firings and leaps from tables; steps that run first."""
    actual = thinned(lowered_events(forced()), np.zeros((1, 1)), 8.0, 160, 0.03)
    assert actual is not None
    events, lattice = lowered_events(everything()), lattice_texts(16, 3, small=True, lines=True)
    monkeypatch.setattr(event_codegen, "in_tables", lambda *_: True)
    plain = leap_header(lowered(model("schlogl")), CudaBackend.style, in_tables=True)
    thinned_leaps = leap_header(actual.network, CudaBackend.style)
    compile_quickly("leaping/tau_leap.cc", csrc_texts() | {"model.h": thinned_leaps})
    headers = (
        ("leaping/tau_leap.cc", plain),
        ("events/ssa_events.cc", events_header(events, in_tables=True)),
        ("events/ssa_flow.cc", events_header(events, in_tables=True)),
        ("leaping/tau_events.cc", event_leap_header(events, CudaBackend.style)),
        *((f"lattice/{name}.cc", lattice["model.h"]) for name in ("lines/steps", "sparse/steps")),
    )  # fmt: skip
    for file, header in headers:
        compile_quickly(file, csrc_texts() | {"model.h": header}, "-DONE_COPY")


@pytest.mark.validate
def test_the_oldest_device_takes_every_file():
    """What is compiled above for the newest one, each file once."""
    require_nvrtc(OLDEST)
    for file, header in every_file():
        assert compile_usage(file, csrc_texts() | {"model.h": header}, OLDEST), file


def ptx(source: str) -> str:
    from cupy.cuda import nvrtc

    program = nvrtc.createProgram(source, "contraction.cu", (), ())
    nvrtc.compileProgram(program, nvrtc_flags("sm_80", THREADS_PER_BLOCK))
    return str(nvrtc.getPTX(program).decode())


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a * b + c", {"mul.rn.f64", "add.rn.f64"}),
        ("a * b - c", {"mul.rn.f64", "sub.rn.f64"}),
        ("__fma_rn(a, b, c)", {"fma.rn.f64"}),
        ("a / b + c", {"div.rn.f64", "add.rn.f64"}),
        ("__dsqrt_rn(a) * b", {"sqrt.rn.f64", "mul.rn.f64"}),
    ],
)
def test_the_flags_contract_nothing(expression, expected):
    head = 'extern "C" __global__ void f(double *out, double a, double b, double c)'
    text = ptx(f"{head} {{ *out = {expression}; }}")
    assert set(re.findall(r"\b(?:mul|add|sub|fma|div|sqrt)\.\w+\.f64", text)) == expected


def test_a_broken_kernel_names_file_line_and_flags():
    with pytest.raises(
        KernelCompileError, match=r"cannot compile broken\.cc .*sm_80.*broken\.cc\(2\)"
    ):
        compile_cubin(
            "broken.cc",
            {"broken.cc": "__device__ int x;\n__device__ int y = z;\n"},
            nvrtc_flags("sm_80", 128),
        )


def test_kernels_include_no_header_of_the_system():
    for name, text in csrc_texts().items():
        actual = re.findall(r"^\s*#\s*include\s*<(.*)>", text, re.MULTILINE)
        # Vector instructions of a CPU: a header of its compiler, which no other device reads.
        assert actual == (["immintrin.h"] if name == "simd/instructions.h" else []), name
