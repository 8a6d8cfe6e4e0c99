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
    int buffer;  // of `moved`, that is read; the next one is written
    u64 step;
    u64 *counts;  // of the state at the end of the step, see `count_words`; may be null
};

DEVICE StepDraws draws_of_hops(const Lattice &l, const Pass &pass) {
    return step_draws(l.seed, pass.step + (pass.arrives == 2), (u32)l.replica);
}

// Adds numbers of particles to `counts` [type, species].
DEVICE void count_words(const Lattice &l, const WordGroup &g, const Desk &desk, u64 *counts) {
    NO_UNROLL for (int t = 0; t < N_TYPES; ++t) {
        const Bits of_type = N_TYPES == 1 ? on_words(~0u) : load_words(l.type_sites + t * l.stride + g.first);
        each_species(desk, [&](int species) {
            u32 found = 0;
            UNROLL for (int i = 0; i < PLANES; ++i) found += bits_in(bits_on(desk, species, i) & of_type) << i;
            add_together(counts + t * N_SPECIES + species, found);
        });
    }
}

// The end of a step: one warp finds crowded sites and candidates for reactions, all do the reactions, and one lets in
// particles that waited.
DEVICE void end_step(const Lattice &l, const WordGroup &g, const Pass &pass, const StepDraws &s, const Bits &number,
                     Desk &desk) {
    if (leads(desk)) {
        const Bits over = crowded(desk);
        if (any_site(over)) {
            settle_crowds(*l.kept, s, g, pass.step, 2, pass.buffer, over, desk);
            note_of(desk) = 1;
        }
        find_candidates(l, s, number, g, desk);
    }
    meet(desk);
    if (N_CAUSES && any_listed(desk)) {
        react(l, s, g, pass.step, desk);
        meet(desk);
    }
    if (note_of(desk)) {
        if (leads(desk))
            NO_UNROLL for (int i = 0; i < PLANE_WORDS; ++i)
                if (g.first + (u32)i < (u32)l.words)
                    place_waiting(*l.kept, pass.step, g.first + (u32)i, first_own() + i, desk);
        meet(desk);
    }
}

// Puts counts on the desk, with what came along an axis.
DEVICE void take_in(const Lattice &l, const WordGroup &g, const Pass &pass, const Bits &number, Desk &desk) {
    const StepDraws s = step_draws(l.seed, pass.step, (u32)l.replica);
    turn(desk);
    // By one lane: the compiler makes others wait for what all have.
    const bool asks = pass.arrives == 2 && leads(desk) && first_own() == 0;
    const u64 waits = asks ? read_now(l.work + WAITING_0 + (pass.step & 1)) : 0;
    const Flags flags = load_flags(l, g, pass.arrives, pass.buffer, desk.species);
    Sources from = sources_of<MOVED_PLANES>(g, moved_plane(l, pass.buffer, PLUS, 0), moved_plane(l, pass.buffer, MINUS, 0));
    const u32 *own = stayed_at(l, g.first, 0);
    if (TEAM_WARPS == 1) {  // others are one product away
        ADDRESS_HERE(own);
        ADDRESS_HERE(from.ups);
        ADDRESS_HERE(from.downs);
    }
    each_species(desk, [&](int species) {
        Bits n[PLANES];
        UNROLL for (int i = 0; i < PLANES; ++i) n[i] = load_words(after(own, l.plane_bytes, species * PLANES + i));
        const Incoming in = load_incoming(l, g, pass.arrives, pass.buffer, from, species);
        if (pass.arrives >= 0) {
            arrive(l, g, pass.arrives, pass.buffer, from, species, in, flags, n);
            arrive_from_faces(l, s, g, pass.arrives, species, n);
        }
        put(desk, species, n);
    });
    if (leads(desk) && first_own() == 0) note_of(desk) = waits != 0;
    meet_others(desk);
    if (pass.arrives == 2) {
        end_step(l, g, pass, s, number, desk);
    } else if (pass.arrives >= 0) {
        const Bits over = crowded(desk);
        if (any_site(over)) settle(*l.kept, s, g, pass.step, pass.arrives, pass.buffer, over, desk);
    }
}

