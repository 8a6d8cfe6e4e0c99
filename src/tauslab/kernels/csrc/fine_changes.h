// What a leap does to species, and an exact event to a network that is laid out as in
// fine_network.h: limits, changes of counts.
#pragma once

#include "fine_network.h"

constexpr i32 SHORT_ROW = 32;  // longer ones are summed by 32 lanes

// -------------------------------------------------------------------------------------- limits

// A reaction that changes a species, and by how much.
struct Flow {
    i32 leaf, by;
};

DEVICE Flow flow(const Tables &tables, i64 entry) {
    const i32 word = tables.at(AT_FLOW, entry);
    if (FLOWS_PACKED) return {word >> 4, (word & 15) - 8};
    return {word, tables.at(AT_FLOW_BY, entry)};
}

// g of a species (Cao, Gillespie & Petzold 2006); 0 where nothing reads it or changes it.
DEVICE double order_of(const Tables &tables, i32 species, const Flight &s) {
    const i32 code = tables.at(AT_ORDER, species);
    if (code == 0) return 0.0;
    const double count = (double)s.x[species];
    double order = (double)(code & 0xff);
    const i32 set = code >> 8;  // of reactions that read two molecules of it or more
    for (i32 i = tables.at(AT_SET_ROW, set); i < tables.at(AT_SET_ROW, set + 1); ++i) {
        const i32 copies = tables.at(AT_SET_COPIES, i);
        double sum = (double)copies;
        for (i32 m = 1; m < copies; ++m) sum += (double)m / (count - (double)m);
        order = larger(order, tables.real[AT_SET_RATIO + i] * sum);
    }
    if (N_LAW_READS == 0) return order;
    for (i32 i = tables.at(AT_LAW_ROW, species); i < tables.at(AT_LAW_ROW, species + 1); ++i) {
        const i32 leaf = tables.at(AT_LAW_LEAF, i);
        const double more = other_propensity(tables, leaf, OneMore{s.x, species}, s.c);
        order = larger(order, law_order(count, magnitude(s.v[leaf]), more));
    }
    return order;
}

// The longest leap that a species allows, from mean and variance of its change in a unit of time.
DEVICE double species_limit(const Tables &tables, i32 species, double mean, double variance,
                            double epsilon, const Flight &s) {
    const double order = order_of(tables, species, s);
    double limit = tl_infinity();
    if (order == 0) return limit;
    const double change = larger(epsilon * (double)s.x[species] / order, 1.0);
    const double by_mean = change / magnitude(mean), by_variance = change * change / variance;
    if (by_mean < limit) limit = by_mean;
    if (by_variance < limit) limit = by_variance;
    return limit;
}

// The longest leap that the thread's species allow.
DEVICE double least_limit(const Tables &tables, const Flight &s, double epsilon, const Crew &crew) {
    double least = tl_infinity();
    const auto allow = [&](i32 species, double mean, double variance) {
        const double limit = species_limit(tables, species, mean, variance, epsilon, s);
        if (limit < least) least = limit;
    };
    crew.each(0, N_SPECIES, [&](i64 i) {
        const i32 begin = tables.at(AT_FLOW_ROW, i), end = tables.at(AT_FLOW_ROW, i + 1);
        if (begin == end || end - begin > SHORT_ROW) return;
        double mean = 0, variance = 0;
        for (i32 e = begin; e < end; ++e) {
            const Flow entry = flow(tables, e);
            const double change = (double)entry.by * leaping(s.v[entry.leaf]);
            mean += change, variance += (double)entry.by * change;
        }
        allow((i32)i, mean, variance);
    });
    crew.groups(0, N_LONG_ROWS, [&](i64 i) {
        const i32 species = tables.at(AT_LONG_ROW, i);
        const i32 begin = tables.at(AT_FLOW_ROW, species);
        const i32 end = tables.at(AT_FLOW_ROW, species + 1);
        LaneValues means, variances;
        lanes_each([&](int lane) {
            double mean = 0, variance = 0;
            for (i32 e = begin + lane; e < end; e += LANES) {
                const Flow entry = flow(tables, e);
                const double change = (double)entry.by * leaping(s.v[entry.leaf]);
                mean += change, variance += (double)entry.by * change;
            }
            means.set(lane, mean), variances.set(lane, variance);
        });
        allow(species, lanes_sum(means), lanes_sum(variances));
    });
    return least;
}

// ------------------------------------------------------------------------------------- changes

// Counts after the firings of a leap; returns what `add` of leaps.h found.
DEVICE int change_counts(const Tables &tables, const Flight &s, const Crew &crew) {
    int outcome = FITS;
    const auto change = [&](i64 species, i64 by) {
        i32 count = s.x[species];
        add(count, by, 1, outcome);
        s.next[species] = count;
    };
    crew.each(0, N_SPECIES, [&](i64 i) {
        const i32 begin = tables.at(AT_FLOW_ROW, i), end = tables.at(AT_FLOW_ROW, i + 1);
        if (end - begin > SHORT_ROW) return;
        i64 sum = 0;
        for (i32 e = begin; e < end; ++e) {
            const Flow entry = flow(tables, e);
            sum += entry.by * s.firings[entry.leaf];
        }
        change(i, sum);
    });
    crew.groups(0, N_LONG_ROWS, [&](i64 i) {
        const i32 species = tables.at(AT_LONG_ROW, i);
        const i32 begin = tables.at(AT_FLOW_ROW, species);
        const i32 end = tables.at(AT_FLOW_ROW, species + 1);
        i64 own = 0;
        lanes_each([&](int lane) {
            for (i32 e = begin + lane; e < end; e += LANES) {
                const Flow entry = flow(tables, e);
                own += entry.by * s.firings[entry.leaf];
            }
        });
        const i64 sum = lanes_whole_sum(own);
        if (first_lane()) change(species, sum);
    });
    return outcome;
}

// One exact event, by one block: counts, propensities that read them, and sums above these.
// Returns whether the block's thread saw a count pass 2147483647.
DEVICE bool fire(const Tables &tables, const Flight &s, i32 leaf, const BlockThreads &block) {
    const i32 begin = tables.at(AT_CHANGE_ROW, leaf), end = tables.at(AT_CHANGE_ROW, leaf + 1);
    bool overflowed = false;
    block.each(begin, end, [&](i64 i) {
        i32 &count = s.x[tables.at(AT_CHANGE_SPECIES, i)];
        count = plus(count, tables.at(AT_CHANGE_BY, i));
        overflowed |= count < 0;
    });
    block.sync();
    for (i32 i = begin; i < end; ++i) {
        const i32 species = tables.at(AT_CHANGE_SPECIES, i);
        block.each(tables.at(AT_READER_ROW, species), tables.at(AT_READER_ROW, species + 1),
                   [&](i64 k) {
                       const i32 reader = tables.at(AT_READER, k);
                       s.v[reader] = scanned(tables, reader, s);
                   });
    }
    block.sync();
    i64 width = LANES;
    for (i32 depth = 1; depth <= LEVELS; ++depth, width *= LANES) {
        for (i32 i = begin; i < end; ++i) {
            const i32 species = tables.at(AT_CHANGE_SPECIES, i);
            const i32 first = tables.at(AT_READER_ROW, species);
            // Readers are in order: a sum that holds the reader before is done with that.
            block.groups(first, tables.at(AT_READER_ROW, species + 1), [&](i64 k) {
                const i64 node = tables.at(AT_READER, k) / width;
                if (k == first || tables.at(AT_READER, k - 1) / width != node)
                    sum_node(tables, s, depth, node, ALL);
            });
        }
        block.sync();
    }
    return overflowed;
}
