// Hops along x, then y, in one tile of one plane.
//
// A tile is loaded with a rim of one site, because particles that hop into it along y hop along x before. The
// tile that owns the sites of the rim repeats their hops with the same draws.
#pragma once

#include "lattice/site/hop.h"

constexpr int RIM_X = TILE_X + 2, RIM_Y = TILE_Y + 2;

// Memory of a block for a tile: sites as they are, and after their hops along x.
struct PlaneWork {
    Site before[RIM_Y * RIM_X];
    Site after_x[RIM_Y * TILE_X];
    u64 y_bits[RIM_Y * RIM_X];
    SlotMoves x_moves[RIM_Y * RIM_X], y_moves[RIM_Y * TILE_X];
    // Sites with more than one group of slots, along x and along y. There are few; threads divide them
    // again, so that no warp waits for one of its sites.
    u16 fuller[2][RIM_Y * RIM_X];
    u32 n_fuller[2];
};

// Notes the site for `decide_fuller`, in any order.
DEVICE void note_fuller(PlaneWork &work, int axis, int i) {
    work.fuller[axis][add_in_block(&work.n_fuller[axis], 1)] = (u16)i;
}

DEVICE void add_moves(SlotMoves &all, Moves more) {
    all.minus = (SlotBits)(all.minus | more.minus);
    all.plus = (SlotBits)(all.plus | more.plus);
}

struct PlaneTile {
    i64 plane;
    i64 tile;  // of all planes
    int x0, y0, nx, ny;
    i64 first_index;  // of the plane's sites in memory
    u64 first_site;   // and their numbers
};

DEVICE PlaneTile plane_tile(const Lattice &l, i64 number) {
    const int per_plane = tiles_of_plane(l), along_x = tiles_along_x(l);
    const int plane = (int)((u32)number / (u32)per_plane);  // fewer than 2^31 tiles have room
    const int tile = (int)number - plane * per_plane, row = (int)((u32)tile / (u32)along_x);
    return {plane,     number,    (tile - row * along_x) * TILE_X, row * TILE_Y,
            (int)l.nx, (int)l.ny, site_index(l, plane, 0, 0),      site_number(l, plane, 0, 0)};
}

// Coordinate `c` of a rim, brought into 0 .. n - 1 where its axis is periodic; false where there is
// no site.
DEVICE bool brought_inside(int &c, int n, bool periodic) {
    if (c >= 0 && c < n) return true;
    if (!periodic || c > n) return false;
    c = c < 0 ? n - 1 : 0;
    return true;
}

// `c` is the coordinate along the axis, of n; `stride` leads to the next site; `face` is the lower.
DEVICE Sides sides_of(const Lattice &l, i64 index, int c, int n, i64 stride, int face) {
    if (N_TYPES == 1 && face_kind(face) == PERIODIC) return {0, 0};
    const int type = type_at(l, index);
    const bool periodic = face_kind(face) == PERIODIC;
    Sides sides;
    sides.minus = c > 0      ? hop_row(type, type_at(l, index - stride))
                  : periodic ? hop_row(type, type_at(l, index + (n - 1) * stride))
                             : face_row(face, type);
    sides.plus = c + 1 < n  ? hop_row(type, type_at(l, index + stride))
                 : periodic ? hop_row(type, type_at(l, index - (n - 1) * stride))
                            : face_row(face + 1, type);
    return sides;
}

DEVICE Sides sides_along_z(const Lattice &l, i64 plane, i64 index) {
    if (N_TYPES == 1 && face_kind(0) == PERIODIC) return {0, 0};
    const int type = type_at(l, index);
    const i64 z = l.first_plane + plane, below = plane_below(l, plane),
              above = plane_above(l, plane);
    const i64 here = plane * l.ny * l.nx;
    Sides sides;
    sides.minus = z == 0 && face_kind(0) != PERIODIC ? face_row(0, type)
                  : below < 0 ? WALL
                              : hop_row(type, type_at(l, index - here + below * l.ny * l.nx));
    sides.plus = z == l.nz - 1 && face_kind(1) != PERIODIC ? face_row(1, type)
                 : above < 0 ? WALL
                             : hop_row(type, type_at(l, index - here + above * l.ny * l.nx));
    return sides;
}