// What leaves along an axis. Along those of which threads that go together have whole lines it arrives at once, and
// what leaves along the next one follows: a loop, so that there is one text. Where sites would be crowded it is decided
// again, and arrives from memory.
DEVICE void leave(const Lattice &l, const WordGroup &g, const Pass &pass, const Bits &number, Desk &desk) {
    const StepDraws s = draws_of_hops(l, pass);
    const WordSeries series = word_series(s, number);
    const int buffer = next_buffer(pass.buffer);
    Bits over = {};
    bool again = false;
    NO_UNROLL for (int axis = pass.departs;;) {
        const bool exchanges = PLANE_LANES > 1 && axis < l.axes_together, keeps = !exchanges || again;
        const LanesBeside lanes = exchanges ? lanes_beside(l, axis) : LanesBeside{};
        Bits more = {};
        Desk next = desk;
        turn(next);
        each_species(desk, [&](int species) {
            Bits n[PLANES];
            Moves moves;
            take(desk, species, n);
            decide(l, s, series, g, axis, species, n, moves, desk);
            if (keeps) {
                keep_moves(l, g, buffer, species, moves, more);
                store_counts(l, g, species, n);
            }
            if (!exchanges) return;
            exchange(g, axis, lanes, moves, n);
            arrive_from_faces(l, s, g, axis, species, n);
            put(next, species, n);
        });
        if (keeps) store_words(more_of(l, buffer, desk.species) + moved_index(l, g.first), more);
        if (!exchanges) return;
        meet_others(desk);
        if (again) {
            settle(*l.kept, s, g, pass.step + (pass.arrives == 2), axis, buffer, over, next);
        } else {
            over = crowded(next);
            again = any_site(over);
            if (again) continue;
        }
        desk = next;
        again = false;
        ++axis;
    }
}

// What a pass needs no counts for, where each species has a warp: it is done before the words beside are waited for.
DEVICE void do_ahead(const Lattice &l, u32 first, const Pass &pass, Desk &desk) {
    if (TEAM_WARPS == 1) return;
    WordGroup g = {};
    g.first = first;
    const Bits number = on_words(word_number(l, first));
    fetch_masks(l, g, pass.arrives == 2, pass.departs, desk);
    if (N_CAUSES && pass.arrives == 2 && leads(desk)) thin_ahead(l, step_draws(l.seed, pass.step, (u32)l.replica), number, desk);
    const StepDraws s = draws_of_hops(l, pass);
    decide_ahead(l, s, word_series(s, number), g, pass.departs, desk);
}

// Words of a pass.
DEVICE_SHARED void do_words(const Lattice &l, u32 first, const Pass &pass, const Way &way, Desk &desk) {
    WordGroup g = {};
    g.first = first;
    look_around(l, way, g);
    Bits number;
    UNROLL for (int i = 0; i < PLANE_WORDS; ++i) word_of(number, i) = word_number(l, first + (u32)i);
    take_in(l, g, pass, number, desk);
    if (pass.counts) count_words(l, g, desk, pass.counts);
    if (pass.departs >= 0) {
        leave(l, g, pass, number, desk);
        return;
    }
    each_species(desk, [&](int species) {
        Bits n[PLANES];
        take(desk, species, n);
        store_counts(l, g, species, n);
    });
}

// Whether passes of a launch follow one another without a barrier of the grid.
constexpr bool FOLLOWS = PLANE_LANES > 1 && TEAM_WARPS == 1;

