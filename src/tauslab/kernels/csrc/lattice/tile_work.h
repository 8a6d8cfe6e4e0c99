// How a block divides tiles and rows of tiles among its warps, and the memory that each of these has.
#pragma once

#include "lattice/warp_column.h"

// Tiles that a block hops in side by side: one for each warp, or one.
#if WARP_TILES
constexpr int WARPS = TILE_THREADS / WARP_LANES;
constexpr int TILES_EACH = WARPS, ROWS_EACH = WARPS, ROWS = TILE_Y;
struct TileWork {
    WarpTileWork of_warp[WARPS];
};
struct RowWork {
    Site kept[TILE_THREADS];
};
DEVICE int warp_of_block() {
    return THREAD_ID / WARP_LANES;
}
DEVICE void hop_in_tile(const Lattice &l, const LatticeStream &s, i64 number, TileWork &work) {
    hop_in_warp_tile(l, s, number, work.of_warp[warp_of_block()]);
}
DEVICE void march_along_z(const Lattice &l, const LatticeStream &s, i64 tile, int row, i64 begin,
                          i64 end, RowWork &work) {
    for (; begin < end; begin += MOST_MARCHED)
        march_in_lanes(l, s, tile, row, begin,
                       begin + MOST_MARCHED < end ? begin + MOST_MARCHED : end,
                       work.kept + warp_of_block() * WARP_LANES);
}
#else
constexpr int TILES_EACH = 1, ROWS_EACH = 1, ROWS = 1;
typedef PlaneWork TileWork;
typedef ColumnWork RowWork;
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
