// Hops along z of a block's lines, reactions, and particles that waited.
#pragma once

#include "lattice/lines/hops.h"

// What comes from a neighbour along z, at a site of its line.
DEVICE Portion portion_along_z(const Lattice &l, const LineBuffers &b, int line, int lane,
                               bool from_over, Part part) {
    if (part != MANY_PART) return portion_of(part);
    const int index = b.lines[line].first + lane;
    Portion portion;
    portion.site = l.moved[index];
    portion.slots = from_over ? b.z_moves[index].minus : b.z_moves[index].plus;
    return portion;
}

// Whether a bound on the probability tells that nothing reacts in a site of `n` particles.
DEVICE bool nothing_reacts(const Lattice &l, int type, u32 upper, u32 n) {
    if (N_REACTIONS == 0 || (N_ZEROTH == 0 && n == 0)) return true;
    const u32 *bounds = l.bounds + 2 * ROW * type;
    return REACTION_PASSES == 1 && upper > bounds[0] + (u64)(n * n) * bounds[1];
}

struct PartsAlongZ {
    Part under, over;  // who comes from there
};

// Words that a lane waits for, as they were seen last.
struct PublishedPart {
    u64 word[PIECES];

    DEVICE_MEMBER void look(const u64 *from) {
        UNROLL for (int i = 0; i < PIECES; ++i) word[i] = published(from + i);
    }

    DEVICE_MEMBER bool is_of(u32 step) const {
        return (u32)(word[0] >> 32) == step && (u32)(word[PIECES - 1] >> 32) == step;
    }

    DEVICE_MEMBER Part part() const {
        return OF_BYTES ? (Part)(u32)word[0]
                        : (Part)((u32)word[0] | (u64)(u32)word[PIECES - 1] << 32);
    }
};

// Words from under and over a line.
struct WordsAlongZ {
    PublishedPart under, over;
};

DEVICE void look_along_z(const LineBuffers &b, const Line &line, int lane, WordsAlongZ &words) {
    if (line.under >= 0) words.under.look(b.plus_out + (line.under * LANES + lane) * PIECES);
    if (line.over >= 0) words.over.look(b.minus_out + (line.over * LANES + lane) * PIECES);
}

// Waits until both are there.
DEVICE PartsAlongZ wait_along_z(const LineBuffers &b, const Line &line, int lane, u32 step,
                                WordsAlongZ words) {
    NO_UNROLL while ((line.under >= 0 && !words.under.is_of(step)) ||
                     (line.over >= 0 && !words.over.is_of(step))) {
        wait_a_little();
        look_along_z(b, line, lane, words);
    }
    const PartsAlongZ parts = {line.under >= 0 ? words.under.part() : 0,
                               line.over >= 0 ? words.over.part() : 0};
    if (parts.under == MANY_PART || parts.over == MANY_PART) threadfence();
    return parts;
}

// Finishes a site that did not fit registers, or where particles wait.
DEVICE_SHARED void finish_in_memory(const Lattice &l, const LatticeStream &s, const LineBuffers &b,
                                    int place, int lane, bool some_wait, bool whole,
                                    const Held &built, int n, PartsAlongZ parts, LinesWork &work) {
    const Line &line = work.lines[place];
    const int index = line.first + lane;
    const i64 tile = tile_of_site(l, index);
    const SpillHere spill = {l, tile, (u64)index, SPILL_Z, true};
    Site &to = work.of_thread[THREAD_ID];
    if (whole) {
        make_site(to, built);
    } else {
        u32 leaving = 0;
        if (work.count[place][lane] == 0xff) {
            to = l.moved[index];
            leaving = b.z_moves[index].minus | b.z_moves[index].plus;
        } else {
            make_site(to, stayed_in_line(work, place, lane).stayed);
        }
        n = join_one_by_one(l, portion_along_z(l, b, line.under, lane, false, parts.under),
                            portion_along_z(l, b, line.over, lane, true, parts.over), spill, leaving,
                            to);
    }
    finish_site_of_type(l, s, spill, l.state_stamps + tile, index, type_in_line(work, place, lane),
                        some_wait, true, work.reaction_bits[place][lane], n, to);
}