// Progress of the passes of a launch. Teams take words in order, pass after pass, so a pass begins while the last words of
// the previous one are computed. A chunk has as many words as a plane, or more: along any axis particles hop to its words
// from this chunk and its two neighbours only.
struct Progress {
    // [chunk]: completed groups of 32 words, of all passes; then completed chunks, of even and of odd passes; then the same
    // again, counted after the last group of a pass has emptied the list of waiting particles. Of teams of several warps:
    // [group]: its completed passes.
    u32 *done;
    u32 chunks, each;  // number of chunks; groups of 32 words in each, but for the last, which has more
    Divisor by_each;
    u64 *taken;        // groups that warps took after their first ones; null for teams of several warps, which have fixed groups
    u32 next;          // group that the team computes next, counted from the first of the pass
    u32 pass, complete;  // number of the pass; passes that the team has seen completed
    u32 turn;            // groups that the team has computed
};

// Messages between slabs: what hops over their edges. A message has the flags of an edge plane's words, then the planes
// of what leaves each species; those above the lowest are written where flags say so. It is written straight into the
// receiver's memory where that can be reached, and a signal says when it is complete; else into memory that the host sends.
struct Edges {
    u32 *to_below, *to_above;      // for the slabs below and above, of a pass with departures along z; null: for none
    u32 *from_below, *from_above;  // from them, of a pass with arrivals along z
    i64 apart;                     // how far messages of odd number are behind those of even number
    u64 *below_signal, *above_signal;                  // get the number of a message that is complete; may be null
    const u64 *from_below_signal, *from_above_signal;  // hold that of the last one that came; null: it has come
    u64 *counter;  // completed words of edge planes; 0 before and after a pass
    u64 number;    // of the first message
};

// Which of a launch's blocks this one is.
struct OneBlock {
    i64 number, blocks;
    Progress *progress;  // null where a launch is a pass
    const Edges *edges;  // null for a lattice that is not cut
};

// Moves a word between `moved` and place `i` of a message.
template <bool PACKS>
DEVICE void travel(const Lattice &l, int buffer, u32 *message, i64 place, i32 i, i32 index, int side) {
    if (!message) return;
    message += place;
    u32 more = PACKS ? 0 : message[i];
    UNROLL for (int s = 0; s < MORE_SETS; ++s) {
        u32 &flags = more_of(l, buffer, s)[index];
        if (PACKS)
            more |= flags;
        else
            flags = more;
    }
    if (PACKS) message[i] = more;
    const auto move = [&](int s, int k) {
        u32 *const here = moved_at(l, index, buffer, side, s, k), *const there = message + (1 + s * PLANES + k) * l.plane + i;
        (PACKS ? *there : *here) = PACKS ? *here : *there;
    };
    UNROLL for (int s = 0; s < N_SPECIES; ++s) UNROLL for (int k = 0; k < LOW_PLANES; ++k) move(s, k);
    NO_UNROLL for (int s = 0; more && s < N_SPECIES; ++s)
        NO_UNROLL for (int k = LOW_PLANES; more >> s & 1 && k < PLANES; ++k) move(s, k);
}

// Takes in messages, or writes them, of words that lie in edge planes.
template <bool PACKS>
DEVICE_SELDOM void travel_words(const Lattice &l, const Edges &e, int buffer, u32 first, i64 place) {
    NO_UNROLL for (u32 word = first; word < first + PLANE_WORDS && word < (u32)l.words; ++word) {
        const i32 own = moved_index(l, word), low = (i32)word, high = low - (i32)l.words + l.plane;
        if (low < l.plane) travel<PACKS>(l, buffer, PACKS ? e.to_below : e.from_below, place, low, PACKS ? own : own - l.plane, PACKS ? MINUS : PLUS);
        if (high >= 0) travel<PACKS>(l, buffer, PACKS ? e.to_above : e.from_above, place, high, PACKS ? own : own + l.plane, PACKS ? PLUS : MINUS);
    }
}

// How many of some words lie in edge planes.
DEVICE i64 edge_words(const Lattice &l, i64 first, i64 many) {
    const i64 end = first + many < l.words ? first + many : l.words, high = l.words - l.plane > l.plane ? l.words - l.plane : l.plane;
    const i64 lower = (end < l.plane ? end : l.plane) - first, upper = end - (first > high ? first : high);
    return (lower > 0 ? lower : 0) + (upper > 0 ? upper : 0);
}

