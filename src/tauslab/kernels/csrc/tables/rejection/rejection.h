// Selector `rssa`: rejection-based SSA (Thanh, Priami & Zunino, J. Chem. Phys. 141, 134116, 2014).
//
//     paper                        here
//     X_i                          State::x[species], the count
//     [X_i low, X_i high]          FluctuationInterval::low, high (tables/rejection/bounds.h)
//     upper bound of a_j           Bounds::upper_bound, stored_bound
//     upper bound of a_0           Rssa::total, the sum of all upper bounds
//     candidate reaction           an item that Bounds::find draws in proportion to its upper bound
//     a_j(X), acceptance           Item::propensity_of, Rssa::accepts
//     lower bound of a_j           none: a propensity costs no more than its lower bound would
//
// A candidate is accepted, and is then a firing, with the probability propensity / upper bound. The
// times of candidates are a Poisson process with the rate `total` (thinning). So a trajectory may
// reject any number of candidates between two events.
//
// Random numbers: candidates are counted through a trajectory. Candidate `number` uses draw `number`
// of the trajectory's stream: words 0 and 1 give the time since the candidate before, for a total of
// 1; words 2 and 3 give the item and the acceptance.
//
// Time: candidates are taken in batches of 32. `elapsed` of a candidate is the canonical scan
// (Kogge-Stone) of the times in its batch. The time is origin + (elapsed - before) * (1 / total).
// `origin` and `before` belong to the beginning of the batch, or to the last candidate after which the
// total changed. When a batch is over, a species that it changed gets a new interval if its count is
// near an end of the old one. So few counts leave their interval within a batch.
//
// One thread takes candidates one by one. A team of threads draws one candidate for each lane. The
// candidates alone bound how far each count can change. Most candidates are therefore accepted or
// rejected whatever the earlier ones do, and no count leaves its interval. The team applies a run of
// such candidates at once. Any other candidate waits until all before it are done, and is taken alone.
#pragma once

#include "math/math.h"
#include "tables/rejection/bounds.h"
#include "ensemble/sampling.h"
#include "team/team_votes.h"
#ifdef HAS_EVENTS
#include "tables/events/team_events.h"
#endif

// An item's record has room for so many changes. An item with more changes, or with changes by more
// molecules than 16 bits hold for a batch, has the kind MANY_CHANGES and is taken alone.
constexpr int CHANGES = 4;
constexpr i32 MANY_CHANGES = 5;

// The record of an item, as a candidate reads it. The species of the propensity are the first among
// the changes, even if their change is zero. Unused changes name a species that does not exist. Species are
// in pairs of 16 bits, unless there are too many of them (WIDE_SPECIES), so that a record has 32 bytes.
struct Item {
    i32 kind, source;
    double rate;

    DEVICE_MEMBER Item(const Tables &tables, i32 item) {
        constexpr i32 QUADS = 2 + WIDE_SPECIES;
        const IntQuad first = tables.quad(AT_RECORD, QUADS * item);
        const IntQuad second = tables.quad(AT_RECORD, QUADS * item + 1);
        kind = first.a % 8, source = first.a / 8 + LITERAL_CONSTANT;
        low_changes_ = first.b, high_changes_ = first.c;
        rate = from_words((u32)second.a, (u32)second.b);
        species_[0] = second.c, species_[1] = second.d;
#if WIDE_SPECIES
        const IntQuad third = tables.quad(AT_RECORD, QUADS * item + 2);
        species_[2] = third.a, species_[3] = third.b;
#endif
    }

    DEVICE_MEMBER i32 species(int i) const {
        if (WIDE_SPECIES) return i < 2 ? species_[i == 0 ? 0 : 1] : species_[i == 2 ? 2 : 3];
        const u32 two = (u32)species_[i < 2 ? 0 : 1];
        return (i32)(i % 2 == 0 ? two & 0xffff : two >> 16);
    }

    DEVICE_MEMBER i32 change(int i) const {
        const i32 two = i < 2 ? low_changes_ : high_changes_;
        return i % 2 == 0 ? (i32)((u32)two << 16) >> 16 : two >> 16;
    }

