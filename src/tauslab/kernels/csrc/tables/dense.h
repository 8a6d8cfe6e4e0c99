// Owners as in tables/forest.h, for networks in which a firing invalidates a large part of all partial
// propensities (`kernels/exact/dense.py` decides). Every sum is tested, and none is listed.
//
// Owners are stored side by side in groups of 32. Species are stored by *position*: owners first, in order.
// A species has a bit for every owner whose partner it is, so a firing tests bits instead of reading a
// list. An owner has up to three terms, one of each kind: partners with one rate constant, its own
// species, and no partner. Whole numbers are below 2^53 and kept as doubles, which is exact. Sums and
// choices are those of tables/forest.h, and so is every bit of the results.
//
// `v` of the state has leaves and sums of the top tree, from V_PARTNERS on the whole numbers of partners by
// owner, and from V_COUNT on counts by position. `x` has counts only after `write_counts`; `n` is unused.
#pragma once

#include "tables/forest.h"

// The changes of a firing: positions and numbers; unused changes are 0, at a position without bits.
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

// Where the count at a position is. Threads of a team, each of which has a run of neighbouring positions, read them
// at the same time from different banks of shared memory: there is a gap behind each run.
constexpr u32 GAP = TEAM_THREADS > 1 ? 1 : 0;

DEVICE u32 place_of_count(u32 position) {
    constexpr u32 RUN = RUN_OF_POSITIONS;
    return (u32)V_COUNT + position + GAP * (position / RUN);
}

// The same of the owner that is `lane` of a group.
DEVICE u32 place_of_count(u32 group, u32 lane) {
    constexpr u32 RUN = RUN_OF_POSITIONS;
    return (u32)V_COUNT + group * (LANES + GAP * LANES / RUN) + (lane + GAP * (lane / RUN));
}

// Adds `change(lane)` to the whole numbers of a group of owners, and updates their leaves and the sum.
template <class Change>
DEVICE void refresh(const Tables &tables, u32 group, Change change, const State &s) {
    const u32 first = group * LANES;
    lanes_each([&](int lane) {
        const u32 owner = first + (u32)lane;
        const double partners = s.v[V_PARTNERS + owner] + (double)change(lane);
        s.v[V_PARTNERS + owner] = partners;
        s.v[V_TOP + owner] = dense_leaf(tables, owner, s.v[place_of_count(group, (u32)lane)], partners);
    });
    if (TOP_LEVELS > 1) update_node(0, {(i32)(V_TOP + first), (i32)(V_ROOT + group)}, s);
}

#if TEAM_THREADS == 1

// Updates the groups of owners that a firing touches.
DEVICE void refresh_touched(const Tables &tables, const DenseChange &event, const State &s) {
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
}

#else

// Groups of owners that a warp takes together, so that their sums take few exchanges.
constexpr u32 GROUPS_OF_WARP = (OWNER_GROUPS + TEAM_WARPS - 1) / TEAM_WARPS;
constexpr u32 TOGETHER = GROUPS_OF_WARP >= 8 ? 8 : GROUPS_OF_WARP >= 4 ? 4 : GROUPS_OF_WARP >= 2 ? 2 : 1;

// Updates all groups: a firing touches most of them, and what it does not touch stays as it is.
DEVICE void refresh_touched(const Tables &tables, const DenseChange &event, const State &s) {
    u32 touched[MOST_CHANGED][EACH];
    double by[MOST_CHANGED];
    UNROLL for (int k = 0; k < MOST_CHANGED; ++k) by[k] = (double)event.by[k];
    UNROLL for (int k = 0; k < MOST_CHANGED; ++k)
        UNROLL for (int i = 0; i < EACH; ++i) touched[k][i] = (u32)tables.at(
            AT_TOUCHED_OF_LANE, (u32)event.position[k] * LANES + (u32)(own_lane() + i * TEAM_LANES));
    const u32 warp = (u32)(team_rank() / TEAM_LANES);
    NO_UNROLL for (u32 first = warp; first < OWNER_GROUPS + warp; first += TOGETHER * TEAM_WARPS) {
        double *leaf[EACH], *number[EACH], *count[EACH];
        UNROLL for (int i = 0; i < EACH; ++i) {
            const u32 lane = (u32)(own_lane() + i * TEAM_LANES), owner = first * LANES + lane;
            leaf[i] = &s.v[V_TOP + owner], number[i] = &s.v[V_PARTNERS + owner];
            count[i] = &s.v[place_of_count(first, lane)];
        }
        double sum[TOGETHER];
        UNROLL for (u32 j = 0; j < TOGETHER; ++j) {
            const u32 group = first + j * TEAM_WARPS, ahead = j * TEAM_WARPS * LANES;
            double held[EACH];
            UNROLL for (int i = 0; i < EACH; ++i) {
                held[i] = 0;
                if (group >= OWNER_GROUPS) continue;
                double partners = number[i][ahead];
                UNROLL for (int k = 0; k < MOST_CHANGED; ++k)
                    if ((touched[k][i] >> group & 1) != 0) partners += by[k];
                const u32 owner = group * LANES + (u32)(own_lane() + i * TEAM_LANES);
                held[i] = dense_leaf(tables, owner, count[i][ahead + GAP * (ahead / RUN_OF_POSITIONS)],
                                     partners);
                number[i][ahead] = partners, leaf[i][ahead] = held[i];
            }
            UNROLL for (int size = EACH / 2; size > 0; size /= 2)
                UNROLL for (int i = 0; i < size; ++i) held[i] = held[i] + held[i + size];
            sum[j] = held[0];
        }
        if (TOP_LEVELS == 1) continue;
        const double total = lanes_totals<TOGETHER>(sum);
        const u32 group = first + (u32)own_item<TOGETHER>() * TEAM_WARPS;
        if (is_first_of_item<TOGETHER>() && group < OWNER_GROUPS) s.v[V_ROOT + group] = total;
    }
}