// Particles that stayed, came from the minus side, came from the plus side; returns their number.
template <class Spill>
DEVICE int gather(const Lattice &l, const LatticeStream &s, const Site &own, u32 leaving,
                  const Site &below, u32 from_below, const Site &above, u32 from_above, u64 site,
                  i64 index, int c, int n_sites, int face, const Spill &spill, Site &to) {
    const bool held = face_kind(face) == HELD || face_kind(face + 1) == HELD;
    if (!held && is_empty(own) && !(from_below | from_above)) {
        make_empty(to);
        return 0;
    }
#ifdef SELECT_BYTES
    if (LIKELY(!held && in_pair(from_below | from_above) && is_pair(own))) {
        const Packed stayed = packed(own, slots_of_pair(own) & ~leaving, l.packing);
        const Packed first = packed(below, from_below, l.packing);
        const Packed last = packed(above, from_above, l.packing);
        const u32 two = stayed.bits + first.bits, total = two + last.bits;
        if (LIKELY(total <= 64)) {
            const u64 all =
                stayed.particles | put_behind(stayed.bits, first) | put_behind(two, last);
            make_empty(to);
            to.word[0] = (u32)all;
            to.word[1] = (u32)(all >> 32);
            return (int)total / SLOT_BITS;
        }
    }
    const int mine = particles_in(own);
    if (!held && in_four(low_bits(mine) | from_below | from_above) &&
        mine - popc(leaving) + popc(from_below) + popc(from_above) <= FOUR_SLOTS) {
        FourWords all = {0, 0, 0};
        all.put(own, low_bits(mine) & ~leaving, l.packing);
        all.put(below, from_below, l.packing);
        all.put(above, from_above, l.packing);
        make_empty(to);
        return all.store(to);
    }
#endif
    Site staying = own;
    int n = take_out(staying, leaving, l.packing);
    to = staying;
    append(to, n, below, from_below, l.packing, spill);
    if (face_kind(face) == HELD && c == 0)
        append_ghosts(l, s, site, face, type_at(l, index), slots_of(to), n, spill);
    append(to, n, above, from_above, l.packing, spill);
    if (face_kind(face + 1) == HELD && c + 1 == n_sites)
        append_ghosts(l, s, site, face + 1, type_at(l, index), slots_of(to), n, spill);
    return n < SLOTS ? n : SLOTS;
}

// Loads the tile with its rim, and decides who hops along x. A thread with few sites loads AHEAD what it may
// need later, and does all groups of a fuller site itself: both hide latency.
template <bool AHEAD>
DEVICE_SHARED void load_and_decide_x(const Lattice &l, const LatticeStream &s, const PlaneTile &t,
                                     PlaneWork &work) {
    for (int i = THREAD_ID; i < RIM_Y * RIM_X; i += BLOCK_THREADS) {
        int y = t.y0 + i / RIM_X - 1, x = t.x0 + i % RIM_X - 1;
        Moves moves = {0, 0};
        const bool there = brought_inside(y, t.ny, face_kind(2) == PERIODIC);
        if (!brought_inside(x, t.nx, face_kind(4) == PERIODIC) || !there) {
            make_empty(work.before[i]);
        } else {
            const int in_plane = y * t.nx + x;
            const i64 index = t.first_index + in_plane;
            Sides sides = {0, 0};
            if (DRAW_AHEAD) sides = sides_of(l, index, x, t.nx, 1, 4);
            const Site content = l.state[index];
            work.before[i] = content;
            if (DRAW_AHEAD || !is_empty(content)) {
                const u64 site = t.first_site + (u64)in_plane;
                const Philox4 bits = lattice_draw(s, site, PURPOSE_XY, 0, 0);
                work.y_bits[i] = joined(bits.x2, bits.x3);
                moves = decide_first(l, s, site, 0, content, joined(bits.x0, bits.x1),
                                     DRAW_AHEAD ? sides : sides_of(l, index, x, t.nx, 1, 4));
                if (AHEAD)
                    decide_more(l, s, site, 0, content, sides, moves);
                else if (has_more_groups(content))
                    note_fuller(work, 0, i);
            }
        }
        work.x_moves[i] = {(SlotBits)moves.minus, (SlotBits)moves.plus};
    }
}

