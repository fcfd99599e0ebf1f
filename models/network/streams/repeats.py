"""Passes of a schedule's loop that repeat: an observer that leaves some of them out.

A pipeline's schedule is a loop for most of its time: 1F1B's steady state passes a microbatch forward and another one
backward, again and again, on every GPU. Once passes take the same time everywhere, the rest of them will: Arcadia
(NSDI'26, section 6.3) and Multiverse extrapolate iterations so; this does the same inside of one.

All streams in a loop are put n passes on at one instant, and nothing else changes: what is in the network, and what
waits for it, stands for the same thing n passes later. From then on the clock of the simulation is n passes behind the
time that it is about. Rows written from then on tell that time; messages under way get the numbers of their
counterparts n passes on; those left out get rows like their counterparts' of the last pass, that much later
(`moved`, `fill`). How far n passes' mean time may be from the last ones' is what `agreement` says.

Which passes there are, and when, the simulated times alone determine; so every rank decides the same (design R6).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from models.network.build.arrays import NetworkState
from models.network.state.records import PAYLOAD_BYTES
from models.topology.graph import Topology
from models.workload.agreement import Agreement, agreement
from models.workload.pass_use import PassUse, use_of_passes
from models.workload.plan import WorkloadPlan
from models.workload.program import (
    N_PASS,
    N_PASS_SPENT,
    N_PASS_TIME,
    PASS_ITERATION,
    PASS_OPERATION,
    PASS_TIMES,
    WAITING_DONE,
    Work,
)
from pdes.engine.exchange import World
from pdes.engine.time_index import NEVER

FIRST_LOOK_PS = 10**6
PHASE_FRAC = 0.02  # so much of a pass streams may gain or lose on each other over the passes that are compared
LATE_FRAC = 1.5  # of a pass: who has not begun another one by then is no longer in the loop
FILL_BACK = 2  # cycles: what is under way when passes are left out was posted no longer ago


class Jump(NamedTuple):
    """Passes that were left out at one instant, in cycles of one or of two; arrays are alike on every rank."""

    iteration: int
    at_ps: int  # of the clock
    n: int  # cycles
    cycle_ps: int  # time of each
    agreed: Agreement
    flows: np.ndarray  # int64[n_stream]  messages of a cycle
    tasks: np.ndarray  # int64[n_stream]  task rows of a cycle
    n_flow: np.ndarray  # int64[n_stream]  messages of complete operations in the iteration, before
    n_task: np.ndarray  # int64[n_stream]

    @property
    def skipped_ps(self) -> int:
        """How much time was left out."""
        return self.n * self.cycle_ps


class _Own(NamedTuple):
    """This rank's streams at an instant."""

    streams: np.ndarray  # int64[]  in a loop
    n_pass: int  # the fewest that one of them has noted
    left: int  # the fewest that one of them has before it, without the one that it is in
    iteration: tuple[int, int]  # least and largest
    begun_ps: int  # when one that is in no loop last went on
    is_clear: bool  # every stream is in a loop, or waits for others that are


