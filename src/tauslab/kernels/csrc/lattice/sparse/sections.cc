// Whole steps of a small lattice on one device in which few sites hold particles, with one barrier of all blocks a
// step: the same steps as `rdme_sparse_steps` (lattice/sparse/steps.cc), with the same draws and so the same bits.
//
// All blocks run at the same time. Why one barrier is enough: the lattice and its words are stored twice, and a step
// reads the one and writes the other.
//
//     in step n                                            read by        written by
//     the lattice after n steps, and its words             all blocks     nobody
//     the other memory, and its words                      nobody         the block whose section it is
//     particles that wait in a tile, after n and n + 1     that block     that block
//     numbers of reactions, of spills, of those waiting    nobody         all blocks, which add to them
//
// So no block reads what another writes in the same step, and what it reads was written before the barrier. What
// hops into a section along z comes from planes beside it, whose hops along x and y the block does again: they
// depend on the lattice after n steps alone. A number that is added to in steps n and n + 1 is cleared in step n - 1,
// which adds to two others (count_of_list()).
#include "lattice/site/lattice.h"

// The number of particles on the list of a step: three in turn, because two are in use while that of the list after
// the next is cleared.
DEVICE u64 *count_of_list(const Lattice &l, u64 step) {
    return l.work + COUNT_OF_LIST_0 + step % 3;
}
#define WAITING_COUNT(l, list) count_of_list(l, (l).step + ((list) != ((l).step & 1)))

#include "lattice/sparse/section.h"

struct SectionStepArguments {
    LatticeArguments
        lattice;         // `moved` is the other memory, all zeros where its words say nothing else
    Site *sites;         // SectionRoom of all blocks, [block, warp, site of a tile]
    SlotMoves *z_moves;  // likewise
    u16 *rows;  // [2, plane, tile, row]: sites that hold particles in `state` and in `moved`
    i64 anew;   // whether `rows` does not say so yet
    i64 steps;
    const i64 *marks;  // the lattice is counted after so many steps, ascending, ...
    i64 n_marks;
    u64 *counts;  // ... into a row each, as count_rest() of lattice/counting.h says
    i64 columns;  // of a row
};

// Makes a tile of one memory, with its words, as it is in the other.
DEVICE void copy_tile(const Lattice &l, Site *to, u16 *to_words, const Site *from,
                      const u16 *from_words, const SparseTile &tile) {
    const PlaneTile &t = tile.t;
    NO_UNROLL for (int r = tile.lane; r < tile.end; r += TILE_LANES) {
        const i64 at = t.tile * TILE_Y + r, first = site_index(l, t.plane, t.y0 + r, t.x0);
        NO_UNROLL for (u32 left = (u32)to_words[at] | from_words[at]; left; left &= left - 1)
            to[first + lowest_bit(left)] = from[first + lowest_bit(left)];
        to_words[at] = from_words[at];
    }
}

// How many particles wait, from where other kernels have it, and back.
DEVICE void take_count(const Lattice &l) {
    *count_of_list(l, l.step) = l.work[WAITING_0 + (l.step & 1)];
    *count_of_list(l, l.step + 1) = 0;
}

DEVICE void leave_count(const Lattice &l) {
    l.work[WAITING_0 + (l.step & 1)] = *count_of_list(l, l.step);
}

// Begins to do a section: each warp its tile.
DEVICE_SHARED void begin_section(const Lattice &l, const u16 *held, const u16 *next,
                                 const Section &section, int warp, int warps, int lane,
                                 SectionWork *works) {
    NO_UNROLL for (int i = warp; i < SECTION_TILES; i += warps)
        begin_tile(l, held, next, tile_of_section(l, section, i, lane), works[i]);
    BARRIER();
}

