// The propensities of a large network as a forest of sum trees, and the search for a reaction.
//
//     Ramaswamy et al. 2009          here
//     X_i                            State::x, the count of the owner
//     Pi_ij, partial propensity      `term_constant` times the term's whole number
//     Lambda_i = sum_j Pi_ij         the owner's chunks, and the sums above them
//     Sigma_i = X_i Lambda_i         `update_owner`, Chunk::store
//     a = sum_i Sigma_i              `Root`
//
// *Owners* (selector `pdm`; J. Chem. Phys. 130, 244104): a mass-action propensity of one or two molecules
// is a count x times a partial propensity. The species of x owns the reaction. The reactions of an owner
// with one rate constant c form a *term*: c times a whole number n, which is the sum of their partners'
// counts, or the number of reactions. A firing changes whole numbers by whole numbers, so nothing
// drifts. Then it recomputes the sums that hold these terms. Terms are in chunks of up to 32.
//
// *Stored* leaves: every other propensity (with the selector `tree`: every propensity) is a leaf
// of another sum tree. It is recomputed when
// a species changes that it reads.
//
// The *top* tree has a leaf for each owner, and one for the stored tree. The *plan* of a reaction lists
// what a firing invalidates, stage by stage: leaves, chunks, owners, sums of the lower trees, sums of
// the top tree. Every sum has the canonical shape. The sum of all, the *root*, is not stored: its reader
// adds the 32 numbers below it, and can then choose among them.
//
// With IS_DENSE, start, firings and the choice are those of tables/dense.h.
#pragma once

#include "tables/propensities.h"
#include "random/streams.h"

// Whether a firing has a record of few slots (tables/short_firing.h).
#define IS_SHORT (SHORT_SLOTS > 0 && TEAM_THREADS > 1)

// What a term's whole number is, in the third word of its record: the count of its own species less one; a
// fixed number of reactions; otherwise a sum of partners' counts, where a long list has here its first
// run of 32.
enum WholeKind : i32 { SAME_SPECIES = -1, FIXED = -2 };

// The constant factor of a term. The table AT_TERM_RATE has the rate constant. AT_TERM_LITERAL has it times
// the whole number where that number is fixed.
DEVICE double term_constant(const Tables &tables, i64 where, i64 term, const State &s) {
    const double literal = tables.real[where + (u32)term];
    return N_CONSTANTS == 0 ? literal : constant_of(tables.at(AT_TERM_SOURCE, term), literal, s.c);
}

// The width of a chunk, and where the whole numbers of its first terms are stored. The other terms have
// fixed numbers of reactions.
struct Shape {
    u32 word;
    DEVICE_MEMBER int exponent() const { return (int)(word % 8); }
    DEVICE_MEMBER int stored() const { return (int)(word / 8 % 64); }
    DEVICE_MEMBER u32 first() const { return word / 512; }
};

// The terms of a chunk, one for each lane.
struct ChunkTerms {
    const Tables &tables;
    const State &s;
    i64 first;
    Shape shape;

    DEVICE_MEMBER double operator()(int lane) const {
        const double constant = term_constant(tables, AT_TERM_LITERAL, first + lane, s);
        return lane < shape.stored() ? constant * (double)s.n[shape.first() + (u32)lane] : constant;
    }
#ifdef HAS_OCTETS
    DEVICE_MEMBER Octet octet(int lane) const {
        if (N_CONSTANTS == 0) {
            const Octet constant = load_octet(&tables.real[AT_TERM_LITERAL + first + lane]);
            if (lane >= shape.stored()) return constant;
            const Octet whole = load_octet(&s.n[shape.first() + (u32)lane]);
            return constant * first_of(whole, shape.stored() - lane, 1.0);
        }
        double values[8];
        for (int i = 0; i < 8; ++i) values[i] = (*this)(lane + i);
        return load_octet(values);
    }
#endif
};