// Whether words of edge planes are among those that lanes compute together, from `first` on.
DEVICE bool touches_edges(const Lattice &l, u32 first) {
    return first < (u32)l.plane || first + PLANE_LANES * PLANE_WORDS + (u32)l.plane > (u32)l.words;
}

// Messages are numbered by steps.
DEVICE u64 message_of(const Lattice &l, const Edges &e, u64 step) {
    return e.number + (step - l.step);
}

// A pass along z applies the messages of the neighbours before it takes words in.
DEVICE_SELDOM void take_messages(const Lattice &l, const Edges &e, int buffer, u64 step, u32 first) {
    const u64 message = message_of(l, e, step);
    if (e.from_below_signal) wait_for_signal(e.from_below_signal, message);
    if (e.from_above_signal) wait_for_signal(e.from_above_signal, message);
    travel_words<false>(l, e, buffer, first + (u32)first_own(), (i64)(message & 1) * e.apart);
}

// The messages to others, when words are computed. Who writes the last words of a message signals.
DEVICE_SELDOM void write_messages(const Lattice &l, const Edges &e, int buffer, u64 step, u32 first) {
    const u64 message = message_of(l, e, step);
    travel_words<true>(l, e, buffer, first + (u32)first_own(), (i64)(message & 1) * e.apart);
    threadfence_system();
    lanes_meet();
    if (first_own() != 0) return;
    const i64 many = edge_words(l, first, PLANE_LANES * PLANE_WORDS);
    if ((i64)atomic_add(e.counter, (u64)many) + many != edge_words(l, 0, l.words)) return;
    *e.counter = 0;
    threadfence_system();  // of all blocks
    if (e.below_signal) send_signal(e.below_signal, message);
    if (e.above_signal) send_signal(e.above_signal, message);
}

DEVICE void take_messages(const Lattice &l, const OneBlock &block, const Pass &pass, u32 first, const Desk &desk) {
    if (!CUT) return;
    if (pass.arrives == 2 && touches_edges(l, first) && leads(desk))
        take_messages(*l.kept, *block.edges, pass.buffer, pass.step, first);
    meet(desk);
}

DEVICE void give_messages(const Lattice &l, const OneBlock &block, const Pass &pass, u32 first, const Desk &desk) {
    if (!CUT) return;
    meet(desk);
    if (pass.departs == 2 && touches_edges(l, first) && leads(desk))
        write_messages(*l.kept, *block.edges, next_buffer(pass.buffer), pass.step, first);
    meet(desk);
}

#ifdef LANES_SIDE_BY_SIDE
DEVICE u32 items_of_chunk(const Progress &p, u32 items, u32 chunk) {
    return chunk + 1 < p.chunks ? p.each : items - chunk * p.each;
}

DEVICE u32 chunk_of(const Progress &p, u32 item) {
    const u32 chunk = quotient_of(item, p.by_each);
    return chunk < p.chunks ? chunk : p.chunks - 1;
}

// Waits until the pass before is done by the words from which something comes, and by those that read what this pass
// overwrites; and until the pass before that is done everywhere.
DEVICE void wait_for_words(Progress &p, u32 items, u32 item, const Desk &desk) {
    if (leads(desk) && p.complete != p.pass) {
        const u32 lane = (u32)first_own(), beside = chunk_of(p, item) + p.chunks + lane - 1;
        const u32 chunk = beside % p.chunks, all = (p.pass + 1) / 2 * p.chunks;
        const u32 cell = lane < 3 ? chunk : p.chunks + 2 + (p.pass + lane + 1) % 2;
        const u32 least = lane < 3 ? p.pass * items_of_chunk(p, items, chunk) : lane == 3 ? p.pass / 2 * p.chunks : 0;
        const u32 now = lane < 5 ? wait_for_count(p.done + cell, least) : 0;
        if (LANES_READ(32, now, 4) == all) p.complete = p.pass;
    }
    meet(desk);
}

