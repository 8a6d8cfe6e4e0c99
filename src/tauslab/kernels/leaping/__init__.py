"""Tau-leaping: one trajectory a thread (`tau_leap`) or many threads a trajectory (`fine_tau`).

`event_tau` leaps in networks with events.

`choice` picks the engine; the step limit is `bound` of csrc/leaping/leaps.h.
"""