// A chunk: its terms, where its sum is stored, and its owner's count if it is the owner's only chunk, or -1.
struct Chunk {
    const Tables &tables;
    const State &s;
    IntPair record;
    i32 count;
    Shape shape;

    DEVICE_MEMBER Chunk(const Tables &all, i64 where, i32 pair, const State &state)
        : tables(all), s(state), record(all.pair(where, pair)) {
        const IntPair more = all.pair(where, pair + 1);
        count = more.a < 0 ? -1 : s.x[more.a];
        shape = {(u32)more.b};
    }

    DEVICE_MEMBER int exponent() const { return shape.exponent(); }
    DEVICE_MEMBER ChunkTerms lanes() const { return {tables, s, record.a, shape}; }
    DEVICE_MEMBER void store(double sum) const {
        s.v[record.b] = count < 0 ? sum : count > 0 ? (double)count * sum : 0.0;
    }
};

// ------------------------------------------------------------- stages of a plan, for item `i` each

DEVICE void update_leaf(const Tables &tables, IntPair leaf, const State &s) {
    s.v[leaf.b] = propensity(tables, leaf.a, quantities_of(tables, s), s.c);
}

// Updates the chunks whose records are the pairs `begin .. end - 1` of the table `where`, two pairs each.
DEVICE void update_chunks(const Tables &tables, i64 where, i32 begin, i32 end, const State &s) {
    team_sums(
        0, (u32)(end - begin) / 2,
        [&](i64 i) { return Chunk(tables, where, begin + 2 * (i32)i, s); },
        [](const Chunk &chunk, double sum) { chunk.store(sum); });
}

// Where the values are that stage `stage` adds up; the next stage has its sums.
DEVICE const TeamArray<double> &addends_of(i32 stage, const State &s) {
    return stage >= FAST_LEVEL ? s.top : s.v;
}

// A sum of 32 neighbours, of stage `stage`.
DEVICE void update_node(i32 stage, IntPair node, const State &s) {
    const double sum = lanes_sum(Neighbours{addends_of(stage, s), node.a});
    if (first_lane()) addends_of(stage + 1, s)[node.b] = sum;
}

DEVICE void update_owner(const Tables &tables, IntPair owner, const State &s) {
    const i32 count = s.x[tables.quad(AT_OWNER, owner.a).a];
    s.v[V_TOP + owner.a] = count > 0 ? (double)count * s.v[owner.b] : 0.0;
}

// Sums of 32 neighbours. With KEEPS_SUMS a warp keeps in registers the partial sums of the last node of every
// stage. The next choice often needs the same node, because most firings change what the last one changed.
struct Kept {
    // A reaction that was found among stored leaves, and where the list of its plan begins; -1: not known.
    i32 found = -1, list = -1;

    DEVICE_MEMBER i32 list_of(i32 reaction) const { return reaction == found ? list : -1; }

#if KEEPS_SUMS
    LaneSums<Neighbours> sums[NODE_STAGES];
    i32 of[NODE_STAGES];  // place of the first of the 32, or -1

    DEVICE_MEMBER void forget() {
        UNROLL for (i32 stage = 0; stage < NODE_STAGES; ++stage) of[stage] = -1;
    }

    DEVICE_MEMBER void update(i32 stage, IntPair node, const State &s) {
        sums[stage] = LaneSums<Neighbours>(Neighbours{s.v, node.a});
        of[stage] = node.a;
        if (first_lane()) s.v[node.b] = sums[stage].total();
    }

    DEVICE_MEMBER int choose(i32 stage, i32 begin, double &target, const State &s) const {
        if (of[stage] == begin) return sums[stage].choose(target);
        return lanes_choose(LANES, Neighbours{s.v, begin}, target);
    }
#else
    DEVICE_MEMBER void forget() {}

    DEVICE_MEMBER void update(i32 stage, IntPair node, const State &s) {
        update_node(stage, node, s);
    }

