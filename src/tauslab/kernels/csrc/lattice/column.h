// Hops along z, then reactions, then waiting particles, in a column of tiles.
//
// A block marches along z through the planes of its column. A thread keeps to its own sites of the tile, so
// no thread waits for another. When plane k has been read, everything that hops into plane k - 1 is known.
#pragma once

#include "lattice/plane.h"
#include "lattice/site/react.h"

// Memory of a block, an entry for each site of the tile.
struct ColumnWork {
    Site read[2][TILE_SITES];   // plane k and the one below, as they were
    Site built[TILE_SITES];     // the plane below, with what stayed and what came from below it
    u64 bits[TILE_SITES];       // for its first reaction
    SlotBits plus[TILE_SITES];  // what leaves it for plane k
    u16 n[TILE_SITES];          // particles built, also those that found no slot
};

// A plane that a column reads or builds: where its sites lie in memory, and their numbers.
struct PlaneOfColumn {
    i64 first_index;  // negative: there is no such plane
    u64 first_site;
    i64 tile;  // the column's, of all planes
    u32 *stamp;
};

DEVICE PlaneOfColumn plane_of_column(const Lattice &l, i64 plane, i64 tile) {
    if (plane < 0) return {-1, 0, 0, nullptr};
    const i64 number = plane * tiles_of_plane(l) + tile;
    return {plane * l.ny * l.nx, site_number(l, plane, 0, 0), number, l.state_stamps + number};
}

// The march of a block: its column, and the planes around the one that it builds.
struct Column {
    int x0, y0;
    i64 tile;                   // within a plane
    i64 begin, end;             // planes to be built
    bool carried;               // whether ColumnWork holds the plane below
    PlaneOfColumn read, built;  // plane k, which is begun if it is to be built; and the one below
};

// Reactions at a site of a type that all have hopped into, then those that wait, unless there are
// none but those of this very pass; stores the site.
DEVICE void finish_site_of_type(const Lattice &l, const LatticeStream &s,
                                const SpillHere &hop_spill, u32 *stamp, i64 index, int type,
                                bool some_wait, bool drawn, u64 bits, int n, Site &content) {
    Slot *slots = slots_of(content);
    const u64 site = hop_spill.site;
    u32 spilled = n >= SLOTS;
    n = n < SLOTS ? n : SLOTS;
    if (N_REACTIONS > 0) {
        const SpillHere spill = {l, hop_spill.tile, site, SPILL_REACTION, true};
        u32 of_reactions = 0;
        for (u32 pass = 0; pass < REACTION_PASSES; ++pass) {
            if (n == 0 && N_ZEROTH == 0) break;
            if (pass > 0 || !drawn) {
                const Philox4 x = pass > 0 ? lattice_draw(s, site, PURPOSE_REACTION, 0, pass)
                                           : lattice_draw(s, site, PURPOSE_Z, 0, 0);
                bits = pass > 0 ? joined(x.x0, x.x1) : joined(x.x2, x.x3);
            }
            react(l, s, site, type, pass, bits, slots, n, of_reactions, spill);
        }
        spilled += of_reactions;
    }
    if (some_wait || spilled) place_waiting(l, hop_spill.tile, site, slots, n);
    l.state[index] = content;
    if (n > 0) *stamp = (u32)(l.step + 2);
}

DEVICE_SHARED void finish_site(const Lattice &l, const LatticeStream &s, const SpillHere &hop_spill,
                               u32 *stamp, i64 index, bool drawn, u64 bits, int n, Site &content) {
    finish_site_of_type(l, s, hop_spill, stamp, index, N_REACTIONS > 0 ? type_at(l, index) : 0,
                        true, drawn, bits, n, content);
}

