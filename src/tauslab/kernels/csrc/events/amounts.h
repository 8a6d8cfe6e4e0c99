// What events may set a count to.
#pragma once

#include "device/prelude.h"

constexpr u8 RUNNING = 254;  // no end of a trajectory
constexpr double LARGEST_COUNT = 2147483647.0;

DEVICE bool can_be_a_count(double value) {
    return value >= -0.5 && value <= LARGEST_COUNT;
}

// Half to even.
DEVICE double whole_amount(double value) {
    return (value + 0x1p52) - 0x1p52;
}
