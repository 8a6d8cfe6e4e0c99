"""Networks with events, whose courses are known."""

from __future__ import annotations

import tauslab as ts


def everything() -> ts.Network:
    """One network, so that one kernel is compiled; its parts do not touch each other."""
    net = ts.Network("everything")
    # Births and deaths; at 4 all are washed out and births become faster: Poisson at all times.
    net.add_species("A", 0)
    net.add_species("k", 5.5, fixed=True)
    net.add_reaction("-> A", law="k")
    net.add_reaction("A ->", rate=0.5)
    net.add_event("wash", trigger="time >= 4", assignments={"A": 0, "k": "2 * k + 9"})
    # A counter that is emptied at 10: with M ~ Poisson(9 t), C = M // 10 and X = M mod 10.
    net.add_species("X", 0)
    net.add_species("C", 0)
    net.add_reaction("-> X", rate=9)
    net.add_event("full", trigger="X >= 10", assignments={"X": 0, "C": "C + 1"})
    # A dose that is given two units after its trigger, with the amount that D was then.
    net.add_species("D", 1)
    net.add_species("D2", 1)
    for name, early in (("D", True), ("D2", False)):
        net.add_event(
            f"late_{name}", trigger="time >= 1", delay=2, assignments={name: f"{name} * 10"},
            early=early,
        )  # fmt: skip
        net.add_event(f"early_{name}", trigger="time >= 2", assignments={name: 7})
    # Two without priorities come at one time: either may be the last.
    net.add_species("Q", 0)
    net.add_event("one", trigger="time >= 5", assignments={"Q": 1})
    net.add_event("two", trigger="time - 2 >= 3", assignments={"Q": 2})
    # With priorities, the highest first; the lowest sets what stays.
    net.add_species("P", 0)
    for name, priority in (("low", 1), ("high", 3), ("middle", 2)):
        net.add_event(
            f"p_{name}", trigger="time >= 5", priority=priority, early=False,
            assignments={"P": f"10 * P + {priority}"},
        )  # fmt: skip
    # Taken back before it is executed, unless it is persistent.
    net.add_species("T", 0)
    for name, persistent, adds in (("kept", True, 1), ("taken", False, 10)):
        net.add_event(
            name, trigger="time > 1 && time < 2", delay=1.5, assignments={"T": f"T + {adds}"},
            persistent=persistent,
        )  # fmt: skip
    # At 6 itself one has happened, the other not yet; one counts as false before 0.
    net.add_species("S", 0)
    net.add_event("at", trigger="time >= 6", assignments={"S": "S + 1"})
    net.add_event("after", trigger="time > 6", assignments={"S": "S + 10"})
    net.add_event("start", trigger="time >= 0", assignments={"S": "S + 100"}, initial=False)
    return net


def many() -> ts.Network:
    """Events among so many molecules that leaps pay; its parts do not touch each other."""
    net = ts.Network("many")
    # Births and deaths; at 1 all are washed out and births become faster: Poisson at all times.
    net.add_species("A", 0)
    net.add_species("k", 2000, fixed=True)
    net.add_reaction("-> A", law="k")
    net.add_reaction("A ->", rate=0.5)
    net.add_event("wash", trigger="time >= 1", assignments={"A": 0, "k": "2 * k"})
    # A counter that is emptied at 1000: with M ~ Poisson(3000 t), C = M // 1000, X = M mod 1000.
    net.add_species("X", 0)
    net.add_species("C", 0)
    net.add_reaction("-> X", rate=3000)
    net.add_event("full", trigger="X >= 1000", assignments={"X": 0, "C": "C + 1"})
    # Balanced noise: F is whether a symmetric walk has ever been 60 above its start.
    net.add_species("W", 1000)
    net.add_species("F", 0)
    net.add_reaction("-> W", rate=500)
    net.add_reaction("W ->", law="500")
    net.add_event("hit", trigger="F == 0 && W >= 1060", assignments={"F": 1})
    # Doses a thousandth apart, far closer than a leap, between 1.5 and 1.6.
    net.add_species("D", 0)
    net.add_species("last", 0, fixed=True)
    net.add_event(
        "dose", trigger="time - last >= 1 / 1024 && time >= 1.5 && time < 1.6", early=False,
        assignments={"D": "D + 1", "last": "time"},
    )  # fmt: skip
    return net


