// Selector `cr`: composition and rejection (Slepoy, Thompson & Plimpton, J. Chem. Phys. 128, 205101, 2008),
// in time that does not grow with the network.
//
//     paper                        here
//     reaction propensity p_i      the propensity of an item (a stored leaf)
//     group, p_min 2^(k-1) .. 2^k  a group: items whose propensities have one binary exponent
//     maximum of the group         the bound of the group, the power of two above its propensities
//     composition                  draws the group by its size times its bound
//     rejection                    draws an item of the group, accepted with propensity / bound >= 1/2
//
// A *candidate* is an item that was drawn in proportion to its bound. The times of candidates are a Poisson
// process whose rate is the total of all bounds; the accepted candidates are the events (thinning, as in
// the rejection methods of Thanh, Priami & Zunino, J. Chem. Phys. 141, 134116, 2014). So no sum of
// propensities is needed, only numbers of items times powers of two. Doubles add and subtract these
// without rounding, so nothing drifts.
//
// Random numbers: candidates are counted through a trajectory, and candidate `number` uses draw `number` of
// the trajectory's stream: words 0 and 1 give the time since the candidate before, words 2 and 3 the item
// and its acceptance. However many threads look at once, the first accepted candidate in order of numbers
// wins, and the candidates of the next event begin behind it.
//
// Items are stored in one order: groups from the greatest exponent down, and last the items whose propensity
// is zero. When an item changes its group, each group in between gives one item from one end to fill the gap
// at its other end. One thread does this, in the order of the plan, so the order is the same for every team.
#pragma once

#include "tables/event.h"
#include "math/basic.h"
#include "ensemble/sampling.h"
#include "team/team_draws.h"
#include "team/team_votes.h"

// Group 0 has propensities of 2^HIGHEST and above, below twice that, the next half of it, and so on
// down to 2^-128. Then come those that are 0 or less than that, and those that are no number or more
// than the first group's (`kernels/exact/composition.py`).
constexpr i32 GROUPS = (i32)C_GROUPS, NOTHING = GROUPS, UNUSABLE = GROUPS + 1;
constexpr i32 HIGHEST = GROUPS - 129;
constexpr i32 FILLED_WORDS = UNUSABLE / 32 + 1;

// Exponents below the first that have a bound of their own.
constexpr i32 RANGE = 31;

// Candidates that a team looks at together: of 100 events one finds none among so many, and more would
// load what is seldom used. No result depends on it.
constexpr int CANDIDATES_AT_ONCE = 4;

DEVICE i32 group_of(double propensity) {
    if (propensity == 0) return NOTHING;
    const i32 exponent = (i32)(high_word(propensity) >> 20) - 1023;
    return exponent > HIGHEST ? UNUSABLE : exponent < -128 ? NOTHING : HIGHEST - exponent;
}

// The groups of a trajectory.
struct Groups {
    const State &s;

    DEVICE_MEMBER double propensity(i64 item) const { return s.v[V_LEAVES + item]; }
    DEVICE_MEMBER i32 &item(i64 place) const { return s.x[C_ITEM + place]; }
    DEVICE_MEMBER i32 &of(i64 item) const { return s.x[C_WHERE + 2 * item]; }
    DEVICE_MEMBER i32 &place(i64 item) const { return s.x[C_WHERE + 2 * item + 1]; }
    DEVICE_MEMBER i32 &size(i64 group) const { return s.x[C_GROUP + 2 * group]; }
    DEVICE_MEMBER i32 &first(i64 group) const { return s.x[C_GROUP + 2 * group + 1]; }  // if any
    DEVICE_MEMBER i32 &filled(i32 word) const { return s.x[C_FILLED + word]; }  // bits of groups

    // The bound of an item of a group. All groups from 31 behind the first on have one bound, so that bounds
    // are whole multiples of the least, and doubles add them without rounding.
    DEVICE_MEMBER static double bound(i32 group, i32 top) {
        if (group >= GROUPS) return 0;
        return power_of_two(HIGHEST + 1 - (group < top + RANGE ? group : top + RANGE));
    }

    // The first group after `group` that has items, or `none`.
    DEVICE_MEMBER i32 next(i32 group, i32 none) const {
        if (++group > UNUSABLE) return none;
        i32 word = group / 32;
        u32 bits = (u32)filled(word) & ~0u << group % 32;
        while (bits == 0 && ++word < FILLED_WORDS) bits = (u32)filled(word);
        return bits == 0 ? none : 32 * word + lowest_bit(bits);
    }

