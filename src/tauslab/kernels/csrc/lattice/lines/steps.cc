// Whole steps of a small lattice on one device in which most sites hold particles: the same steps as `rdme_steps`
// (lattice/rdme.cc), with the same draws and so the same bits. Blocks keep lines of 32 sites for the whole launch.
//
//     hops along x, who hops along y     the block's memory has who stays and who leaves
//     hops along y, who hops along z     memory of the device has who leaves
//     hops along z, reactions
//
// A block waits for its own threads behind the first, and for all blocks behind the others: all run at the same time.
#define IN_LINES
#include "lattice/lines/hops.h"

// What comes from a neighbour along z, at a site of its line.
DEVICE Portion portion_along_z(const Lattice &l, const LineBuffers &b, int line, int lane,
                               bool from_over, Part part) {
    if (part != MANY_PART) return portion_of(part);
    const int index = b.lines[line].first + lane;
    Portion portion;
    portion.site = l.moved[index];
    portion.slots = from_over ? b.z_moves[index].minus : b.z_moves[index].plus;
    return portion;
}

// Whether a bound on the probability tells that nothing reacts in a site of `n` particles.
DEVICE bool nothing_reacts(const Lattice &l, int type, u32 upper, u32 n) {
    if (N_REACTIONS == 0 || (N_ZEROTH == 0 && n == 0)) return true;
    const u32 *bounds = l.bounds + 2 * ROW * type;
    return REACTION_PASSES == 1 && upper > bounds[0] + (u64)(n * n) * bounds[1];
}

struct PartsAlongZ {
    Part under, over;  // who comes from there
};

DEVICE PartsAlongZ load_parts(const LineBuffers &b, const Line &line, int lane) {
    PartsAlongZ parts = {0, 0};
    if (line.under >= 0) parts.under = b.plus_out[line.under * LANES + lane];
    if (line.over >= 0) parts.over = b.minus_out[line.over * LANES + lane];
    return parts;
}

// Finishes a site in which more happens than hops, or which did not fit registers.
DEVICE_SHARED void finish_site_of_line(const Lattice &l, const LatticeStream &s,
                                       const LineBuffers &b, const Line &line, int lane, int index,
                                       int type, bool some_wait, bool whole, const Held &built,
                                       u32 bits, const Split &own, bool own_many, PartsAlongZ parts,
                                       Site &to) {
    const i64 tile = tile_of_site(l, index);
    const SpillHere spill = {l, tile, (u64)index, SPILL_Z, true};
    int n = (int)bits / SLOT_BITS;
    if (whole) {
        make_site(to, built);
    } else {
        u32 leaving = 0;
        if (own_many) {
            to = l.moved[index];
            leaving = b.z_moves[index].minus | b.z_moves[index].plus;
        } else {
            make_site(to, own.stayed);
        }
        n = join_one_by_one(l, portion_along_z(l, b, line.under, lane, false, parts.under),
                            portion_along_z(l, b, line.over, lane, true, parts.over), spill,
                            leaving, to);
    }
    finish_site_of_type(l, s, spill, l.state_stamps + tile, index, type, some_wait, false, 0, n,
                        to);
}

// The rest of the step in a line of the block.
DEVICE_SHARED void finish_line(const Lattice &l, const LatticeStream &s, const LineBuffers &b,
                               int place, int lane, bool some_wait, PartsAlongZ parts,
                               LinesWork &work) {
    const Line &line = work.lines[place];
    const LineSite at = line_site(l, line, lane);
    const Split own = stayed_in_line(work, place, lane);
    const bool many = work.count[place][lane] == 0xff;
    Held built;
    const u32 bits = join(own, parts.under, parts.over, built);
    const bool whole = is_whole(bits, many ? MANY_PART : 0, parts.under, parts.over);
    const int type = type_in_line(work, place, lane);
    const bool still =
        whole && !some_wait &&
        nothing_reacts(l, type, work.upper[l.step & 1][place][lane], bits / SLOT_BITS);
    if (!at.inside) return;
    if (LIKELY(still)) {
        Site to;
        make_site(to, built);
        l.state[at.index] = to;
    } else {
        finish_site_of_line(l, s, b, line, lane, at.index, type, some_wait, whole, built, bits, own,
                            many, parts, work.of_thread[THREAD_ID]);
    }
}

struct LineStepArguments {
    LatticeArguments lattice;
    const Line *lines;
    Site *after_x;
    Moves *y_moves;
    Moves *z_moves;
    Part *minus_out;
    Part *plus_out;
    const i32 *near;  // [block, LANES]: blocks that have lines beside those of a block, -1 for none
    u32 *reached;     // [block, CELL]: phases that a block has done in this launch
    i64 n_lines;
    i64 apart;  // whether blocks wait for those near them only
    i64 steps;
};

constexpr int CELL = 32;  // numbers from a block's cell to the next

// How a block waits for others behind each of the two phases of a step. Where particles wait for room, in a list of
// the whole lattice, all blocks wait for each other; elsewhere for those that have lines beside its own.
struct Meeting {
    bool apart;
    u64 *cell;  // of all
    u32 arrivals;
    u32 *own;         // of this block
    const u32 *near;  // of one near it, another for each lane of the first warp
    u32 phases;

    DEVICE_MEMBER void arrive() {
        if (apart) {
            BARRIER();
            signal_blocks(own, ++phases);
        } else {
            grid_arrive(cell, BLOCKS, arrivals);
        }
    }

