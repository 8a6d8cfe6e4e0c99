// Owners as in tables/forest.h, for networks in which an event invalidates a large part of all partial
// propensities (`kernels/exact/dense.py` decides). Every sum is tested, and none is listed.
//
// Owners are stored side by side in groups of 32. Species are stored by *position*: owners first, in order.
// A species has a bit for every owner whose partner it is, so an event tests bits instead of reading a
// list. An owner has up to three terms, one of each kind: partners with one rate constant, its own
// species, and no partner. Whole numbers are below 2^53 and kept as doubles, which is exact. Sums and
// choices are those of tables/forest.h, and so is every bit of the results.
//
// `v` of the state has leaves and sums of the top tree, from V_PARTNERS on the whole numbers of partners by
// owner, and from V_COUNT on counts by position. `x` has counts only after `write_counts`; `n` is unused.
#pragma once

#include "tables/forest.h"

// The changes of an event: positions and numbers; unused changes are 0, at a position without bits.
struct DenseChange {
    i32 position[DENSE_CHANGES], by[DENSE_CHANGES];

    DEVICE_MEMBER DenseChange(const Tables &tables, i64 reaction) {
        UNROLL for (i32 k = 0; k < DENSE_CHANGES; k += 2) {
            const IntQuad two = tables.quad(AT_DENSE_CHANGE, (reaction * DENSE_CHANGES + k) / 2);
            position[k] = two.a, by[k] = two.b, position[k + 1] = two.c, by[k + 1] = two.d;
        }
    }
};

// The propensities of an owner: the canonical sum of up to four terms, (0 + 2) + (1 + 3). A missing term
// is zero.
DEVICE double dense_leaf(const Tables &tables, u32 owner, double count, double partners) {
    const ReadOnly<double> rates = tables.real + owner;
    const double same = rates[AT_SAME_RATE] * (count - 1.0);
    const double sum = (rates[AT_PARTNER_RATE] * partners + rates[AT_ALONE]) + same;
    return count > 0 ? count * sum : 0.0;
}

// Adds `change(lane)` to the whole numbers of a group of owners, and updates their leaves and the sum.
template <class Change>
DEVICE void refresh(const Tables &tables, u32 group, Change change, const State &s) {
    const u32 first = group * LANES;
    lanes_each([&](int lane) {
        const u32 owner = first + (u32)lane;
        const double partners = s.v[V_PARTNERS + owner] + (double)change(lane);
        s.v[V_PARTNERS + owner] = partners;
        s.v[V_TOP + owner] = dense_leaf(tables, owner, s.v[V_COUNT + owner], partners);
    });
    if (TOP_LEVELS > 1) update_node({(i32)(V_TOP + first), (i32)(V_ROOT + group)}, s);
}

// Changes counts and what depends on them; false if a count passed 2147483647.
DEVICE bool fire(const Tables &tables, i32 reaction, const State &s, Kept &) {
    const DenseChange event(tables, reaction);
    double count[DENSE_CHANGES];
    bool over = false;
    UNROLL for (int k = 0; k < DENSE_CHANGES; ++k) {
        if (event.by[k] != 0) count[k] = s.v[V_COUNT + event.position[k]] + (double)event.by[k];
        over = over || (event.by[k] != 0 && count[k] > 2147483647.0);
    }
    if (over) return false;
    team_sync();
    UNROLL for (int k = 0; k < DENSE_CHANGES; ++k)
        if (team_leader() && event.by[k] != 0) s.v[V_COUNT + event.position[k]] = count[k];
    team_sync();
    team_groups(0, OWNER_GROUPS, [&](u32 group) {
        u32 touched[DENSE_CHANGES], old = 0;
        UNROLL for (int k = 0; k < DENSE_CHANGES; ++k) {
            const u32 at = (u32)event.position[k];
            touched[k] = (u32)tables.at(AT_TOUCHED_OWNERS, at * (u32)OWNER_GROUPS + group);
            old |= touched[k] | (u32)(at / LANES == group);
        }
        if (old == 0) return;
        const auto change = [&](int lane) {
            i32 sum = 0;
            UNROLL for (int k = 0; k < DENSE_CHANGES; ++k) sum +=
                (i32)(touched[k] >> lane & 1) * event.by[k];
            return sum;
        };
        refresh(tables, group, change, s);
    });
    team_sync();
    return true;
}

DEVICE bool is_partner(const Tables &tables, u32 owner, u32 position) {
    const u32 word = (u32)tables.at(AT_PARTNERS, owner * (u32)RUN_OF_POSITIONS + position / 32);
    return (word >> position % 32 & 1) != 0;
}