BLOCK_KERNEL(SPARSE_THREADS, SPARSE_BLOCKS, rdme_sparse_sections, const SectionStepArguments arguments) {
    SHARED SectionWork works[SECTION_TILES];
    SHARED u32 bins[BLOCK_BINS];
    LATTICE_IN_BLOCK(l, arguments.lattice);
    REACTIONS_IN_BLOCK(l);
    const int warp = THREAD_ID / TILE_LANES, lane = THREAD_ID % TILE_LANES,
              warps = BLOCK_THREADS / TILE_LANES;
    NO_UNROLL for (int i = warp; i < SECTION_TILES; i += warps) start_work(works[i], lane);
    BARRIER();
    const i64 words = l.planes * tiles_of_plane(l) * TILE_Y;
    const int sections = (int)sections_of(l), block = (int)BLOCK_ID, blocks = (int)BLOCKS;
    const SectionRoom room = {arguments.sites + BLOCK_ID * SECTION_TILES * TILE_SITES,
                              arguments.z_moves + BLOCK_ID * SECTION_TILES * TILE_SITES};
    const bool several = blocks < sections;  // sections of a block
    Section section = section_of(l, block);
    Site *now = l.state, *next = l.moved;
    u16 *held = arguments.rows, *next_held = held + words;
    u32 arrivals = 0;
    if (arguments.anew) {
        if (BLOCK_ID == 0 && THREAD_ID == 0) take_count(l);
        NO_UNROLL for (int k = block; k < sections; k += blocks) {
            const Section found = section_of(l, k);
            NO_UNROLL for (int i = 1 + warp; i <= found.planes; i += warps) {
                const SparseTile tile = tile_of_section(l, found, i, lane);
                find_held(l, now, held, tile);
                find_held(l, next, next_held, tile);
            }
        }
        grid_barrier(l.work + BARRIER_CELL, BLOCKS, arrivals);
    }
    begin_section(l, held, next_held, section, warp, warps, lane, works);
    i32 done = 0;  // a launch has fewer than 2^31 steps
    NO_UNROLL for (i32 mark = 0; done < (i32)arguments.steps; ++mark) {
        const bool counts = mark < arguments.n_marks;
        const i32 until = (i32)(counts ? arguments.marks[mark] : arguments.steps);
        NO_UNROLL for (; done < until; ++done, ++l.step) {
            const LatticeStream s = lattice_stream(l.seed, l.step, (u32)l.replica);
            if (BLOCK_ID == 0 && THREAD_ID == 0) *count_of_list(l, l.step + 2) = 0;
            NO_UNROLL for (int k = block; k < sections; k += blocks) {
                if (several) {
                    section = section_of(l, k);
                    begin_section(l, held, next_held, section, warp, warps, lane, works);
                }
                l.state = now;
                NO_UNROLL for (int i = warp; i < SECTION_TILES; i += warps)
                    hop_in_section(l, s, held, section, i, lane, room_of_tile(room, i), works[i]);
                BARRIER();
                l.state = next;
                NO_UNROLL for (int i = warp; i <= section.planes; i += warps)
                    if (i > 0)
                        finish_in_section(l, s, next_held, i, lane, room_of_tile(room, i), works);
                if (k + blocks < sections) {
                    BARRIER();
                }
            }
            grid_barrier(l.work + BARRIER_CELL, BLOCKS, arrivals);
            Site *const sites = now;
            u16 *const words_read = held;
            now = next, held = next_held;
            next = sites, next_held = words_read;
        }
        if (!counts) break;
        l.state = now;
        clear_bins(SIZES, bins);
        BARRIER();
        u64 *const row = arguments.counts + mark * arguments.columns;
        NO_UNROLL for (int k = block; k < sections; k += blocks) {
            const Section counted = section_of(l, k);
            NO_UNROLL for (int i = 1 + warp; i <= counted.planes; i += warps)
                count_piece(l, held, tile_of_section(l, counted, i, lane), bins, row);
        }
        BARRIER();
        count_rest(SIZES, counted_now(l, l.step, row), bins, BLOCK_ID, BLOCKS, *count_of_list(l, l.step));
        grid_barrier(l.work + BARRIER_CELL, BLOCKS, arrivals);
    }
    if (BLOCK_ID == 0 && THREAD_ID == 0) leave_count(l);
    if (arguments.steps % 2 == 0) return;
    NO_UNROLL for (int k = block; k < sections; k += blocks) {
        const Section odd = section_of(l, k);
        NO_UNROLL for (int i = 1 + warp; i <= odd.planes; i += warps)
            copy_tile(l, next, next_held, now, held, tile_of_section(l, odd, i, lane));
    }
}
