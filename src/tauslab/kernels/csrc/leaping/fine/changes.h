// Changes of counts by a leap, and changes by an exact firing of a network that is laid out as in
// leaping/fine/network.h: limits, changes of counts.
#pragma once

#include "leaping/fine/network.h"

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
    const i32 set = code >> 8;  // the set of reactions that read two or more molecules of it
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

// The change of a species by the reactions in entries `begin`, `begin` + `stride`, ...
DEVICE Turnover turnover(const Tables &tables, const Flight &s, i32 begin, i32 end, i32 stride) {
    Turnover sum = {0, 0, 0};
    for (i32 e = begin; e < end; e += stride) {
        const Flow entry = flow(tables, e);
        const double change = (double)entry.by * leaping(s.v[entry.leaf]);
        if (entry.by > 0)
            sum.gain += change;
        else
            sum.loss -= change;
        sum.variance += (double)entry.by * change;
    }
    return sum;
}

// The longest leap that the thread's species allow.
DEVICE double least_limit(const Tables &tables, const Flight &s, const Tolerance &tolerance,
                          const CooperativeGrid &grid) {
    Limit least = {1.0, 0.0};
    const auto allow = [&](i32 species, const Turnover &of) {
        const double order = order_of(tables, species, s);
        if (order > 0) bound(allowed_of(tolerance, (double)s.x[species], order), of, least);
    };
    grid.each(0, N_SPECIES, [&](i64 i) {
        const i32 begin = tables.at(AT_FLOW_ROW, i), end = tables.at(AT_FLOW_ROW, i + 1);
        if (begin == end || end - begin > SHORT_ROW) return;
        allow((i32)i, turnover(tables, s, begin, end, 1));
    });
    grid.groups(0, N_LONG_ROWS, [&](i64 i) {
        const i32 species = tables.at(AT_LONG_ROW, i);
        const i32 begin = tables.at(AT_FLOW_ROW, species);
        const i32 end = tables.at(AT_FLOW_ROW, species + 1);
        LaneValues gains, losses, variances;
        lanes_each([&](int lane) {
            const Turnover own = turnover(tables, s, begin + lane, end, LANES);
            gains.set(lane, own.gain), losses.set(lane, own.loss);
            variances.set(lane, own.variance);
        });
        const double gain = lanes_sum(gains), loss = lanes_sum(losses);
        allow(species, {gain, loss, lanes_sum(variances)});
    });
    return least.time();
}

// ------------------------------------------------------------------------------------- changes

// Counts after the firings of half of a leap, from those in `x`; returns what `add` of leaping/leaps.h found.
DEVICE int change_counts(const Tables &tables, const Flight &s, const i32 *x,
                         const CooperativeGrid &grid) {
    int outcome = FITS;
    const auto change = [&](i64 species, i64 by) {
        i32 count = x[species];
        add(count, by, outcome);
        s.next[species] = count;
    };
    grid.each(0, N_SPECIES, [&](i64 i) {
        const i32 begin = tables.at(AT_FLOW_ROW, i), end = tables.at(AT_FLOW_ROW, i + 1);
        if (end - begin > SHORT_ROW) return;
        i64 sum = 0;
        for (i32 e = begin; e < end; ++e) {
            const Flow entry = flow(tables, e);
            sum += entry.by * s.firings[entry.leaf];
        }
        change(i, sum);
    });
    grid.groups(0, N_LONG_ROWS, [&](i64 i) {
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

// One exact firing, by one block: counts, propensities that read them, and sums above these.
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
                       s.v[reader] = scanned(tables, reader, s.x, s.c);
                   });
    }
    block.sync();
    i64 width = LANES;
    for (i32 depth = 1; depth <= LEVELS; ++depth, width *= LANES) {
        for (i32 i = begin; i < end; ++i) {
            const i32 species = tables.at(AT_CHANGE_SPECIES, i);
            const i32 first = tables.at(AT_READER_ROW, species);
            // Readers are in order: a sum that holds the previous reader, too, is complete already.
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
