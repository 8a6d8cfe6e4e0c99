// Counts of a lattice in bit planes: bit i of the number of particles of a species in each of 32 sites is a word.
//
//     stayed   [species, plane, word]          particles that do not move, or all between batches of steps; none in
//                                              words after the last, which threads compute together with it
//     moved    [buffer, side, species, plane, word]  particles on their way along an axis, from the word in which they
//                                              were; buffers by turns (of both see also `place_in_planes`)
//     more     [buffer, set, word]                  whether planes 2 and above of `moved` are written: a bit for each species
//
// Counts of the words that are at work lie on a desk, and a thread takes up one species after another. On a GPU that
// has few words (TEAMED) a team has a warp for each species. The warps of a team share the desk, in the block's memory.
// Words are numbered [z, y, x / 32]; the last of a row may have fewer sites. A pass takes in what came along an axis,
// and decides what leaves along the next one; a step is three passes.
#pragma once

#include "lattice/planes/words.h"
#include "model.h"

// Bits of a count of up to SLOTS particles.
constexpr int PLANES = SLOTS > 16 ? 6 : SLOTS > 8 ? 5 : 4;
static_assert(SLOTS == 1 << (PLANES - 1));
constexpr int TEAM_WARPS =
    PLANE_LANES > 1 && TEAMED ? N_SPECIES : 1;       // each has a species, or one has all
constexpr int TEAM_SIZE = PLANE_LANES * TEAM_WARPS;  // threads of a team
constexpr int MORE_SETS = TEAM_WARPS;
static_assert(TEAM_WARPS == 1 || TEAMS == 1, "blocks signal for one team");
// Where words are fewest, each warp of a team has a helper, which decides about the hops of the first particles of sites
// before counts are known (`do_ahead`).
constexpr bool HELPED = LEVELS_AHEAD > 0;
constexpr int AHEAD = TEAM_WARPS > 1 && MOST_CLASSES > 0 ? LEVELS_AHEAD : 0;
constexpr int AHEAD_BLOCKS = 3;  // of random bits at once: few of 1,024 sites need more
// Threads of a block.
constexpr int BLOCK_LANES = TEAMS * TEAM_SIZE * (PLANE_LANES > 1 && HELPED ? 2 : 1);
// Where blocks wait for those only whose words lie beside theirs, others may be as many passes ahead as a step has.
constexpr int BUFFERS = TEAM_WARPS > 1 && !CUT ? 4 : 2;
DEVICE int next_buffer(int buffer) {
    return (buffer + 1) % BUFFERS;
}
constexpr int LOW_PLANES = 2;  // of `moved`, that are always written
// Whether threads that go together have whole rows, and whole planes.
constexpr bool EXCHANGE_ALONG_X = PLANE_LANES > 1 && WHOLE_ROWS,
               EXCHANGE_ALONG_Y = EXCHANGE_ALONG_X && WHOLE_PLANES;

enum FaceKind { PERIODIC = 0, REFLECTING = 1, ABSORBING = 2, HELD = 3 };
enum Side { MINUS = 0, PLUS = 1 };

// A particle that waits for room at its site, see lattice/site/waiting.h; `next` is of the same word.
struct Waiting {
    u64 site, age;
    u32 particle;
    i32 next;
};

// Words of `PlaneArguments::work`: those of lattice/site/work.h.
enum PlaneWork {
    WAITING_0 = 0,
    SPILLS = 2,
    LIST_FULL = 3,
    BARRIER_CELL = 7,
    WORDS_TAKEN = 8,
    TRUNCATED = 13
};
// Places in an age, see lattice/site/waiting.h.
constexpr u32 SPILL_OF_AXIS = 0x1000, SPILL_REACTION = 0x3000, MOST_SPILLED = 0xb000;

// Division by a number that is the same for long: n / d = n * factor / 2^shift for all n below 2^31.
struct Divisor {
    u32 factor;
    i32 shift;
};

DEVICE u32 quotient_of(u32 n, const Divisor &by) {
    return (u32)((u64)n * by.factor >> by.shift);
}

