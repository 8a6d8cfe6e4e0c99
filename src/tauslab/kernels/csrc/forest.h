// The propensities of a large network as a forest of sum trees, and the search for a reaction.
//
// *Owners* (selectors `pdm` and `cr`). A mass-action propensity of one or two molecules is a count
// x times a partial propensity (Ramaswamy, Gonzalez-Segredo & Sbalzarini, J. Chem. Phys. 130,
// 244104, 2009). The species of x owns the reaction. An owner's reactions with one rate constant c
// make a *term*, c times a whole number n: the sum of their partners' counts, or how many they are.
// So an event changes whole numbers by adding whole numbers, which nothing can make drift, and then
// rebuilds the sums of the terms, times x, that hold them. Terms stand in chunks of up to 32.
// *Stored* leaves: every other propensity (all of them with the selector `tree`) is a leaf of a sum
// tree of its own. It is computed again when a species it reads changes.
//
// The *top* tree has a leaf for each owner, and one for the stored tree. What an event makes old is
// a list known from the tables, the *plan* of the reaction, stage by stage: leaves, chunks, sums of
// the lower trees, owners, sums of the top tree. Every sum is the canonical one.
#pragma once

#include "laws.h"
#include "network_tables.h"
#include "streams.h"
#include "team.h"

// What the whole number of a term is.
enum TermKind : i32 { PARTNERS = 0, SAME_SPECIES = 1, FIXED = 2 };

// A trajectory in flight.
struct State {
    TeamArray<i32> x;     // counts
    TeamArray<i64> n;     // whole numbers of terms, and of runs of 32 partners
    TeamArray<double> v;  // sums, see `kernels/forest.py` for their places
    const double *c;      // constants of the row
};

// Propensity of reaction j, from its row of orders or its law.
DEVICE double propensity(const Tables &tables, i32 j, const State &s) {
    const i32 source = tables.at(AT_SOURCE, j);
    if (source == GENERAL_LAW) return general_propensity(j, s.x, s.c, tables);
    for (i32 i = tables.at(AT_NEED_ROW, j); i < tables.at(AT_NEED_ROW, j + 1); ++i)
        if (s.x[tables.at(AT_NEED_SPECIES, i)] < tables.at(AT_NEED_COUNT, i)) return 0.0;
    const double constant = constant_of(source, tables.real[AT_LITERAL + j], s.c);
    const i32 begin = tables.at(AT_ORDER_ROW, j), end = tables.at(AT_ORDER_ROW, j + 1);
    if (begin == end) return constant;
    double product = 1.0;
    for (i32 i = begin; i < end; ++i) {
        const double count = (double)s.x[tables.at(AT_ORDER_SPECIES, i)];
        for (i32 taken = 0; taken < tables.at(AT_ORDER_COUNT, i); ++taken)
            product = product * (count - (double)taken);
    }
    return constant * product;
}

DEVICE double term_constant(const Tables &tables, i64 term, const State &s) {
    if (N_CONSTANTS == 0) return tables.real[AT_TERM_LITERAL + term];
    return constant_of(tables.at(AT_TERM_SOURCE, term), tables.real[AT_TERM_LITERAL + term], s.c);
}

// Terms of a chunk, as lanes.
struct ChunkTerms {
    const Tables &tables;
    const State &s;
    i64 first;

    DEVICE_MEMBER double operator()(int lane) const {
        return term_constant(tables, first + lane, s) * (double)s.n[first + lane];
    }
#ifdef HAS_OCTETS
    DEVICE_MEMBER Octet octet(int lane) const {
        if (N_CONSTANTS == 0)
            return load_octet(&tables.real[AT_TERM_LITERAL + first + lane]) *
                   load_octet(&s.n[first + lane]);
        double values[8];
        for (int i = 0; i < 8; ++i) values[i] = (*this)(lane + i);
        return load_octet(values);
    }
#endif
};

// ------------------------------------------------------------- stages of a plan, for item `i` each

DEVICE void update_leaf(const Tables &tables, i32 leaf, const State &s) {
    s.v[V_LEAVES + leaf] = propensity(tables, tables.at(AT_LEAF_REACTION, leaf), s);
}

template <class Item>
DEVICE void update_chunks(const Tables &tables, i64 begin, i64 end, Item item, const State &s) {
    team_sums(
        begin, end, [&](i64 i) { return tables.at(AT_CHUNK_WIDTH, item(i)); },
        [&](i64 i) { return ChunkTerms{tables, s, tables.at(AT_CHUNK_TERM, item(i))}; },
        [&](i64 i, double sum) { s.v[V_CHUNKS + item(i)] = sum; });
}

