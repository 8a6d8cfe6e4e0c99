"""Tau-leaping: one trajectory a thread (`tau_leap`) or many threads a trajectory (`fine_tau`).

`choice` picks the engine, also of networks with events, whose header `event_codegen` writes; the
step limit is `bound` of csrc/leaping/leaps.h.
"""