// The reaction that happens in a site of `n` particles, or -1: as react() of lattice/site/react.h.
DEVICE_SHARED int reaction_in_registers(const Lattice &l, const LatticeStream &s, int index, int type,
                                        u64 bits, const HeldSlots &slots, int n) {
    if ((u32)(bits >> 32) > bound_of(l.bounds + 2 * ROW * type, slots, n)) return -1;
    const Philox4 x = lattice_draw(s, (u32)index, PURPOSE_CHOICE, 0, 0);
    ReactionSum sum = {l.chances + type, NO_TARGET, 0.0, -1};
    NO_UNROLL for (int turn = 0; turn < 2; ++turn) {  // whether, then which
        sum.sum = 0;
        add_reactions(l.tables, slots, n, sum);
        if (turn == 1) break;
        if (!happens(bits, sum.sum)) return -1;
        sum.target = unit_half_open(x.x0, x.x1) * sum.sum;
    }
    return sum.chosen;
}

// Finishes a site of up to eight particles in which a reaction may happen.
DEVICE_SHARED void react_in_registers(const Lattice &l, const LatticeStream &s, int index, int type,
                                      u64 bits, HeldSlots slots, int n, LinesWork &work) {
    const int reaction = N_REACTIONS > 0 ? reaction_in_registers(l, s, index, type, bits, slots, n) : -1;
    Site site;
    if (reaction >= 0) {
        const i32 *tables = l.tables;
        atomic_add(l.fired + reaction, 1);
        const i32 first = tables[PRODUCT_START + reaction], end = tables[PRODUCT_START + reaction + 1];
        if (n + end - first > HELD_SLOTS) {
            const i64 tile = tile_of_site(l, index);
            const SpillHere spill = {l, tile, (u64)index, SPILL_REACTION, true};
            Site &to = work.of_thread[THREAD_ID];
            u32 spilled = 0;
            make_site(to, slots.held);
            fire(tables, reaction, slots_of(to), n, spilled, spill);
            if (spilled) place_waiting(l, tile, (u64)index, slots_of(to), n);
            l.state[index] = to;
            return;
        }
        NO_UNROLL for (int i = 0; i < 2; ++i) {
            const u32 reactant = (u32)tables[REACTANTS + 2 * reaction + i];
            if (reactant) remove_first(slots, n, reactant);
        }
        NO_UNROLL for (i32 k = first; k < end; ++k, ++n)
            put_behind(slots.held, (u32)(n * SLOT_BITS), (Part)tables[PRODUCTS + k]);
    }
    make_site(site, slots.held);
    l.state[index] = site;
}

// The rest of the step in a line of the block.
DEVICE void finish_line(const Lattice &l, const LatticeStream &s, const LineBuffers &b, int place,
                        int lane, bool some_wait, PartsAlongZ parts, LinesWork &work) {
    const LineSite at = line_site(l, work.lines[place], lane);
    const bool many = work.count[place][lane] == 0xff;
    Held built;
    const u32 size = join(stayed_in_line(work, place, lane), parts.under, parts.over, built);
    const int n = (int)size / SLOT_BITS;
    const bool whole = is_whole(size, many ? MANY_PART : 0, parts.under, parts.over);
    const int type = type_in_line(work, place, lane);
    const u64 bits = work.reaction_bits[place][lane];
    const bool plain = whole && !some_wait && (N_REACTIONS == 0 || REACTION_PASSES == 1);
    if (!at.inside) return;
    if (LIKELY(plain && nothing_reacts(l, type, (u32)(bits >> 32), (u32)n))) {
        Site to;
        make_site(to, built);
        l.state[at.index] = to;
    } else if (plain) {
        react_in_registers(l, s, at.index, type, bits, {built}, n, work);
    } else {
        finish_in_memory(l, s, b, place, lane, some_wait, whole, built, n, parts, work);
    }
}
