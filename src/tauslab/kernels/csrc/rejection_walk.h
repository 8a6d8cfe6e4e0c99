// A trajectory's way through its batches of candidates, for one thread and for the lanes of a team;
// see rejection.h.
#pragma once

#include "rejection.h"
#include "team_sampling.h"

// Where samples go, and which comes next.
struct Samples {
    const Tables &tables;
    const Recorder &out;
    i64 row;
    const double *times;
    i64 k;
    double next;

    DEVICE_MEMBER Samples(const Tables &all, const Recorder &recorder, i64 of_row,
                          const double *at)
        : tables(all), out(recorder), row(of_row), times(at), k(0),
          next(recorder.n_times > 0 ? at[0] : infinity()) {}

    DEVICE_MEMBER bool done() const { return k == out.n_times; }

    // All that come before `time`.
    DEVICE_MEMBER void record(double time, const State &s) {
        for (; next < time; next = ++k < out.n_times ? times[k] : infinity())
            record_state(tables, out, row, k, s);
    }
};

// No batch goes on where nothing can happen, or no time can be told.
DEVICE bool goes_on(const Course &course) {
    return course.total > 0 && course.total < infinity();
}

// Takes candidate `number` of the batch alone. `is_new` says whether bounds changed; false if the
// trajectory ended, or cannot go on.
DEVICE bool take_alone(Course &course, const Batch &batch, i32 number, i32 item, double left,
                       Samples &samples, u8 &ended, bool &is_new) {
    const double passed = batch.passed(number), time = course.time(passed);
    is_new = false;
    if (samples.next < time) {
        samples.record(time, course.s);
        if (samples.done()) return false;
    }
    const Item record(course.tables, item);
    if (!course.accepts(record, item, left)) return true;
    if (course.events >= course.limit) {
        ended = STEP_LIMIT;
        return false;
    }
    is_new = course.fire(record, item, passed);
    if (course.overflowed) ended = OVERFLOWED;
    return !course.overflowed && (!is_new || goes_on(course));
}

#if TEAM_THREADS == 1

// Takes all candidates of a batch; false if the trajectory ended, or cannot go on.
DEVICE bool take(Course &course, const Batch &batch, Samples &samples, u8 &ended) {
    for (i32 i = 0; i < LANES; ++i) {
        double left = batch.own_unit(i) * course.total;
        const i32 item = course.bounds.find(left);
        bool is_new;
        if (!take_alone(course, batch, i, item, left, samples, ended, is_new)) return false;
    }
    return true;
}

DEVICE void clear_reaches(const State &) {}

#else

// A lane's candidate.
struct Candidate {
    Item record;
    i32 item;
    double left, time;

    DEVICE_MEMBER Candidate(const Course &course, const Batch &batch, i32 row, double target,
                            i32 found)
        : record(course.tables, found), item(found), left(target),
          time(course.time(batch.own_passed(row))) {}
};

// How far the candidates of a team can take a count: down in the lower half of a word of
// molecules, up in the upper half.
DEVICE i32 &reach(const State &s, i32 species) {
    return s.x[R_REACH + species];
}

DEVICE void clear_reaches(const State &s) {
    team_each(0, N_SPECIES, [&](i64 i) { reach(s, (i32)i) = 0; });
}

// Adds a candidate to the reaches of what it changes.
DEVICE void add_reach(const State &s, const Item &record) {
    UNROLL for (int i = 0; i < CHANGES; ++i) {
        const i32 change = record.change[i];
        if (change == 0) continue;
        add_in_block((u32 *)&reach(s, record.species[i]),
                     change > 0 ? (u32)change << 16 : (u32)-change);
    }
}

// Whether a candidate is accepted or rejected, and changes no interval, whatever those before it do.
DEVICE bool is_certain(const Course &course, const Item &record, double left, bool &accepted) {
    const State &s = course.s;
    i32 least[CHANGES], most[CHANGES];
    bool stays = true;
    UNROLL for (int i = 0; i < CHANGES; ++i) {
        const i32 species = record.species[i], count = s.x[species];
        const u32 word = (u32)reach(s, species);
        const i32 down = count - course.bounds.low(species), by = (i32)(word & 0xffff);
        const i32 up = course.bounds.high(species) - count, to = (i32)(word >> 16);
        stays = stays && (record.change[i] == 0 || (by <= down && to <= up));
        least[i] = count - (by < down ? by : down);
        most[i] = count + (to < up ? to : up);
    }
    accepted = stays && left < record.propensity_of(least[0], least[1], s.c);
    return accepted || left >= record.propensity_of(most[0], most[1], s.c);
}

DEVICE void apply(const State &s, const Item &record) {
    UNROLL for (int i = 0; i < CHANGES; ++i)
        if (record.change[i] != 0)
            add_in_block((u32 *)&s.x[record.species[i]], (u32)record.change[i]);
}

// Takes the candidates from `begin` on of a row of VOTERS, with the bounds as they are: to the end,
// or to the first that changes them, behind which `begin` is then. False if the trajectory ended, or
// cannot go on.
DEVICE bool take_row(Course &course, const Batch &batch, i32 row, i32 &begin,
                     const Candidate &own, Samples &samples, u8 &ended) {
    const State &s = course.s;
    for (;;) {
        const bool waits = own_vote() >= begin;
        bool accepted = false, certain = false;
        if (waits && own.record.is_simple() && own.time <= samples.next &&
            course.events + VOTERS <= course.limit)
            certain = is_certain(course, own.record, own.left, accepted);
        const u32 uncertain = votes(waits && !certain);
        const i32 end = uncertain == 0 ? VOTERS : lowest_bit(uncertain);
        const bool fires = accepted && waits && own_vote() < end;
        team_sync();  // all have read what changes
        if (fires && is_first_vote()) {
            apply(s, own.record);
            course.count(own.item);
        }
        course.events += bits_set(votes(fires));
        team_sync();
        begin = end;
        if (begin == VOTERS) return true;
        const i32 item = of_voter(own.item, begin);
        const double left = of_voter(own.left, begin);
        bool is_new;
        const bool on = take_alone(course, batch, row * VOTERS + begin, item, left, samples, ended,
                                   is_new);
        ++begin;
        if (!on) return false;
        if (is_new || begin == VOTERS) return true;
    }
}

DEVICE bool take(Course &course, const Batch &batch, Samples &samples, u8 &ended) {
    NO_UNROLL for (i32 row = 0; row < LANES / VOTERS; ++row) {
        i32 begin = 0;
        while (begin < VOTERS) {
            double target = batch.own_unit(row) * course.total;
            const i32 item = course.bounds.find(target);
            const Candidate own(course, batch, row, target, item);
            const bool reaches = is_first_vote() && own_vote() >= begin && own.record.is_simple();
            if (reaches) add_reach(course.s, own.record);
            team_sync();
            const bool on = take_row(course, batch, row, begin, own, samples, ended);
            team_sync();
            if (reaches)
                UNROLL for (int i = 0; i < CHANGES; ++i)
                    if (own.record.change[i] != 0) reach(course.s, own.record.species[i]) = 0;
            team_sync();
            if (!on) return false;
        }
    }
    return true;
}

#endif