// A site of a tile with what comes into it along z, then its reactions and who waits; returns whether it holds particles.
DEVICE bool finish_gathered(const Lattice &l, const LatticeStream &s, const PlaneTile &t,
                            int in_plane, int type, bool some_wait, const Site &own,
                            SlotMoves moves, const Site &below, u32 from_below, const Site &above,
                            u32 from_above, Site &content) {
    const u64 site = t.first_site + (u64)in_plane;
    const i64 index = t.first_index + in_plane;
    u64 bits = 0;
    if (DRAW_AHEAD) {
        const Philox4 drawn = lattice_draw(s, site, PURPOSE_Z, 0, 0);
        bits = joined(drawn.x2, drawn.x3);
    }
    const SpillHere spill = {l, t.tile, site, SPILL_Z, true};
    const int n =
        gather(l, s, own, (u32)(moves.minus | moves.plus), below, from_below, above, from_above,
               site, index, (int)(l.first_plane + t.plane), (int)l.nz, 0, spill, content);
    finish_site_of_type(l, s, spill, l.state_stamps + t.tile, index, type, some_wait, DRAW_AHEAD,
                        bits, n, content);
    return !is_empty(content);
}

// One site of the column: takes in plane k, finishes plane k - 1, begins to build plane k.
DEVICE_SHARED void march_site(const Lattice &l, const LatticeStream &s, const Column &column, i64 k,
                              i64 plane, int in_plane, int i, ColumnWork &work) {
    Site &now = work.read[k & 1][i];
    const Site &below = work.read[(k + 1) & 1][i];
    Moves moves = {0, 0};
    u64 bits = 0;
    if (!column.carried) {
        make_empty(work.read[(k + 1) & 1][i]);
        make_empty(work.built[i]);
        work.plus[i] = 0;
        work.n[i] = 0;
    }
    if (plane < 0) {
        make_empty(now);
    } else {
        const i64 index = column.read.first_index + in_plane;
        const Site content = l.moved[index];
        now = content;
        if (DRAW_AHEAD || !is_empty(content)) {
            const u64 site = column.read.first_site + (u64)in_plane;
            const Philox4 drawn = lattice_draw(s, site, PURPOSE_Z, 0, 0);
            bits = joined(drawn.x2, drawn.x3);
            moves = decide(l, s, site, 2, now, joined(drawn.x0, drawn.x1),
                           sides_along_z(l, plane, index));
        }
    }
    if (k > column.begin) {
        const i64 index = column.built.first_index + in_plane;
        const SpillHere spill = {l, column.built.tile, column.built.first_site + (u64)in_plane,
                                 SPILL_Z, true};
        int n = work.n[i];
        append(work.built[i], n, now, moves.minus, l.packing, spill);
        if (face_kind(1) == HELD && l.first_plane + k == l.nz)
            append_ghosts(l, s, spill.site, 1, type_at(l, index), slots_of(work.built[i]), n,
                          spill);
        finish_site(l, s, spill, column.built.stamp, index,
                    column.carried && (DRAW_AHEAD || !is_empty(below)), work.bits[i], n,
                    work.built[i]);
    }
    if (k >= column.begin && k < column.end) {
        const SpillHere spill = {l, column.read.tile, column.read.first_site + (u64)in_plane,
                                 SPILL_Z, true};
        Site staying = now;
        int n = 0;
        if (!is_empty(staying)) n = take_out(staying, moves.minus | moves.plus, l.packing);
        work.built[i] = staying;
        append(work.built[i], n, below, work.plus[i], l.packing, spill);
        if (face_kind(0) == HELD && l.first_plane + k == 0)
            append_ghosts(l, s, spill.site, 0, type_at(l, column.read.first_index + in_plane),
                          slots_of(work.built[i]), n, spill);
        work.n[i] = (u16)n;
    }
    work.plus[i] = (SlotBits)moves.plus;
    work.bits[i] = bits;
}

// The same for a site that is empty and stays so; false where it is not. Only without DRAW_AHEAD:
// the site's draws are left out.
DEVICE bool march_empty_site(const Lattice &l, const Column &column, i64 k, int in_plane, int i,
                             ColumnWork &work) {
    if (!column.carried || work.n[i] || work.plus[i]) return false;
    if (column.read.first_index >= 0 && !is_empty(l.moved[column.read.first_index + in_plane]))
        return false;
    make_empty(work.read[k & 1][i]);
    if (k > column.begin) make_empty(l.state[column.built.first_index + in_plane]);
    return true;
}

