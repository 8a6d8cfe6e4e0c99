// Every random stream, and how a draw's address is packed into Philox's key and counter.
//
// Key: the 64-bit seed (k0 low half, k1 high half). A draw is a pure function of seed and counter.
//
// Counter of ensembles, 128 bits:
//     c0           draw, bits 0..31
//     c1           draw, bits 32..47 | stream << 16            draw: 48 bits, stream: 16 bits
//     c2           trajectory, bits 0..31
//     c3           trajectory, bits 32..39 | point << 8        trajectory: 40 bits, point: 24 bits
// Counter of the lattice, 128 bits:
//     c0           site, bits 0..31
//     c1           site, bits 32..39 | index << 8 | pass << 14 | purpose << 26 | 1 << 31
//     c2           step, bits 0..31                            site: 40 bits, index: 6, pass: 12,
//     c3           step, bits 32..47 | replica << 16           purpose: 5, step: 48, replica: 16
// The highest bit of c1 keeps it apart from ensembles, whose streams stay below 0x8000.
//
// Numbers of streams are part of every result: never change or reuse one.
#pragma once

#include "random/philox.h"

enum Stream : u32 {
    // Waiting times and reactions of exact trajectories: draw `step` is of event `step`, but with
    // the selector `rssa` draw `number` is of candidate `number`, counted through the
    // trajectory.
    STREAM_SSA = 1,
    STREAM_TAU = 2,         // of leaping trajectories: exact events and critical reactions
    STREAM_ODE_SAMPLE = 3,  // sampled parameters and initial values of ODE ensembles
    // 4: not used; the lattice has purposes instead, see LatticePurpose
    // Pilots of large networks. Those that choose a method, or tell of a long run, use the kernels and
    // streams of the run with another key: `pilot_seed` of runner/ensemble/choices/pilots.py.
    STREAM_PILOT = 5,
    // Whether a candidate of a large network is accepted: draw `step` is of candidate `step`.
    STREAM_THINNING = 7,
    STREAM_EVENTS = 6,  // the choice among events that come at one time with equal priorities
    // Pairs of coupled trajectories, of sensitivities: draw `step` is of event `step` of the pair.
    STREAM_COUPLED = 16,
    // Common reaction paths: draw `channel << 32 | number` is of firing `number` of a reaction.
    STREAM_COMMON = 17,
    // Numbers with a distribution in events, delays and initial values: draw d has the numbers
    // 256 d .. 256 d + 255, see random/distributions.h.
    STREAM_DRAWS = 24,
    // Shares of daughters when a cell divides: draw `attempt` of species s has the number 64 s + attempt,
    // and the trajectory is the number of the division.
    STREAM_DIVISION = 32,
    // Of networks with channels of the chemical Langevin equation: waiting times, choices and noise.
    STREAM_LANGEVIN = 40,
    STREAM_POLYMER = 48,  // moves of a bead, which is the trajectory, in step `number`
    // 0x4000 .. 0x7fff: Poisson and binomial numbers of leaps, see random/poisson.h and random/binomial.h
};

// Which point of a sweep a trajectory belongs to, its number within the point, and which row of a
// launch's inputs it takes where they are not shared.
struct Place {
    u32 point;
    u64 trajectory;
    i64 input;
};

// The place of row `row` of a launch that begins at trajectory `first` of the run. A run is flat: points of `per_point`
// trajectories follow each other, and inputs have a row per point of the launch. Without a sweep
// `per_point` is 0, and inputs have a row per trajectory. Numbers within a point begin at `before`:
// an earlier run had those below. (Points in 32 bits: in 64 they cost the
// exact kernel six registers, though they do not live in its loop.)
DEVICE Place place_of(i64 first, i64 row, i64 per_point, i64 before) {
    const u64 flat = (u64)(first + row);
    if (per_point == 0) return {0, (u64)before + flat, row};
    const u32 point = (u32)(flat / (u64)per_point);
    return {point, (u64)before + (flat - point * (u64)per_point),
            (i64)(point - (u32)((u64)first / (u64)per_point))};
}

// The key and the fixed part of the counter of one trajectory in one stream.
struct TrajectoryStream {
    u32 k0, k1;
    u32 c1_stream;
    u32 c2, c3;
};

DEVICE TrajectoryStream trajectory_stream(u64 seed, u32 stream, u64 trajectory, u32 point) {
    return {(u32)seed, (u32)(seed >> 32), stream << 16, (u32)trajectory,
            ((u32)(trajectory >> 32) & 0xffu) | point << 8};
}

