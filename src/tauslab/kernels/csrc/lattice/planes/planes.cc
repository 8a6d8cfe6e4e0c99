// Steps of a lattice in bit planes of counts.
//
//     Hallock & Peterson 2013, Algorithm 1     here
//     lattice, slots of a site                 counts of a site's particles by species (planes.h)
//     diffusion operator along an axis         `decide`, then `arrive` in the next pass (hops.h)
//     reaction operator                        `react` (react.h)
//     overflow list                            Waiting, `settle_crowds`, `place_waiting`
//     random number of a particle              bits of the words of `draw_of_words`, one for each site
//
// docs/decisions/planes.md says what is chosen and why.
#include "lattice/planes/hops.h"
#include "lattice/planes/react.h"

// A pass: what came along axis `arrives` is taken in, what leaves along `departs` is decided; -1: none. After axis 2
// the step ends: reactions, and particles that waited. `step` is that which ends; hops are of the one that goes on.
struct Pass {
    int arrives, departs;
    int buffer;  // of `moved`, that is read; the other is written
    u64 step;
    u64 *counts;  // of the state at the end of the step, see `count_words`; may be null
};

// Adds numbers of particles to `counts` [type, species].
DEVICE void count_words(const Lattice &l, const WordGroup &g, const Counts &n, u64 *counts) {
    NO_UNROLL for (int t = 0; t < N_TYPES; ++t) {
        const Bits of_type = N_TYPES == 1 ? on_words(~0u) : load_words(l.type_sites + t * l.stride + g.first);
        UNROLL for (int s = 0; s < OWN; ++s) {
            u32 found = 0;
            UNROLL for (int i = 0; i < PLANES; ++i) found += bits_in(n[s][i] & of_type) << i;
            add_together(counts + t * N_SPECIES + g.species + s, found);
        }
    }
}

// The end of a step, where a team has shown its counts: one warp finds crowded sites and candidates for reactions, all
// do the reactions, and one lets in particles that waited.
DEVICE void end_step(const Lattice &l, const WordGroup &g, const Pass &pass, const StepDraws &s, const WordSeries &series,
                     Desk &desk, Counts &n) {
    if (leads(g)) {
        const Bits over = crowded(desk);
        if (any_site(over)) {
            settle_crowds(*l.kept, s, g, pass.step, 2, pass.buffer, over, desk);
            note_of(desk) = 1;
        }
        find_candidates(l, s, series, g, desk);
    }
    meet(desk);
    if (N_CAUSES && any_listed(desk)) {
        react(l, s, g, pass.step, desk);
        meet(desk);
    }
    if (note_of(desk)) {
        if (leads(g))
            NO_UNROLL for (int i = 0; i < PLANE_WORDS; ++i)
                if (g.first + (u32)i < (u32)l.words)
                    place_waiting(*l.kept, pass.step, g.first + (u32)i, first_own() + i, desk);
        meet(desk);
    }
    take_back(g, desk, n);
}

// Takes in what came along an axis.
DEVICE void take_in(const Lattice &l, const WordGroup &g, const Pass &pass, const Bits &number, const Incoming &in,
                    u32 waits, Desk &desk, Counts &n) {
    const StepDraws s = step_draws(l.seed, pass.step, (u32)l.replica);
    const bool ends = pass.arrives == 2;
    arrive(l, g, pass.arrives, pass.buffer, in, n);
    arrive_from_faces(l, s, g, pass.arrives, n);
    next_desk(desk);
    if (!ends) {
        show(g, n, 0, desk);
        const Bits over = crowded(desk);
        if (any_site(over)) settle(*l.kept, s, g, pass.step, pass.arrives, pass.buffer, over, desk, n);
        return;
    }
    const WordSeries series = word_series(s, number);
    if (g.species < DRAWN_TOGETHER && 4 * g.species < l.thinned[6 * N_TYPES - 3])
        draw_for_all(g, draw_of_words(s, series, plane_address(CANDIDATES, (u32)g.species)), desk);
    show(g, n, waits, desk);
    end_step(l, g, pass, s, series, desk, n);
}

