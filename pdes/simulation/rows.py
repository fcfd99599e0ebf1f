"""Rows of results on one rank: from the kernels into spools by id, and what is counted on the way."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from models.network.watch.results import FLOW_SPOOL_COLUMNS, SPENT_SPOOL_COLUMNS, TASK_SPOOL_COLUMNS
from pdes.engine.exchange import World
from pdes.results.spool import RowSpool
from pdes.scenario import Scenario
from pdes.simulation.assemble import Assembly
from pdes.simulation.jobs import JobCounts

INSTANTS = ("start_ps", "delivered_ps", "finish_ps", "end_ps")  # columns of flows and tasks


class Rows:
    """Of all iterations that are simulated. They stay where they are when LPs change ranks, unless a rank has none."""

    def __init__(self, scenario: Scenario, world: World, folder: Path) -> None:
        """folder: for what does not fit in memory."""
        s, output = scenario, scenario.config.output
        self._scenario, self._world, self._folder = scenario, world, folder
        self.flows = self._spool("flows", s.plan.flows_per_iteration if output.flows else 0, FLOW_SPOOL_COLUMNS)
        self.tasks = self._spool("tasks", s.plan.tasks_per_iteration if s.plan.keeps_tasks else 0, TASK_SPOOL_COLUMNS)
        self.spent = self._spool("breakdown", s.plan.n_spent // s.plan.n_iteration, SPENT_SPOOL_COLUMNS)
        self.jobs = JobCounts(s.plan)
        self.n_flow_done, self.flow_ps, self.last_finish_ps = 0, 0, -1
        self.source: Assembly | None = None
        """Whose rows come, once it is there."""

    def _spool(self, name: str, per_iteration: int, columns: tuple[str, ...]) -> RowSpool:
        n_iteration, n_repeat = self._scenario.plan.n_iteration, self._scenario.config.wormhole.n_repeat
        least = min(n_iteration, n_repeat or n_iteration)
        return RowSpool(
            self._folder, name, per_iteration * n_iteration, columns, ranks=(self._world.rank, self._world.size),
            least_rows=per_iteration * least,
        )  # fmt: skip

    @property
    def spools(self) -> dict[str, RowSpool]:
        """All of them, by the names that checkpoints know."""
        return {"flows": self.flows, "tasks": self.tasks, "breakdown": self.spent}

    def take(self, flow: np.ndarray, arrival: np.ndarray, task: np.ndarray, spent: np.ndarray) -> None:
        """Rows from the kernels, into the spools by id."""
        source = self.source
        assert source is not None
        if source.repeats is not None:
            flow, arrival, task, spent = source.repeats.moved(flow, arrival, task, spent)
        if len(flow):
            self._take_flows(source, flow)
        if source.parts is not None:
            arrival = source.parts.arrivals(arrival)
        if len(arrival) and self.flows.n_row:
            self.flows.scatter(arrival[:, 0], {"delivered_ps": arrival[:, 1]})
        if len(task):
            self.tasks.scatter(task[:, 0], {name: task[:, 1 + i] for i, name in enumerate(TASK_SPOOL_COLUMNS)})
        if len(spent):
            self.spent.scatter(spent[:, 0], {name: spent[:, 1 + i] for i, name in enumerate(SPENT_SPOOL_COLUMNS)})

    def _take_flows(self, source: Assembly, flow: np.ndarray) -> None:
        ids, start_ps, finish_ps = flow[:, 0], flow[:, 3], flow[:, 4]
        if self.flows.n_row or source.parts is not None:
            ids, columns = source.facts.columns(flow, source.model.pairs.pair_of_row)
            if source.parts is not None:
                ids, columns = source.parts.flows(ids, columns)
            if self.flows.n_row:
                self.flows.scatter(ids, columns)
            start_ps, finish_ps = columns["start_ps"], columns["finish_ps"]
        is_done = finish_ps >= 0
        self.n_flow_done += int(is_done.sum())
        self.flow_ps += int((finish_ps - start_ps)[is_done].sum())
        self.jobs.take(ids, finish_ps)
        self.last_finish_ps = max(self.last_finish_ps, int(finish_ps.max(initial=-1)))

    def truncate(self, source: Assembly) -> None:
        """Keep the rows of iterations that were simulated."""
        for spool, n_row in ((self.flows, source.n_flow), (self.tasks, source.n_task)):
            spool.truncate(min(n_row, spool.n_row))
        plan = self._scenario.plan
        self.spent.truncate(plan.n_spent // plan.n_iteration * source.n_iteration)

    def absorb(self, parts: list[dict[str, Any]]) -> None:
        """Have all that ranks have written and counted. On rank 0, when they write no more. parts: what they counted.

        The others `forget` theirs once this is done.
        """
        self.load_counts(parts)
        for spool in self.spools.values():
            for rank in range(1, len(parts)):
                spool.absorb(rank)

    def load_counts(self, parts: list[dict[str, Any]]) -> None:
        """What several ranks have counted, see `save_counts`."""
        self.n_flow_done, self.flow_ps = (sum(part[name] for part in parts) for name in ("n_flow_done", "flow_ps"))
        self.last_finish_ps = max(part["last_finish_ps"] for part in parts)
        self.jobs.load([part["jobs"] for part in parts])

    def save_counts(self) -> dict[str, Any]:
        """What this rank has counted."""
        found = {name: getattr(self, name) for name in ("n_flow_done", "flow_ps", "last_finish_ps")}
        return found | {"jobs": self.jobs.save()}

    def forget(self) -> None:
        """Have nothing written and counted, as another rank has it now."""
        self.n_flow_done, self.flow_ps, self.last_finish_ps = 0, 0, -1
        self.jobs = JobCounts(self._scenario.plan)
        for spool in self.spools.values():
            spool.forget()

    def fill(self, source: Assembly) -> None:
        """Write the rows of passes that were left out. On rank 0, when all ranks' rows are there."""
        if source.repeats is None or not source.repeats.jumps:
            return
        for name, spool in (("flow", self.flows), ("task", self.tasks)):
            spool.amend(partial(source.repeats.fill, name), [c for c in spool.columns if c in INSTANTS])

    def close(self) -> None:
        """Give back what they hold."""
        for spool in self.spools.values():
            spool.close()