struct PlaneArguments {
    u32 *stayed, *moved, *more;
    // Sites from which a hop to a side has the probability of a class, [axis, side, class, word]; null where all
    // sites are alike.
    const u32 *doors;
    const u32 *type_sites;  // of each site type, [type, word]; null where there is one
    const u32 *hop_bits;  // [class, 64]: bits of the threshold, the highest first, each as 0 or ~0
    // Of particles that come in through held faces: see `ghosts_at` in hops.h. Null where there are none.
    const i32 *
        ghost_rows;  // [face, type, species]: where the first of their thresholds is; -1: none come
    const u32 *ghost_bits;   // [threshold, 64]: as hop_bits; the last of a row is 0
    const i32 *tables;       // REACTANTS, PRODUCT_START, PRODUCTS: see kernels/lattice/codegen.py
    const double *chances;   // [reaction, type]: rate times the length of a pass of reactions
    const u32 *cause_types;  // [cause]: a bit for each type in which something happens
    const i32 *
        thinned;  // [entry, 3]: words of a candidate, ascending; type; class of sites (see react.h)
    const i32 *thinning;  // [type, class]: words of a candidate
    u64 *fired;           // [reaction]
    Waiting *waiting;     // [2, capacity]: list (step & 1) is read, the other written
    i32 *heads;           // [2, word]: first entry of a word in each list; -1: none
    u64 *work;            // by PlaneWork
    i64 capacity;
    i64 nx, ny, nz;  // of the whole lattice
    i32 row, plane;  // words along x, and of a plane
    Divisor by_row, by_ny;
    i64 words, stride;        // own words, and how far those of another plane are
    i64 moved_stride;         // of `moved` and `more`, which have planes beside the slab
    i64 planes, first_plane;  // own planes, and the number of the first
    i64 below, above;         // whether there is a plane beside the slab
    i64 wraps;                // whether own planes close a ring along z
    i64 axes_together;        // see `PlanesMemory`
    i64 may_wait;             // the same
    u64 seed, step;
    i64 replica;
};

struct Lattice : PlaneArguments {
    u32 last;                      // sites of the last word of a row, less 1
    u32 plane_bytes, moved_bytes;  // from one plane to the next, see `place_in_planes`
    // The same in the block's memory, for functions that are called: a GPU would put this one, whose address they
    // take, into local memory, and read it from there.
    const Lattice *kept;
};

DEVICE Lattice lattice_of(const PlaneArguments &given) {
    return {given, (u32)(given.nx - 1) % 32,
            PLANE_LANES > 1 ? 4 * PLANE_LANES : (u32)given.stride * 4,
            PLANE_LANES > 1 ? 4 * PLANE_LANES : (u32)given.moved_stride * 4, nullptr};
}

constexpr int FIRST_LEVELS = 3;  // levels that most words have: two blocks of random bits at once

DEVICE u32 hop_address(int axis, int species, int level, int block) {
    return plane_address(HOPS_OF_PLANES + (u32)axis, (u32)(species << 11 | level << 5 | block));
}

#ifdef LANES_SIDE_BY_SIDE
// Tables in the block's memory: after each barrier of the grid a GPU would read them anew from far away.
constexpr int MOST_KEPT = 2048;  // entries of a table
template <class T>
DEVICE const T *keep_in_block(T *kept, int entries, const T *table) {
    if (entries > MOST_KEPT) return table;
    for (int i = THREAD_ID; i < entries; i += BLOCK_THREADS) kept[i] = table[i];
    return kept;
}
#define ROOM_FOR(entries) ((entries) > MOST_KEPT || (entries) == 0 ? 1 : (entries))
#define KEEP_TABLES(l) \
    alignas(16) SHARED u32 kept_bits[ROOM_FOR(64 * HOP_CLASSES)], kept_causes[ROOM_FOR(N_CAUSES)]; \
    SHARED i32 kept_tables[ROOM_FOR(TABLE_ENTRIES)]; \
    SHARED i32 kept_thinned[6 * N_TYPES], kept_thinning[2 * N_TYPES]; \
    SHARED double kept_chances[ROOM_FOR(N_REACTIONS * N_TYPES)]; \
    l.hop_bits = keep_in_block(kept_bits, 64 * HOP_CLASSES, l.hop_bits); \
    l.tables = keep_in_block(kept_tables, TABLE_ENTRIES, l.tables); \
    l.thinned = keep_in_block(kept_thinned, 6 * N_TYPES, l.thinned); \
    l.thinning = keep_in_block(kept_thinning, 2 * N_TYPES, l.thinning); \
    l.chances = keep_in_block(kept_chances, N_REACTIONS * N_TYPES, l.chances); \
    l.cause_types = keep_in_block(kept_causes, N_CAUSES, l.cause_types)