// Counts a group of words as done. The last of a pass also empties the list of particles that waited until its
// step ended.
DEVICE void count_words_as_done(const Lattice &l, const Progress &p, u32 items, u32 item, const Pass &pass, const Desk &desk) {
    meet(desk);
    if (!leads(desk)) return;
    const u32 chunk = chunk_of(p, item), each = items_of_chunk(p, items, chunk), of_pass = p.chunks + p.pass % 2;
    const bool last = add_and_release_if(true, p.done + chunk) + 1 == (p.pass + 1) * each;
    acquire_if(last);
    const bool ends = (add_and_release_if(last, p.done + of_pass) + 1 == (p.pass / 2 + 1) * p.chunks) & last;
    acquire_if(ends);
    if (ends && pass.arrives == 2 && l.may_wait) l.work[WAITING_0 + (pass.step & 1)] = 0;
    add_and_release_if(last, p.done + of_pass + 2);
}

// Teams of several warps, where no particle may wait: waits until the pass before is done by the groups from whose words
// particles arrive, on the minus side by the first warp and on the plus side by the second.
DEVICE void wait_for_teams(const Lattice &l, const Progress &p, const Way &way, u32 word, const Desk &desk) {
    const bool asks = way.axis >= 0 && desk.species < 2 && word < (u32)l.words;
    const i32 beside = asks ? beside_word(l, word, place_of_word(l, word), way, desk.species) : -1;
    wait_for_blocks(beside < 0 ? nullptr : p.done + beside / 32, p.pass);
}
#endif

// All words of the slab. Threads of a CPU take words side by side; teams of a GPU, far apart.
DEVICE void do_pass(const Lattice &l, const OneBlock &block, const Pass &given) {
    const Way way = way_along(l, given.arrives);
#ifdef LANES_SIDE_BY_SIDE
    SHARED TeamMemory memory[TEAMS];
    const u32 teams = TEAMS, team = uniform((u32)THREAD_ID / TEAM_SIZE % TEAMS);
    const bool helps = HELPED && uniform((u32)THREAD_ID / (TEAMS * TEAM_SIZE)) != 0;
    const u32 species = uniform((u32)THREAD_ID % TEAM_SIZE / 32), each = (u32)block.blocks * teams;
    Desk desk = {memory + team, memory[team].counts, memory[team].ahead, (int)team, (int)species};
    SHARED Pass passes[HELPED ? 2 * TEAMS : TEAMS];
    Pass &pass = passes[helps ? TEAMS + team : team];
    pass = given;
    if (!helps) meet(desk);
    Progress *const p = block.progress;
    const u32 items = ((u32)l.words + 31) / 32;
    const bool takes = TEAM_WARPS == 1 && p && p->taken;
    // Words of edge planes come first where they are to be sent. Where passes follow one another they come halfway: a
    // message is complete half a pass before it is needed half a pass later.
    const u32 start = !CUT ? 0 : p ? p->chunks / 2 * p->each : pass.departs == 2 ? items - ((u32)l.plane + 31) / 32 : 0;
    const auto place_of = [&](u32 number) {
        const u32 place = start + number, again = place - items;  // below `place` where it is not below 0
        return !CUT || place < again ? place : again;
    };
    u32 turn = p ? p->turn : 0;
    u32 number = uniform(FOLLOWS && p ? p->next : (u32)block.number * teams + team);
    while (number < items) {
        const u32 item = place_of(number), first = 32 * item;
        if (HELPED) desk.ahead = memory[team].ahead + turn++ % 2;
        if (!HELPED || helps) do_ahead(l, first + (u32)first_own(), pass, desk);
        if (helps) {
            meet_helpers(desk);
            number += each;
            continue;
        }
        if (FOLLOWS && p) wait_for_words(*p, items, item, desk);
        if (!FOLLOWS && p) wait_for_teams(l, *p, way, first + (u32)first_own(), desk);
        if (!FOLLOWS && (p || HELPED)) meet_helpers(desk);
        take_messages(l, block, pass, first, desk);
        do_words(l, first + (u32)first_own(), pass, way, desk);
        give_messages(l, block, pass, first, desk);
        // Not earlier: a warp that also held its next group would let others wait for both.
        const u64 taken = takes && first_own() == 0 ? atomic_add(p->taken, 1) : 0;
        if (FOLLOWS && p) count_words_as_done(l, *p, items, item, pass, desk);
        if (!FOLLOWS && p) {
            meet(desk);
            signal_blocks(p->done + item, p->pass + 1);
        }
        number = uniform(each + (takes ? LANES_READ(32, (u32)taken, 0) - p->pass * items : number));
    }
    if (p) p->next = number - items, p->turn = turn, ++p->pass;
#else
    const Pass &pass = given;
    const i64 groups = (l.words + PLANE_WORDS - 1) / PLANE_WORDS, end = groups * (block.number + 1) / block.blocks;
    Desk desk = {};
    for (i64 i = groups * block.number / block.blocks; i < end; ++i) {
        const u32 first = (u32)(i * PLANE_WORDS);
        take_messages(l, block, pass, first, desk);
        do_words(l, first, pass, way, desk);
        give_messages(l, block, pass, first, desk);
    }
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
    u32 *progress;       // [chunks + 4, or groups], of 0: see `Progress`
    i64 chunks, chunk;
    Divisor by_chunk;
    Edges edges;
    const PlaneStepsArguments *beside;  // [lattice] of those that share the blocks; null: this one has all
    i64 lattices;
};

