// Whole steps of a small lattice on one device in which most sites hold particles: the same steps as `rdme_steps`
// (lattice/rdme.cc), with the same draws and so the same bits. Blocks keep lines of 32 sites for the whole launch.
//
//     hops along x, who hops along y     the block's memory has who stays and who leaves
//     hops along y, who hops along z     memory of the device has who leaves
//     hops along z, reactions
//
// A block waits for its own threads behind the first, and for all blocks behind the others: all run at the same time.
#define IN_LINES
#include "lattice/lines/finish.h"

struct LineStepArguments {
    LatticeArguments lattice;
    const Line *lines;
    Site *after_x;
    Moves *y_moves;
    Moves *z_moves;
    Part *minus_out;
    Part *plus_out;
    i64 n_lines;
    i64 steps;
};

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
    const i64 tiles = l.planes * tiles_of_plane(l);
    const i64 thread = BLOCK_ID + BLOCKS * THREAD_ID, threads = BLOCKS * BLOCK_THREADS;
    u32 arrivals = 0;
    BARRIER();
    if (DRAWS_LINES_AHEAD) {
        draw_along_xy(l, l.step, lines, warp, lane, work);
        draw_along_z(l, l.step, lines, warp, lane, work);
        LANES_BARRIER(LANES);
    }
    NO_UNROLL for (i64 n = 0; n < arguments.steps; ++n, ++l.step) {
        Site next;
        if (warp < lines.all) next = load_of_line(l, work.lines[warp], lane);
        if (thread == 0) l.work[WAITING_0 + ((l.step + 1) & 1)] = 0;
        for (i64 tile = thread; tile < tiles; tile += threads)
            *tile_head(l, (l.step + 1) & 1, tile) = -1;
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
        grid_arrive(l.work + BARRIER_CELL, BLOCKS, arrivals);
        if (DRAWS_LINES_AHEAD) draw_along_z(l, l.step + 1, lines, warp, lane, work);
        grid_wait(l.work + BARRIER_CELL, arrivals);
        const bool some_wait = *(volatile u64 *)(l.work + WAITING_0 + (l.step & 1)) != 0;
        PartsAlongZ parts = {0, 0};
        if (warp < lines.own) parts = load_parts(b, work.lines[warp], lane);
        NO_UNROLL for (int i = warp; i < lines.own; i += LINE_WARPS) {
            const PartsAlongZ here = parts;
            if (i + LINE_WARPS < lines.own)
                parts = load_parts(b, work.lines[i + LINE_WARPS], lane);
            finish_line(l, along_z.s, b, i, lane, some_wait, here, work);
        }
        grid_arrive(l.work + BARRIER_CELL, BLOCKS, arrivals);
        if (DRAWS_LINES_AHEAD) draw_along_xy(l, l.step + 1, lines, warp, lane, work);
        grid_wait(l.work + BARRIER_CELL, arrivals);
    }
    for (i64 tile = thread; tile < tiles; tile += threads)
        l.state_stamps[tile] = (u32)(l.step + 1);
}