#else
#define KEEP_TABLES(l)
#endif

// The first lines of a kernel that makes passes.
#define LATTICE_IN_BLOCK(l, given) \
    SHARED Lattice kept_lattice; \
    Lattice l = lattice_of(given); \
    KEEP_TABLES(l); \
    l.kept = &kept_lattice; \
    if (THREAD_ID == 0) kept_lattice = l; \
    BARRIER()

// Where a word is: its plane among the slab's, its row, its place in the row.
struct WordPlace {
    i32 z, y, x;
};

DEVICE WordPlace place_of_word(const Lattice &l, u32 word) {
    const u32 rows = quotient_of(word, l.by_row), z = quotient_of(rows, l.by_ny);
    return {(i32)z, (i32)(rows - z * (u32)l.ny), (i32)(word - rows * (u32)l.row)};
}

DEVICE void next_place(const Lattice &l, WordPlace &at) {
    if (++at.x < l.row) return;
    at.x = 0;
    if (++at.y < (i32)l.ny) return;
    at.y = 0;
    ++at.z;
}

// Number of a word in the whole lattice.
DEVICE u32 word_number(const Lattice &l, u32 word) {
    return word + (u32)l.first_plane * (u32)l.plane;
}

// Number of the first site of a word in the whole lattice.
DEVICE u64 first_site(const Lattice &l, u32 word) {
    const WordPlace at = place_of_word(l, word);
    return ((u64)(l.first_plane + at.z) * (u64)l.ny + (u64)at.y) * (u64)l.nx + 32u * (u64)at.x;
}

// Number of sites of a word.
DEVICE u32 sites_of(const Lattice &l, const WordPlace &at) {
    return at.x == l.row - 1 ? l.last + 1 : 32;
}

DEVICE u32 sites_of(const Lattice &l, u32 word) {
    return sites_of(l, place_of_word(l, word));
}

// Index in `moved` of a word and of the one beside it, -1 where there is none.
DEVICE i32 moved_index(const Lattice &l, u32 word) {
    return (i32)word + (i32)l.below * l.plane;
}

// How words lie along an axis.
struct Way {
    i32 axis;
    i32 step, extent;   // from one word to the next, and how many there are
    bool below, above;  // whether there are more beside the slab
    bool round;         // whether the last is beside the first
};

DEVICE Way way_along(const Lattice &l, int axis) {
    Way way = {axis, 1, l.row, false, false, face_kind(4) == PERIODIC};
    if (axis == 1) way = {axis, l.row, (i32)l.ny, false, false, face_kind(2) == PERIODIC};
    if (axis == 2) way = {axis, l.plane, (i32)l.planes, l.below != 0, l.above != 0, l.wraps != 0};
    return way;
}

// The face that a side is.
DEVICE constexpr int face_of(int axis, int side) {
    return 4 - 2 * axis + side;
}

DEVICE i32 place_along(const Way &way, const WordPlace &at) {
    return way.axis == 0 ? at.x : way.axis == 1 ? at.y : at.z;
}

DEVICE i32 beside_word(const Lattice &l, u32 word, const WordPlace &at, const Way &way, int side) {
    const i32 own = moved_index(l, word), place = place_along(way, at);
    const bool edge =
        side == MINUS ? place == 0 && !way.below : place == way.extent - 1 && !way.above;
    const i32 by = side == MINUS ? -way.step : way.step;
    const i32 beside = own + (edge ? (1 - way.extent) * by : by);
    return edge && !way.round ? -1 : beside;
}

