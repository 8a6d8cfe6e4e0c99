// What a firing changes where all reactions change few counts, and few propensities read these: a record of the
// firing's leaf has a slot for each change and for each propensity (`kernels/exact/plans.py`). A thread has a
// slot. So a firing loads its record, then all counts at once; and what it has computed goes into the sums from
// registers.
#pragma once

#include "tables/forest.h"

#if IS_SHORT

// A change of a count, and a leaf that reads what the firing changes.
struct Slot {
    i32 species, by, leaf, kind, first, second, source;
    double rate;

    DEVICE_MEMBER Slot(const Tables &tables, u32 number) {
        const IntQuad one = tables.quad(AT_SHORT, 2 * number),
                      two = tables.quad(AT_SHORT, 2 * number + 1);
        species = one.a, by = one.b, leaf = one.c, kind = one.d;
        first = two.a, second = two.b, source = two.c;
        rate = tables.real[AT_SHORT_RATE + number];
    }
};

// Puts new leaves into the sums of a group, and its sum into the next level.
DEVICE void finish_group(LaneSums<Neighbours> &sums, i32 group, i32 leaf, double value,
                         const State &s) {
    UNROLL for (int k = 0; k < SHORT_SLOTS; ++k) {
        const i32 lane = LANES_READ(TEAM_LANES, leaf, k) - group * LANES;
        sums.replace(lane, LANES_READ(TEAM_LANES, value, k));
    }
    sums.add_up();
    if (first_lane()) addends_of(1, s)[STORED_LEVEL[1] + group] = sums.total();
}

// A bit for each slot that is the first with its number, of numbers in order; those below 0 are none.
DEVICE u32 first_slots(i32 number) {
    const i32 before = LANES_READ(TEAM_LANES, number, own_lane() - 1);
    const bool is = own_lane() < SHORT_SLOTS && number >= 0;
    return TEAM_BALLOT(is && (own_lane() == 0 || before != number));
}

// The sums above the groups of the slots.
DEVICE void finish_above(i32 group, const State &s) {
    UNROLL for (i32 stage = 1; stage < NODE_STAGES; ++stage) {
        team_sync();
        group = group < 0 ? -1 : group / LANES;
        NO_UNROLL for (u32 left = first_slots(group); left != 0; left &= left - 1) {
            const i32 node = LANES_READ(TEAM_LANES, group, FIRST_SET(left));
            update_node(stage, {(i32)STORED_LEVEL[stage] + node * LANES, (i32)STORED_LEVEL[stage + 1] + node}, s);
        }
    }
    team_sync();
}

// Changes counts and what depends on them, for the leaf that was found. Returns false if a count passed 2147483647.
DEVICE bool fire_short(const Tables &tables, const State &s, Kept &kept) {
    const Slot own(tables, (u32)kept.leaf * SHORT_SLOTS + (u32)own_lane() % SHORT_SLOTS);
    const bool changes = own.by != 0 && own_lane() < SHORT_SLOTS;
    const i32 count = plus(s.x[own.species], own.by);
    i32 first = s.x[own.first], second = SHORT_PAIRS ? s.x[own.second] : 0;
    // Of the groups that the firing changes, all but the one that was searched; the first of them is loaded at once.
    const i32 group = own.leaf < 0 ? -1 : own.leaf / LANES;
    const u32 groups = first_slots(group);
    u32 others = groups & ~TEAM_BALLOT(group == kept.group);
    LaneSums<Neighbours> other;
    i32 next = -1;
    const auto take = [&] {
        next = LANES_READ(TEAM_LANES, group, FIRST_SET(others));
        other.load(Neighbours{s.v, (i32)V_LEAVES + next * LANES});
    };
    if (others != 0) take();
    team_sync();  // all have read what changes
    if (changes) s.x[own.species] = count;
    if (team_any(changes && count < 0)) return false;
    UNROLL for (int k = 0; k < SHORT_CHANGES; ++k) {
        const i32 species = LANES_READ(TEAM_LANES, own.species, k), by = LANES_READ(TEAM_LANES, own.by, k);
        first += species == own.first ? by : 0;
        second += species == own.second ? by : 0;
    }
    const double constant = constant_of(own.source, own.rate, s.c);
    const double value = short_propensity(own.kind, constant, (double)first, (double)second);
    if (own.leaf >= 0 && own_lane() < SHORT_SLOTS) s.v[V_LEAVES + own.leaf] = value;
    if (others != groups) finish_group(kept.leaves, kept.group, own.leaf, value, s);
    NO_UNROLL while (others != 0) {
        finish_group(other, next, own.leaf, value, s);
        others &= others - 1;
        if (others != 0) take();
    }
    finish_above(group, s);
    return true;
}
#endif