// Takes in what comes along x from the words on either side, which threads have that go together.
DEVICE void exchange_along_x(const Lattice &l, const WordGroup &g, const Moves &moves, Counts &n) {
    const u32 lane = (u32)THREAD_ID % 32, last = (u32)l.row - 1, place = lane & last;
    const u32 before = lane - place + ((place - 1) & last);
    const u32 after = lane - place + ((place + 1) & last);
    const bool round = face_kind(4) == PERIODIC;
    const Bits from_before = all_or_none(round || place > 0);
    const Bits from_after = all_or_none(round || place < last);
    const auto come_up = [&](Bits up) {
        return ((up << 1) & g.inside) | ((word_of_lane(up, before) & from_before) >> g.before & 1u);
    };
    const auto come_down = [&](Bits down) {
        return (down >> 1) | ((word_of_lane(down, after) & from_after) & 1u) << g.last;
    };
    Bits a[LOW_PLANES], b[LOW_PLANES], high = {};
    UNROLL for (int i = 0; i < LOW_PLANES; ++i) a[i] = come_up(moves.plus[i]), b[i] = come_down(moves.minus[i]);
    Bits carry = join_low(n[0], a, b);
    UNROLL for (int i = LOW_PLANES; i < PLANES; ++i) high |= moves.minus[i] | moves.plus[i];
    const bool some = any_site(high);
    UNROLL for (int i = LOW_PLANES; some && i < PLANES; ++i) {
        carry |= add_bit(n[0], i, come_up(moves.plus[i]));
        carry |= add_bit(n[0], i, come_down(moves.minus[i]));
    }
    saturate(n[0], carry);
}

// The same, and where sites are crowded those that find no room wait; that is done in memory.
DEVICE void arrive_along_x(const Lattice &l, const StepDraws &s, const WordGroup &g, u64 step, int buffer,
                           const Moves &moves, Desk &desk, Counts &n) {
    Counts before;
    UNROLL for (int i = 0; i < PLANES; ++i) before[0][i] = n[0][i];
    exchange_along_x(l, g, moves, n);
    arrive_from_faces(l, s, g, 0, n);
    next_desk(desk);
    show(g, n, 0, desk);
    const Bits over = crowded(desk);
    if (LIKELY(!any_site(over))) return;
    LowMoves low;
    Bits more = {};
    const Lattice &far = *l.kept;
    keep_moves(far, g, buffer, g.species, moves, low, more);
    store_moves(far, g, buffer, low, more);
    store_counts(far, g, before);
    settle(far, s, g, step, 0, buffer, over, desk, n);
}

// What leaves along an axis. Along x it arrives at once where threads that go together have whole rows, and what
// leaves along y follows: a loop, so that there is one text.
DEVICE void leave(const Lattice &l, const WordGroup &g, const Pass &pass, const Bits &number, Desk &desk, Counts &n) {
    const u64 step = pass.step + (pass.arrives == 2);
    const StepDraws s = step_draws(l.seed, step, (u32)l.replica);
    const WordSeries series = word_series(s, number);
    const int buffer = 1 - pass.buffer;
    LowMoves low;
    Bits more = {};
    if constexpr (OWN == N_SPECIES && PLANE_LANES == 1) {
        depart<0>(l, s, series, g, pass.departs, buffer, n, low, more);
    } else {
        NO_UNROLL for (int axis = pass.departs;; ++axis) {
            Moves moves;
            decide<MOST_CLASSES>(l, s, series, g, axis, g.species, n[0], moves);
            if (axis == 0 && l.rows_together) {
                arrive_along_x(l, s, g, step, buffer, moves, desk, n);
                continue;
            }
            keep_moves(l, g, buffer, g.species, moves, low, more);
            break;
        }
    }
    store_moves(l, g, buffer, low, more);
}

