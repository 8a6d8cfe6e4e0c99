// Laws that change within a step where no stage need have seen it: passes_over in events/flow.h, seen_error in
// ode/error.h.
#pragma once

// Part of a step within which changes are one.
constexpr double TOGETHER = 1e-8, TOGETHER_SINGLE = 1e-3;
constexpr double SHORT = 1e-5;  // part of a step that must change the time