// The 128 random bits of draw `number` (below 2^48).
DEVICE Philox4 draw(const TrajectoryStream &s, u64 number) {
    const u32 c1 = ((u32)(number >> 32) & 0xffffu) | s.c1_stream;
    return philox4x32_10((u32)number, c1, s.c2, s.c3, s.k0, s.k1);
}

// The draws of one trajectory from `number` to the next multiple of 2^32, for kernels that draw in
// their innermost loop: draw `number` is philox_draw(series, keys, (u32)number).
DEVICE PhiloxSeries draw_series(const PhiloxKeys &keys, u32 stream, u64 trajectory, u32 point,
                                u64 number) {
    const TrajectoryStream s = trajectory_stream(0, stream, trajectory, point);
    return philox_series(keys, ((u32)(number >> 32) & 0xffffu) | s.c1_stream, s.c2, s.c3);
}

// Uniform numbers are multiples of 2^-52, made from the upper 52 of 64 bits without a rounding:
// set as the fraction of a double v in [1, 2), then v - 1 or 2 - v, both exact. With 52 bits the
// largest u below 1 is 1 - 2^-52, so the rounded product u * a0 stays strictly below a0 (the
// error, at most a0 * 2^-53, is less than what is missing): a search for the first cumulative sum
// above u * a0 always ends.
DEVICE double unit_one_to_two(Word hi, Word lo) {
    return from_fraction(hi, lo);
}

// In (0, 1]: never zero, so its logarithm is finite.
DEVICE double unit_open_low(Word hi, Word lo) {
    return 2.0 - unit_one_to_two(hi, lo);
}

// In [0, 1).
DEVICE double unit_half_open(Word hi, Word lo) {
    return unit_one_to_two(hi, lo) - 1.0;
}

// v - 1 times `scale` for a v in [1, 2), rounded once: v * scale - scale is (v - 1) * scale.
DEVICE double scaled_half_open(double v, double scale) {
    return FMA(v, scale, -scale);
}

// What a draw of a site decides. `index` is the group of four slots unless another is named.
enum LatticePurpose : u32 {
    PURPOSE_XY = 0,        // hops: x0, x1 along x and x2, x3 along y, 16 bits for each slot
    PURPOSE_Z = 1,         // x0, x1 hops along z; of group 0 x2, x3: the reaction of pass 0
    PURPOSE_HOP_REST = 2,  // 48 more bits for a hop; index: slot, pass: axis (0 x, 1 y, 2 z)
    PURPOSE_REACTION = 3,  // x0, x1: whether a reaction happens in `pass` 1 and above
    // Reactions 0 to 63 of `pass`; index: the reaction's number. x0, x1: which; x2, x3: whether and when the next.
    PURPOSE_CHOICE = 4,
    PURPOSE_GHOSTS =
        5,  // particles that come in through a face: see ghost_draw in lattice/site/hop.h
    // The same of later reactions of a pass; index and pass are 18 bits that number those of a step.
    PURPOSE_MORE_CHOICES = 6,
};

// The key and the fixed part of the counter of one step of one replica.
struct LatticeStream {
    PhiloxKeys keys;
    u32 c2, c3;
};

DEVICE LatticeStream lattice_stream(u64 seed, u64 step, u32 replica) {
    LatticeStream s;
    u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
    UNROLL for (int round = 0; round < PHILOX_ROUNDS; ++round) {
        s.keys.k0[round] = k0;
        s.keys.k1[round] = k1;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    s.c2 = (u32)step;
    s.c3 = ((u32)(step >> 32) & 0xffffu) | replica << 16;
    return s;
}

DEVICE u32 lattice_c1(u32 site_high, u32 purpose, u32 index, u32 pass) {
    return site_high | index << 8 | pass << 14 | purpose << 26 | 1u << 31;
}

// The 128 random bits of a site for `purpose`.
DEVICE_SHARED Philox4 lattice_draw(const LatticeStream &s, u64 site, u32 purpose, u32 index, u32 pass) {
    const u32 c1 = lattice_c1((u32)(site >> 32), purpose, index, pass);
    return philox_draw(philox_series(s.keys, c1, s.c2, s.c3), s.keys, (u32)site);
}

// 64 bits of two words.
DEVICE u64 joined(Word high, Word low) {
    return (u64)high << 32 | (u32)low;
}