// Whether particles may enter the tile of a plane that is built from nowhere.
DEVICE bool enters_from_nowhere(const Lattice &l, const Column &column, i64 k) {
    if (k < column.begin || k >= column.end) return false;
    const i64 tile = k * tiles_of_plane(l) + column.tile;
    return (l.always && l.always[tile] & 2) || *(volatile i32 *)tile_head(l, l.step & 1, tile) >= 0;
}

// The stored plane k: that of its number, or one across a periodic face; -1 where there is none.
DEVICE i64 stored_plane(const Lattice &l, i64 k) {
    return k < 0 ? plane_below(l, 0) : k >= l.planes ? plane_above(l, l.planes - 1) : k;
}

DEVICE bool holds_particles(const Lattice &l, const Column &column, i64 plane) {
    return plane >= 0 &&
           l.moved_stamps[plane * tiles_of_plane(l) + column.tile] == (u32)(l.step + 1);
}

// Whether the built tile of a plane held particles before the step, so that it is not all zeros.
DEVICE bool held_particles(const Lattice &l, const Column &column, i64 k) {
    return l.state_stamps[k * tiles_of_plane(l) + column.tile] == (u32)(l.step + 1);
}

// Whether anything is to be done. Threads look at one plane each.
DEVICE bool column_is_reached(const Lattice &l, const Column &column) {
    bool reached = false;
    for (i64 k = column.begin - 1 + THREAD_ID; k <= column.end; k += BLOCK_THREADS)
        reached = reached || holds_particles(l, column, stored_plane(l, k)) ||
                  enters_from_nowhere(l, column, k) ||
                  (k >= column.begin && k < column.end && held_particles(l, column, k));
    return any_in_block(reached);
}

// Column `tile` of planes begin .. end - 1.
DEVICE_SHARED void hop_along_z_and_react(const Lattice &l, const LatticeStream &s, i64 tile,
                                         i64 begin, i64 end, ColumnWork &work) {
    const int along_x = tiles_along_x(l);
    const int row = (int)tile / along_x, x0 = ((int)tile - row * along_x) * TILE_X;
    Column column = {x0, row * TILE_Y, tile, begin, end, false, {}, {}};
    if (!column_is_reached(l, column)) return;
    bool filled_2 = false, filled_1 = false, enters_1 = false;  // planes k - 2 and k - 1
    for (i64 k = begin - 1; k <= end; ++k) {
        const i64 plane = stored_plane(l, k);
        const bool filled = holds_particles(l, column, plane);
        const bool enters = enters_from_nowhere(l, column, k);
        if (filled_2 || filled_1 || filled || enters_1 || enters) {
            const bool closed = !enters && !enters_1;
            if (!column.carried) column.read = plane_of_column(l, stored_plane(l, k - 1), tile);
            column.built = column.read;  // the plane below, if it is one to be built
            column.read = plane_of_column(l, plane, tile);
            for (int i = THREAD_ID; i < TILE_SITES; i += BLOCK_THREADS) {
                const int y = column.y0 + i / TILE_X, x = column.x0 + i % TILE_X;
                if (y >= (int)l.ny || x >= (int)l.nx) continue;
                const int in_plane = y * (int)l.nx + x;
                if (!DRAW_AHEAD && closed && march_empty_site(l, column, k, in_plane, i, work))
                    continue;
                march_site(l, s, column, k, plane, in_plane, i, work);
            }
            column.carried = true;
        } else {
            if (k > begin && held_particles(l, column, k - 1))
                empty_tile(l, plane_tile(l, (k - 1) * tiles_of_plane(l) + tile), l.state);
            column.carried = false;
        }
        filled_2 = filled_1;
        filled_1 = filled;
        enters_1 = enters;
    }
}
