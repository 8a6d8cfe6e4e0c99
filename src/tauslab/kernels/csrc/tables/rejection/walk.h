// How a trajectory takes the candidates of a batch: by one thread, or by the lanes of a team. The head of
// tables/rejection/rejection.h explains both.
#pragma once

#include "tables/rejection/rejection.h"
#include "tables/team_sampling.h"

// Where samples are stored, and which sample time comes next.
struct Samples {
    const Tables &tables;
    const Recorder &out;
    i64 row;
    const double *times;
    i64 k;
    double next;

    DEVICE_MEMBER Samples(const Tables &all, const Recorder &recorder, i64 of_row, const double *at)
        : tables(all),
          out(recorder),
          row(of_row),
          times(at),
          k(0),
          next(recorder.n_times > 0 ? at[0] : infinity()) {}

    DEVICE_MEMBER bool done() const { return k == out.n_times; }

    // Stores all samples before `time`.
    DEVICE_MEMBER void record(double time, const State &s) {
#ifdef HAS_EVENTS
        State at = s;
        for (; next < time; next = ++k < out.n_times ? times[k] : infinity()) {
            at.time = next;
            record_state(tables, out, row, k, at);
        }
#else
        for (; next < time; next = ++k < out.n_times ? times[k] : infinity())
            record_state(tables, out, row, k, s);
#endif
    }
};

#ifdef HAS_EVENTS
// Does what happens at the next stop, `elapsed` into the batch. Returns false if the trajectory ended or cannot
// continue.
DEVICE bool take_stop(Rssa &rssa, double elapsed, Samples &samples, u8 &ended) {
    samples.record(rssa.stop, rssa.bounds.s);
    if (samples.done()) return false;
    if (rssa.events >= rssa.limit) {
        ended = STEP_LIMIT;
        return false;
    }
    --rssa.limit;  // a stop is a step
    rssa.look(rssa.stop, elapsed, true, ended);
    return ended == DONE && rssa.can_continue();
}
#endif

// Takes candidate `number` of the batch alone. Sets `is_new` if upper bounds changed, and `fires` if the
// candidate is a firing. Returns false if the trajectory ended or cannot continue.
DEVICE bool take_one(Rssa &rssa, const CandidateBatch &batch, i32 number, i32 item, double left,
                     Samples &samples, u8 &ended, bool &is_new, bool &fires) {
    const double elapsed = batch.elapsed(number), time = rssa.time(elapsed);
    is_new = fires = false;
#ifdef HAS_EVENTS
    if (!(time < rssa.stop)) {
        is_new = true;
        return take_stop(rssa, elapsed, samples, ended);
    }
#endif
    if (samples.next < time) {
        samples.record(time, rssa.bounds.s);
        if (samples.done()) return false;
    }
    const Item record(rssa.bounds.tables, item);
    if (!rssa.accepts(record, item, left)) return true;
    if (rssa.events >= rssa.limit) {
        ended = STEP_LIMIT;
        return false;
    }
#ifdef HAS_EVENTS
    const i32 reaction = rssa.bounds.tables.at(AT_ITEM, item);
    const i32 flags = rssa.bounds.tables.at(AT_WATCHED, reaction);
    if (HAS_DELAYS && (flags & IS_LATE) != 0) {
        ended = rssa.begin(reaction, time);
        if (ended != DONE) return false;
    }
#endif
    fires = true;
    is_new = rssa.fire(record, item, elapsed);
    if (rssa.overflowed) ended = OVERFLOWED;
#ifdef HAS_EVENTS
    if (!rssa.overflowed && (flags & SETS_OFF) != 0) {
        is_new = rssa.look(time, elapsed, false, ended) || is_new;
        if (ended != DONE) return false;
    }
#endif
    return !rssa.overflowed && (!is_new || rssa.can_continue());
}

DEVICE bool is_well_inside(const Rssa &rssa, i32 species) {
    return rssa.bounds.range(species).contains_well_inside(rssa.bounds.s.x[species]);
}