// A sum of 32 neighbours.
DEVICE void update_node(const Tables &tables, i32 node, const State &s) {
    const i64 child = tables.at(AT_NODE_CHILD, node);
    const double sum = lanes_sum(Neighbours{s.v, child});
    if (first_lane()) s.v[tables.at(AT_NODE_VALUE, node)] = sum;
}

DEVICE void update_owner(const Tables &tables, i32 owner, const State &s) {
    const i32 count = s.x[tables.at(AT_OWNER_SPECIES, owner)];
    s.v[V_TOP + owner] = count > 0 ? (double)count * s.v[tables.at(AT_OWNER_VALUE, owner)] : 0.0;
}

// ------------------------------------------------------------------------------- all from counts

// Every sum, from the counts alone.
DEVICE void build_sums(const Tables &tables, const State &s) {
    const auto all = [](i64 i) { return (i32)i; };
    if (N_LEAVES > 0) team_each(0, N_LEAVES, [&](i64 i) { update_leaf(tables, (i32)i, s); });
    if (N_OWNERS > 0) update_chunks(tables, 0, N_CHUNKS, all, s);
    team_sync();
    for (i32 stage = 0; stage < NODE_STAGES; ++stage) {
        if (stage == LOWER_STAGES && N_OWNERS > 0) {
            team_each(0, N_OWNERS, [&](i64 i) { update_owner(tables, (i32)i, s); });
            team_sync();
        }
        team_groups(tables.at(AT_STAGE_NODE, stage), tables.at(AT_STAGE_NODE, stage + 1),
                    [&](i64 i) { update_node(tables, (i32)i, s); });
        team_sync();
    }
}

// Counts of a new trajectory, whole numbers and sums.
DEVICE void start(const Tables &tables, const i32 *initial, const State &s) {
    team_each(0, N_SPECIES, [&](i64 i) { s.x[i] = initial[i]; });
    team_each(0, N_VALUES, [&](i64 i) { s.v[i] = 0.0; });
    team_sync();
    if (N_OWNERS > 0)
        team_each(0, N_WHOLE, [&](i64 i) {
            const i32 begin = tables.at(AT_WHOLE_BEGIN, i), end = tables.at(AT_WHOLE_END, i);
            const i32 kind = tables.at(AT_WHOLE_KIND, i);
            i64 sum = kind == FIXED ? end - begin : kind == SAME_SPECIES ? -1 : 0;
            if (kind != FIXED)
                for (i32 k = begin; k < end; ++k) sum += s.x[tables.at(AT_PARTNER, k)];
            s.n[i] = sum;
        });
    team_sync();
    build_sums(tables, s);
}

// ---------------------------------------------------------------------------------- the choice

DEVICE double total(const State &s) {
    return s.v[V_TOTAL];
}

// Reaction of a leaf of the stored tree.
DEVICE i32 find_stored(const Tables &tables, double target, const State &s) {
    i64 leaf = 0;
    for (i32 level = STORED_LEVELS - 1; level >= 0; --level) {
        const i64 child = tables.at(AT_STORED_LEVEL, level) + leaf * LANES;
        leaf = leaf * LANES + lanes_choose(LANES, Neighbours{s.v, child}, target);
    }
    return tables.at(AT_LEAF_REACTION, leaf);
}

// Reaction of a term: the partner in whose count `rank` falls, counted through all partners.
DEVICE i32 find_partner(const Tables &tables, i64 term, double target, const State &s) {
    i32 begin = tables.at(AT_WHOLE_BEGIN, term);
    const i32 end = tables.at(AT_WHOLE_END, term);
    if (end - begin > 1) {
        const i64 n = s.n[term];
        const double quotient = target / term_constant(tables, term, s);
        i64 rank = quotient < (double)n ? (i64)quotient : n - 1;
        if (tables.at(AT_WHOLE_KIND, term) == FIXED) return tables.at(AT_MEMBER, begin + rank);
        if (end - begin > LANES) {  // runs of 32 partners first
            i64 run = tables.at(AT_TERM_RUNS, term);
            for (int found = LANES; found == LANES; run += found) {
                const i32 left = (end - begin + LANES - 1) / LANES;
                found = lanes_find(
                    left < LANES ? left : LANES, [&](int lane) { return s.n[run + lane]; }, rank);
                begin += found * LANES;
            }
        }
        const int count = end - begin < LANES ? end - begin : LANES;
        const int found = lanes_find(
            count, [&](int lane) { return (i64)s.x[tables.at(AT_PARTNER, begin + lane)]; }, rank);
        begin += found < count ? found : count - 1;
    }
    return tables.at(AT_MEMBER, begin);
}

