"""``--ode-solver auto``: `dopri5` or `rosenbrock`, from a pilot that counts steps, not seconds.

Equations are stiff, in the sense that matters here, where steps of an explicit method stay short
for its stability and not for its error: an implicit one then takes so many fewer that they cost
less in all, though each costs more (Hairer & Wanner 1996, IV.1). So both are tried on a few of the
run's trajectories, within a budget of steps that grows until one of them arrives. The choice is a
function of model, options, n and seed. Rank 0 makes it for all; the file holds it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.kernels.backends import Backend
from tauslab.kernels.ode.engine import Ode
from tauslab.kernels.ode.jacobian import jacobian
from tauslab.kernels.ode.lowering import OdeSystem
from tauslab.options.methods import with_choices
from tauslab.options.record import Record
from tauslab.runner.ensemble.choices.method_choice import MethodChoice
from tauslab.runner.ensemble.choices.pilots import side_by_side, spread
from tauslab.runner.ensemble.ode_task import OdeTask
from tauslab.runner.ensemble.task import Task

EXPLICIT, STIFF = "dopri5", "rosenbrock"
_TRAJECTORIES = 4  # where inputs differ
_FEW = 1000  # steps beside those that samples ask for: no more is tried
_FIRST = 4096  # steps of the first budget, beside them
_GROWTH = 8
_MOST = 2e9  # operations of a budget, on all trajectories
_WORTH = 1e10  # operations of a run that make a compilation pay
_INDIRECT = 3.0  # an operation on cells of a sparse matrix, in others
_MOST_CELLS = 2**26  # of a matrix, 512 MB for each trajectory in flight
_DONE, _STEP_LIMIT = 0, 3


@dataclass(frozen=True)
class Costs:
    """Operations of a step: of each method, and cells of the stiff one's matrix."""

    explicit: float
    stiff: float
    cells: int


def step_costs(system: OdeSystem) -> Costs:
    """Cost of a step of each method for these equations.

    Both evaluate the rates six times. The stiff one has derivatives once, an elimination and six
    solutions beside.
    """
    graph, size = system.graph, len(system.variables)
    rates = len(graph.reached(list(system.rates)))
    result = jacobian(system)
    solve = result.elimination
    derivatives = len(graph.reached([*system.rates, *result.nodes])) - rates
    sparse = solve.operations + 7.0 * solve.cells
    return Costs(
        6.0 * rates + 30.0 * size,
        6.0 * rates + 45.0 * size + derivatives + _INDIRECT * sparse,
        solve.cells,
    )


def with_solver(task: Task, backend: Backend, comm: Communicator) -> Task:
    """The task with a solver in place of ``auto``; rank 0 chooses. Collective."""
    if not isinstance(task, OdeTask) or not wants_solver(task):
        return task
    choice = on_root(comm, lambda: choose_solver(task, backend))
    return with_chosen_solver(task, choice, announce=comm.rank == 0)


def wants_solver(task: OdeTask) -> bool:
    """Return whether a solver is to be chosen."""
    return task.options.integration.solver == "auto"


def with_chosen_solver(task: OdeTask, choice: MethodChoice, *, announce: bool) -> OdeTask:
    """The task with the solver in place of ``auto``; says so with `announce`."""
    options = task.options
    if announce and options.quiet is False:
        why = f" ({choice.reason})" if options.verbose else ""
        print(f"solver: {choice.method}{why}", flush=True)
    method = with_choices(options.method, solver=choice.method)
    options = replace(options, method=method)
    return replace(task, options=options, method_choice=choice.reason)


def choose_solver(task: OdeTask, backend: Backend) -> MethodChoice:
    """Choose by a pilot on this device; ``dopri5`` unless ``rosenbrock`` costs less."""
    return _SolverPilot(task, backend).choice()


@dataclass(frozen=True)
class _Tried:
    """The most steps that a trajectory took, made and rejected; and whether all arrived, finite."""

    steps: int
    arrived: bool
    limited: bool