    DEVICE_MEMBER int choose(i32 stage, i32 begin, double &target, const State &s) {
#if IS_SHORT
        if (stage == 0) {
            group = (begin - (i32)V_LEAVES) / LANES;
            leaves = LaneSums<Neighbours>(Neighbours{s.v, begin});
            return leaves.choose(target);
        }
#endif
        return lanes_choose(LANES, Neighbours{addends_of(stage, s), begin}, target);
    }
#endif

#if IS_SHORT
    // The leaf that was found last, and the group of 32 that it is in.
    i32 leaf = 0, group = 0;
    LaneSums<Neighbours> leaves;
#endif
};

// ------------------------------------------------------------------------------- all from counts

// Sums of stages `first .. last - 1`.
DEVICE void build_nodes(const Tables &tables, i32 first, i32 last, const State &s) {
    for (i32 stage = first; stage < last; ++stage) {
        team_groups(tables.at(AT_STAGE_NODE, stage), tables.at(AT_STAGE_NODE, stage + 1),
                    [&](i64 i) { update_node(stage, tables.pair(AT_NODE, i), s); });
        team_sync();
    }
}

// Computes every sum from the counts.
DEVICE void build_sums(const Tables &tables, const State &s) {
    if (N_LEAVES > 0)
        team_make(
            N_LEAVES,
            [&](i64 i) {
                const i32 reaction = tables.at(AT_LEAF_REACTION, i);
                return propensity(tables, reaction, quantities_of(tables, s), s.c);
            },
            [&](i64 i, double value) { s.v[V_LEAVES + i] = value; });
    if (N_OWNERS > 0) update_chunks(tables, AT_CHUNK, 0, 2 * (i32)N_CHUNKS, s);
    team_sync();
    build_nodes(tables, 0, LOWER_STAGES, s);
    if (HAS_UPPER) {
        team_each(0, N_OWNERS, [&](i64 i) {
            const i32 root = tables.quad(AT_OWNER, i).b;
            if (root >= 0) update_owner(tables, {(i32)i, root}, s);
        });
        team_sync();
    }
    build_nodes(tables, LOWER_STAGES, NODE_STAGES, s);
}

#if !IS_DENSE
// Sets the counts of a new trajectory, and all values to 0.
DEVICE void start_counts(const i32 *initial, const State &s) {
    team_each(0, N_SPECIES, [&](i64 i) { s.x[i] = i < N_GIVEN ? initial[i] : 0; });
    team_each(0, FAST_PLACE, [&](i64 i) { s.v[i] = 0.0; });
    team_each(FAST_PLACE, N_VALUES, [&](i64 i) { s.top[i] = 0.0; });
    team_sync();
}

// Computes whole numbers and sums from the counts.
DEVICE void build(const Tables &tables, const State &s) {
    if (N_OWNERS > 0)
        team_each(0, N_WHOLE, [&](i64 i) {
            const IntQuad whole = tables.quad(AT_NUMBER, i);
            i64 sum = whole.c == FIXED ? whole.b - whole.a : whole.c == SAME_SPECIES ? -1 : 0;
            if (whole.c != FIXED)
                for (i32 k = whole.a; k < whole.b; ++k) sum += s.x[tables.pair(AT_MEMBER, k).b];
            s.n[i] = (Whole)sum;
        });
    team_sync();
    build_sums(tables, s);
}

// Sets counts, whole numbers and sums of a new trajectory.
DEVICE void start(const Tables &tables, const i32 *initial, const State &s) {
    start_counts(initial, s);
    build(tables, s);
}
#endif

// ---------------------------------------------------------------------------------- the choice

// Lanes beyond ROOT_LANES are zero.
typedef LaneSums<Neighbours, ROOT_LANES> Root;

// Descends a tree from a node whose children are on `level` to the lowest level, whose sums are made in stage
// `lowest`.
template <class Places>
DEVICE i32 find_leaf(const Places &places, i32 node, i32 level, i32 lowest, double &target,
                     const State &s, Kept &kept) {
    UNROLL for (; level >= 0; --level)
        node = node * LANES +
               kept.choose(lowest + level, (i32)places[level] + node * LANES, target, s);
    return node;
}