DEVICE_SHARED void do_words(const Lattice &l, u32 first, int species, const Pass &pass, const Way &way, Desk &desk) {
    WordGroup g = {};
    g.first = first, g.species = species;
    look_around(l, way, g);
    Counts n;
    Bits number;
    UNROLL for (int i = 0; i < PLANE_WORDS; ++i) word_of(number, i) = word_number(l, first + (u32)i);
    const u32 *const own = plane_of(l, l.stayed, g.species) + first;
    UNROLL for (int s = 0; s < OWN; ++s)
        UNROLL for (int i = 0; i < PLANES; ++i)
            n[s][i] = load_words(after(own, l.plane_bytes, s * PLANES + i));
    const Incoming in = load_incoming(l, g, pass.arrives, pass.buffer);
    // By one lane: the compiler makes others wait for what all have.
    const bool asks = pass.arrives == 2 && leads(g) && first_own() == 0;
    const u64 waits = asks ? read_now(l.work + WAITING_0 + (pass.step & 1)) : 0;
    UNROLL for (int s = 0; s < OWN; ++s)
        UNROLL for (int i = 0; i < PLANES; ++i) n[s][i] &= g.there;
    if (pass.arrives >= 0) take_in(l, g, pass, number, in, waits != 0, desk, n);
    if (pass.counts) count_words(l, g, n, pass.counts);
    if (pass.departs >= 0) leave(l, g, pass, number, desk, n);
    store_counts(l, g, n);
}

// Which of a launch's blocks this one is.
struct OneBlock {
    i64 number, blocks;
};

// All words of the slab. Threads of a CPU take words side by side; teams of a GPU, far apart.
DEVICE void do_pass(const Lattice &l, const OneBlock &block, const Pass &pass) {
    const Way way = way_along(l, pass.arrives);
#ifdef LANES_SIDE_BY_SIDE
    SHARED TeamMemory memory[TEAMS];
    const u32 teams = (u32)BLOCK_THREADS / TEAM_SIZE, team = uniform((u32)THREAD_ID / TEAM_SIZE);
    const u32 species = uniform((u32)THREAD_ID % TEAM_SIZE / 32), each = 32 * (u32)block.blocks * teams;
    Desk desk = {memory + team, memory[team].shown, (int)team};
    for (u32 i = 32 * ((u32)block.number * teams + team); i < (u32)l.words; i += each)
        do_words(l, i + (u32)first_own(), (int)species, pass, way, desk);
#else
    const i64 groups = (l.words + PLANE_WORDS - 1) / PLANE_WORDS, end = groups * (block.number + 1) / block.blocks;
    Desk desk = {};
    for (i64 i = groups * block.number / block.blocks; i < end; ++i) do_words(l, (u32)(i * PLANE_WORDS), 0, pass, way, desk);
#endif
}

// Adds to a row of counts [type, species] what waits. Behind it come the numbers of reactions, of particles that
// found no room so far, of those that wait, and of passes that were truncated so far. `list` is that of the next step.
DEVICE void count_rest(const Lattice &l, const OneBlock &block, u64 list, u64 *counts) {
    constexpr int BINS = N_TYPES * N_SPECIES;
    const u64 held = l.work[WAITING_0 + list];
    const i64 n_waiting = held < (u64)l.capacity ? (i64)held : l.capacity;
    const i64 thread = block.number * BLOCK_THREADS + THREAD_ID;
    for (i64 i = thread; i < n_waiting; i += block.blocks * BLOCK_THREADS) {
        const Waiting &entry = l.waiting[(i64)list * l.capacity + i];
        const u64 row = entry.site / (u64)l.nx, x = entry.site - row * (u64)l.nx;
        const u64 word = (row - (u64)(l.first_plane * l.ny)) * (u64)l.row + x / 32;
        int type = 0;
        for (int t = 1; t < N_TYPES; ++t) type = l.type_sites[t * l.stride + (i64)word] >> x % 32 & 1 ? t : type;
        atomic_add(counts + type * N_SPECIES + (int)entry.particle - 1, 1);
        atomic_add(counts + BINS + N_REACTIONS + 1, 1);
    }
    if (thread != 0) return;
    for (int r = 0; r < N_REACTIONS; ++r) counts[BINS + r] = l.fired[r];
    counts[BINS + N_REACTIONS] = l.work[SPILLS];
    counts[BINS + N_REACTIONS + 2] = l.work[TRUNCATED];
}

struct PlaneStepsArguments {
    PlaneArguments lattice;
    i64 steps;
    const i64 *marks;  // steps, ascending, after which it counts
    i64 n_marks;
    u64 *counts;  // [mark, column], of 0
    i64 columns;
};

