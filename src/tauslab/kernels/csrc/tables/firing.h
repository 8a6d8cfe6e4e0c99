// Changes by a firing, and what it invalidates, by the plan of its reaction (`kernels/exact/plans.py`).
#pragma once

#include "model.h"

#if IS_DENSE
#include "tables/dense.h"
#else
#include "tables/short_firing.h"

// The plan of a reaction: where its changes of counts, changes of whole numbers, and stages begin.
struct Plan {
    i32 at[PLAN_WORDS];

    DEVICE_MEMBER Plan(const Tables &tables, i32 reaction) {
        UNROLL for (i32 i = 0; i < PLAN_WORDS; i += 4) {
            const IntQuad words = tables.quad(AT_PLAN, reaction * (i32)(PLAN_WORDS / 4) + i / 4);
            at[i] = words.a, at[i + 1] = words.b, at[i + 2] = words.c, at[i + 3] = words.d;
        }
    }
};

// Calls `work(begin, end)` for the items of a stage of the plan, if there are any.
template <class Work>
DEVICE void plan_stage(const Tables &tables, const Plan &plan, i32 stage, Work work) {
    if (!PLAN_OF_SPECIES) {
        if (plan.at[2 + stage] < plan.at[3 + stage]) work(plan.at[2 + stage], plan.at[3 + stage]);
        return;
    }
    for (i32 i = plan.at[0]; i < plan.at[1]; ++i) {
        const i64 row = (i64)tables.pair(AT_ENTRY, i).a * PLAN_STAGES + stage;
        const i32 begin = tables.at(AT_PART_ROW, row), end = tables.at(AT_PART_ROW, row + 1);
        if (begin < end) work(begin, end);
    }
}

// Adds to a count or to a whole number, without a branch if both have one type. Returns false if a count
// passed 2147483647.
DEVICE bool add(IntPair entry, bool is_count, const State &s) {
#if WIDE_WHOLE
    if (!is_count) {
        s.n[entry.a] += entry.b;
        return true;
    }
    i32 &number = s.x[entry.a];
#else
    i32 &number = is_count ? s.x[entry.a] : s.n[entry.a];
#endif
    number = plus(number, entry.b);
    return !is_count || number >= 0;
}

// The first entries of a plan's list, one for each thread of a warp, if it is known where the list begins: they are
// loaded beside the plan, not behind it.
struct NearEntries {
    i32 list = -1;
    IntPair own = {0, 0};

    DEVICE_MEMBER NearEntries() {}

    DEVICE_MEMBER NearEntries([[maybe_unused]] const Tables &tables, i32 begin) : list(begin) {
#if TEAM_THREADS > 1
        if (N_OWNERS > 0 || list < 0) return;
        own = tables.pair(AT_ENTRY, list + own_lane());
        LOADED_HERE(own.a, "r");
        LOADED_HERE(own.b, "r");
#endif
    }

    DEVICE_MEMBER IntPair at(const Tables &tables, i64 i) const {
        const bool is_own = TEAM_NEAR > 0 && N_OWNERS == 0 && list >= 0 && i < list + TEAM_NEAR;
        return is_own ? own : tables.pair(AT_ENTRY, i);
    }
};

// Changes counts and whole numbers. Returns false if a count passed 2147483647. A team loads the first
// entries of the plan at once, with those of the stages, so that they are cached when they are needed.
DEVICE bool change(const Tables &tables, const Plan &plan, const State &s,
                   const NearEntries &near_entries = {}) {
    const i32 last = plan.at[2 + PLAN_STAGES], near = plan.at[0] + TEAM_NEAR;
    const i32 loaded = last < near ? last : near;
    bool negative = false;
    team_each(plan.at[0], loaded > plan.at[2] ? loaded : plan.at[2], [&](i64 i) {
        const IntPair entry = near_entries.at(tables, i);
        if (i < plan.at[2]) negative = !add(entry, i < plan.at[1], s) || negative;
    });
    if (team_any(negative)) return false;
    for (i32 i = plan.at[0]; TOUCH_OF_SPECIES && i < plan.at[1]; ++i) {
        const IntPair entry = tables.pair(AT_ENTRY, i);
        team_add<Whole>(
            tables.at(AT_TOUCH_ROW, entry.a), tables.at(AT_TOUCH_ROW, entry.a + 1),
            [&](i64 k) { return tables.pair(AT_TOUCH, k); }, entry.b, s.n);
        team_sync();  // the next species may touch the same numbers
    }
    team_sync();
    return true;
}

// Recomputes the sums of stages FIRST .. LAST - 1 that the firing invalidated.
template <i32 FIRST, i32 LAST>
DEVICE void update_nodes(const Tables &tables, const Plan &plan, const State &s, Kept &kept) {
    UNROLL for (i32 stage = FIRST; stage < LAST; ++stage) {
        plan_stage(tables, plan, 3 + stage, [&](i32 begin, i32 end) {
            team_groups(begin, end,
                        [&](i64 i) { kept.update(stage, tables.pair(AT_ENTRY, i), s); });
        });
        team_sync();
    }
}

// Writes counts that are kept elsewhere back to `x`: none are.
DEVICE void write_counts(const Tables &, const State &) {}

// Changes counts and what depends on them. Returns false if a count passed 2147483647.
DEVICE bool fire(const Tables &tables, [[maybe_unused]] i32 reaction, const State &s, Kept &kept) {
#if IS_SHORT
    return fire_short(tables, s, kept);
#else
    const NearEntries near_entries(tables, kept.list_of(reaction));
    const Plan plan(tables, reaction);
    if (!change(tables, plan, s, near_entries)) return false;
    if (N_LEAVES > 0)
        plan_stage(tables, plan, 0, [&](i32 begin, i32 end) {
            team_each(begin, end,
                      [&](i64 i) { update_leaf(tables, tables.pair(AT_ENTRY, i), s); });
        });
    if (N_OWNERS > 0)
        plan_stage(tables, plan, 1, [&](i32 begin, i32 end) {
            update_chunks(tables, AT_ENTRY, begin, end, s);
        });
    team_sync();
    update_nodes<0, LOWER_STAGES>(tables, plan, s, kept);
    if (HAS_UPPER) {
        plan_stage(tables, plan, 2, [&](i32 begin, i32 end) {
            team_each(begin, end,
                      [&](i64 i) { update_owner(tables, tables.pair(AT_ENTRY, i), s); });
        });
        team_sync();
    }
    update_nodes<LOWER_STAGES, NODE_STAGES>(tables, plan, s, kept);
    return true;
#endif
}
#endif