// Arguments of a lattice that differ from those of the first beside it.
DEVICE PlaneArguments own_arguments(PlaneArguments first, const PlaneArguments &own) {
    first.stayed = own.stayed, first.moved = own.moved, first.more = own.more;
    first.doors = own.doors, first.type_sites = own.type_sites;
    first.chances = own.chances, first.cause_types = own.cause_types;
    first.thinned = own.thinned, first.thinning = own.thinning;
    first.fired = own.fired, first.work = own.work;
    first.waiting = own.waiting, first.heads = own.heads, first.capacity = own.capacity;
    first.step = own.step, first.replica = own.replica;
    return first;
}

// Whole steps of a lattice, of several, or of a slab whose neighbours take the same ones meanwhile. All blocks run at the
// same time.
BLOCK_KERNEL(BLOCK_LANES, PLANE_BLOCKS, planes_steps, const PlaneStepsArguments a) {
    SHARED Edges edges;
    if (CUT && THREAD_ID == 0) edges = a.edges;
    const bool several = PLANE_LANES > 1 ? BESIDE : a.beside != nullptr;
    const i64 blocks = several ? BLOCKS / a.lattices : BLOCKS, number = several ? BLOCK_ID % blocks : BLOCK_ID;
    const PlaneStepsArguments *const own = several ? a.beside + BLOCK_ID / blocks : nullptr;
    if (several && BLOCK_ID / blocks >= a.lattices) return;
    LATTICE_IN_BLOCK(l, several ? own_arguments(a.lattice, own->lattice) : a.lattice);
    u64 *const rows = several ? own->counts : a.counts;
    const u32 each = PLANE_LANES > 1 ? (u32)a.chunk : 1, first = PLANE_LANES > 1 ? uniform((u32)number * TEAMS + (u32)THREAD_ID / TEAM_SIZE % TEAMS) : 0;
    Progress progress = {several ? own->progress : a.progress, (u32)a.chunks, each, a.by_chunk, TEAM_WARPS == 1 ? l.work + WORDS_TAKEN : nullptr, first, 0, 0, 0};
    const bool meets = !FOLLOWS && l.may_wait;  // all blocks, after each pass
    OneBlock block = {number, blocks, meets ? nullptr : &progress, CUT ? &edges : nullptr};
    u32 arrivals = 0;
    i32 mark = 0, ended = 0;
    int arrives = -1, axis = 0, buffer = 0;
    for (;;) {
        const u64 step = l.step + (u64)ended;  // that goes on, or begins
        const bool counts = axis == 0 && mark < a.n_marks && a.marks[mark] == ended;
        const bool settles = counts || (axis == 0 && ended == a.steps);
        u64 *const row = counts ? rows + mark * a.columns : nullptr;
        if (meets && arrives == 1 && number == 0 && THREAD_ID == 0)
            l.work[WAITING_0 + ((step + 1) & 1)] = 0;
        do_pass(l, block, {arrives, settles ? -1 : axis, buffer, step - (arrives == 2), row});
        if (meets || settles) grid_barrier(l.work + BARRIER_CELL, blocks, arrivals);
        if (settles) {
            if (!counts) return;
            arrives = -1;
            count_rest(l, block, step & 1, row);
            ++mark;
            if (ended == a.steps && mark == a.n_marks) return;
            grid_barrier(l.work + BARRIER_CELL, blocks, arrivals);
            continue;
        }
        buffer = next_buffer(buffer);
        if (PLANE_LANES > 1 && axis < l.axes_together) axis = (int)l.axes_together;
        arrives = axis;
        ended += axis == 2;
        axis = (axis + 1) % 3;
    }
}