def driven() -> ts.Network:
    """A pair that flows (`FLOWING`), of which jumps take, beside jumps that leave it alone."""
    net = ts.Network("driven")
    for name, initial in (("A", 100), ("B", 0), ("P", 0), ("Q", 0)):
        net.add_species(name, initial)
    net.add_reaction("A <-> B", rate=(2, 1), name="flow")
    net.add_reaction("B -> P", rate=0.1)
    net.add_reaction("-> Q", rate=5)
    net.add_reaction("2 Q ->", rate=0.1)
    return net


FLOWING = ("flow", "flow_reverse")


def growing(scale: float = 1.0) -> ts.Network:
    """Births in a volume that grows and divides, and births whose rate follows a sine."""
    net = ts.Network("growing")
    net.add_species("V", 1, fixed=True)
    net.add_rate("V", "0.5 * V")
    net.add_species("phase", 0, fixed=True)
    net.add_rate("phase", "3")
    net.add_event("division", trigger="V >= 2", assignments={"V": "V / 2"})
    for name, law in (
        ("X", f"{10 * scale} * V"),
        ("Y", f"{20 * scale} * (1 + sin(phase))"),
    ):
        net.add_species(name, 0)
        net.add_reaction(f"-> {name}", law=law)
        net.add_reaction(f"{name} ->", rate=0.3)
    return net


def crowd(n: int = 90) -> ts.Network:
    """Every kind of propensity and of event, and enough reactions for several sums of 32."""
    net = ts.Network("crowd")
    net.add_species("k", 2.5, fixed=True)
    net.add_species("last", 0, fixed=True)
    net.add_parameter("slow", 0.7)
    for i in range(n):
        net.add_species(f"S{i}", 3 + i % 5)
    net.add_species("D", "poisson(4)")
    for i in range(n):
        a, b, c = f"S{i}", f"S{(i + 1) % n}", f"S{(7 * i + 3) % n}"
        net.add_reaction(f"{a} -> {b}", rate=0.2 + 0.01 * (i % 7))
        net.add_reaction(f"S{i % 3} + {c} -> {b} + S5", rate=0.02)
        net.add_reaction(f"2 {a} -> {c}", rate=0.01)
    net.add_reaction("-> S1", law="k * (1 + S2 / (5 + S2))")
    net.add_reaction("S7 -> S8", law="k * S7 * 0.1")
    net.add_reaction("S8 + S9 -> S1", law="0.2 * k * S8 * S9 / 20")
    net.add_reaction("2 S9 -> S7", law="0.01 * k * S9 * S9")
    net.add_reaction("S10 -> S11", rate=0.5, delay="0.05 + 0.01 * S3")
    net.add_reaction("S10 + S11 -> 2 S12", rate=0.1, delay="gamma(2, 0.05)", consuming=False)
    net.add_reaction("-> S12", law="0.1 * delay(S0, 0.1)")  # S0 and S1 are set by events
    net.add_reaction("S12 -> S1", law="0.1 * S12 * delay(S1 + S0, slow / 5)")
    net.add_reaction("-> S2", law="if(time < 0.35, 6, 1) + slow * k")
    net.add_reaction("D ->", law="if(time - last < 0.2, 3, 0.5) * D")
    net.add_rule("total", " + ".join(f"S{i}" for i in range(n)))
    net.add_rule("squares", " + ".join(f"S{i} * S{i}" for i in range(n)), recorded=False)
    net.add_rule("when", "k * (time - last)")
    net.add_reaction("S3 ->", law="0.1 * S3 * squares / (1 + total)")
    net.add_event("dose", trigger="time - last >= 0.25", assignments={"S0": "S0 + 20",
                  "last": "time", "k": "k + 0.5"})  # fmt: skip
    net.add_event("share", trigger="S1 > 14", assignments={"S1": "binomial(S1, 0.5)"})
    net.add_event("many", trigger="squares > 40 * total && time > 0.1", delay="exponential(20)",
                  assignments={f"S{i}": f"S{i} - min(S{i}, 1)" for i in range(12)})  # fmt: skip
    for name in ("low", "high"):
        net.add_event(name, time=0.4, assignments={"D": f"D + {len(name)}"})
    return net