    DEVICE_MEMBER bool is_simple() const { return kind <= HOMODIMER; }

    // The propensity of a simple item, with the bits of `propensity`. It has no branch, because the
    // kind of the next item cannot be predicted.
    DEVICE_MEMBER double propensity_of(i32 one, i32 other, const double *constants) const {
        const i32 first = kind == 0 ? 1 : one;
        const i32 second = kind == 2 ? other : kind == 3 ? one - 1 : 1;
        return constant_of(source, rate, constants) * ((double)first * (double)second);
    }

  private:
    i32 low_changes_, high_changes_;  // two of 16 bits each
    i32 species_[4];
};

// Times and targets of a batch of candidates.
class CandidateBatch {
  public:
    DEVICE_MEMBER void make(const PhiloxKeys &keys, const Place &place, u64 number);

    // From the beginning of the batch to candidate `i` of it, for a total of 1.
    DEVICE_MEMBER double elapsed(i32 i) const;

    // Time and uniform number in [0, 1) of the thread's candidate in row `row` of VOTERS candidates.
    DEVICE_MEMBER double own_elapsed(i32 row) const { return of_row(elapsed_, row); }
    DEVICE_MEMBER double own_unit(i32 row) const { return of_row(unit_, row); }

    static constexpr int HELD = LANES / VOTERS;

    // The element that belongs to the thread's candidate of a row.
    template <class T>
    DEVICE_MEMBER static T of_row(const T *held, i32 row) {
        if (VOTERS == 1) return held[row];
        T value = held[0];
        UNROLL for (int i = 1; i < HELD; ++i) value = row == i ? held[i] : value;
        return value;
    }

  private:
    DEVICE_MEMBER void scan();

    double elapsed_[HELD], unit_[HELD];
};

DEVICE_MEMBER void CandidateBatch::make(const PhiloxKeys &keys, const Place &place, u64 number) {
    const u32 stream = IS_PILOT ? STREAM_PILOT : STREAM_SSA;
    const PhiloxSeries series = draw_series(keys, stream, place.trajectory, place.point, number);
    LANE_LOOP for (int i = 0; i < HELD; ++i) {
        const Philox4 bits = philox_draw(series, keys, (u32)number + (u32)(i * VOTERS + own_vote()));
        elapsed_[i] = unit_open_low(bits.x0, bits.x1);
        unit_[i] = unit_half_open(bits.x2, bits.x3);
    }
    LANE_LOOP for (int i = 0; i < HELD; ++i) elapsed_[i] = tl_exponential(elapsed_[i]);
    scan();
}

#if TEAM_THREADS == 1

DEVICE_MEMBER double CandidateBatch::elapsed(i32 i) const {
    return elapsed_[i];
}

DEVICE_MEMBER void CandidateBatch::scan() {
    UNROLL for (int distance = 1; distance < LANES; distance *= 2) {
        double sum[LANES];
        LANE_LOOP for (int i = 0; i < LANES - distance; ++i) sum[i] = elapsed_[i] + elapsed_[i + distance];
        LANE_LOOP for (int i = 0; i < LANES - distance; ++i) elapsed_[i + distance] = sum[i];
    }
}

#else

DEVICE_MEMBER double CandidateBatch::elapsed(i32 i) const {
    return LANES_READ(TEAM_LANES, of_row(elapsed_, i / TEAM_LANES), i % TEAM_LANES);
}

DEVICE_MEMBER void CandidateBatch::scan() {
    UNROLL for (int distance = 1; distance < TEAM_LANES; distance *= 2) {
        double before[HELD];
        UNROLL for (int i = 0; i < HELD; ++i) before[i] =
            LANES_READ(TEAM_LANES, elapsed_[i], (own_lane() - distance) & (TEAM_LANES - 1));
        UNROLL for (int i = HELD - 1; i >= 0; --i) {
            const bool same_row = own_lane() >= distance;
            if (same_row || i > 0) elapsed_[i] += same_row ? before[i] : before[i > 0 ? i - 1 : 0];
        }
    }
    UNROLL for (int rows = 1; rows < HELD; rows *= 2)
        UNROLL for (int i = HELD - 1; i >= rows; --i) elapsed_[i] += elapsed_[i - rows];
}

