// The arguments of the kernels of a lattice: memory, tables, the step. Where planes, tiles and sites are stored.
//
// Planes are numbered as they are stored; plane p is plane `first_plane + p` of the whole lattice.
// A slab keeps its neighbours' edge planes beside its own. A plane is cut into tiles of TILE_X x
// TILE_Y sites; a block works on a tile.
#pragma once

#include "lattice/site/site.h"
#include "lattice/site/work.h"
#include "random/streams.h"

enum FaceKind { PERIODIC = 0, REFLECTING = 1, ABSORBING = 2, HELD = 3 };

// Upper and lower bytes of numbers of particles 0 to 7.
struct alignas(16) Levels {
    u32 low[2], high[2];
};

// What kernels of a lattice are given; see kernels/lattice/engine.py.
struct LatticeArguments {
    Site *state, *moved;  // after a step; after its hops along x and y
    // Tiles that hold particles are stamped: after n steps those of `state` with n + 1; with the
    // n + 1 of the step those of `moved`. A tile without its stamp is all zeros.
    u32 *state_stamps, *moved_stamps;
    // Tiles that particles enter from nowhere: bit 0 by x, y; bit 1 by z; bit 2: into which none can
    // hop; or null.
    const u8 *always;
    const u8 *types;  // of sites; null where there is one type
    // Thresholds of a hop [from, to, particle], then a row of 0: the upper 16 bits, and all 64.
    const u16 *hop_high;
    const u64 *hop;
    const i32 *tables;      // of reactions, see kernels/lattice/codegen.py
    const double *chances;  // [reaction, type]: rate times the length of a pass
    const u32 *bounds;      // [type, particle, 2]: see react() in lattice/site/react.h
    const i32 *ghost_rows;  // [face, type, species]: where a row of `ghosts` begins; -1: none
    const u64 *ghosts;      // Poisson numbers: P(N <= k) 2^64 for k = 0, 1, .., ended by 2^64 - 1
    u64 *fired;             // [reaction]
    Waiting *waiting;       // [2, capacity]: list (step & 1) is read, the other written
    i32 *heads;             // [2, plane, tile]: first entry of a tile in each list
    u64 *work;              // by WorkWord
    i64 capacity;
    i64 nx, ny, nz;           // of the whole lattice
    i64 planes, first_plane;  // planes that are stored, and the number of the first of them
    i64 wraps;                // whether the stored planes close a ring along z
    i64 own_begin, own_end;   // stored planes that are the slab's own
    u64 seed, step;
    i64 replica;
};

struct Lattice : LatticeArguments {
    const u32 *packing;               // see lattice/site/site.h
    const struct BlockTables *block;  // tables in the block's memory, or null
    // After the hops along x and y: who hops along z; see lattice/cooperative_steps.h.
    SlotMoves *z_moves;
};

// Launches that are replayed go on from the step that memory says.
DEVICE Lattice lattice_of(const LatticeArguments &given) {
    Lattice l = {given, nullptr, nullptr, nullptr};
    l.step += l.work[STEPS_BEFORE];
    return l;
}

// Tables by particle that all sites read: a block of a GPU keeps small ones in its own memory.
constexpr int HOP_ENTRIES = (N_TYPES * N_TYPES + 1) * (N_SPECIES + 1);
constexpr int BOUND_ENTRIES = 2 * N_TYPES * (N_SPECIES + 1);
constexpr int CHANCE_ENTRIES = N_REACTIONS * N_TYPES;
constexpr int MOST_KEPT = 2048;
// Tables of reactions, where a block has room for them beside its sites.
constexpr bool HAS_ROOM = SITE_WORDS <= 8 && TILE_X * TILE_Y * SITE_WORDS <= 1024;
constexpr int MOST_TABLES_KEPT = HAS_ROOM ? 2560 : 0, MOST_CHANCES_KEPT = HAS_ROOM ? 768 : 0;

constexpr int TILE_SITES = TILE_X * TILE_Y;
constexpr int ROW = N_SPECIES + 1;  // of a table by particle; 0 stands for an empty slot

// Whether sites of a lattice are kept in registers (lattice/warp_plane.h, lattice/lines), a word has four particles,
// and whether their levels fit two words.
#if defined(IN_LINES)
constexpr bool IN_REGISTERS = true;
#elif defined(LANES_SIDE_BY_SIDE)
constexpr bool IN_REGISTERS = WORDS_IN_REGISTERS > 0;
#else
constexpr bool IN_REGISTERS = false;
#endif
constexpr int SELECTORS = IN_REGISTERS && PER_WORD == GROUP ? 256 : 1;
constexpr int HOP_ROWS = N_TYPES * N_TYPES + 1;
constexpr bool FEW_KINDS = PER_WORD == GROUP && N_SPECIES < 8 && 4 * HOP_ROWS <= MOST_KEPT;

#ifdef SELECT_BYTES
// Tables that kernels read at every site, in shared memory.
struct BlockTables {
    SlotSelectors selectors[SELECTORS];       // for each way in which the slots of a word can leave
    Levels levels[FEW_KINDS ? HOP_ROWS : 1];  // `hop_high` of few particles, [from, to], then zeros
    u32 packing[PACKINGS];
    u32 bounds[BOUND_ENTRIES > MOST_KEPT ? 1 : BOUND_ENTRIES];
    u16 hops[FEW_KINDS || HOP_ENTRIES > MOST_KEPT ? 1 : HOP_ENTRIES];
};