    // The last group before `group` that has items, or -1.
    DEVICE_MEMBER i32 previous(i32 group) const {
        if (group == 0) return -1;
        i32 word = --group / 32;
        u32 bits = (u32)filled(word) & ~0u >> (31 - group % 32);
        while (bits == 0 && --word >= 0) bits = (u32)filled(word);
        return bits == 0 ? -1 : 32 * word + 31 - leading_zeros(bits);
    }

    DEVICE_MEMBER void put(i32 moved, i32 hole) const {
        item(hole) = moved;
        place(moved) = hole;
    }

    // Whether an item's propensity no longer belongs to its group.
    DEVICE_MEMBER bool has_left(i64 item) const { return of(item) != group_of(propensity(item)); }

    // Moves an item to the group of its propensity; returns the change of the total if the first group is
    // `top`. One thread calls it.
    DEVICE_MEMBER double move(i32 moved, i32 top) const {
        const i32 from = of(moved), to = group_of(propensity(moved));
        if (from == to) return 0;
        of(moved) = to;
        i32 hole = place(moved);
        const i32 end = from < to ? first(from) + size(from) - 1 : first(from)++;
        put(item(end), hole);
        hole = end;
        if (--size(from) == 0) filled(from / 32) &= ~(i32)(1u << from % 32);
        if (from < to)
            for (i32 group = next(from, to); group < to; group = next(group, to)) {
                const i32 last = first(group)-- + size(group) - 1;
                put(item(last), hole);
                hole = last;
            }
        else
            for (i32 group = previous(from); group > to; group = previous(group)) {
                const i32 begin = first(group)++;
                put(item(begin), hole);
                hole = begin;
            }
        if (from < to || size(to) == 0) first(to) = hole;
        if (size(to)++ == 0) filled(to / 32) |= (i32)(1u << to % 32);
        put(moved, hole);
        return bound(to, top) - bound(from, top);
    }

    // All items, in their order within each group.
    DEVICE_MEMBER void fill() const {
        team_each(0, UNUSABLE + 1, [&](i64 group) { size(group) = 0; });
        team_sync();
        team_each(0, N_LEAVES, [&](i64 own) {
            of(own) = group_of(propensity(own));
            add_in_block((u32 *)&size(of(own)), 1);
        });
        team_sync();
        team_each(0, FILLED_WORDS, [&](i64 word) {
            u32 bits = 0;
            for (i32 i = 0; i < 32 && 32 * word + i <= UNUSABLE; ++i)
                bits |= (u32)(size(32 * word + i) > 0) << i;
            filled((i32)word) = (i32)bits;
        });
        team_sync();
        if (is_first_vote()) arrange();
        team_sync();
    }

    // The first group and the total of all bounds, from the sizes of groups. One thread alone.
    DEVICE_MEMBER void survey() const {
        const i32 top = next(-1, NOTHING);
        double sum = size(UNUSABLE) > 0 ? not_a_number() : 0.0;
        for (i32 group = top; group < NOTHING; group = next(group, NOTHING))
            sum += (double)size(group) * bound(group, top);
        s.x[C_TOP] = top;
        s.v[V_TOTAL] = sum;
    }

  private:
    DEVICE_MEMBER void arrange() const {
        i32 filled_places = 0;
        for (i32 group = next(-1, UNUSABLE + 1); group <= UNUSABLE;
             group = next(group, UNUSABLE + 1)) {
            if (own_vote() == 0) first(group) = filled_places;
            for (i32 batch = 0; batch < N_LEAVES; batch += VOTERS) {
                const i32 own = batch + own_vote();
                const bool here = own < N_LEAVES && of(own) == group;
                const u32 all = votes(here);
                if (here) put(own, filled_places + popc(all & ((1u << own_vote()) - 1)));
                filled_places += popc(all);
            }
        }
    }
};

// Draws of a trajectory, and how many candidates it has used.
struct Candidates {
    TeamDraws draws;
    u64 number;
};

struct Composition {
    typedef Candidates Draws;

    class Event {
      public:
        DEVICE_MEMBER Event(const PhiloxKeys &keys, const Place &place, u64, Draws &draws,
                            const State &s)
            : keys_(keys), place_(place), draws_(draws), s_(s), item_(0) {}

