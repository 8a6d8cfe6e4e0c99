"""The steps of a run that all ranks take together: kernels, layout, writer, launches, result."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from tauslab.base.errors import StoppedEarly
from tauslab.base.host import in_bytes, require_memory
from tauslab.base.option_names import listening, warn
from tauslab.decomposition.blocks import Blocks, storage_block_size, sweep_block_size
from tauslab.decomposition.ranks.job import agreed_task, devices
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.decomposition.ranks.progress import Progress, showing_compilers
from tauslab.decomposition.ranks.stopping import in_order, reason_of_stop, stopped_early
from tauslab.decomposition.ranks.together import agree, end_all_ranks, in_turn
from tauslab.kernels.backends import Backend
from tauslab.kernels.ensemble.engine import Engine
from tauslab.model.network.network import Network
from tauslab.options.ensemble import Options
from tauslab.options.methods import ODE
from tauslab.options.sweep import Sweep
from tauslab.options.values.definition import attributes_of
from tauslab.runner.ensemble.choices.hybrid_error import with_judged_error
from tauslab.runner.ensemble.choices.method_choice import with_method
from tauslab.runner.ensemble.choices.outlook import (
    FEW_EVENTS,
    Outlook,
    announce_long_run,
    is_tried,
    trial_lane,
)
from tauslab.runner.ensemble.choices.pilots import piloted, with_pilot
from tauslab.runner.ensemble.driver import EnsembleRun
from tauslab.runner.ensemble.from_file import with_stored_choices
from tauslab.runner.ensemble.kept import (
    MOST_BYTES,
    Kept,
    Request,
    Setup,
    depends_on_seed,
    kept_runs,
    request_of,
)
from tauslab.runner.ensemble.lane import LANE_BYTES, LANES, build_reductions, layout_row
from tauslab.runner.ensemble.lanes import DeviceLanes, Lanes
from tauslab.runner.ensemble.task import (
    HybridTask,
    NetworkTask,
    Task,
    prepare,
    with_length,
    with_thinning,
    with_values,
)
from tauslab.store.checking.opening import with_rerun_advice
from tauslab.store.format.layout import Accumulators, Layout
from tauslab.store.format.statistics import cancelled, sum_over_ranks
from tauslab.store.results.open import open_result
from tauslab.store.results.result import Result
from tauslab.store.writers.admission import existing_attributes
from tauslab.store.writers.checkpoint import slot_bytes
from tauslab.store.writers.memory import MemoryWriter
from tauslab.store.writers.writer import FinishedWriter, Storage, Writer, open_writer

_SMALL_BYTES = 1 << 20  # of samples of all trajectories
_LARGE_BYTES = 1 << 30  # of a file or of memory, of which a message tells before the run


@contextmanager
def opened(network: Network, options: Options, comm: Communicator) -> Iterator[Setup]:
    """Check and compile, or take what is kept; the device is given back, or kept. Collective."""
    options = with_stored_choices(options, comm)
    request = request_of(network, options, comm)
    kept = _taken(network, request, comm)
    with ExitStack() if kept is None else kept.opened as stack:
        with listening() as messages:
            kept, task, prepared = _task(kept, request, network, options, comm)
            of_task = len(messages)
            if kept is not None:
                setup, by_seed = kept.renewed(task), kept.by_seed
                if prepared is kept.prepared:  # with which all of its warnings were repeated
                    of_task = kept.of_task
            else:
                stack.close()  # of a kept run with other kernels
                setup = _compiled(task, stack, comm)
                by_seed = depends_on_seed(options, setup.task)
        yield setup
        if request is not None and setup.nbytes <= MOST_BYTES:
            setup.engine.backend.rest()
            made = Kept(request, setup, prepared, messages, of_task, by_seed, stack.pop_all())
            kept_runs.keep(network, made)


def _taken(network: Network, request: Request | None, comm: Communicator) -> Kept | None:
    """Return the run that is kept for a request, if every rank has it. Collective."""
    result = None if request is None else kept_runs.take(network, request)
    same = result is not None and request is not None and result.request.values == request.values
    held = comm.allgather((result is not None, same))
    return result if all(has for has, _ in held) and len(set(held)) == 1 else None


def _task(
    kept: Kept | None, request: Request | None, network: Network, options: Options,
    comm: Communicator,
) -> tuple[Kept | None, Task, Task]:  # fmt: skip
    """What is kept for the kernels of the task, the task, and before choices. Collective."""
    if kept is not None and request is not None and kept.request.values == request.values:
        for sentence in kept.messages:
            warn(sentence)
        return kept, kept.task_with(options), kept.prepared

    def made() -> Task:
        if request is None:
            return prepare_task(network, options)
        if kept is not None:
            return prepare_task(network, options, kept.setup.task, quiet=not kept.messages)
        other = kept_runs.like(network, request)
        like = None if other is None else with_length(other.prepared, options)
        if other is None or like is None or other.request.values != request.values:
            quiet = other is not None and not other.messages
            return prepare_task(network, options, like, quiet=quiet)
        for sentence in other.messages[: other.of_task]:
            warn(sentence)
        return like

    task = agreed_task(made, comm)
    return kept if kept is not None and kept.has_kernels_of(task) else None, task, task


def _compiled(task: Task, stack: ExitStack, comm: Communicator) -> Setup:
    """Open the device until `stack` is closed, and compile. Collective."""
    began, options = time.perf_counter(), task.options
    backend = stack.enter_context(devices(options.device, options.threads, comm))
    with showing_compilers(quiet=options.quiet is not False or comm.rank > 0):
        task, engine = ready(task, backend, comm)
        reductions = in_turn(comm, lambda: build_reductions(task, backend))
    compiled = time.perf_counter() - began
    row = {"device": backend.describe(), "compile": compiled, **layout_row(engine)}
    return Setup(task, engine, reductions, row)


def run_portion(setup: Setup, task: Task, comm: Communicator, stop: Callable[[], bool]) -> Result:
    """Run what `task` asks for with the kernels of `setup`; every rank gets it. Collective."""
    known = setup.outlook is not None
    few = comm.size == 1 and task is setup.task and setup.may_be_short(task)
    outlook = None if few else on_root(comm, lambda: _outlook(setup, task, comm))

    def lanes(layout: Layout, blocks: int) -> Lanes:
        nonlocal outlook, few
        alone = comm.size == 1 and blocks == layout.n_blocks and _is_small(task, blocks)
        if few and alone and setup.lanes is not None:
            few = False  # if they are not enough, this is called again
            setup.lanes.take(task, FEW_EVENTS)
            return setup.lanes
        if outlook is None:
            outlook = _outlook(setup, task, comm)
        each = outlook.events / task.options.total
        short = task is setup.task and alone and setup.was_short
        short = short and (known or setup.is_short(outlook.events))
        if task is setup.task and setup.lanes is not None and setup.lanes.waited == short:
            setup.lanes.take(task)
            return setup.lanes
        made = DeviceLanes(
            task, layout, setup.engine, setup.reductions, comm, blocks, setup.row,
            events_each=each, waited=short,
        )  # fmt: skip
        if task is setup.task:
            setup.lanes = made
        return made

    return run_task(task, comm, lanes, stop, 0.0 if outlook is None else outlook.events)


def _is_small(task: Task, blocks: int) -> bool:
    """Return whether one launch has all blocks, and hardly a sample."""
    return blocks == 1 or task.sample_bytes * task.options.total <= _SMALL_BYTES


def _outlook(setup: Setup, task: Task, comm: Communicator) -> Outlook:
    """Estimate the work of the run, unless the last run of the task gave it. Of one rank."""
    if task is not setup.task or not isinstance(task, NetworkTask):
        return announce_long_run(task, setup.engine, comm)
    if setup.outlook is None:
        if setup.trial is None and is_tried(task):
            setup.trial = trial_lane(task, setup.engine)
        setup.outlook = announce_long_run(task, setup.engine, comm, setup.trial)
    return setup.outlook


def prepare_task(
    network: Network, options: Options, like: Task | None = None, *, quiet: bool = False
) -> Task:
    """The task of a method, as `prepare` makes it; `quiet`: `like` was made without a warning."""
    if not isinstance(options.method, ODE):
        like = like if type(like) is NetworkTask else None
        result = with_values(like, options) if quiet and like is not None else None
        return result or prepare(network, options, shares_kernel=True, like=like)
    from tauslab.runner.ensemble.ode_task import prepare_ode

    return prepare_ode(network, options)


def ready(
    task: Task, backend: Backend, comm: Communicator, devices: int = 0
) -> tuple[Task, Engine]:
    """The task with method and selector, and its compiled kernels. Collective.

    They are for so many devices; by default one for each rank.
    """
    pilot = None
    if isinstance(task, NetworkTask):
        network = with_thinning(with_method(task, backend, comm))
        pilot = on_root(comm, lambda: piloted(network, backend))
        task = with_pilot(network, pilot, announce=comm.rank == 0)
        if isinstance(task, HybridTask):
            task = with_judged_error(task, backend, comm)
    else:
        from tauslab.runner.ensemble.choices.solver_choice import with_solver

        task = with_solver(task, backend, comm)
    engine = in_turn(comm, lambda: task.engine(backend, pilot, devices or comm.size))
    announces = task.options.verbose and task.options.quiet is False
    if comm.rank == 0 and announces:
        for layout in layout_row(engine).values():
            print(f"layout {layout}", flush=True)
    return task, engine


def run_task(
    task: Task,
    comm: Communicator,
    open_lanes: Callable[[Layout, int], Lanes],
    stop: Callable[[], bool],
    expected: float = 0.0,
) -> Result:
    """Run a task whose method is chosen, write it and open the result. Collective.

    Parameters
    ----------
    open_lanes
        Makes the lanes in which launches run, for so many storage blocks of the layout.
    expected
        Events that the run may have, for the progress bar; 0 where that is not known.
    """
    options, layout = task.options, layout_of(task, comm)
    if comm.rank == 0:
        _tell_of_size(task, layout, comm)
    with in_order(stop):
        writer = open_writer(
            options.output,
            layout,
            comm,
            overwrite=options.overwrite,
            resume=options.resume,
            how=Storage(options.writer, options.hints, options.compress, options.portion.run),
        )
        _simulate(task, layout, open_lanes, comm, writer, stop, expected)
    if isinstance(writer, MemoryWriter):
        arrays = writer.result_arrays
        return Result(arrays, writer.attributes, layout=layout, saves=comm.rank == 0)
    output = options.output
    assert output is not None
    if isinstance(writer, FinishedWriter):
        on_root(comm, lambda: _require_undamaged(output))
    return agree(comm, lambda: open_result(output, checked=comm.rank > 0))


def _require_undamaged(path: Path) -> None:
    with with_rerun_advice(), open_result(path) as result:
        result.data.verify()


def layout_of(task: Task, comm: Communicator) -> Layout:
    """The layout of the task's file. Collective."""
    options, record = task.options, task.record
    assert options.seed is not None
    output = options.output if options.resume else None
    held = {} if output is None else on_root(comm, lambda: existing_attributes(output))
    block = options.block or int(held.get("block", 0))
    recorded_bytes = (
        task.sample_bytes if record.trajectories else task.final_type.itemsize * len(task.species)
    )
    recorded_bytes += 8 * (len(record.summaries) + len(task.drawn) + len(task.states))
    block = min(block or _block_size(task, recorded_bytes, comm.size), options.total)
    Blocks(options.total, block)
    require_memory(
        LANES * block * task.sample_bytes,
        f"a storage block of {block} trajectories at {len(options.times)} sample times",
    )
    method = task.settled_method
    attributes: dict[str, str | int | float] = {
        "method": method.word, "precision": "double", "model_sha256": task.sha256,
        "command": options.command, **attributes_of(options), **attributes_of(method),
    }  # fmt: skip
    reason = task.method_choice or held.get("method_choice")
    if reason is not None:
        attributes["method_choice"] = reason
    if options.sample.names:
        attributes["sample"] = "; ".join(options.sample.texts)
    attributes |= task.attributes
    if isinstance(options.sweep, Sweep) and options.sweep.share is not None:
        attributes |= options.sweep.share.attributes()
    portion = options.portion
    attributes |= {"group": portion.group} if portion.group else {}
    layout = Layout(
        n=options.n,
        times=options.times,
        species=task.species,
        observables=task.observables,
        trajectories=record.trajectories,
        final=record.final,
        statistics=record.statistics,
        histograms=record.histograms,
        summaries=(*(spec.name for spec in record.summaries), *task.drawn, *task.states),
        amounts=task.amounts,
        amount_unit=task.network.amount_unit
        if task.amounts and task.network.count_unit == "molecules"
        else task.network.count_unit,
        time_unit=task.network.time_unit,
        block=block,
        attributes=attributes,
        model_name=task.network.source_path.name if task.network.source_path else task.network.name,
        model_source=task.network.source_text or task.stored_model,
        model_canonical=task.stored_model,
        sweep=None if task.sweep is None else task.sweep.columns(),
        grid=None if task.sweep is None else task.sweep.grid,
        group=portion.group,
    )
    require_memory(
        layout.sums_bytes * comm.local_size,
        f"a run with sums of {layout.points} point{'s' * (layout.points > 1)} at "
        f"{len(options.times)} sample times, on {comm.local_size} "
        f"rank{'s' * (comm.local_size > 1)} of a machine,",
        "take fewer sample times, points, species, bins of histograms or ranks",
    )
    return layout


