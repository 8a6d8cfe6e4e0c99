"""Equations that look back, whose courses are known."""

from __future__ import annotations

from math import exp, factorial

import numpy as np
import numpy.typing as npt

import tauslab as ts

FloatArray = npt.NDArray[np.float64]


def many_delays() -> ts.Network:
    """Equations that look back in many ways; `course` tells each variable."""
    net = ts.Network("many_delays")
    net.add_parameter("tau", 1)
    net.add_species("steps", 1)  # by the method of steps
    net.add_rate("steps", "-delay(steps, tau)")
    net.add_species("cosine", "cos(time)")  # goes on as before the start
    net.add_parameter("quarter", np.pi / 2)
    net.add_rate("cosine", "-delay(cosine, quarter)")
    net.add_species("halves", 1)  # a delay that vanishes at the start
    net.add_rate("halves", "-delay(halves, time / 2)")
    net.add_species("coming", 1)  # a lag that moves: to 1/2 - t, over the start at 1/4
    net.add_rate("coming", "if(time < 0.4, -delay(coming, 0.5 - time), 0)")
    net.add_species("short", "exp(-time)")  # a delay shorter than the steps
    net.add_rate("short", f"-10 * short + 9 * {exp(-1e-3)!r} * delay(short, 0.001)")
    net.add_species("set", 0)  # by an event
    net.add_species("seen", 0)
    net.add_rate("seen", "delay(2 * set, 1)")
    net.add_event("jump", time=1.3, assignments={"set": 2})
    net.add_species("clock", 0)  # set by an event that looks back
    net.add_species("rung", 0)
    net.add_rate("clock", 1)
    net.add_event(
        "ring",
        trigger="delay(clock, 1) >= 1.5",
        assignments={"clock": 0, "rung": "rung + delay(clock, 0.5)"},
    )
    net.add_species("begun", 0)  # delayed reactions
    net.add_species("done", 0)
    net.add_species("waned", 5)
    net.add_reaction("-> begun", rate=20)
    net.add_reaction("begun -> done", rate=0.5, delay="2 * tau")
    net.add_reaction("waned ->", rate=0.25, delay=1, consuming=False)
    return net


def _by_steps(t: float, rate: float = 1.0) -> float:
    """Solution of x'(t) = -rate x(t - 1) where x was 1."""
    parts = range(int(t) + 2)
    return sum((-rate) ** k * (t - (k - 1)) ** k / factorial(k) for k in parts)


def _coming(t: float) -> float:
    if t <= 0.25:
        return 1 - t
    if t <= 0.375:
        return 0.75 - 1.5 * (t - 0.25) + t * t - 0.0625

    def grown(s: float) -> float:
        return 1.0625 * s - 0.75 * s * s + s**3 / 3

    s = 2 * min(t, 0.4) - 0.5
    return 0.640625 - (grown(s) - grown(0.25)) / 2


def course(name: str, times: FloatArray) -> FloatArray:
    """What a variable of `many_delays` is."""
    t = np.asarray(times, np.float64)
    late = np.maximum(t - 2, 0)  # when what completes at t began
    known = {
        "steps": lambda: np.array([_by_steps(s) for s in t]),
        "cosine": lambda: np.cos(t),
        "halves": lambda: sum(
            (-t) ** n * 0.5 ** (n * (n - 1) / 2) / factorial(n) for n in range(40)
        ),
        "coming": lambda: np.array([_coming(s) for s in t]),
        "short": lambda: np.exp(-t),
        "set": lambda: np.where(t >= 1.3, 2.0, 0.0),
        "seen": lambda: 4 * np.maximum(t - 2.3, 0),
        "clock": lambda: t % 2.5,
        "rung": lambda: 2.0 * (t // 2.5),
        "begun": lambda: 40 * (1 - np.exp(-t / 2)),
        "done": lambda: 20 * late - 40 * (1 - np.exp(-late / 2)),
        # Its rate is 0 until what it reads is after the start.
        "waned": lambda: 5 * np.array([_by_steps(s - 1, 0.25) if s > 1 else 1.0 for s in t]),
    }
    return np.asarray(known[name](), np.float64)