DEVICE_SHARED void decide_fuller_x(const Lattice &l, const LatticeStream &s, const PlaneTile &t,
                                   PlaneWork &work) {
    for (int j = THREAD_ID; j < (int)work.n_fuller[0]; j += BLOCK_THREADS) {
        const int i = work.fuller[0][j];
        int y = t.y0 + i / RIM_X - 1, x = t.x0 + i % RIM_X - 1;
        brought_inside(y, t.ny, face_kind(2) == PERIODIC);
        brought_inside(x, t.nx, face_kind(4) == PERIODIC);
        const int in_plane = y * t.nx + x;
        Moves moves = {0, 0};
        decide_more(l, s, t.first_site + (u64)in_plane, 0, work.before[i],
                    sides_of(l, t.first_index + in_plane, x, t.nx, 1, 4), moves);
        add_moves(work.x_moves[i], moves);
    }
}

// Moves along x, and decides who hops along y.
template <bool AHEAD>
DEVICE_SHARED void move_x_and_decide_y(const Lattice &l, const LatticeStream &s, const PlaneTile &t,
                                       PlaneWork &work) {
    for (int i = THREAD_ID; i < RIM_Y * TILE_X; i += BLOCK_THREADS) {
        const int row = i / TILE_X, x = t.x0 + i % TILE_X, at = row * RIM_X + i % TILE_X + 1;
        int y = t.y0 + row - 1;
        Moves moves = {0, 0};
        if (x >= t.nx || !brought_inside(y, t.ny, face_kind(2) == PERIODIC)) {
            make_empty(work.after_x[i]);
        } else {
            const int in_plane = y * t.nx + x;
            const i64 index = t.first_index + in_plane;
            const u64 site = t.first_site + (u64)in_plane;
            const bool mine = row > 0 && row <= TILE_Y && t.y0 + row <= t.ny;
            const SpillHere spill = {l, t.tile, site, SPILL_X, mine};
            const SlotMoves own = work.x_moves[at];
            Sides sides = {0, 0};
            if (AHEAD) sides = sides_of(l, index, y, t.ny, l.nx, 2);
            gather(l, s, work.before[at], (u32)(own.minus | own.plus), work.before[at - 1],
                   work.x_moves[at - 1].plus, work.before[at + 1], work.x_moves[at + 1].minus, site,
                   index, x, t.nx, 4, spill, work.after_x[i]);
            if (!is_empty(work.after_x[i])) {
                const bool drawn = DRAW_AHEAD || !is_empty(work.before[at]);
                moves = decide_first(l, s, site, 1, work.after_x[i],
                                     drawn ? work.y_bits[at] : hop_bits(s, site, 0, 1),
                                     AHEAD ? sides : sides_of(l, index, y, t.ny, l.nx, 2));
                if (AHEAD)
                    decide_more(l, s, site, 1, work.after_x[i], sides, moves);
                else if (has_more_groups(work.after_x[i]))
                    note_fuller(work, 1, i);
            }
        }
        work.y_moves[i] = {(SlotBits)moves.minus, (SlotBits)moves.plus};
    }
}

DEVICE_SHARED void decide_fuller_y(const Lattice &l, const LatticeStream &s, const PlaneTile &t,
                                   PlaneWork &work) {
    for (int j = THREAD_ID; j < (int)work.n_fuller[1]; j += BLOCK_THREADS) {
        const int i = work.fuller[1][j], x = t.x0 + i % TILE_X;
        int y = t.y0 + i / TILE_X - 1;
        brought_inside(y, t.ny, face_kind(2) == PERIODIC);
        const int in_plane = y * t.nx + x;
        Moves moves = {0, 0};
        decide_more(l, s, t.first_site + (u64)in_plane, 1, work.after_x[i],
                    sides_of(l, t.first_index + in_plane, y, t.ny, l.nx, 2), moves);
        add_moves(work.y_moves[i], moves);
    }
}