def endless() -> ts.Network:
    """What events end a trajectory with: a parameter says which of them."""
    net = ts.Network("endless")
    net.add_parameter("what", 0)
    net.add_species("X", 0)
    net.add_species("Z", 5)
    net.add_reaction("-> X", rate=1000)
    net.add_event("up", trigger="what == 1 && time > 1 && Z < 6", assignments={"Z": 6})
    net.add_event("down", trigger="what == 1 && Z > 5", assignments={"Z": 5})
    net.add_event(
        "never", trigger="what == 2 && floor(X / 2) * 2 == X", delay="inf()", assignments={"Z": 1}
    )
    net.add_event("less", trigger="what == 3 && time >= 1", assignments={"Z": -3})
    net.add_event("timed", "3 / what", {"Z": "what"})
    return net


def noisy() -> ts.Network:
    """Draws in initial values, delays, priorities and assignments."""
    net = ts.Network("noisy")
    net.add_parameter("k", "lognormal(0, 0.5)")
    net.add_species("X", "poisson(20)")
    net.add_species("Y", "2 * X + 1")  # of the number that was drawn
    net.add_species("Z", 0)
    net.add_species("A", 0)
    net.add_species("B", 0)
    net.add_reaction("X ->", rate="k")
    net.add_reaction("Y ->", rate=0.1)
    net.add_event("late", trigger="time >= 1", delay="exponential(0.5)", assignments={"Z": 1})
    first = {"trigger": "time >= 2", "priority": "bernoulli(0.5)"}
    net.add_event("one", **first, assignments={"A": "if(A == 0, 1, A)"}, early=False)
    net.add_event("two", **first, assignments={"A": "if(A == 0, 2, A)"}, early=False)
    net.add_event(
        "apart", trigger="time >= 3", assignments={"B": "100 + floor(uniform(0, 9)) - "
        "floor(uniform(0, 9))"},
    )  # fmt: skip
    return net


def every_distribution() -> ts.Network:
    """An event that draws from every distribution, whole and between bounds."""
    net = ts.Network("every distribution")
    laws = ["uniform(0, 1)", "bernoulli(0.5)"]
    for name, given in (
        *(("normal", "0, 1"), ("binomial", "30, 0.5"), ("cauchy", "0, 1"), ("gamma", "2, 1")),
        *(("laplace", "0, 1"), ("lognormal", "0, 1"), ("chisquare", "3"), ("exponential", "1")),
        *(("poisson", "30"), ("rayleigh", "1")),
    ):
        laws += [f"{name}({given})", f"{name}({given}, 1, 20)"]
    for k in range(len(laws)):
        net.add_species(f"X{k}", 0)
    net.add_event("all", time=1, assignments={f"X{k}": law for k, law in enumerate(laws)})
    return net


def waiting() -> ts.Network:
    """Delayed reactions of both kinds, one with a delay that is drawn."""
    net = ts.Network("waiting")
    net.add_species("X", 10)
    net.add_species("Y", 0)
    net.add_reaction("-> X", rate=5, delay="exponential(2)")
    net.add_reaction("X -> Y", rate=1, delay=2)
    net.add_reaction("Y ->", rate=1, delay="X / 10", consuming=False)
    return net


def looking_back() -> ts.Network:
    """A count that is looked back at by three delays, in a law, a trigger and an equation."""
    net = ts.Network("looking back")
    net.add_species("X", 10)
    net.add_species("Y", 0)
    net.add_parameter("tau", 2)
    net.add_rule("was", "delay(X + time, 0.5)")
    net.add_reaction("-> X", law="40 / (1 + delay(X, tau))")
    net.add_reaction("X -> Y", rate=1, delay=1)
    net.add_event("fall", trigger="was > delay(X, 3)", assignments={"Z": 0})
    net.add_species("Z", 0)
    net.add_rate("Z", "delay(X, 3)")
    return net


def forced() -> ts.Network:
    """Rates that follow the time, and nothing else that moves."""
    net = ts.Network("forced")
    net.add_parameter("k", 1.0)
    net.add_species("X", 0)
    net.add_species("Y", 20)
    net.add_reaction("-> X", law="20 * (1 + 0.9 * sin(2 * time)) * exp(-0.3 * time)")
    net.add_reaction("X ->", law="0.5 * X * (1.2 + cos(time))")
    net.add_reaction("X + Y -> 2 X", law="0.01 * X * Y * time / (3 + time)")
    net.add_rule("left", "exp(-k * time) * X")
    return net