// Whole steps of a lattice that lies on one device. All blocks run at the same time.
BLOCK_KERNEL(TEAMS * TEAM_SIZE, PLANE_BLOCKS, planes_steps, const PlaneStepsArguments a) {
    LATTICE_IN_BLOCK(l, a.lattice);
    const OneBlock block = {BLOCK_ID, BLOCKS};
    u32 arrivals = 0;
    i64 mark = 0, ended = 0;
    int arrives = -1, axis = 0, buffer = 0;
    for (;;) {
        const u64 step = l.step + (u64)ended;  // that goes on, or begins
        const bool begins = axis == 0 && arrives == 2;
        const bool counts = begins && mark < a.n_marks && a.marks[mark] == ended;
        const bool settles = counts || (begins && ended == a.steps);
        u64 *const row = counts ? a.counts + mark * a.columns : nullptr;
        if (arrives == 1 && BLOCK_ID == 0 && THREAD_ID == 0)
            l.work[WAITING_0 + ((step + 1) & 1)] = 0;
        do_pass(l, block, {arrives, settles ? -1 : axis, buffer, step - (arrives == 2), row});
        grid_barrier(l.work + BARRIER_CELL, BLOCKS, arrivals);
        if (settles) {
            arrives = -1;
            if (counts) {
                count_rest(l, block, step & 1, row);
                ++mark;
                grid_barrier(l.work + BARRIER_CELL, BLOCKS, arrivals);
            }
            if (ended == a.steps) return;
            continue;
        }
        buffer = 1 - buffer;
        if (PLANE_LANES > 1 && l.rows_together && axis == 0) ++axis;
        arrives = axis;
        ended += axis == 2;
        axis = (axis + 1) % 3;
    }
}

struct PlanePassArguments {
    PlaneArguments lattice;
    i64 arrives, departs, buffer;
};

// A pass of a slab, whose neighbours' particles have come.
BLOCK_KERNEL(TEAMS * TEAM_SIZE, PLANE_BLOCKS, planes_pass, const PlanePassArguments a) {
    LATTICE_IN_BLOCK(l, a.lattice);
    if (a.arrives == 1 && BLOCK_ID == 0 && THREAD_ID == 0) l.work[WAITING_0 + ((l.step + 1) & 1)] = 0;
    do_pass(l, {BLOCK_ID, BLOCKS}, {(int)a.arrives, (int)a.departs, (int)a.buffer, l.step, nullptr});
}

struct PlaneCountArguments {
    PlaneArguments lattice;
    u64 *counts;  // [column], of 0
    u64 *filled;  // [plane], of 0: words that hold particles; may be null
};

// Counts a lattice between batches of steps.
BLOCK_KERNEL(TEAMS * TEAM_SIZE, PLANE_BLOCKS, planes_count, const PlaneCountArguments a) {
    LATTICE_IN_BLOCK(l, a.lattice);
    do_pass(l, {BLOCK_ID, BLOCKS}, {-1, -1, 0, l.step, a.counts});
    count_rest(l, {BLOCK_ID, BLOCKS}, l.step & 1, a.counts);
    if (!a.filled) return;
    for (i64 word = BLOCK_ID * BLOCK_THREADS + THREAD_ID; word < l.words; word += BLOCKS * BLOCK_THREADS) {
        u32 some = 0;
        for (int s = 0; s < N_SPECIES * PLANES; ++s) some |= l.stayed[s * l.stride + word];
        if (some) atomic_add(a.filled + word / l.plane, 1);
    }
}

struct PlaneSlotsArguments {
    PlaneArguments lattice;
    u8 *slots;  // [site, slot] of some planes: species + 1, 0 for none
    i64 first, words;  // the first word of those planes, and how many
};

// Site `place` of a word among those of `slots`.
DEVICE u8 *slots_of(const Lattice &l, const PlaneSlotsArguments &a, u32 word, u32 place) {
    return a.slots + (first_site(l, word) - first_site(l, (u32)a.first) + place) * SLOTS;
}

// Particles in slots into planes.
KERNEL(planes_from_slots, const PlaneSlotsArguments a) {
    const Lattice l = lattice_of(a.lattice);
    for (i64 i = GLOBAL_ID; i < a.words; i += GLOBAL_SIZE) {
        const u32 word = (u32)(a.first + i);
        u32 planes[N_SPECIES][PLANES] = {};
        for (u32 place = 0; place < sites_of(l, word); ++place) {
            const u8 *const slots = slots_of(l, a, word, place);
            for (int slot = 0; slot < SLOTS && slots[slot]; ++slot) {
                if (slots[slot] > N_SPECIES) continue;  // of a hook, which is told
                u32 bit = 1u << place;
                for (int k = 0; k < PLANES; ++k) {
                    u32 &plane = planes[slots[slot] - 1][k];
                    const u32 carry = plane & bit;
                    plane ^= bit;
                    bit = carry;
                }
            }
        }
        for (int s = 0; s < N_SPECIES; ++s)
            for (int k = 0; k < PLANES; ++k) plane_of(l, l.stayed, s, k)[word] = planes[s][k];
    }
}