struct PlanePassArguments {
    PlaneArguments lattice;
    i64 arrives, departs, buffer;
    Edges edges;
};

// A pass of a slab. Messages that it takes in have come.
BLOCK_KERNEL(BLOCK_LANES, PLANE_BLOCKS, planes_pass, const PlanePassArguments a) {
    SHARED Edges edges;
    if (CUT && THREAD_ID == 0) edges = a.edges;
    LATTICE_IN_BLOCK(l, a.lattice);
    if (a.arrives == 1 && BLOCK_ID == 0 && THREAD_ID == 0) l.work[WAITING_0 + ((l.step + 1) & 1)] = 0;
    do_pass(l, {BLOCK_ID, BLOCKS, nullptr, CUT ? &edges : nullptr},
            {(int)a.arrives, (int)a.departs, (int)a.buffer, l.step, nullptr});
}

struct PlaneWaitArguments {
    const u64 *below_signal, *above_signal;  // null where none is to come
    u64 number;                              // of the message
};

// Waits for the signals of a message.
BLOCK_KERNEL(32, 1, planes_wait, const PlaneWaitArguments a) {
    if (BLOCK_ID != 0 || THREAD_ID != 0) return;
    if (a.below_signal) wait_for_signal(a.below_signal, a.number);
    if (a.above_signal) wait_for_signal(a.above_signal, a.number);
}

struct PlaneCountArguments {
    PlaneArguments lattice;
    u64 *counts;  // [column], of 0
    u64 *filled;  // [plane], of 0: words that hold particles; may be null
};

// Counts a lattice between batches of steps.
BLOCK_KERNEL(BLOCK_LANES, PLANE_BLOCKS, planes_count, const PlaneCountArguments a) {
    LATTICE_IN_BLOCK(l, a.lattice);
    do_pass(l, {BLOCK_ID, BLOCKS, nullptr, nullptr}, {-1, -1, 0, l.step, a.counts});
    count_rest(l, {BLOCK_ID, BLOCKS, nullptr, nullptr}, l.step & 1, a.counts);
    if (!a.filled) return;
    for (i64 word = BLOCK_ID * BLOCK_THREADS + THREAD_ID; word < l.words; word += BLOCKS * BLOCK_THREADS) {
        u32 some = 0;
        for (int k = 0; k < N_SPECIES * PLANES; ++k) some |= *stayed_at(l, (u32)word, 0, k);
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
            for (int k = 0; k < PLANES; ++k) *stayed_at(l, word, s, k) = planes[s][k];
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
                for (int k = 0; k < PLANES; ++k) count |= (int)(*stayed_at(l, word, s, k) >> place & 1) << k;
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