// Sites of a word that lie at a face of the lattice.
DEVICE u32 sites_at_face(const Lattice &l, const WordPlace &at, int axis, int side) {
    if (axis == 0) {
        if (at.x != (side == MINUS ? 0 : l.row - 1)) return 0;
        return side == MINUS ? 1 : 1u << l.last;
    }
    const i64 place = axis == 1 ? at.y : l.first_plane + at.z, extent = axis == 1 ? l.ny : l.nz;
    return place == (side == MINUS ? 0 : extent - 1) ? ~0u >> (32 - sites_of(l, at)) : 0;
}

// The words that a thread does together.
struct WordGroup {
    u32 first;                                  // the first of them
    Bits there;                                 // ~0 for those that there are
    Bits inside;                                // sites of each
    Bits last;                                  // sites of each, less 1
    Bits before;                                // the same of those on the minus side along x
    i32 minus[PLANE_WORDS], plus[PLANE_WORDS];  // indices in `moved` of those beside, -1 for none
    bool minus_follows,
        plus_follows;  // whether these follow each other: then the first alone is set
};

DEVICE void look_inside(const Lattice &l, WordPlace at, bool full, WordGroup &g) {
    g.there = g.inside = on_words(~0u);
    g.last = g.before = on_words(31);
    if (PLANE_WORDS > 1 && full && l.last == 31) return;
    UNROLL for (int i = 0; i < PLANE_WORDS; ++i) {
        const bool there = g.first + (u32)i < (u32)l.words;
        const u32 last = at.x == l.row - 1 ? l.last : 31;
        word_of(g.there, i) = there ? ~0u : 0;
        word_of(g.inside, i) = there ? ~0u >> (31 - last) : 0;
        word_of(g.last, i) = last;
        word_of(g.before, i) = at.x == 0 ? l.last : 31;
        if (PLANE_WORDS > 1) next_place(l, at);
    }
}

DEVICE void look_around(const Lattice &l, const Way &way, WordGroup &g) {
    const u32 first = g.first;
    const int axis = way.axis;
    WordPlace at = place_of_word(l, first);
    const bool full = first + PLANE_WORDS <= (u32)l.words;
    look_inside(l, at, full, g);
    g.minus_follows = g.plus_follows = false;
    if (PLANE_WORDS > 1 && axis > 0 && full) {
        // Along an axis at most one of them is the first that goes round, or comes from there.
        const u32 last = first + PLANE_WORDS - 1;
        const WordPlace end = place_of_word(l, last);
        const bool ordered = axis == 2 || at.z == end.z;
        g.minus[0] = beside_word(l, first, at, way, MINUS);
        g.plus[0] = beside_word(l, first, at, way, PLUS);
        g.minus_follows = ordered && g.minus[0] >= 0 &&
                          beside_word(l, last, end, way, MINUS) == g.minus[0] + PLANE_WORDS - 1;
        g.plus_follows = ordered && g.plus[0] >= 0 &&
                         beside_word(l, last, end, way, PLUS) == g.plus[0] + PLANE_WORDS - 1;
        if (g.minus_follows && g.plus_follows) return;
    }
    UNROLL for (int i = 0; i < PLANE_WORDS; ++i) {
        const u32 word = first + (u32)i;
        const bool comes = axis >= 0 && word < (u32)l.words;
        const i32 minus = beside_word(l, word, at, way, MINUS), plus = beside_word(l, word, at, way, PLUS);
        g.minus[i] = comes ? minus : -1;
        g.plus[i] = comes ? plus : -1;
        if (PLANE_WORDS > 1) next_place(l, at);
    }
}

// Where a word is in each of so many planes. A GPU has the 32 words of a warp in all planes together, so that one address
// serves for all; then a plane begins 32 words behind the one before. A CPU has plane after plane.
template <int MANY>
DEVICE i64 place_in_planes(i32 word) {
    return PLANE_LANES > 1 ? word + (i64)(word / PLANE_LANES) * ((MANY - 1) * PLANE_LANES) : word;
}
constexpr int STAYED_PLANES = N_SPECIES * PLANES, MOVED_PLANES = 2 * N_SPECIES * PLANES;