def _tell_of_size(task: Task, layout: Layout, comm: Communicator) -> None:
    """Say how large the file and the memory of a rank become, where that is much. Of one rank."""
    options, sums = task.options, layout.sums_bytes
    rows = min(options.total, LANE_BYTES // max(1, task.sample_bytes))
    samples = task.sample_bytes * max(layout.block, rows)
    saved = 2 * slot_bytes(layout)
    file = layout.payload_bytes + sums + saved
    memory = LANES * samples + sums * (2 if comm.size > 1 else 1)
    if options.quiet is not False or max(file, memory) < _LARGE_BYTES:
        return
    to = "the result in memory" if options.output is None else f"{options.output.name}"
    of_sums = f" ({in_bytes(saved)} of it to save sums meanwhile)" if saved > _LARGE_BYTES else ""
    print(
        f"tauslab: {task.network.name}: {to} takes {in_bytes(file)}{of_sums}; a rank takes about "
        f"{in_bytes(memory)} of memory beside the program, {in_bytes(sums)} of it for sums",
        file=sys.stderr,
        flush=True,
    )


def _block_size(task: Task, row_bytes: int, ranks: int) -> int:
    fine = not task.record.trajectories
    if task.sweep is None:
        return storage_block_size(task.options.n, row_bytes, fine=fine, ranks=ranks)
    return sweep_block_size(task.sweep.points, task.options.n, row_bytes, fine=fine, ranks=ranks)


def _simulate(
    task: Task, layout: Layout, open_lanes: Callable[[Layout, int], Lanes], comm: Communicator,
    writer: Writer, stop: Callable[[], bool], expected: float,
) -> None:  # fmt: skip
    """Run the ensemble and finish the file; after a failure what is complete stays on disk."""
    done = int(np.count_nonzero(writer.completed))
    progress = Progress(
        layout.total,
        comm.rank,
        quiet=task.options.quiet,
        description=task.network.name,
        work="steps" if layout.amounts else "events",
        started_at=min(done * layout.block, layout.total),
    )
    left = layout.n_blocks - done
    progress.expect(expected * left / layout.n_blocks, float(task.options.times[-1]))
    stopped: StoppedEarly | None = None
    ensemble: EnsembleRun | None = None
    try:
        with progress:
            lanes = open_lanes(layout, left)
            ensemble = EnsembleRun(task, layout, lanes, comm, writer, progress=progress, stop=stop)
            tally = ensemble.run()
            if ensemble.cut_short:  # not as short as expected: run again without the limit
                lanes = open_lanes(layout, layout.n_blocks)
                ensemble = EnsembleRun(
                    task, layout, lanes, comm, writer, progress=progress, stop=stop
                )
                tally = ensemble.run()
            blocks = done + sum(comm.allgather(tally.blocks))
            events = sum(comm.allgather(tally.work["events"]))
            progress.update(min(blocks * layout.block, layout.total), events)
        if blocks < layout.n_blocks:
            ensemble.checkpoint()
            writer.abort()
            comm.barrier()  # a launcher may end all ranks as soon as one has left
            why = reason_of_stop(stop)
            stopped = stopped_early(blocks, layout.n_blocks, "done", task.options.output, why)
        else:
            totals = sum_over_ranks(comm, tally.sums)
            row = {**lanes.describe(), **tally.seconds()}
            writer.finish(totals, comm.allgather(row))
            if comm.rank == 0:
                _warn_of_left_out(layout, totals)
    except BaseException as error:
        if ensemble is not None:
            ensemble.leave(error)
        writer.abort()
        end_all_ranks(comm, error)
        raise
    if stopped is not None:
        raise stopped


def _warn_of_left_out(layout: Layout, totals: Accumulators) -> None:
    """Say which real quantities have samples that their means lack, or lack in part."""
    if "obs_n" not in totals:
        return
    if layout.amounts:  # a trajectory that ended early lacks all of them, and its status says so
        samples = (totals["obs_n"] + totals["obs_infinite"]).max(axis=-1)
    else:
        full = np.full_like(totals["obs_n"][..., 0], layout.n)
        samples = totals["n"] if layout.species else full
    for index, name in enumerate(layout.reals):
        summed = totals["obs_n"][..., index]
        if (summed < samples).any():
            warn(
                f"statistics of {name} leave out {int((samples - summed).sum())} samples that are "
                f"not finite ({int(totals['obs_infinite'][..., index].sum())} infinite); record "
                "trajectories to see them"
            )
    for name in cancelled(layout, totals):
        warn(
            f"the mean of {name} is at some times less than 2^-29 of its largest samples, which "
            "cancel, and lacks digits of the small ones: record trajectories to have them all"
        )
