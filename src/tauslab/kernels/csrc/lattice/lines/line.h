// Lines of 32 sites side by side along x, one for each lane of a warp, which a block keeps for a whole launch.
//
// Blocks share out the list of lines evenly. It goes through y first, so that most neighbours of a block's lines along y
// are its own. Of the others, its *rim*, the block repeats the hops along x with the same draws.
#pragma once

#include "lattice/lines/words.h"
#include "lattice/column.h"

constexpr int LANES = 32;
constexpr int LINE_WARPS = LINE_THREADS / LANES;
constexpr int NOTHING = MOST_LINES;  // in place of a line beside one: nothing comes from there

// A line in the list. Neighbours are numbers in the list; -1: there is none, or it holds no particles.
struct Line {
    i32 first;         // index in memory of the site of lane 0, which may lie left of the lattice
    i32 x;             // of that site
    i32 below, above;  // neighbours along y
    i32 under, over;   // and along z
    i32 left, right;   // and along x
};

// Particles that do not fit registers go through memory. An entry is valid if a part of that site is MANY_PART.
struct LineBuffers {
    const Line *lines;
    Site *after_x;    // after the hops along x; `Lattice::moved` is after those along x and y
    Moves *y_moves;   // who hops along y
    Moves *z_moves;   // and along z
    Part *minus_out;  // who leaves along z [line, lane]
    Part *plus_out;
};

// The thresholds' rows of a site, by side, and its type; see lattice/site/hop.h.
struct alignas(8) SiteKinds {
    u8 row[6];  // x-, x+, y-, y+, z-, z+
    u8 type;
};
constexpr bool ONE_KIND = N_TYPES == 1 && face_kind(0) == PERIODIC && face_kind(2) == PERIODIC &&
                          face_kind(4) == PERIODIC;

// Whether a block draws random bits for the next hops while it waits for others, which takes memory.
constexpr int DRAWN_LINES = DRAWS_LINES_AHEAD ? MOST_LINES : 1;

struct alignas(16) DrawnBits {
    u32 word[4];
};

// Memory of a block, an entry for each of its lines and those of its rim.
struct LinesWork {
    Part minus[MOST_LINES + 1][LANES], plus[MOST_LINES + 1][LANES];      // who leaves along y
    u64 low[MOST_LINES][LANES], high[OF_BYTES ? 1 : MOST_LINES][LANES];  // Held: who stays
    SiteKinds kinds[ONE_KIND ? 1 : MOST_LINES][LANES];
    u32 upper[2][MOST_LINES][LANES];  // random bits of the reaction, of even and odd steps
    // Bits drawn ahead: for hops along x and y, for those along z, and of the sites beside the lines.
    DrawnBits xy_bits[DRAWN_LINES][LANES];
    u64 z_bits[DRAWN_LINES][LANES];
    u64 beside_bits[DRAWN_LINES][2];
    u8 count[MOST_LINES][LANES];  // of those who stay
    Part beside[MOST_LINES][2];   // who hops in from left and right
    Line lines[MOST_LINES];       // `below` and `above` are places here
    Site of_thread[LINE_THREADS];
    u32 rim;  // lines of it
};

// The block's lines.
struct OwnLines {
    int first, own, all;  // of the list; how many; with the rim
};

// What a lane knows of its site in a line.
struct LineSite {
    int x, index;
    bool inside;  // whether the line has a site here
};

DEVICE LineSite line_site(const Lattice &l, const Line &line, int lane) {
    const int x = line.x + lane;
    return {x, line.first + lane, (u32)x < (u32)l.nx};
}

// The place of a neighbour along y in the block's memory; a new one of the rim if it is not its own.
DEVICE int place_of_line(const LineBuffers &b, const OwnLines &lines, int line, LinesWork &work) {
    if (line < 0) return NOTHING;
    if ((u32)(line - lines.first) < (u32)lines.own) return line - lines.first;
    const int place = lines.own + (int)add_in_block(&work.rim, 1);
    work.lines[place] = {b.lines[line].first, b.lines[line].x, NOTHING, NOTHING, -1, -1, -1, -1};
    return place;
}