#endif

// Changes counts and what depends on them; false if a count passed 2147483647.
DEVICE bool fire(const Tables &tables, i32 reaction, const State &s, Kept &) {
    const DenseChange event(tables, reaction);
    double count[MOST_CHANGED];
    bool over = false;
    UNROLL for (int k = 0; k < MOST_CHANGED; ++k) {
        if (event.by[k] != 0) count[k] = s.v[place_of_count((u32)event.position[k])] + (double)event.by[k];
        over = over || (event.by[k] != 0 && count[k] > 2147483647.0);
    }
    if (over) return false;
    team_sync();
    UNROLL for (int k = 0; k < MOST_CHANGED; ++k)
        if (team_leader() && event.by[k] != 0)
            s.v[place_of_count((u32)event.position[k])] = count[k];
    team_sync();
    refresh_touched(tables, event, s);
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
        s.v[place_of_count((u32)i)] = (double)initial[tables.at(AT_SPECIES_AT, i)];
    });
    team_sync();
    team_each(0, N_OWNERS, [&](i64 owner) {
        double sum = 0;
        for (u32 i = 0; i < (u32)N_SPECIES; ++i)
            sum += is_partner(tables, (u32)owner, i) ? s.v[place_of_count(i)] : 0.0;
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
              [&](i64 i) { s.x[tables.at(AT_SPECIES_AT, i)] = (i32)s.v[place_of_count((u32)i)]; });
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
DEVICE i32 find_partner(const Tables &tables, u32 owner, Whole rank, const State &s) {
    constexpr u32 RUN = RUN_OF_POSITIONS;
    const auto of_run = [&](u32 first, u32 i) {
        const u32 word = (u32)tables.at(AT_PARTNERS, owner * RUN + first / 32) >> first % 32;
        return (word >> i & 1) != 0 ? s.v[place_of_count(first) + i] : 0.0;
    };
#if TEAM_THREADS > 8
    if (RUN <= 8) {  // a lane keeps its run, and the one that is found looks into it
        double count[RUN], sum = 0;
        const u32 own = (u32)own_lane() * RUN;
        const u32 word = (u32)tables.at(AT_PARTNERS, owner * RUN + own / 32) >> own % 32;
        const double *const counts = &s.v[place_of_count(own)];
        UNROLL for (u32 i = 0; i < RUN; ++i) sum += count[i] =
            (word >> i & 1) != 0 ? counts[i] : 0.0;
        const int lane = lanes_find(LANES, [&](int) { return (Whole)sum; }, rank);
        double left = (double)rank;
        u32 within = 0;
        bool passed = true;
        UNROLL for (u32 i = 0; i < RUN - 1; ++i) {
            passed = passed && left >= count[i];
            left -= passed ? count[i] : 0.0;
            within += passed ? 1 : 0;
        }
        const u32 found = (u32)lane * RUN + LANES_READ(TEAM_LANES, within, lane);
        return tables.at(AT_REACTION_WITH, owner * (RUN * LANES) + found);
    }
#endif
    const auto run = [&](int lane) {
        double sum = 0;
        UNROLL for (u32 i = 0; i < RUN; ++i) sum += of_run((u32)lane * RUN, i);
        return (Whole)sum;
    };
    const u32 first = (u32)lanes_find(LANES, run, rank) * RUN;
    const int found = lanes_find(
        (int)RUN, [&](int lane) { return (Whole)of_run(first, (u32)lane); }, rank);
    return tables.at(AT_REACTION_WITH, owner * (RUN * LANES) + first + (u32)found);
}

// Finds the reaction into whose propensity `target`, from 0 to the total, falls.
DEVICE i32 find(const Tables &tables, const Root &root, double target, const State &s,
                Kept &kept) {
    const i32 first = root.choose(target);
    const i32 number = find_leaf(TOP_LEVEL, first, TOP_LEVELS - 2, LOWER_STAGES, target, s, kept);
    const IntQuad owner = tables.quad(AT_OWNER, number);
    const double count = s.v[place_of_count((u32)number)], partners = s.v[V_PARTNERS + number];
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
    const Whole rank = quotient < many ? (Whole)quotient : (Whole)many - 1;
    if (which.c == FIXED) return tables.pair(AT_MEMBER, which.a + rank).a;
    return find_partner(tables, (u32)number, rank, s);
}