// Words beside those of a group, of a plane among so many: where they lie, for `load_beside`.
template <int MANY>
DEVICE const u32 *beside_at(const u32 *plane, const i32 *index) {
    return PLANE_WORDS > 1 ? plane : plane + place_in_planes<MANY>(index[0]);
}

DEVICE Bits load_beside(const u32 *from, const i32 *index, bool follow) {
    if (PLANE_WORDS > 1 && follow) return load_words(from + index[0]);
    Bits bits{};  // g++ 13 warns without
    UNROLL for (int i = 0; i < PLANE_WORDS; ++i) word_of(bits, i) =
        index[i] >= 0 ? from[PLANE_WORDS > 1 ? index[i] : 0] : 0;
    return bits;
}

// A plane of so many after one, where planes are so many bytes apart: one instruction.
template <class T>
DEVICE T *after(T *plane, u32 bytes, int number) {
    return (T *)((char *)plane + (u64)bytes * (u32)number);
}

// Words in a plane of particles that do not move.
DEVICE u32 *stayed_at(const Lattice &l, u32 word, int species, int plane = 0) {
    return after(l.stayed + place_in_planes<STAYED_PLANES>((i32)word), l.plane_bytes, species * PLANES + plane);
}

// A plane of those on their way, see `place_in_planes<MOVED_PLANES>`.
DEVICE u32 *moved_plane(const Lattice &l, int buffer, int side, int species, int plane = 0) {
    return after(l.moved + buffer * MOVED_PLANES * l.moved_stride, l.moved_bytes,
                 (side * N_SPECIES + species) * PLANES + plane);
}

DEVICE u32 *moved_at(const Lattice &l, i32 index, int buffer, int side, int species, int plane = 0) {
    return moved_plane(l, buffer, side, species, plane) + place_in_planes<MOVED_PLANES>(index);
}

// Flags of a species.
DEVICE u32 *more_of(const Lattice &l, int buffer, int species) {
    return l.more + (buffer * MORE_SETS + species % MORE_SETS) * l.moved_stride;
}

// ---------------------------------------------------------------- numbers in planes

// Sites that hold more than `level` particles.
DEVICE Bits beyond(const Bits (&n)[PLANES], int level) {
    Bits found = on_words(~0u);
    UNROLL for (int i = 0; i < PLANES; ++i) found =
        (level + 1) >> i & 1 ? n[i] & found : n[i] | found;
    return found;
}

// Sites with more particles than planes hold get more than SLOTS, so that `crowded` finds them.
DEVICE void saturate(Bits (&n)[PLANES], Bits sites) {
    n[0] |= sites, n[PLANES - 1] |= sites;
}

// Adds a bit of weight 2^FIRST to each count; returns the carry.
template <int FIRST>
DEVICE Bits count_up(Bits (&n)[PLANES], Bits bit, int end = PLANES) {
    UNROLL for (int i = FIRST; i < PLANES; ++i) {
        if (i >= end) break;
        const Bits carry = n[i] & bit;
        n[i] ^= bit;
        bit = carry;
    }
    return bit;
}

// The same of weight 2^plane, which the compiler knows.
DEVICE Bits add_bit(Bits (&n)[PLANES], int plane, Bits bit) {
    UNROLL for (int i = LOW_PLANES; i < PLANES; ++i) {
        if (i < plane) continue;
        const Bits carry = n[i] & bit;
        n[i] ^= bit;
        bit = carry;
    }
    return bit;
}

DEVICE void subtract(Bits (&n)[PLANES], const Bits (&m)[PLANES]) {
    Bits borrow = {};
    UNROLL for (int i = 0; i < PLANES; ++i) {
        const Bits next = majority(~n[i], m[i], borrow);
        n[i] = parity(n[i], m[i], borrow);
        borrow = next;
    }
}

// Adds numbers of two planes each; returns the carry.
DEVICE Bits join_low(Bits (&n)[PLANES], const Bits (&a)[LOW_PLANES], const Bits (&b)[LOW_PLANES]) {
    const Bits c0 = majority(n[0], a[0], b[0]);
    n[0] = parity(n[0], a[0], b[0]);
    const Bits sum = parity(n[1], a[1], b[1]), c1 = majority(n[1], a[1], b[1]);
    n[1] = sum ^ c0;
    const Bits c2 = sum & c0, plane_2 = n[2];
    n[2] = parity(plane_2, c1, c2);
    return count_up<3>(n, majority(plane_2, c1, c2));
}

