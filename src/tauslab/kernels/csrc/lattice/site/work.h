// What steps of a lattice keep beside its sites: particles that wait, and words of work.
#pragma once

#include "device/prelude.h"

// A particle that waits for room at its site. Ages order those of a site: the step at which it
// came, then the pass of that step, then its number among those of the pass that found no room.
struct Waiting {
    u64 site;
    u64 age;
    u32 particle;
    i32 next;  // of the same tile; -1: none
};

// Words of `LatticeArguments::work`, see kernels/lattice/engine.py.
enum WorkWord {
    WAITING_0 = 0,
    WAITING_1 = 1,
    SPILLS = 2,
    LIST_FULL = 3,
    STEPS_BEFORE = 4,  // added to every kernel's `step`: launches that are replayed go on from it
    MESSAGES_BEFORE = 5,  // likewise for the numbers of messages, see lattice/halo.cc
    MESSAGE_FULL = 6,
    BARRIER_CELL = 7,
    LISTED_0 = 8,  // lengths of lists of tiles, see lattice/cooperative_steps.h
    LISTED_1 = 9,
    COUNT_OF_LIST_0 = 10,  // three, see lattice/sparse/sections.cc
    TRUNCATED = 13,        // passes of sites that ended before their time: see react()
    WORK_WORDS = 14,
};