        // The total of the bounds.
        DEVICE_MEMBER double total() const { return s_.v[V_TOTAL]; }

        // Draws candidates until one is accepted.
        DEVICE_MEMBER double waiting(const Tables &) {
            double sum = 0;
            for (;;) {
                const i32 used = (i32)(draws_.number % DRAWS_OF_TEAM);
                if (used == 0) draws_.draws.make(keys_, place_, draws_.number);
                const i32 left = (i32)DRAWS_OF_TEAM - used;
                const i32 most = VOTERS < CANDIDATES_AT_ONCE ? VOTERS : CANDIDATES_AT_ONCE;
                const i32 count = most < left ? most : left;
                const double target = draws_.draws.unit(draws_.number + own_vote()) * total();
                const u32 accepted = votes(own_vote() < count && is_accepted(target));
                const i32 tried = accepted == 0 ? count : lowest_bit(accepted) + 1;
                for (i32 i = 0; i < tried; ++i) sum += draws_.draws.waiting(draws_.number + i);
                draws_.number += tried;
                if (accepted == 0) continue;
                item_ = of_voter(item_, tried - 1);
                return sum / total();
            }
        }

        DEVICE_MEMBER i32 reaction(const Tables &tables) const {
            return tables.at(AT_LEAF_REACTION, item_);
        }

      private:
        // Whether the item is accepted in whose bound `target`, below the total, falls.
        DEVICE_MEMBER bool is_accepted(double target) {
            const Groups groups = {s_};
            i32 group = s_.x[C_TOP], begin = 0;
            const i32 last = group + RANGE < GROUPS ? group + RANGE : GROUPS - 1;
            double left =
                target * power_of_two(group - HIGHEST - 1);  // in bounds of the group, exactly
            for (; group < last; ++group) {
                const i32 size = groups.size(group);
                if (left < size) break;
                left = 2 * (left - size);
                begin += size;
            }
            const i32 whole = (i32)left;
            item_ = groups.item(begin + whole);
            return (left - whole) * power_of_two(HIGHEST + 1 - group) < groups.propensity(item_);
        }

        const PhiloxKeys &keys_;
        const Place &place_;
        Draws &draws_;
        const State &s_;
        i32 item_;
    };

    // Before the first event.
    DEVICE_MEMBER static void begin(Draws &draws, const State &s) {
        reset(draws);
        arrange(s);
    }
    DEVICE_MEMBER static void reset(Draws &draws) { draws.number = 0; }

    // After propensities were computed otherwise than by `fire`.
    DEVICE_MEMBER static void forget(Draws &) {}

    // After all propensities were computed.
    DEVICE_MEMBER static void arrange(const State &s) {
        const Groups groups = {s};
        groups.fill();
        if (team_leader()) groups.survey();
        team_sync();
    }

    // Changes counts, propensities and their groups; false if a count passed 2147483647.
    DEVICE_MEMBER static bool fire(const Tables &tables, i32 reaction, const State &s, Draws &) {
        const Plan plan(tables, reaction);
        if (!change(tables, plan, s)) return false;
        const Groups groups = {s};
        const i32 top = s.x[C_TOP];
        double more = 0;
        bool moved = false;
        plan_stage(tables, plan, 0, [&](i32 begin, i32 end) {
            if (!is_first_vote()) return;
            const auto leaf = [&](i32 i) { return tables.pair(AT_ENTRY, i); };
        NO_UNROLL for (i32 batch = begin; batch < end; batch += BALLOTS) {
                const i32 count = end - batch < BALLOTS ? end - batch : BALLOTS;
                u32 left = ballots(count, [&](i32 i) {
                    update_leaf(tables, leaf(batch + i), s);
                    return groups.has_left(leaf(batch + i).b - V_LEAVES);
                });
                moved = moved || left != 0;
                if (own_vote() == 0)
                    for (; left != 0; left &= left - 1)
                        more += groups.move(leaf(batch + lowest_bit(left)).b - (i32)V_LEAVES, top);
            }
        });
        if (team_leader() && moved) {
            if (groups.next(-1, NOTHING) == top && groups.size(UNUSABLE) == 0)
                s.v[V_TOTAL] += more;
            else
                groups.survey();
        }
        team_sync();
        return true;
    }
};
