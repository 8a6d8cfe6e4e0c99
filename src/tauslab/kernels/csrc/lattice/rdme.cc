// A step of a lattice of particles: hops along x, y and z, the reactions of each site, then particles
// that waited for room.
//
//     Hallock & Peterson 2013, Algorithm 1     here
//     lattice, slots of a site                 Lattice::state, Site
//     diffusion operator along x, y, z         `rdme_xy`, then `rdme_z`
//     reaction operator                        `react`, in each pass; there at most one reaction
//     overflow list                            Waiting, `add_waiting`
//     random number of a site                  `lattice_draw`, addressed by site, step and purpose
//
// Hops along z: `march_site` (lattice/column.h); where a warp keeps sites in registers `march_in_lanes`
// (lattice/warp_column.h).
//
// docs/rdme.md says what differs from the paper: addresses of draws, thresholds, the list of waiting
// particles.
#include "lattice/warp_column.h"
#include "lattice/cooperative_steps.h"

// Tiles that a block hops in side by side: one for each warp, or one.
#if WARP_TILES
constexpr int WARPS = TILE_THREADS / WARP_LANES;
constexpr int TILES_EACH = WARPS, ROWS_EACH = WARPS, ROWS = TILE_Y;
struct TileWork {
    WarpTileWork of_warp[WARPS];
};
struct RowWork {
    WarpColumnWork of_warp[WARPS];
    ReactionLimits limits;
};
DEVICE int warp_of_block() {
    return (int)uniform((u32)(THREAD_ID / WARP_LANES));
}
DEVICE void prepare_rows(const Lattice &l, RowWork &work) {
    fill_limits(l, work.limits);
}
DEVICE void hop_in_tile(const Lattice &l, const LatticeStream &s, i64 number, TileWork &work) {
    hop_in_warp_tile(l, s, number, work.of_warp[warp_of_block()]);
}
DEVICE void march_along_z(const Lattice &l, const LatticeStream &s, i64 tile, int row, i64 begin,
                          i64 end, RowWork &work) {
    for (; begin < end; begin += MOST_MARCHED)
        march_in_lanes(l, s, work.limits, tile, row, begin,
                       begin + MOST_MARCHED < end ? begin + MOST_MARCHED : end,
                       work.of_warp[warp_of_block()]);
}
#else
constexpr int TILES_EACH = 1, ROWS_EACH = 1, ROWS = 1;
typedef PlaneWork TileWork;
typedef ColumnWork RowWork;
DEVICE void prepare_rows(const Lattice &, RowWork &) {}
DEVICE int warp_of_block() {
    return 0;
}
DEVICE void hop_in_tile(const Lattice &l, const LatticeStream &s, i64 number, TileWork &work) {
    hop_in_plane(l, s, number, work);
}
DEVICE void march_along_z(const Lattice &l, const LatticeStream &s, i64 tile, int, i64 begin,
                          i64 end, RowWork &work) {
    hop_along_z_and_react(l, s, tile, begin, end, work);
}
#endif

// Which planes of those that are stored: begin .. end - 1 but hole_begin .. hole_end - 1.
struct PlaneRange {
    i64 begin, end, hole_begin, hole_end;
};

struct PlaneHopArguments {
    LatticeArguments lattice;
    PlaneRange planes;
    i64 opens;  // 1 in one launch of a step, the first of the slab's own planes
};

// Hops along x and y.
BLOCK_KERNEL(TILE_THREADS, TILE_BLOCKS, rdme_xy, const PlaneHopArguments arguments) {
    SHARED TileWork shared;
    LATTICE_IN_BLOCK(l, arguments.lattice);
    BARRIER();
    const LatticeStream s = lattice_stream(l.seed, l.step, (u32)l.replica);
    if (arguments.opens && BLOCK_ID == 0 && THREAD_ID == 0)
        l.work[WAITING_0 + ((l.step + 1) & 1)] = 0;
    const i64 tiles = tiles_of_plane(l);
    const PlaneRange planes = arguments.planes;
    const i64 left_out = (planes.hole_end - planes.hole_begin) * tiles;
    for (i64 t = planes.begin * tiles + BLOCK_ID * TILES_EACH + warp_of_block();
         t < planes.end * tiles - left_out; t += BLOCKS * TILES_EACH)
        hop_in_tile(l, s, t < planes.hole_begin * tiles ? t : t + left_out, shared);
}

struct ColumnArguments {
    LatticeArguments lattice;
    PlaneRange planes;
    i64 segment;  // planes that a block does
};

// The rest of the step, when the hops along x and y are done in these planes and those beside them.
BLOCK_KERNEL(TILE_THREADS, COLUMN_BLOCKS, rdme_z, const ColumnArguments arguments) {
    SHARED RowWork shared;
    LATTICE_IN_BLOCK(l, arguments.lattice);
    prepare_rows(l, shared);
    BARRIER();
    const LatticeStream s = lattice_stream(l.seed, l.step, (u32)l.replica);
    const PlaneRange planes = arguments.planes;
    const i64 segment = arguments.segment, tiles = tiles_of_plane(l);
    const i64 below = (planes.hole_begin - planes.begin + segment - 1) / segment;
    const i64 pieces = below + (planes.end - planes.hole_end + segment - 1) / segment;
    const i64 along_x = tiles_along_x(l);
    for (i64 i = BLOCK_ID * ROWS_EACH + warp_of_block(); i < tiles * ROWS * pieces;
         i += BLOCKS * ROWS_EACH) {
        // Rows along x first: what lies side by side in memory is read at about the same time.
        const i64 piece = i / (tiles * ROWS), of_piece = i - piece * (tiles * ROWS);
        const i64 along_y = of_piece / along_x, tile_row = along_y / ROWS;
        const i64 tile = tile_row * along_x + (of_piece - along_y * along_x);
        const i64 first = piece < below ? planes.begin + piece * segment
                                        : planes.hole_end + (piece - below) * segment;
        const i64 most = piece < below ? planes.hole_begin : planes.end;
        const i64 last = first + segment < most ? first + segment : most;
        march_along_z(l, s, tile, (int)(along_y - tile_row * ROWS), first, last, shared);
    }
}

struct WholeStepArguments {
    LatticeArguments lattice;
    SlotMoves *z_moves;  // see Lattice
    i32 *listed;         // [6, plane, tile]
    i64 steps;
};

#if MANY_STEPS
// Whole steps of a lattice that lies on one device, without a launch for each. All blocks run at the
// same time.
BLOCK_KERNEL(TILE_THREADS, TOGETHER_BLOCKS, rdme_steps, const WholeStepArguments arguments) {
    SHARED CooperativeWork shared;
    LATTICE_IN_BLOCK(l, arguments.lattice);
    REACTIONS_IN_BLOCK(l);
    l.z_moves = arguments.z_moves;
    whole_steps(l, arguments.listed, arguments.steps, BLOCK_ID, BLOCKS, shared);
}
#endif