DEVICE SiteKinds kinds_of(const Lattice &l, i64 index) {
    const int sites = (int)(l.ny * l.nx), plane = (int)index / sites, in_plane = (int)index % sites;
    const Sides x = sides_of(l, index, in_plane % (int)l.nx, (int)l.nx, 1, 4);
    const Sides y = sides_of(l, index, in_plane / (int)l.nx, (int)l.ny, l.nx, 2);
    const Sides z = sides_along_z(l, plane, index);
    return {{(u8)x.minus, (u8)x.plus, (u8)y.minus, (u8)y.plus, (u8)z.minus, (u8)z.plus},
            (u8)type_at(l, index)};
}

// Fills the block's memory before its first step. The block has to meet before and after.
DEVICE OwnLines take_lines(const Lattice &l, const LineBuffers &b, i64 count, i64 block, i64 blocks,
                           LinesWork &work) {
    const int first = (int)(count * block / blocks), end = (int)(count * (block + 1) / blocks);
    OwnLines lines = {first, end - first, 0};
    if (THREAD_ID == 0) work.rim = 0;
    BARRIER();
    for (int i = THREAD_ID; i < lines.own; i += BLOCK_THREADS) {
        const Line line = b.lines[first + i];
        work.lines[i] = {line.first,
                         line.x,
                         place_of_line(b, lines, line.below, work),
                         place_of_line(b, lines, line.above, work),
                         line.under,
                         line.over,
                         -1,
                         -1};
    }
    for (int i = THREAD_ID; i < LANES; i += BLOCK_THREADS)
        work.minus[NOTHING][i] = work.plus[NOTHING][i] = 0;
    BARRIER();
    lines.all = lines.own + (int)work.rim;
    if (!ONE_KIND)
        for (int i = THREAD_ID; i < lines.all * LANES; i += BLOCK_THREADS) {
            const LineSite at = line_site(l, work.lines[i / LANES], i % LANES);
            work.kinds[ONE_KIND ? 0 : i / LANES][i % LANES] =
                at.inside ? kinds_of(l, at.index) : SiteKinds{{0, 0, 0, 0, 0, 0}, 0};
        }
    return lines;
}

// Rows of both sides along an axis: 0 x, 1 y, 2 z.
DEVICE Sides sides_in_line(const LinesWork &work, int place, int lane, int axis) {
    if (ONE_KIND) return {0, 0};
    const SiteKinds &kinds = work.kinds[ONE_KIND ? 0 : place][lane];
    return {kinds.row[2 * axis], kinds.row[2 * axis + 1]};
}

DEVICE int type_in_line(const LinesWork &work, int place, int lane) {
    return N_TYPES == 1 || ONE_KIND ? 0 : work.kinds[ONE_KIND ? 0 : place][lane].type;
}

// Particles that are put behind others: those of a part, or, where that is MANY_PART, the given slots of a site.
struct Portion {
    Site site;
    u32 slots;
};

DEVICE Portion portion_of(Part part) {
    Portion portion;
    const Held held = {part, 0};
    make_site(portion.site, held);
    portion.slots = low_bits((int)used_bits(part) / SLOT_BITS);
    return portion;
}

// Joins what stays of a site and what comes, if need be one by one; returns the number, also of those beyond the last
// slot.
template <class Spill>
DEVICE int join_one_by_one(const Lattice &l, const Portion &below, const Portion &above,
                           const Spill &spill, u32 leaving, Site &to) {
    int n = is_empty(to) ? 0 : take_out(to, leaving, l.packing);
    append(to, n, below.site, below.slots, l.packing, spill);
    append(to, n, above.site, above.slots, l.packing, spill);
    return n;
}

// The tile of a site: where those that wait there are listed.
DEVICE i64 tile_of_site(const Lattice &l, int index) {
    const int sites = (int)(l.ny * l.nx), plane = index / sites, in_plane = index % sites;
    const int y = in_plane / (int)l.nx, x = in_plane % (int)l.nx;
    return plane * tiles_of_plane(l) + y / TILE_Y * tiles_along_x(l) + x / TILE_X;
}