// ---------------------------------------------------------------- counts of all species

#ifdef LANES_SIDE_BY_SIDE
struct Counts {
    union {
        u32 bits[N_SPECIES][PLANES][32];
        u16 listed[N_CAUSES ? 1024 : 1];  // sites, 32 * word + place, where counts come next
    };
    u32 note;
};
// What is made before counts are known.
struct Ahead {
    u32 thinned[TEAM_WARPS > 1 ? 2 * N_TYPES : 1][32];  // see `thin_ahead`
    u32 hops[AHEAD ? 3 * N_SPECIES * AHEAD : 1][2][32];  // [axis, species, level], side: see `decide_ahead`
};
struct TeamMemory {
    Counts counts[2];  // by turns, so that what some still read is not written by those ahead
    Ahead ahead[HELPED ? 2 : 1];  // by turns, since helpers are a group of words ahead
    u32 n_listed;
};
struct Desk {
    TeamMemory *team;
    Counts *counts;
    Ahead *ahead;
    int number, species;  // of the team in the block; the warp's first
};
DEVICE u32 &word_on(Desk &desk, int species, int plane, int word) {
    return desk.counts->bits[species][plane][word];
}
// The thread's words, of those that it does together with others.
DEVICE int first_own() {
    return THREAD_ID % 32;
}
DEVICE Bits bits_on(const Desk &desk, int species, int plane) {
    return desk.counts->bits[species][plane][THREAD_ID % 32];
}
DEVICE void put(Desk &desk, int species, const Bits (&n)[PLANES]) {
    UNROLL for (int i = 0; i < PLANES; ++i) word_on(desk, species, i, first_own()) = n[i];
}
DEVICE u32 &note_of(Desk &desk) {
    return desk.counts->note;
}
template <int TEAM>
DEVICE void meet_in(int team) {
    if constexpr (TEAM == TEAMS - 1)
        BARRIER_OF(1 + TEAM, TEAM_SIZE);
    else if (team == TEAM)
        BARRIER_OF(1 + TEAM, TEAM_SIZE);
    else
        meet_in<TEAM + 1>(team);
}
// Waits for the others of the team.
DEVICE void meet(const Desk &desk) {
    if (TEAM_WARPS == 1)
        WARP_BARRIER();
    else
        meet_in<0>(desk.number);
}
// Waits for the others and for what helpers have made for the next words, where there are helpers.
DEVICE void meet_helpers(const Desk &desk) {
    if (HELPED)
        BARRIER_OF(1 + TEAMS, BLOCK_LANES);
    else
        meet(desk);
}
// The same where each thread goes on with what it has put there itself, of all species that its warp has.
DEVICE void meet_others(const Desk &desk) {
    if (TEAM_WARPS > 1) meet(desk);
}
DEVICE Counts &next_counts(const Desk &desk) {
    return desk.team->counts[desk.counts == desk.team->counts];
}
// Lists sites, for all threads of the team; those of a warp call it.
DEVICE void list_sites(Bits sites, Desk &desk) {
    u32 end = (u32)popc(sites);
    const u32 count = end;
    UNROLL for (int distance = 1; distance < 32; distance *= 2) {
        const u32 before = LANES_READ(32, end, (first_own() - distance) & 31);
        if (first_own() >= distance) end += before;
    }
    if (first_own() == 31) desk.team->n_listed = end;
    u16 *next = next_counts(desk).listed + end - count;
    NO_UNROLL for (; sites; sites &= sites - 1) *next++ = (u16)(32 * first_own() + lowest_bit(sites));
}
// Calls `work` with the word, counted from the first of those that go together, and the place of each.
template <class Work>
DEVICE void each_listed(const Desk &desk, const Work &work) {
    NO_UNROLL for (u32 i = (u32)(THREAD_ID % TEAM_SIZE); i < desk.team->n_listed; i += TEAM_SIZE)
        work(next_counts(desk).listed[i] / 32, (u32)next_counts(desk).listed[i] % 32);
}
DEVICE bool any_listed(const Desk &desk) {
    return desk.team->n_listed != 0;
}
// To the counts that come next; or back to those before.
DEVICE void turn(Desk &desk) {
    desk.counts = &next_counts(desk);
}
// Hops that are decided before counts are known.
DEVICE u32 &hops_ahead(const Desk &desk, int axis, int species, int level, int side) {
    return desk.ahead->hops[AHEAD ? (axis * N_SPECIES + species) * AHEAD + level : 0][side][THREAD_ID % 32];
}
DEVICE u32 &thinned_ahead(const Desk &desk, int entry) {
    return desk.ahead->thinned[TEAM_WARPS > 1 ? entry : 0][THREAD_ID % 32];
}
// Whether a thread does what one of its team has to.
DEVICE bool leads(const Desk &desk) {
    return TEAM_WARPS == 1 || desk.species == 0;
}
#else
struct Desk {
    Bits bits[N_SPECIES][PLANES];
    Bits listed;
    u32 note;
    int species;
};
DEVICE u32 &word_on(Desk &desk, int species, int plane, int word) {
    return word_of(desk.bits[species][plane], word);
}
DEVICE Bits bits_on(const Desk &desk, int species, int plane) {
    return desk.bits[species][plane];
}
DEVICE void put(Desk &desk, int species, const Bits (&n)[PLANES]) {
    UNROLL for (int i = 0; i < PLANES; ++i) desk.bits[species][i] = n[i];
}
DEVICE u32 &note_of(Desk &desk) {
    return desk.note;
}
DEVICE int first_own() {
    return 0;
}
DEVICE void list_sites(Bits sites, Desk &desk) {
    desk.listed = sites;
}
template <class Work>
DEVICE void each_listed(const Desk &desk, const Work &work) {
    Bits listed = desk.listed;
    for (int i = 0; i < PLANE_WORDS; ++i)
        for (u32 sites = word_of(listed, i); sites; sites &= sites - 1) work(i, (u32)lowest_bit(sites));
}
DEVICE bool any_listed(const Desk &desk) {
    return any_site(desk.listed);
}
DEVICE void meet(const Desk &) {}
DEVICE void meet_others(const Desk &) {}
DEVICE void turn(Desk &) {}
DEVICE Bits &hops_ahead(Desk &desk, int, int, int, int) {
    return desk.listed;
}
DEVICE Bits &thinned_ahead(Desk &desk, int) {
    return desk.listed;
}
DEVICE bool leads(const Desk &) {
    return true;
}
#endif