// Reaction of an owner whose count is positive.
DEVICE i32 find_owned(const Tables &tables, i32 owner, double target, const State &s) {
    target = target / (double)s.x[tables.at(AT_OWNER_SPECIES, owner)];
    i64 place = tables.at(AT_OWNER_VALUE, owner);
    while (HAS_UPPER && place >= V_UPPER) {
        const i64 child = tables.at(AT_UPPER_CHILD, place - V_UPPER);
        place = child + lanes_choose(LANES, Neighbours{s.v, child}, target);
    }
    const i64 chunk = place - V_CHUNKS, term = tables.at(AT_CHUNK_TERM, chunk);
    const int lane =
        lanes_choose(tables.at(AT_CHUNK_WIDTH, chunk), ChunkTerms{tables, s, term}, target);
    return find_partner(tables, term + lane, target, s);
}

// The reaction in which `target`, from 0 to the total, falls.
DEVICE i32 find(const Tables &tables, double target, const State &s) {
    if (N_OWNERS == 0) return find_stored(tables, target, s);
    i64 owner = 0;
    for (i32 level = TOP_LEVELS - 1; level >= 0; --level) {
        const i64 child = tables.at(AT_TOP_LEVEL, level) + owner * LANES;
        owner = owner * LANES + lanes_choose(LANES, Neighbours{s.v, child}, target);
    }
    if (N_LEAVES > 0 && owner == N_OWNERS) return find_stored(tables, target, s);
    return find_owned(tables, (i32)owner, target, s);
}

// ----------------------------------------------------------------------------------- the event

// Does `work(begin, end)` for the items of a stage of the reaction's plan; false if there are none.
template <class Work>
DEVICE void plan_stage(const Tables &tables, i32 reaction, i32 stage, Work work) {
    for (i32 i = tables.at(AT_PLAN_ROW, reaction); i < tables.at(AT_PLAN_ROW, reaction + 1); ++i) {
        const i64 row = (i64)tables.at(AT_PLAN_PART, i) * PLAN_STAGES + stage;
        const i32 begin = tables.at(AT_PART_ROW, row), end = tables.at(AT_PART_ROW, row + 1);
        if (begin < end) work(begin, end);
    }
}

// Changes counts and what depends on them; false if a count passed 2147483647.
DEVICE bool fire(const Tables &tables, i32 reaction, const State &s) {
    const i32 begin = tables.at(AT_CHANGE_ROW, reaction);
    const i32 end = tables.at(AT_CHANGE_ROW, reaction + 1);
    bool negative = false;
    team_each(begin, end, [&](i64 i) {
        i32 &count = s.x[tables.at(AT_CHANGE_SPECIES, i)];
        count = plus(count, tables.at(AT_CHANGE_BY, i));
        negative = negative || count < 0;
    });
    if (team_any(negative)) return false;
    for (i32 i = begin; N_OWNERS > 0 && i < end; ++i) {
        const i32 species = tables.at(AT_CHANGE_SPECIES, i), by = tables.at(AT_CHANGE_BY, i);
        team_each(tables.at(AT_TOUCH_ROW, species), tables.at(AT_TOUCH_ROW, species + 1),
                  [&](i64 k) {
                      s.n[tables.at(AT_TOUCH_WHOLE, k)] += (i64)by * tables.at(AT_TOUCH_TIMES, k);
                  });
        team_sync();
    }
    if (N_OWNERS == 0) team_sync();

    const auto item = [&](i64 i) { return tables.at(AT_PART_ITEM, i); };
    if (N_LEAVES > 0)
        plan_stage(tables, reaction, 0, [&](i32 from, i32 to) {
            team_each(from, to, [&](i64 i) { update_leaf(tables, item(i), s); });
        });
    if (N_OWNERS > 0)
        plan_stage(tables, reaction, 1,
                   [&](i32 from, i32 to) { update_chunks(tables, from, to, item, s); });
    team_sync();
    UNROLL for (i32 stage = 0; stage < NODE_STAGES; ++stage) {
        if (stage == LOWER_STAGES && N_OWNERS > 0) {
            plan_stage(tables, reaction, 2, [&](i32 from, i32 to) {
                team_each(from, to, [&](i64 i) { update_owner(tables, item(i), s); });
            });
            team_sync();
        }
        plan_stage(tables, reaction, 3 + stage, [&](i32 from, i32 to) {
            team_groups(from, to, [&](i64 i) { update_node(tables, item(i), s); });
        });
        team_sync();
    }
    return true;
}