#endif

// The state of the algorithm between two candidates of a trajectory.
struct Rssa {
    Bounds bounds;
    u64 *firings;           // a pilot's counters: of each reaction, of candidates, of new upper bounds
    u64 events, limit;      // firings so far, and the step limit
    double origin, before;  // see `time`
    double total, inverse;  // sum of all upper bounds, and 1 / total
    bool overflowed, near_end;
#ifdef HAS_EVENTS
    EventMemory *queue;  // tables/events/team_events.h
    const PhiloxKeys *keys;
    Place place;
    double stop;  // candidates from this time on are drawn anew behind it
#endif

    DEVICE_MEMBER Rssa(const Bounds &all, u64 most, u64 *counted)
        : bounds(all), firings(counted), events(0), limit(most),
          origin(0), before(0), overflowed(false), near_end(false) {
        bounds.make();
        take_total();
    }

    DEVICE_MEMBER void take_total() {
        total = bounds.total();
        inverse = total > 0x1p-1000 ? 1.0 / total : 0x1p1000;
    }

    // A trajectory ends where nothing can happen, or where a time would not be a number.
    DEVICE_MEMBER bool can_continue() const { return total > 0 && total < infinity(); }

    DEVICE_MEMBER double time(double elapsed) const { return origin + (elapsed - before) * inverse; }

    DEVICE_MEMBER void count(i32 item) const {
        if (IS_PILOT) atomic_add(&firings[bounds.tables.at(AT_ITEM, item)], 1);
    }

    // Whether `item` is accepted in the present state; `left` is uniform from 0 to its upper bound.
    DEVICE_MEMBER bool accepts(const Item &record, i32 item, double left) const {
        const State &s = bounds.s;
        if (record.is_simple())
            return left < record.propensity_of(s.x[record.species(0)], s.x[record.species(1)], s.c);
        return left < propensity_of_item(bounds.tables, item, s);
    }

    // Fires an item at `elapsed` into the batch; returns whether upper bounds changed.
    DEVICE_MEMBER bool fire(const Item &record, i32 item, double elapsed) {
        ++events;
        if (team_leader()) count(item);
        team_sync();  // all have read what changes
        const bool is_new = record.kind == MANY_CHANGES ? fire_many(item) : fire_few(record);
        if (!is_new) return false;
        origin = time(elapsed);
        before = elapsed;
        take_total();
        return true;
    }

    // Gives a species a new interval, and counts the new upper bounds for a pilot.
    DEVICE_MEMBER void renew(i32 species) const {
        renew_interval(bounds, species);
        if (!IS_PILOT || !team_leader()) return;
        const IntQuad readers = bounds.tables.quad(AT_READERS, species);
        atomic_add(&firings[N_REACTIONS + 1], (u64)(readers.c - readers.b));
    }

#ifdef HAS_EVENTS
    // Looks at triggers at time `now`, `elapsed` into the batch, and executes events; at a stop the time may have
    // changed propensities too. Returns whether candidates are drawn anew; sets `ended` if the
    // trajectory ends.
    DEVICE_MEMBER bool look(double now, double elapsed, bool at_stop, u8 &ended) {
        bounds.s.time = now;
        if (HAS_DELAYS && at_stop) complete_due();
        if (overflowed) {
            ended = OVERFLOWED;
            return true;
        }
        if (team_leader()) settle_alone(*queue, bounds.tables, bounds.s, *keys, place);
        team_sync();
        const bool is_new = at_stop || queue->set > 0;
        stop = queue->stop;
        if (queue->found != EVENTS_DONE) {
            ended = queue->found;
        } else if (queue->set > FEW_SET) {
            make_again(bounds);
        } else {
            for (i32 i = 0; i < queue->set; ++i) renew(queue->variable[i]);
            if (at_stop) renew((i32)N_SPECIES - 1);
        }
        if (is_new) {
            origin = now;
            before = elapsed;
            take_total();
        }
        team_sync();  // all have read what the next look will write
        return is_new;
    }