// Calls `work` with each species of the thread.
template <class Work>
DEVICE void each_species(const Desk &desk, const Work &work) {
    if (TEAM_WARPS > 1)
        work(desk.species);
    else
        NO_UNROLL for (int species = 0; species < N_SPECIES; ++species) work(species);
}

DEVICE void take(const Desk &desk, int species, Bits (&n)[PLANES]) {
    UNROLL for (int i = 0; i < PLANES; ++i) n[i] = bits_on(desk, species, i);
}

DEVICE Bits beyond(const Desk &desk, int species, int level) {
    Bits n[PLANES];
    take(desk, species, n);
    return beyond(n, level);
}

// Number of a species at a site.
DEVICE u32 count_at(Desk &desk, int species, int word, u32 place) {
    u32 count = 0;
    UNROLL for (int i = 0; i < PLANES; ++i) count |= (word_on(desk, species, i, word) >> place & 1) << i;
    return count;
}

// Others of the team may change other sites of the word meanwhile.
DEVICE void set_count(Desk &desk, int species, int word, u32 place, u32 count) {
    NO_UNROLL for (int i = 0; i < PLANES; ++i) {
        u32 &cell = word_on(desk, species, i, word);
        const u32 change = ((cell >> place ^ count >> i) & 1) << place;
        if (change) flip_in_block(&cell, change);
    }
}

DEVICE void counts_at(Desk &desk, int word, u32 place, u32 *counts) {
    UNROLL for (int s = 0; s < N_SPECIES; ++s) counts[s] = count_at(desk, s, word, place);
}