    DEVICE_MEMBER void wait() {
        if (apart) {
            wait_for_blocks(near, phases);
            BARRIER();
        } else {
            grid_wait(cell, arrivals);
        }
    }
};

// All blocks have to call it, before the first step.
DEVICE Meeting start_meeting(const Lattice &l, const LineStepArguments &a) {
    Meeting m = {false, l.work + BARRIER_CELL, 0, a.reached + CELL * BLOCK_ID, nullptr, 0};
    if (!a.apart) return m;
    if (THREAD_ID == 0) *(volatile u32 *)m.own = 0;  // from the launch before
    m.apart = *(volatile u64 *)(l.work + WAITING_0 + (l.step & 1)) == 0;
    const i32 near = THREAD_ID < LANES ? a.near[BLOCK_ID * LANES + THREAD_ID] : -1;
    if (near >= 0) m.near = a.reached + CELL * near;
    grid_barrier(m.cell, BLOCKS, m.arrivals);
    return m;
}

// Empties the list of particles that will wait after the step.
DEVICE void empty_list(const Lattice &l) {
    const i64 tiles = l.planes * tiles_of_plane(l), threads = BLOCKS * BLOCK_THREADS;
    const i64 thread = BLOCK_ID + BLOCKS * THREAD_ID;
    if (thread == 0) l.work[WAITING_0 + ((l.step + 1) & 1)] = 0;
    for (i64 tile = thread; tile < tiles; tile += threads)
        *tile_head(l, (l.step + 1) & 1, tile) = -1;
}

// Whether the list is not empty, though blocks did not keep it in order: then the host does the steps again.
DEVICE bool some_found_no_room(const Lattice &l) {
    const volatile u64 *waiting = l.work + WAITING_0;
    return (waiting[0] | waiting[1]) != 0;
}

DEVICE Site load_of_line(const Lattice &l, const Line &line, int lane) {
    const LineSite at = line_site(l, line, lane);
    Site site;
    if (at.inside)
        site = l.state[at.index];
    else
        make_empty(site);
    return site;
}

BLOCK_KERNEL(LINE_THREADS, LINE_BLOCKS, rdme_line_steps, const LineStepArguments arguments) {
    BLOCK_MEMORY(LinesWork, memory, 1);
    static_assert(sizeof(LinesWork) <= LINE_BYTES, "kernels/lattice/lines.py gives too little");
    LinesWork &work = *memory;
    LATTICE_IN_BLOCK(l, arguments.lattice);
    REACTIONS_IN_BLOCK(l);
    BARRIER();
    const LineBuffers b = {arguments.lines,   arguments.after_x,   arguments.y_moves,
                           arguments.z_moves, arguments.minus_out, arguments.plus_out};
    const OwnLines lines = take_lines(l, b, arguments.n_lines, BLOCK_ID, BLOCKS, work);
    const int warp = THREAD_ID / LANES, lane = THREAD_ID % LANES;
    empty_list(l);
    Meeting others = start_meeting(l, arguments);
    BARRIER();
    if (DRAWS_LINES_AHEAD) {
        draw_along_xy(l, l.step, lines, warp, lane, work);
        draw_along_z(l, l.step, lines, warp, lane, work);
        LANES_BARRIER(LANES);
    }
    NO_UNROLL for (i64 n = 0; n < arguments.steps; ++n, ++l.step) {
        Site next;
        if (warp < lines.all) next = load_of_line(l, work.lines[warp], lane);
        if (!others.apart) empty_list(l);
        const LineDraws along_xy = line_draws(l, l.step, PURPOSE_XY);
        look_beside(l, along_xy.s, lines, warp, lane, work);
        NO_UNROLL for (int i = warp; i < lines.all; i += LINE_WARPS) {
            const Site content = next;
            if (i + LINE_WARPS < lines.all)
                next = load_of_line(l, work.lines[i + LINE_WARPS], lane);
            hop_along_x(l, along_xy, b, i < lines.own, i, lane, content, work);
        }
        BARRIER();
        const LineDraws along_z = line_draws(l, l.step, PURPOSE_Z);
        NO_UNROLL for (int i = warp; i < lines.own; i += LINE_WARPS)
            hop_along_y(l, along_z, b, lines, i, lane, work);
        others.arrive();
        if (DRAWS_LINES_AHEAD) draw_along_z(l, l.step + 1, lines, warp, lane, work);
        others.wait();
        const bool some_wait =
            !others.apart && *(volatile u64 *)(l.work + WAITING_0 + (l.step & 1)) != 0;
        PartsAlongZ parts = {0, 0};
        if (warp < lines.own) parts = load_parts(b, work.lines[warp], lane);
        NO_UNROLL for (int i = warp; i < lines.own; i += LINE_WARPS) {
            const PartsAlongZ here = parts;
            if (i + LINE_WARPS < lines.own)
                parts = load_parts(b, work.lines[i + LINE_WARPS], lane);
            finish_line(l, along_z.s, b, i, lane, some_wait, here, work);
        }
        others.arrive();
        if (DRAWS_LINES_AHEAD) draw_along_xy(l, l.step + 1, lines, warp, lane, work);
        others.wait();
    }
    if (others.apart && THREAD_ID == 0 && some_found_no_room(l)) atomic_add(l.work + LIST_FULL, 1);
    const i64 tiles = l.planes * tiles_of_plane(l), threads = BLOCKS * BLOCK_THREADS;
    for (i64 tile = BLOCK_ID + BLOCKS * THREAD_ID; tile < tiles; tile += threads)
        l.state_stamps[tile] = (u32)(l.step + 1);
}