#if !IS_DENSE
// Finds the reaction of a term: the rank `target / constant` falls into the count of one partner. `number` is
// where the term's whole number is stored, if it is.
DEVICE i32 find_partner(const Tables &tables, i64 term, u32 number, double target, const State &s) {
    const IntQuad whole = tables.quad(AT_TERM, term);
    const double constant = term_constant(tables, AT_TERM_RATE, term, s);
    i32 begin = whole.a;
    const i32 end = whole.b;
    if (end - begin == 1) return whole.d;
    const Whole n = whole.c == FIXED ? end - begin : s.n[number];
    const double quotient = target / constant;
    Whole rank = quotient < (double)n ? (Whole)quotient : n - 1;
    if (whole.c == FIXED) return tables.pair(AT_MEMBER, begin + rank).a;
    if (end - begin > LANES) {  // runs of 32 partners first
        i64 run = whole.c;
        for (int found = LANES; found == LANES; run += found) {
            const i32 left = (end - begin + LANES - 1) / LANES;
            found = lanes_find(
                left < LANES ? left : LANES, [&](int lane) { return s.n[run + lane]; }, rank);
            begin += found * LANES;
        }
    }
    const int count = end - begin < LANES ? end - begin : LANES;
    const int found = lanes_find(
        count, [&](int lane) { return (Whole)s.x[tables.pair(AT_MEMBER, begin + lane).b]; }, rank);
    return tables.pair(AT_MEMBER, begin + (found < count ? found : count - 1)).a;
}

// Finds the reaction of an owner whose count is positive.
DEVICE i32 find_owned(const Tables &tables, i64 number, double target, const State &s) {
    const IntQuad owner = tables.quad(AT_OWNER, number);
    target = target / (double)s.x[owner.a];
    i32 first = owner.c;
    Shape shape = {(u32)owner.d};
    if (HAS_UPPER && owner.b >= V_UPPER) {
        i32 place = owner.b;
        while (place >= V_UPPER) {
            const i32 child = tables.at(AT_UPPER_CHILD, place - V_UPPER);
            place = child + lanes_choose(LANES, Neighbours{s.v, child}, target);
        }
        const IntQuad chunk = tables.quad(AT_CHUNK, place - V_CHUNKS);
        first = chunk.a;
        shape = {(u32)chunk.d};
    }
    const ChunkTerms terms = {tables, s, first, shape};
    const int lane = lanes_choose(1 << shape.exponent(), terms, target);
    return find_partner(tables, first + lane, shape.first() + (u32)lane, target, s);
}

// Finds the reaction into whose propensity `target`, from 0 to the total, falls.
DEVICE i32 find(const Tables &tables, const Root &root, double target, const State &s,
                Kept &kept) {
    const i32 first = root.choose(target);
    i32 leaf = first;
    if (N_OWNERS > 0) {
        const i32 owner =
            find_leaf(TOP_LEVEL, first, TOP_LEVELS - 2, LOWER_STAGES, target, s, kept);
        if (N_LEAVES == 0 || owner != N_OWNERS) return find_owned(tables, owner, target, s);
        leaf = 0;
    }
    leaf = find_leaf(STORED_LEVEL, leaf, STORED_LEVELS - (N_OWNERS > 0 ? 1 : 2), 0, target, s,
                     kept);
#if IS_SHORT
    kept.leaf = leaf;
    return IS_PILOT ? tables.at(AT_LEAF_REACTION, leaf) : 0;
#elif TEAM_THREADS > 1
    const IntPair event = tables.pair(AT_LEAF_EVENT, leaf);
    kept.found = event.a, kept.list = event.b;
    return event.a;
#else
    return tables.at(AT_LEAF_REACTION, leaf);
#endif
}
#endif