class _SolverPilot:
    def __init__(self, task: OdeTask, backend: Backend) -> None:
        self.task, self.backend, self.system = task, backend, task.system
        self.samples = len(task.options.times) + len(self.system.events) + len(self.system.jumps)
        self.flat = _trajectories(task)
        self.engines: dict[str, Ode] = {}

    def choice(self) -> MethodChoice:
        budget = _FIRST + 2 * self.samples
        tried = self.tried(EXPLICIT, budget)
        if tried.arrived and self.is_little(tried.steps):
            return MethodChoice(EXPLICIT, f"{tried.steps} steps a trajectory")
        costs = step_costs(self.system)
        if costs.cells > _MOST_CELLS:
            reason = f"the matrix of {STIFF} would have {costs.cells} cells"
            return MethodChoice(EXPLICIT, reason)
        if tried.arrived and not self.is_worth(tried.steps, costs):
            return MethodChoice(EXPLICIT, f"{tried.steps} steps a trajectory")
        ratio = costs.stiff / costs.explicit
        while True:
            # Of equal cost at most: who arrives within it costs less.
            within = tried.steps if tried.arrived else budget
            stiff = self.tried(STIFF, max(1, int(within / ratio)))
            if stiff.arrived:
                more = "" if tried.arrived else "more than "
                return MethodChoice(
                    STIFF,
                    f"{stiff.steps} steps a trajectory, of which each costs as much as {ratio:.3g} "
                    f"of {EXPLICIT}, which takes {more}{tried.steps}",
                )
            if tried.arrived:
                return MethodChoice(
                    EXPLICIT,
                    f"{tried.steps} steps a trajectory; {STIFF} takes more than {stiff.steps}, of "
                    f"which each costs as much as {ratio:.3g}",
                )
            if not (tried.limited or stiff.limited):  # both met what is no number
                return MethodChoice(
                    EXPLICIT, "a trajectory of the pilot ends early by either solver"
                )
            budget *= _GROWTH
            allowed = min(_MOST / costs.explicit / len(self.flat), self.task.options.max_steps)
            if budget > max(allowed, _FIRST + 2 * self.samples):
                reason = f"no trajectory of the pilot ends within {budget // _GROWTH} steps"
                return MethodChoice(STIFF if tried.limited else EXPLICIT, reason)
            tried = self.tried(EXPLICIT, budget)

    def is_little(self, steps: int) -> bool:
        """Return whether no trial pays: a few steps, of trajectories that are not very many."""
        beside = steps - self.samples
        size = len(self.system.rates) + 10
        return beside < _FEW and 6.0 * size * beside * self.task.options.total < _WORTH

    def is_worth(self, steps: int, costs: Costs) -> bool:
        """Return whether the run costs more than to compile another kernel, or steps are many."""
        work = costs.explicit * (steps - self.samples) * self.task.options.total
        return steps - self.samples >= _FEW or work > _WORTH

    def tried(self, solver: str, budget: int) -> _Tried:
        """Trajectories of the pilot by a solver, each with so many steps at most."""
        options = self.task.options
        integration = replace(options.integration, solver=solver)
        steps = min(budget, options.max_steps)
        chosen = replace(
            options, method=with_choices(options.method, solver=solver), max_steps=steps
        )
        pilot = replace(self.task, options=chosen, record=Record())
        if solver not in self.engines:
            self.engines[solver] = Ode(
                self.backend, self.system, options.times.tolist(), integration,
                priors=options.sample.priors, trajectories=options.total,
            )  # fmt: skip
        engine = self.engines[solver]
        taken, status = [], []
        for delivery in side_by_side(pilot, engine, self.flat):
            taken.append(int(delivery.work[0]) + int(delivery.work[4]))
            status.append(int(delivery.chunk.arrays["status"][0]))
        return _Tried(max(taken), all(s == _DONE for s in status), _STEP_LIMIT in status)


def _trajectories(task: Task) -> list[int]:
    """Numbers of the pilot's trajectories: one where all are the same, else spread over all."""
    total = task.options.total
    if len(task.constants) == 1 and not task.options.sample.names:
        return [0]
    return spread(total, _TRAJECTORIES)