// Ends a batch. `items` has the thread's candidates that are firings, and -1 for each other candidate.
// Changed species whose counts are near an end of their interval get new intervals.
DEVICE void finish_batch(Rssa &rssa, const CandidateBatch &batch, const i32 *items) {
    rssa.origin = rssa.time(batch.elapsed(LANES - 1));
    rssa.before = 0;
    if (votes(rssa.near_end) == 0) return;
    rssa.near_end = false;
    bool is_new = false;
    for (i32 row = 0; row < LANES / VOTERS; ++row) {
        const i32 item = CandidateBatch::of_row(items, row);
        if (VOTERS == 1 && item < 0) continue;
        const Item record(rssa.bounds.tables, item < 0 ? 0 : item);
    NO_UNROLL for (int i = 0; i < CHANGES; ++i) {
            const i32 species = record.species(i), change = record.change(i);
            const bool changes = item >= 0 && change != 0;
            u32 near = votes(changes && !is_well_inside(rssa, species));
            while (near != 0) {
                const i32 one = of_voter(species, lowest_bit(near));
                team_sync();
                rssa.renew(one);
                is_new = true;
                near &= ~votes(species == one);
            }
        }
    }
    if (is_new) rssa.take_total();
}

#if TEAM_THREADS == 1

// Takes all candidates of a batch. Returns false if the trajectory ended or cannot continue.
DEVICE bool take(Rssa &rssa, const CandidateBatch &batch, Samples &samples, u8 &ended) {
    i32 items[LANES];
    for (i32 i = 0; i < LANES; ++i) {
        double left = batch.own_unit(i) * rssa.total;
        const i32 item = rssa.bounds.find(left);
        bool is_new, fires;
        if (!take_one(rssa, batch, i, item, left, samples, ended, is_new, fires)) return false;
        items[i] = fires ? item : -1;
    }
    finish_batch(rssa, batch, items);
    return true;
}

DEVICE void clear_possible_changes(const State &) {}

#else

// A lane's candidate.
struct Candidate {
    Item record;
    i32 item;
    double left, time;

    DEVICE_MEMBER Candidate(const Rssa &rssa, const CandidateBatch &batch, i32 row, double target,
                            i32 found)
        : record(rssa.bounds.tables, found),
          item(found),
          left(target),
          time(rssa.time(batch.own_elapsed(row))) {}
};

// By how many molecules the candidates of a team can change a count at most:
//
//     bit 31        16 15         0
//         |   rise    |   fall    |
DEVICE void clear_possible_changes(const State &s) {
    team_each(0, N_PLACES, [&](i64 i) { possible_change(s, (i32)i) = 0; });
}

DEVICE u32 packed_change(i32 change) {
    return change > 0 ? (u32)change << 16 : (u32)-change;
}

// Adds a candidate to the possible changes of its species.
DEVICE void add_possible_change(const State &s, const Item &record) {
    UNROLL for (int i = 0; i < CHANGES; ++i)
        if (record.change(i) != 0)
            add_in_block((u32 *)&possible_change(s, record.species(i)), packed_change(record.change(i)));
}

// Whether the candidate's fate is decided whatever the candidates before it do: it is accepted or
// rejected, and no count leaves its interval. The `first` candidate has none before it.
DEVICE bool is_decided(Rssa &rssa, const Item &record, double left, bool first,
                       bool &accepted) {
    const State &s = rssa.bounds.s;
    i32 least[2], most[2];
    bool stays = true;
    UNROLL for (int i = 0; i < CHANGES; ++i) {
        const SpeciesWords known(s, record.species(i));
        const i32 change = record.change(i), count = known.count;
        const FluctuationInterval &range = known.range;
        const u32 all = (u32)known.possible, word = first ? packed_change(change) : all;
        const i32 by = (i32)(word & 0xffff), to = (i32)(word >> 16);
        const i32 down = range.down(count), up = range.up(count);
        stays = stays && (change == 0 || ((by <= down) & (to <= up)));
        if (i > 1) continue;
        least[i] = first ? count : count - (by < down ? by : down);
        most[i] = first ? count : count + (to < up ? to : up);
    }
    accepted = stays && left < record.propensity_of(least[0], least[1], s.c);
    return accepted || left >= record.propensity_of(most[0], most[1], s.c);
}