// Moves along y and stores the tile. With DECIDES_Z it also decides who hops along z.
template <bool DECIDES_Z>
DEVICE_SHARED void move_y(const Lattice &l, const LatticeStream &s, const PlaneTile &t,
                          PlaneWork &work) {
    for (int i = THREAD_ID; i < TILE_SITES; i += BLOCK_THREADS) {
        const int y = t.y0 + i / TILE_X, x = t.x0 + i % TILE_X, at = i + TILE_X;
        if (y >= t.ny || x >= t.nx) continue;
        const int in_plane = y * t.nx + x;
        const i64 index = t.first_index + in_plane;
        const u64 site = t.first_site + (u64)in_plane;
        const SpillHere spill = {l, t.tile, site, SPILL_Y, true};
        const SlotMoves own = work.y_moves[at];
        Site &to = work.before[(i / TILE_X + 1) * RIM_X + i % TILE_X + 1];
        u64 bits = 0;
        Sides sides = {0, 0};
        if (DECIDES_Z && DRAW_AHEAD) {
            sides = sides_along_z(l, t.plane, index);
            bits = hop_bits(s, site, 0, 2);
        }
        gather(l, s, work.after_x[at], (u32)(own.minus | own.plus), work.after_x[at - TILE_X],
               work.y_moves[at - TILE_X].plus, work.after_x[at + TILE_X],
               work.y_moves[at + TILE_X].minus, site, index, y, t.ny, 2, spill, to);
        l.moved[index] = to;
        if (!is_empty(to)) l.moved_stamps[t.tile] = (u32)(l.step + 1);
        if (DECIDES_Z) {
            Moves moves = {0, 0};
            if (!is_empty(to))
                moves = decide(l, s, site, 2, to, DRAW_AHEAD ? bits : hop_bits(s, site, 0, 2),
                               DRAW_AHEAD ? sides : sides_along_z(l, t.plane, index));
            l.z_moves[index] = {(SlotBits)moves.minus, (SlotBits)moves.plus};
        }
    }
}

// Whether the tile or one of the eight around it holds particles. Threads look at one each.
DEVICE bool tile_is_reached(const Lattice &l, const PlaneTile &t) {
    const int along_x = tiles_along_x(l), along_y = tiles_along_y(l);
    const u32 *stamps = l.state_stamps + t.plane * tiles_of_plane(l);
    bool reached = l.always && l.always[t.tile] & 1;
    for (int i = THREAD_ID; i < 9; i += BLOCK_THREADS) {
        int y = t.y0 / TILE_Y + i / 3 - 1, x = t.x0 / TILE_X + i % 3 - 1;
        if (brought_inside(y, along_y, face_kind(2) == PERIODIC) &&
            brought_inside(x, along_x, face_kind(4) == PERIODIC))
            reached = reached || stamps[y * along_x + x] == (u32)(l.step + 1);
    }
    return any_in_block(reached);
}

DEVICE void empty_tile(const Lattice &l, const PlaneTile &t, Site *sites) {
    for (int i = THREAD_ID; i < TILE_SITES; i += BLOCK_THREADS) {
        const int y = t.y0 + i / TILE_X, x = t.x0 + i % TILE_X;
        if (y < l.ny && x < l.nx) make_empty(sites[site_index(l, t.plane, y, x)]);
    }
}

// A tile that is reached. The lists of fuller sites are empty before.
template <bool DECIDES_Z>
DEVICE_SHARED void hop_through_tile(const Lattice &l, const LatticeStream &s, const PlaneTile &t,
                                    PlaneWork &work) {
    constexpr bool AHEAD = DECIDES_Z && DRAW_AHEAD;
    load_and_decide_x<AHEAD>(l, s, t, work);
    BARRIER();
    if (!AHEAD) {
        decide_fuller_x(l, s, t, work);
        BARRIER();
    }
    move_x_and_decide_y<AHEAD>(l, s, t, work);
    BARRIER();
    if (!AHEAD) {
        decide_fuller_y(l, s, t, work);
        BARRIER();
    }
    move_y<DECIDES_Z>(l, s, t, work);
    if (!AHEAD && THREAD_ID == 0) work.n_fuller[0] = work.n_fuller[1] = 0;
    BARRIER();
}

// Tile `number` of all planes.
DEVICE_SHARED void hop_in_plane(const Lattice &l, const LatticeStream &s, i64 number,
                                PlaneWork &work) {
    const PlaneTile t = plane_tile(l, number);
    if (THREAD_ID == 0) {
        *tile_head(l, (l.step + 1) & 1, number) = -1;
        work.n_fuller[0] = work.n_fuller[1] = 0;
    }
    if (tile_is_reached(l, t))
        hop_through_tile<false>(l, s, t, work);
    else if (l.moved_stamps[number] == (u32)l.step)
        empty_tile(l, t, l.moved);
}
