// A writer warp stores samples while the other warps of the block integrate.
//
// The integrating warps put the values of a sample into one of two buffers in shared memory, in turn. The
// writer moves them to global memory. Each buffer has two barriers. At `full` the writer waits until all
// warps have put their values. At `empty` the warps wait until the writer has taken the sample before the
// last one. The other side only arrives. A value is at [quantity][trajectory]. The distance between
// quantities is odd, so neither the values of a trajectory nor those of a quantity share a bank. One more
// row says whose samples are missing.
#pragma once

#include "ode/blocks/count_samples.h"

template <int WIDTH>  // trajectories of a sample
struct Handover {
    static constexpr int PITCH = WIDTH | 1;
    static constexpr int BUFFER = (N_QUANTITIES + 1) * PITCH;
    static constexpr int NUMBERS = 2 * BUFFER;
    static constexpr int BARRIERS = 4;
    static constexpr int FULL = 0, EMPTY = 2;

    Real *memory;
    int first_barrier, threads;  // threads of the integrating warps and the writer
    i64 total;                   // samples that will be handed over
    i64 count;                   // samples that were handed over

    DEVICE_MEMBER Real *buffer() const { return memory + (count & 1) * BUFFER; }
    // Numbers are written out: only then are they known before the program runs.
    DEVICE_MEMBER void wait(int which) const {
        if (count & 1)
            BARRIER_WAIT(first_barrier + which + 1, threads);
        else
            BARRIER_WAIT(first_barrier + which, threads);
    }
    DEVICE_MEMBER void arrive(int which) const {
        if (count & 1)
            BARRIER_ARRIVE(first_barrier + which + 1, threads);
        else
            BARRIER_ARRIVE(first_barrier + which, threads);
    }

    // For the integrating warps: room for a sample, after which it is handed over.
    DEVICE_MEMBER Real *room() const {
        if (count >= 2) wait(EMPTY);
        return buffer();
    }
    DEVICE_MEMBER void hand_over() {
        arrive(FULL);
        ++count;
    }

    // For the writer.
    DEVICE_MEMBER const Real *take() const {
        wait(FULL);
        return buffer();
    }
    DEVICE_MEMBER void taken() {
        if (count + 2 < total) arrive(EMPTY);
        ++count;
    }
};

// Takes the quantities of one trajectory at a sample.
struct BufferOut {
    Real *at;
    int pitch;
    DEVICE_MEMBER void put(int quantity, Real value) const { at[quantity * pitch] = value; }
};

// Writes one sample of neighbouring rows; neighbouring lanes write side by side.
template <int WIDTH>
DEVICE void write_sample(const OdeJob &job, const Real *values, i64 first, i64 k, int lane) {
    constexpr int PITCH = Handover<WIDTH>::PITCH;
    const OdeSamples &out = job.samples;
    const bool by_row = out.quantity_stride == 1;
    const int first_row = by_row ? 0 : lane, row_step = by_row ? 1 : LANES;
    const int first_quantity = by_row ? lane : 0, quantity_step = by_row ? LANES : 1;
    for (int j = first_row; j < WIDTH && first + j < job.rows; j += row_step) {
        const i64 row = first + j;
        const bool missing = values[N_QUANTITIES * PITCH + j] != 0;
        if (out.at) {
            Sampled *at = out.at + row * out.row_stride + k * out.time_stride;
            for (int q = first_quantity; q < N_QUANTITIES; q += quantity_step)
                at[q * out.quantity_stride] =
                    missing ? missing_sample() : (Sampled)values[q * PITCH + j];
        }
        if (job.final && k == job.last)
            for (int q = first_quantity; q < N_QUANTITIES && q < job.final_count;
                 q += quantity_step)
                job.final[row * job.final_count + q] =
                    missing ? tl_nan() : (double)values[q * PITCH + j];
    }
}

// Samples of the trajectories from row `first` on, every `stride` rows: written, or counted, with
// BIN_PLANES planes of bins, where there is nowhere to write to.
template <int WIDTH>
DEVICE void write_samples(const OdeJob &job, [[maybe_unused]] const CountJob &count,
                          [[maybe_unused]] u8 *bins, Handover<WIDTH> &samples, i64 first,
                          i64 stride, int lane) {
    constexpr int ROWS = WIDTH / LANES, PITCH = Handover<WIDTH>::PITCH;
    for (; first < job.rows; first += stride)
        for (i64 span = 0; span < job.n_spans; ++span) {
            const i64 k = job.sample[span];
            if (k < 0) continue;
            const Real *values = samples.take();
            if (!COUNTS || job.samples.at) {
                write_sample<WIDTH>(job, values, first, k, lane);
                samples.taken();
                continue;
            }
            if constexpr (COUNTS) {
                bin_sample<ROWS, WIDTH>(job, count, values, PITCH, bins, first, k, lane);
                samples.taken();  // the integrating warps need not wait for tables
                if (k > 0) count_step<ROWS, WIDTH>(count, bins, k, lane);
            }
        }
}

// Samples that a block's threads hand over when they begin at row `first`.
DEVICE i64 samples_of(const OdeJob &job, i64 first, i64 stride) {
    return first < job.rows ? ((job.rows - 1 - first) / stride + 1) * (job.last + 1) : 0;
}