DEVICE void set_counts(Desk &desk, int word, u32 place, const u32 *counts) {
    NO_UNROLL for (int s = 0; s < N_SPECIES; ++s) set_count(desk, s, word, place, counts[s]);
}

// The same where the numbers before are at hand.
DEVICE void change_counts(Desk &desk, int word, u32 place, const u32 (&before)[N_SPECIES],
                          const u32 (&counts)[N_SPECIES]) {
    UNROLL for (int s = 0; s < N_SPECIES; ++s)
        NO_UNROLL for (u32 bits = before[s] ^ counts[s]; bits; bits &= bits - 1)
            flip_in_block(&word_on(desk, s, lowest_bit(bits), word), 1u << place);
}

// Sites of more than SLOTS particles.
DEVICE Bits crowded(const Desk &desk) {
    Bits total[PLANES], carry = {}, lower = {};
    take(desk, 0, total);
    UNROLL for (int s = 1; s < N_SPECIES; ++s) {
        Bits c = {};
        UNROLL for (int i = 0; i < PLANES; ++i) {
            const Bits bit = bits_on(desk, s, i), next = majority(total[i], bit, c);
            total[i] = parity(total[i], bit, c);
            c = next;
        }
        carry |= c;
    }
    UNROLL for (int i = 0; i < PLANES - 1; ++i) lower |= total[i];
    return carry | (total[PLANES - 1] & lower);
}

// ---------------------------------------------------------------- particles that wait

// Puts a particle on the list of a word. If the list is full, or if none may wait since nothing would empty a list, the
// batch of steps is void: LIST_FULL makes the host repeat it with a longer list, and particles may wait then.
DEVICE_SELDOM void add_waiting(const Lattice &l, u64 list, u32 word, u64 site, u64 age, u32 particle) {
    // A list is counted no longer than it is written, since counts of this batch still read it.
    const u64 place = l.may_wait ? atomic_add(l.work + WAITING_0 + list, 1) : (u64)l.capacity;
    if (place >= (u64)l.capacity) {
        atomic_add(l.work + LIST_FULL, 1);
        return;
    }
    i32 *const head = l.heads + (i64)list * l.stride + word;
    i32 next = *head;
    for (i32 seen; (seen = atomic_compare_exchange(head, next, (i32)place)) != next;) next = seen;
    l.waiting[(i64)list * l.capacity + (i64)place] = {site, age, particle, next};
}

// The entry of a word that comes first by site and age, not before the given ones; -1: none.
DEVICE i32 first_waiting(const Waiting *list, i32 head, u64 site, u64 age) {
    i32 found = -1;
    NO_UNROLL for (i32 i = head; i >= 0; i = list[i].next) {
        const Waiting &entry = list[i];
        if (entry.site < site || (entry.site == site && entry.age < age)) continue;
        if (found >= 0 && (entry.site > list[found].site ||
                           (entry.site == list[found].site && entry.age > list[found].age)))
            continue;
        found = i;
    }
    return found;
}

// Puts particles that wait in sites of a word into free slots, oldest first; the others wait another step.
DEVICE void place_waiting(const Lattice &l, u64 step, u32 word, int at, Desk &desk) {
    const i32 head = l.heads[(step & 1) * l.stride + word];
    if (head < 0) return;
    l.heads[(step & 1) * l.stride + word] = -1;
    const Waiting *const list = l.waiting + (step & 1) * l.capacity;
    const u64 first = first_site(l, word);
    u64 site = 0, age = 0;
    NO_UNROLL for (i32 i; (i = first_waiting(list, head, site, age)) >= 0;) {
        const Waiting &entry = list[i];
        site = entry.site, age = entry.age + 1;
        const u32 place = (u32)(site - first);
        u32 held = 0;
        UNROLL for (int s = 0; s < N_SPECIES; ++s) held += count_at(desk, s, at, place);
        if (held == SLOTS) {
            add_waiting(*l.kept, (step + 1) & 1, word, site, entry.age, entry.particle);
            continue;
        }
        const int species = (int)entry.particle - 1;
        set_count(desk, species, at, place, count_at(desk, species, at, place) + 1);
    }
}