    // Notes what comes later of a reaction that begins now; how the trajectory ends if that is not possible.
    DEVICE_MEMBER u8 begin(i32 reaction, double now) {
        bounds.s.time = now;
        team_sync();
        if (team_leader()) begin_late(*queue, bounds.tables, bounds.s, reaction);
        team_sync();
        const u8 found = queue->found;
        stop = queue->stop;
        team_sync();
        return found;
    }
#endif

  private:
#ifdef HAS_EVENTS
    // Completes delayed reactions that are due: their changes stand behind those of the items.
    DEVICE_MEMBER void complete_due() {
        const Tables &tables = bounds.tables;
        if (team_leader()) queue->set = 0;
        for (i32 due = next_due(*queue, tables, bounds.s); due >= 0 && !overflowed;
             due = next_due(*queue, tables, bounds.s)) {
            const i32 item = (i32)N_ITEMS + due;
            const i32 end = tables.at(AT_CHANGE_ROW, item + 1);
            bool is_short = false;
            for (i32 i = tables.at(AT_CHANGE_ROW, item); i < end; ++i) {
                const IntPair one = tables.pair(AT_CHANGE, i);
                is_short = is_short || (one.b < 0 && bounds.s.x[one.a] < -one.b);
            }
            team_sync();
            if (!is_short) fire_many(item);
        }
        if (N_JUMPS == 0 || overflowed) return;
        if (queue->set > FEW_SET)
            make_again(bounds);
        else
            for (i32 i = 0; i < queue->set; ++i) renew(queue->variable[i]);
        team_sync();  // all have read what was noted
    }
#endif

    DEVICE_MEMBER void add(i32 species, i32 change) const {
        bounds.s.x[species] = plus(bounds.s.x[species], change);
    }

    // The first CHANGES threads of a team have a change each; one thread has them all in turn.
    DEVICE_MEMBER bool fire_few(const Item &record) {
#if TEAM_THREADS == 1
        UNROLL for (int i = 0; i < CHANGES; ++i) add(record.species(i), record.change(i));
        bool inside = true;
        UNROLL for (int i = 0; i < CHANGES; ++i)
            inside &= bounds.range(record.species(i)).contains_well_inside(bounds.s.x[record.species(i)]);
        if (inside) return false;
        near_end = true;
        bool left = false;
        for (int i = 0; i < CHANGES; ++i) left |= check(record.species(i));
        return left;
#else
        const int own = own_vote() % CHANGES;
        const i32 species = record.species(own);
        if (team_rank() < CHANGES) add(species, record.change(own));
        team_sync();
        const i32 count = bounds.s.x[species];
        const FluctuationInterval range = bounds.range(species);
        u32 left = votes(own_vote() < CHANGES && !range.contains(count));
        if (left == 0) return false;
        overflowed = overflowed || votes(count < 0) != 0;
        team_sync();  // all have read what changes
        NO_UNROLL for (; left != 0 && !overflowed; left &= left - 1)
            renew(of_voter(species, lowest_bit(left)));
        return true;
#endif
    }

    DEVICE_MEMBER bool fire_many(i32 item) {
        const Tables &tables = bounds.tables;
        const i32 begin = tables.at(AT_CHANGE_ROW, item), end = tables.at(AT_CHANGE_ROW, item + 1);
        team_each(begin, end, [&](i64 i) {
            const IntPair one = tables.pair(AT_CHANGE, i);
            add(one.a, one.b);
        });
        team_sync();
        near_end = true;  // firings of the batch that change the same species look at them
        bool left = false;
        NO_UNROLL for (i32 i = begin; i < end; ++i) left |= check(tables.pair(AT_CHANGE, i).a);
        return left;
    }

    // Gives a species a new interval if its count has left the old one; returns whether it had.
    DEVICE_MEMBER bool check(i32 species) {
        const i32 count = bounds.s.x[species];
        if (bounds.range(species).contains(count)) return false;
        overflowed = overflowed || count < 0;
        team_sync();
        if (!overflowed) renew(species);
        return true;
    }
};