// Counts of a new trajectory, whole numbers and sums.
DEVICE void start(const Tables &tables, const i32 *initial, const State &s) {
    team_each(0, N_VALUES, [&](i64 i) { s.v[i] = 0.0; });
    team_sync();
    team_each(0, N_SPECIES, [&](i64 i) {
        s.v[V_COUNT + i] = (double)initial[tables.at(AT_SPECIES_AT, i)];
    });
    team_sync();
    team_each(0, N_OWNERS, [&](i64 owner) {
        double sum = 0;
        for (u32 i = 0; i < (u32)N_SPECIES; ++i)
            sum += is_partner(tables, (u32)owner, i) ? s.v[V_COUNT + i] : 0.0;
        s.v[V_PARTNERS + owner] = sum;
    });
    team_sync();
    team_groups(0, OWNER_GROUPS,
                [&](u32 group) { refresh(tables, group, [](int) { return 0; }, s); });
    team_sync();
}

// Writes the counts by species, for records.
DEVICE void write_counts(const Tables &tables, const State &s) {
    team_each(0, N_SPECIES,
              [&](i64 i) { s.x[tables.at(AT_SPECIES_AT, i)] = (i32)s.v[V_COUNT + i]; });
    team_sync();
}

// ---------------------------------------------------------------------------------- the choice

// Chooses among up to three terms, as `lanes_choose` does among four lanes of which the last is zero.
DEVICE int choose_term(double first, double second, double third, double &target) {
    if (target >= first + third && second > 0) {
        target -= first + third;
        return 1;
    }
    const bool last = target >= first && third > 0;
    target -= last ? first : 0.0;
    return last ? 2 : 0;
}

// Finds the reaction of an owner with its partner of rank `rank`, counted through all partners. Each lane
// has a run of neighbouring positions.
DEVICE i32 find_partner(const Tables &tables, u32 owner, i64 rank, const State &s) {
    constexpr u32 RUN = RUN_OF_POSITIONS;
    const auto count = [&](u32 position) {
        return is_partner(tables, owner, position) ? s.v[V_COUNT + position] : 0.0;
    };
    const auto run = [&](int lane) {
        double sum = 0;
        UNROLL for (u32 i = 0; i < RUN; ++i) sum += count((u32)lane * RUN + i);
        return (i64)sum;
    };
    const u32 first = (u32)lanes_find(LANES, run, rank) * RUN;
    const int found = lanes_find(
        (int)RUN, [&](int lane) { return (i64)count(first + (u32)lane); }, rank);
    return tables.at(AT_REACTION_WITH, owner * (RUN * LANES) + first + (u32)found);
}

// Finds the reaction into whose propensity `target`, from 0 to the total, falls.
DEVICE i32 find(const Tables &tables, const Root &root, double target, const State &s,
                const Kept &kept) {
    const i32 first = root.choose(target);
    const i32 number = find_leaf(TOP_LEVEL, first, TOP_LEVELS - 2, LOWER_STAGES, target, s, kept);
    const IntQuad owner = tables.quad(AT_OWNER, number);
    const double count = s.v[V_COUNT + number], partners = s.v[V_PARTNERS + number];
    target = target / count;
    IntQuad whole[3];
    double n[3], term[3];
    UNROLL for (int i = 0; i < 3; ++i) {
        whole[i] = tables.quad(AT_TERM, owner.c + i);
        n[i] = whole[i].c == FIXED          ? (double)(whole[i].b - whole[i].a)
               : whole[i].c == SAME_SPECIES ? count - 1.0
                                            : partners;
        const bool own = i < 1 << Shape{(u32)owner.d}.exponent();
        term[i] = own ? tables.real[AT_TERM_RATE + owner.c + i] * n[i] : 0.0;
    }
    const int chosen = choose_term(term[0], term[1], term[2], target);
    const IntQuad which = chosen == 0 ? whole[0] : chosen == 1 ? whole[1] : whole[2];
    if (which.b - which.a == 1) return which.d;
    const double many = chosen == 0 ? n[0] : chosen == 1 ? n[1] : n[2];
    const double quotient = target / tables.real[AT_TERM_RATE + owner.c + chosen];
    const i64 rank = quotient < many ? (i64)quotient : (i64)many - 1;
    if (which.c == FIXED) return tables.pair(AT_MEMBER, which.a + rank).a;
    return find_partner(tables, (u32)number, rank, s);
}