// Two bits of `i` for each slot tell whether its particle leaves to the plus side (0), stays (2) or leaves to the
// minus side (3); see selectors_of in lattice/registers.h.
DEVICE void fill_selectors(SlotSelectors *selectors, const u32 *packing) {
    for (u32 i = (u32)THREAD_ID; i < SELECTORS; i += (u32)BLOCK_THREADS) {
        u32 minus = 0, plus = 0;
    UNROLL for (int slot = 0; slot < GROUP; ++slot) {
            minus |= (u32)((i >> 2 * slot & 3) == 3) << slot;
            plus |= (u32)((i >> 2 * slot & 3) == 0) << slot;
        }
        selectors[i] = selectors_of(minus, plus, packing);
    }
}

DEVICE void fill_levels(Levels *levels, const u16 *hop_high) {
    for (int i = THREAD_ID; i < HOP_ROWS; i += BLOCK_THREADS) {
        Levels row = {{0, 0}, {0, 0}};
        for (int particle = 1; particle < ROW; ++particle) {
            const u32 level = hop_high[i * ROW + particle];
            row.low[particle / 4] |= (level & 0xff) << particle % 4 * 8;
            row.high[particle / 4] |= level >> 8 << particle % 4 * 8;
        }
        levels[i] = row;
    }
}

template <class T>
DEVICE const T *keep_in_block(T *kept, int entries, const T *table, int most = MOST_KEPT) {
    if (entries > most) return table;
    for (int i = THREAD_ID; i < entries; i += BLOCK_THREADS) kept[i] = table[i];
    return kept;
}

// Behind the first line of a kernel: the lattice of its arguments. The block has to meet before the tables are read.
#define LATTICE_IN_BLOCK(l, given) \
    SHARED BlockTables block_tables; \
    BlockTables &tables_ = *kept_in_block(&block_tables); \
    Lattice l = lattice_of(given); \
    for (int set_ = THREAD_ID; set_ < PACKINGS; set_ += BLOCK_THREADS) \
        tables_.packing[set_] = packing_of((u32)set_); \
    if (FEW_KINDS) \
        fill_levels(tables_.levels, l.hop_high); \
    else \
        l.hop_high = keep_in_block(tables_.hops, HOP_ENTRIES, l.hop_high); \
    l.bounds = keep_in_block(tables_.bounds, BOUND_ENTRIES, l.bounds); \
    l.packing = tables_.packing; \
    l.block = &tables_; \
    BARRIER(); \
    if (SELECTORS > 1) fill_selectors(tables_.selectors, tables_.packing)

// Tables that few sites read, one after the other, while the others wait. Used as LATTICE_IN_BLOCK.
#define REACTIONS_IN_BLOCK(l) \
    SHARED i32 kept_tables[TABLE_ENTRIES > MOST_TABLES_KEPT ? 1 : TABLE_ENTRIES]; \
    SHARED double kept_chances[CHANCE_ENTRIES > MOST_CHANCES_KEPT ? 1 : CHANCE_ENTRIES + 1]; \
    l.tables = keep_in_block(kept_tables, TABLE_ENTRIES, l.tables, MOST_TABLES_KEPT); \
    l.chances = keep_in_block(kept_chances, CHANCE_ENTRIES, l.chances, MOST_CHANCES_KEPT)
#else
#define LATTICE_IN_BLOCK(l, given) Lattice l = lattice_of(given)
#define REACTIONS_IN_BLOCK(l)
#endif

DEVICE int tiles_along_x(const Lattice &l) {
    return (int)((u32)(l.nx + TILE_X - 1) / TILE_X);
}

DEVICE int tiles_along_y(const Lattice &l) {
    return (int)((u32)(l.ny + TILE_Y - 1) / TILE_Y);
}

DEVICE int tiles_of_plane(const Lattice &l) {
    return tiles_along_x(l) * tiles_along_y(l);
}

// Plane of the whole lattice; a neighbour's plane may lie across a periodic face.
DEVICE i64 plane_number(const Lattice &l, i64 plane) {
    const i64 z = l.first_plane + plane;
    return z < 0 ? z + l.nz : z < l.nz ? z : z - l.nz;
}

// Number of a site in the whole lattice: what random draws and waiting particles are known by.
DEVICE u64 site_number(const Lattice &l, i64 plane, int y, int x) {
    return (u64)((plane_number(l, plane) * l.ny + y) * l.nx + x);
}

// Index of a site in memory.
DEVICE i64 site_index(const Lattice &l, i64 plane, int y, int x) {
    return (plane * l.ny + y) * l.nx + x;
}

DEVICE int type_at(const Lattice &l, i64 index) {
    return N_TYPES == 1 ? 0 : l.types[index];
}

// Whether this device owns the site, and does not only repeat what its owner does. No plane that is
// kept beside a slab is also one of its own.
DEVICE bool owns_site(const Lattice &l, u64 site) {
    const i64 sites = l.ny * l.nx;
    return site - (u64)((l.first_plane + l.own_begin) * sites) <
           (u64)((l.own_end - l.own_begin) * sites);
}

// The stored plane below or above along z, or -1 where there is none.
DEVICE i64 plane_below(const Lattice &l, i64 plane) {
    return plane > 0 ? plane - 1 : l.wraps ? l.planes - 1 : -1;
}

DEVICE i64 plane_above(const Lattice &l, i64 plane) {
    return plane + 1 < l.planes ? plane + 1 : l.wraps ? 0 : -1;
}