class RepeatWatch:
    """One rank's part in deciding how many passes of loops are simulated."""

    def __init__(
        self, topology: Topology, plan: WorkloadPlan, here: np.ndarray, world: World, n_repeat: int, tolerance: float,
        flush: Callable[[], None],
    ) -> None:  # fmt: skip
        """here: bool[n_node], this rank's. n_repeat: how many passes must agree, at least 2.

        tolerance: the largest bound of their mean's error. flush: hands over the rows that are written so far.
        """
        self._here, self._world, self._flush = here, world, flush
        self._mine = np.flatnonzero(here[topology.host[plan.streams["gpu"]]])
        self._n_repeat, self._tolerance = n_repeat, tolerance
        self._per_iteration = {"flow": plan.flows_per_iteration, "task": plan.tasks_per_iteration}
        self._first = {name: plan.streams[f"first_{name}"].astype(np.int64) for name in ("flow", "task")}
        self._uses: dict[bytes, PassUse] = {}
        self.jumps: list[Jump] = []
        self.packets: np.ndarray | None = None  # int64[n_qp]  of passes that were left out
        self.short_bytes: np.ndarray | None = None
        self._pass_ps = 0  # how long a pass about took when last all streams were in loops, 0: they never were
        self.due_ps = FIRST_LOOK_PS

    @property
    def skipped_ps(self) -> int:
        """So far the clock is behind."""
        return sum(jump.skipped_ps for jump in self.jumps)

    def skipped_before_end_of(self, n_iteration: int) -> np.ndarray:
        """int64[n_iteration]: what was left out before the end of each iteration."""
        found = np.zeros(n_iteration, np.int64)
        for jump in self.jumps:
            found[jump.iteration :] += jump.skipped_ps
        return found

    @property
    def n_flow(self) -> int:
        """Messages that were left out, of all ranks."""
        return sum(jump.n * int(jump.flows.sum()) for jump in self.jumps)

    def look(self, state: NetworkState, horizon_ps: int) -> bool:
        """Leave out what need not be simulated. Never ends the run."""
        pass_ps = self._try(state, horizon_ps)
        self._pass_ps = pass_ps or self._pass_ps
        if pass_ps == 0:  # no more than 64 looks while the time doubles
            pass_ps = max(1, horizon_ps // 8)
            if self._pass_ps:
                pass_ps = min(pass_ps, max(self._pass_ps, horizon_ps // 64))
        self.due_ps = horizon_ps + pass_ps
        return False

    def save(self) -> dict[str, Any]:
        """The same on every rank, for a checkpoint."""
        packets = {"packets": self.packets, "short": self.short_bytes}
        return {"jumps": self.jumps, "due_ps": self.due_ps, "pass_ps": self._pass_ps} | packets

    def load(self, saved: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.jumps, self.due_ps, self._pass_ps = list(saved["jumps"]), saved["due_ps"], saved["pass_ps"]
        self.packets, self.short_bytes = saved["packets"], saved["short"]

    def _try(self, state: NetworkState, horizon_ps: int) -> int:
        """Leave out passes if that may be; how long a pass about takes, 0: nobody knows."""
        work = state.work
        own = self._own(work, horizon_ps)
        parts = self._world.allgather(own._replace(streams=own.streams[:0]))
        n_pass, left = min(part.n_pass for part in parts), min(part.left for part in parts)
        if not all(part.is_clear for part in parts) or n_pass == NEVER or n_pass < 2:
            return 0
        n_time = min(n_pass, N_PASS_TIME)
        times = _times(work, own.streams, n_time) - horizon_ps  # so that sums of many do not overflow
        sums = self._world.allgather((len(own.streams), times.sum(axis=0)))
        n_stream, total = sum(n for n, _ in sums), np.sum([part for _, part in sums], axis=0)
        spans = np.diff(total).tolist()  # of each pass, all streams together
        about_ps = max(1, int(total[-1] - total[0]) // ((n_time - 1) * n_stream))
        is_alike = len({i for part in parts for i in part.iteration if part.n_pass < NEVER}) == 1
        n = left - 1
        if n_time - 1 < self._n_repeat or n < 1 or not is_alike:
            return about_ps
        found = agreement(spans, self._n_repeat, n)
        if found is None or found.bound > self._tolerance:
            return about_ps
        n, cycle, n_compared = n // found.cycle, found.cycle, len(found.times_ps)
        n_span = n_compared // cycle * n_stream
        cycle_ps = (2 * sum(found.times_ps) + n_span) // (2 * n_span)
        begun_ps = max(part.begun_ps for part in parts)
        if n < 1 or begun_ps > horizon_ps - (n_compared // cycle + 1) * cycle_ps:
            return about_ps
        off_ps = np.abs(times[:, -1] - times[:, -1 - n_compared] - n_compared // cycle * cycle_ps).max(initial=0)
        repeat_of = np.full(len(work.streams), -1, np.int64)
        repeat_of[own.streams] = work.passes[own.streams, PASS_OPERATION]
        off, repeats = zip(*self._world.allgather((int(off_ps), repeat_of)), strict=True)
        if max(off) > PHASE_FRAC * about_ps:
            return about_ps
        use = self._use(state, np.max(repeats, axis=0))
        if not use.is_even or any(self._world.allgather(self._has_others(state, use))):
            return about_ps
        self._leave_out(state, own.streams, use, n, cycle_ps, found, horizon_ps)
        return about_ps

    def _own(self, work: Work, horizon_ps: int) -> _Own:
        streams, mine = work.streams[self._mine], self._mine
        passes, operation = work.passes[mine], streams["operation"]
        repeat = passes[:, PASS_OPERATION]
        is_in = (repeat >= 0) & (passes[:, PASS_ITERATION] == streams["iteration"]) & (passes[:, N_PASS] >= 2)
        slot = work.operations["slot"][np.maximum(repeat, 0)]
        is_in &= (operation <= repeat) & (operation >= repeat - slot)
        chosen = mine[is_in]
        last = _times(work, chosen, 2)
        is_late = horizon_ps - last[:, 1] > LATE_FRAC * (last[:, 1] - last[:, 0])
        others = streams[~is_in]
        waits = (others["waiting_for"] == WAITING_DONE) | ((others["wake_ps"] == NEVER) & (others["phase"] != 0))
        begun_ps = others["begun_ps"][others["waiting_for"] != WAITING_DONE].max(initial=0)
        if len(chosen) == 0:
            return _Own(chosen, NEVER, NEVER, (0, 0), int(begun_ps), bool(waits.all()))
        here = work.streams[chosen]
        left = work.operations["n_step"][work.passes[chosen, PASS_OPERATION]] - 1 - work.loops[chosen, 0]
        return _Own(
            chosen, int(work.passes[chosen, N_PASS].min()), int(left.min()),
            (int(here["iteration"].min()), int(here["iteration"].max())), int(begun_ps),
            bool(waits.all() and not is_late.any()),
        )  # fmt: skip

    def _use(self, state: NetworkState, repeat_of: np.ndarray) -> PassUse:
        key = repeat_of.tobytes()
        if key not in self._uses:
            consumer = state.nic.facts["waiting_stream"].astype(np.int64)
            payload_bytes = int(state.fabric.constants[PAYLOAD_BYTES])
            self._uses = {key: use_of_passes(state.work, repeat_of, consumer, payload_bytes)}
        return self._uses[key]

    def _has_others(self, state: NetworkState, use: PassUse) -> bool:
        """Whether this rank sends something that no pass posts."""
        table = state.nic.queue_pairs
        is_busy = (table["acked_byte"] != table["posted_end"]) & self._here[state.nic.facts["node"]]
        return bool((is_busy & (use.posts == 0)).any())

    def _leave_out(
        self, state: NetworkState, own: np.ndarray, use: PassUse, n: int, cycle_ps: int, agreed: Agreement, at_ps: int
    ) -> None:
        self._flush()
        work = state.work
        counts = np.zeros((2, len(work.streams)), np.int64)
        counts[:, own] = work.streams["n_flow"][own], work.streams["n_task"][own]
        iteration = int(work.streams["iteration"][own[0]]) if len(own) else 0
        parts = self._world.allgather((iteration, counts))
        iteration, counts = max(part[0] for part in parts), np.max([part[1] for part in parts], axis=0)
        flows, tasks, cycle = agreed.cycle * use.flows, agreed.cycle * use.tasks, agreed.cycle
        self.jumps.append(Jump(iteration, at_ps, n, cycle_ps, agreed, flows, tasks, counts[0], counts[1]))
        work.loops[own, 0] += n * cycle
        work.streams["n_flow"][own] += n * flows[own]
        work.streams["n_task"][own] += n * tasks[own]
        work.iteration_tasks[iteration] += n * int(tasks[own].sum())
        main = own[work.streams["spent_row"][own] >= 0]
        row, last, n_pass = work.streams["spent_row"][main], _times(work, main, cycle + 1), work.passes[main, N_PASS]
        span_ps = np.maximum(last[:, -1] - last[:, 0], 1)[:, None]
        spent = work.passed[row, (n_pass - 1) % N_PASS_SPENT] - work.passed[row, (n_pass - 1 - cycle) % N_PASS_SPENT]
        spared_ps = spent.astype(object) * (n * cycle_ps) // span_ps  # rounded down: no more than there was time
        work.spent[row] += spared_ps.astype(np.int64)
        work.passes[own, PASS_OPERATION] = -1
        if self.packets is None or self.short_bytes is None:
            self.packets, self.short_bytes = np.zeros_like(use.packets), np.zeros_like(use.packets)
        self.packets += n * cycle * use.packets
        self.short_bytes += n * cycle * use.short_bytes

    def moved(
        self, flow: np.ndarray, arrival: np.ndarray, task: np.ndarray, spent: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """Rows that the kernels write now, with the time that they are about. Columns: `network.state.records`."""
        if not self.jumps:
            return flow, arrival, task, spent
        flow, arrival, task, spent = flow.copy(), arrival.copy(), task.copy(), spent.copy()
        late_ps = self.skipped_ps
        flow[:, 0], arrival[:, 0] = self._numbers(flow[:, 0]), self._numbers(arrival[:, 0])
        flow[:, 3] += late_ps
        flow[flow[:, 4] >= 0, 4] += late_ps
        arrival[:, 1] += late_ps
        task[:, 5:7] += late_ps
        spent[:, 3] += late_ps
        return flow, arrival, task, spent

    def _numbers(self, ids: np.ndarray) -> np.ndarray:
        """Numbers of messages, of which rows are written now, by those that they were posted with."""
        for jump in self.jumps:
            stream, iteration, place = self._places("flow", ids)
            is_old = (iteration == jump.iteration) & (place < jump.n_flow[stream] + jump.n * jump.flows[stream])
            ids = ids + np.where(is_old, jump.n * jump.flows[stream], 0)
        return ids

    def _places(self, name: str, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(stream, iteration, number within both) of messages or tasks."""
        first, per_iteration = self._first[name], self._per_iteration[name]
        order = np.argsort(first, kind="stable")
        iteration, place = ids // per_iteration, ids % per_iteration
        stream = order[np.searchsorted(first[order], place, side="right") - 1]
        return stream, iteration, place - first[stream]

    def fill(self, name: str, cells: np.ndarray, fill: int, time_columns: Sequence[int]) -> None:
        """Write rows of messages or tasks that were left out: those of the cycle before, a cycle later.

        name: "flow", "task". cells: int64[n_row, n_column], value XOR fill, 0: nobody has written it.
        """
        per_iteration = self._per_iteration[name]
        is_time = np.isin(np.arange(cells.shape[1]), time_columns)
        for jump in self.jumps:
            each = jump.flows if name == "flow" else jump.tasks
            before = jump.n_flow if name == "flow" else jump.n_task
            for stream in np.flatnonzero(each).tolist():
                step, first = int(each[stream]), int(self._first[name][stream] + jump.iteration * per_iteration)
                at = first + int(before[stream]) - FILL_BACK * step
                for _ in range(FILL_BACK + jump.n - 1):
                    source, target = cells[at : at + step], cells[at + step : at + 2 * step]
                    source = source[: len(target)]
                    later = np.where(is_time, (source ^ fill) + jump.cycle_ps, source ^ fill) ^ fill
                    np.copyto(target, later, where=(target == 0) & (source != 0))
                    at += step

    def facts(self) -> dict[str, Any]:
        """What `result.json` says of it."""
        return {
            "skipped": sum(jump.n * jump.agreed.cycle for jump in self.jumps),
            "skipped_time_ps": self.skipped_ps,
            "jumps": [
                {
                    "iteration": jump.iteration,
                    "at_ps": jump.at_ps,
                    "passes": jump.n * jump.agreed.cycle,
                    "cycle": jump.agreed.cycle,
                    "cycle_time_ps": jump.cycle_ps,
                    "compared": len(jump.agreed.times_ps),
                    "error_bound": jump.agreed.bound,
                }
                for jump in self.jumps
            ],
        }


def _times(work: Work, streams: np.ndarray, n: int) -> np.ndarray:
    """int64[stream, n]: when the last n passes of streams were done, in order."""
    passes = work.passes[streams]
    place = (passes[:, N_PASS, None] - n + np.arange(n)) % N_PASS_TIME
    return np.take_along_axis(passes[:, PASS_TIMES:], place, axis=1)