// Whether a count that the item changes is near an end of its interval.
DEVICE bool is_near_end(const State &s, const Item &record) {
    bool near_end = false;
    UNROLL for (int i = 0; i < CHANGES; ++i) {
        const SpeciesWords known(s, record.species(i));
        near_end |= record.change(i) != 0 && !known.range.contains_well_inside(known.count);
    }
    return near_end;
}

DEVICE void apply(const State &s, const Item &record) {
    UNROLL for (int i = 0; i < CHANGES; ++i)
        if (record.change(i) != 0)
            add_in_block((u32 *)&s.x[record.species(i)], (u32)record.change(i));
}

// Takes the candidates of a row of VOTERS from `begin` on, as long as upper bounds do not change. The first that
// is not decided is taken alone, since in most cases it changes a count that leaves its interval. Then `begin` is
// behind the candidate that changed upper bounds, or behind the row. Returns false if the trajectory ended or cannot
// continue.
DEVICE bool take_row(Rssa &rssa, const CandidateBatch &batch, i32 row, i32 &begin,
                     const Candidate &own, Samples &samples, u8 &ended, bool &fired) {
    const State &s = rssa.bounds.s;
    for (;;) {
        const bool is_pending = own_vote() >= begin;
        bool accepted = false, decided = false;
        bool may_fire = is_pending && own.record.is_simple() && own.time <= samples.next &&
                        rssa.events + VOTERS <= rssa.limit;
#ifdef HAS_EVENTS
        may_fire = may_fire && own.time < rssa.stop;
#endif
        if (may_fire)
            decided = is_decided(rssa, own.record, own.left, own_vote() == begin, accepted);
        const u32 undecided = votes(is_pending && !decided);
        const i32 end = undecided == 0 ? VOTERS : lowest_bit(undecided);
        const bool fires = accepted && own_vote() < end;
        fired = fired || fires;
        team_sync();  // all have read what changes
        if (fires && is_first_vote()) {
            apply(s, own.record);
            rssa.count(own.item);
        }
        rssa.events += popc(votes(fires));
        team_sync();
        if (end == VOTERS) {
            begin = end;
            return true;
        }
        begin = end;
        bool is_new, fires_alone;
        const i32 item = of_voter(own.item, begin);
        const double left = of_voter(own.left, begin);
        if (!take_one(rssa, batch, row * VOTERS + begin, item, left, samples, ended, is_new,
                        fires_alone))
            return false;
        fired = fired || (fires_alone && own_vote() == begin);
        ++begin;
        if (is_new || begin == VOTERS) return true;
    }
}

DEVICE bool take(Rssa &rssa, const CandidateBatch &batch, Samples &samples, u8 &ended) {
    i32 items[LANES / VOTERS];
    UNROLL for (i32 row = 0; row < LANES / VOTERS; ++row) items[row] = -1;
    NO_UNROLL for (i32 row = 0; row < LANES / VOTERS; ++row) {
        i32 begin = 0;
        while (begin < VOTERS) {
            double target = batch.own_unit(row) * rssa.total;
            const i32 item = rssa.bounds.find(target);
            const Candidate own(rssa, batch, row, target, item);
            const bool is_pending = own_vote() >= begin && own.record.is_simple();
            const bool contributes = is_first_vote() && is_pending;
            if (contributes) add_possible_change(rssa.bounds.s, own.record);
            team_sync();
            bool fired = false;
            const bool on = take_row(rssa, batch, row, begin, own, samples, ended, fired);
            team_sync();
            if (contributes)
                UNROLL for (int i = 0; i < CHANGES; ++i)
                    possible_change(rssa.bounds.s, own.record.species(i)) = 0;
            // A count that nobody changes any more is seen by who changed it last.
            rssa.near_end |= fired && is_near_end(rssa.bounds.s, own.record);
            team_sync();
            if (!on) return false;
            UNROLL for (i32 i = 0; i < LANES / VOTERS; ++i)
                items[i] = fired && row == i ? item : items[i];
        }
    }
    finish_batch(rssa, batch, items);
    return true;
}

#endif