// Counts into slots: those of a site by species.
KERNEL(planes_to_slots, const PlaneSlotsArguments a) {
    const Lattice l = lattice_of(a.lattice);
    for (i64 i = GLOBAL_ID; i < a.words; i += GLOBAL_SIZE) {
        const u32 word = (u32)(a.first + i);
        for (u32 place = 0; place < sites_of(l, word); ++place) {
            u8 *const slots = slots_of(l, a, word, place);
            int slot = 0;
            for (int s = 0; s < N_SPECIES; ++s) {
                int count = 0;
                for (int k = 0; k < PLANES; ++k) count |= (int)(plane_of(l, l.stayed, s, k)[word] >> place & 1) << k;
                for (; count > 0; --count) slots[slot++] = (u8)(s + 1);
            }
            while (slot < SLOTS) slots[slot++] = 0;
        }
    }
}

struct PlaneMasksArguments {
    PlaneArguments lattice;
    const u8 *types;       // [plane, y, x] of the slab and the planes beside it; null where there is one
    i64 types_below;       // planes below the slab's own
    const i32 *class_of;   // [from type, to type, species]: class of the probability, -1 for none
    u32 *doors, *type_sites;  // to be filled, see PlaneArguments; may be null
};

// Type behind a side of a site; -1 where no particle can hop.
DEVICE int type_beside(const Lattice &l, const PlaneMasksArguments &a, i64 z, i64 y, i64 x, int axis, int side) {
    const i64 by = side == MINUS ? -1 : 1;
    i64 at[3] = {x, y, z + l.first_plane};
    const i64 size[3] = {l.nx, l.ny, l.nz};
    at[axis] += by;
    if (at[axis] < 0 || at[axis] == size[axis]) {
        const int face = face_of(axis, side);
        if (face_kind(face) == REFLECTING) return -1;
        if (face_kind(face) == ABSORBING || face_kind(face) == HELD) return ghost_type(face);
        at[axis] += at[axis] < 0 ? size[axis] : -size[axis];
    }
    if (!a.types) return 0;
    i64 plane = axis == 2 ? z + by + a.types_below : z + a.types_below;
    if (axis == 2 && !a.types_below) plane = at[2] - l.first_plane;  // the whole lattice
    return a.types[(plane * l.ny + at[1]) * l.nx + at[0]];
}

// Sites of each type, and where particles can hop with which probability.
KERNEL(planes_masks, const PlaneMasksArguments a) {
    const Lattice l = lattice_of(a.lattice);
    for (i64 word = GLOBAL_ID; word < l.words; word += GLOBAL_SIZE) {
        const WordPlace at = place_of_word(l, (u32)word);
        for (int t = 0; a.type_sites && t < N_TYPES; ++t) a.type_sites[t * l.stride + word] = 0;
        for (int c = 0; a.doors && c < 6 * HOP_CLASSES; ++c) a.doors[c * l.stride + word] = 0;
        for (u32 place = 0; place < sites_of(l, (u32)word); ++place) {
            const i64 x = 32 * (i64)at.x + place;
            const int from = a.types ? a.types[((at.z + a.types_below) * l.ny + at.y) * l.nx + x] : 0;
            if (a.type_sites) a.type_sites[from * l.stride + word] |= 1u << place;
            if (!a.doors) continue;
            for (int i = 0; i < 6; ++i) {
                const int to = type_beside(l, a, at.z, at.y, x, i / 2, i % 2);
                for (int s = 0; s < N_SPECIES; ++s) {
                    const int found = to < 0 ? -1 : a.class_of[(from * N_TYPES + to) * N_SPECIES + s];
                    if (found >= 0) a.doors[(i * HOP_CLASSES + found) * l.stride + word] |= 1u << place;
                }
            }
        }
    }
}
