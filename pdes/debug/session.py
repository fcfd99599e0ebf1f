"""All that looks into one run, on one rank: set up before it, told where it stopped, written with its results."""

from collections.abc import Callable
from typing import Any

import numpy as np

from models.network.model import NetworkModel
from models.network.watch.observers import Observer
from pdes.debug.check import RoundCheck
from pdes.debug.conditions import INNER_UNITS, QUANTITIES
from pdes.debug.entities import Entities
from pdes.debug.options import DebugPlan
from pdes.debug.picture import Picture
from pdes.debug.quantities import Meter
from pdes.debug.stop import Breakpoint
from pdes.debug.trace import Tracer
from pdes.debug.trace_text import lines, title
from pdes.engine.exchange import World
from pdes.engine.round_exchange import ExchangeState
from pdes.engine.time_index import NEVER
from pdes.results.folder import ResultFolder
from pdes.results.tables import write_table
from pdes.scenario import Scenario
from pdes.units import format_duration

Say = Callable[[str], None]


class DebugSession:
    """One rank's part."""

    def __init__(self, plan: DebugPlan, scenario: Scenario, model: NetworkModel, world: World) -> None:
        self._plan, self._scenario, self._model, self._world = plan, scenario, model, world
        self._tracer = self._check = self._breakpoint = None
        if plan.trace is not None:
            self._tracer = Tracer(scenario.topology, scenario.plan, model.pairs, plan.trace, world)
            model.state = self._tracer.attach(model.state)
        if plan.options.checks:
            every_ps = plan.options.check_every_ps
            self._check = RoundCheck(scenario.topology, model.rank_of_node, world, self._between, every_ps)
        if plan.condition is not None and plan.ids is not None:
            meter = Meter(scenario, model.rank_of_node, world, plan.ids)
            self._breakpoint = Breakpoint(plan.condition, meter, plan.options.enters_debugger)

    @property
    def observers(self) -> list[Observer]:
        """In the order in which they are to look."""
        tracer = self._tracer if self._tracer is not None and self._tracer.must_look else None
        return [one for one in (tracer, self._check, self._breakpoint) if one is not None]

    @property
    def stopped_ps(self) -> int | None:
        """Where a condition ended the run, None if none did. The same on every rank."""
        return None if self._breakpoint is None else self._breakpoint.found_ps

    def _between(self) -> tuple[ExchangeState, np.ndarray | None]:
        fast = self._model.fast_forward
        return self._model.exchange, None if fast is None else fast.hidden.link_head

    def facts(self) -> dict[str, Any]:
        """What `result.json` says: only if a condition ended the run."""
        if self.stopped_ps is None:
            return {}
        return {"stopped_by": {"condition": self._plan.options.condition, "time_ps": self.stopped_ps}}

    def tell(self, say: Say, end_ps: int) -> None:
        """Say where the run is, and what has been checked; collective. end_ps: of the run."""
        if self._check is not None:
            say(f"checked {self._check.n_check:,} rounds: nothing is lost, out of order or beyond its bounds")
        if self._breakpoint is not None and self.stopped_ps is not None:
            say(f"stopped at {_instant(self.stopped_ps)}, as {self._plan.options.condition}")
            for quantity, value in self._breakpoint.values.items():
                say(f"  {quantity} is {value:,}{INNER_UNITS[quantity.dimension]}: {QUANTITIES[quantity.name][2]}")
            self._show(say)
        elif self._breakpoint is not None:
            say(f"the run has ended at {_instant(end_ps)}, and this never held: {self._plan.options.condition}")
        elif self._plan.options.shows_end:
            has_more, stop_ps = any(self._world.allgather(self._has_more())), self._scenario.stop_ps
            say(f"stopped at {_instant(stop_ps or 0)}" if has_more else f"the run has ended at {_instant(end_ps)}")
            self._show(say)

    def _has_more(self) -> bool:
        """Whether anything is left to happen on this rank."""
        return bool(self._model.state.fabric.node_time[1] < NEVER)

    def _show(self, say: Say) -> None:
        model, ids = self._model, self._plan.ids or {}
        picture = Picture(self._scenario, model.state, model.rank_of_node, self._world, model.pairs.pair_of_row)
        chosen = {kind: [n for q, n in ids.items() if QUANTITIES[q.name][0] == kind] for kind in ("flow", "port")}
        if self._plan.trace is not None:
            chosen = {
                "flow": [*chosen["flow"], *self._plan.trace.flows],
                "port": [*chosen["port"], *self._plan.trace.ports],
            }
        is_any = any(chosen.values())
        flows, ports = (list(dict.fromkeys(chosen[kind])) if is_any else None for kind in ("flow", "port"))
        for line in picture.lines(flows, ports):
            say(f"  {line}")

    def write(self, folder: ResultFolder, say: Say) -> list[str]:
        """Write the trace, and return the names of its files; collective."""
        gathered = None if self._tracer is None else self._tracer.gather()
        if self._tracer is None or gathered is None:
            return []
        rows, n_seen = gathered
        entities = Entities(self._scenario.topology, self._scenario.plan.n_flow)
        last_ps = int(rows[-1, 0]) if len(rows) else 0
        first = title(self._tracer.request, len(rows), n_seen, last_ps, entities)
        columns, names = self._tracer.columns(rows)
        with open(folder.work_path("trace.txt"), "w", encoding="utf-8") as out:
            out.writelines(f"{line}\n" for line in (f"# {first}", *lines(columns, names, entities)))
        write_table(folder.work_path("trace.parquet"), "trace", [columns], names)
        say(first)
        return ["trace.txt", "trace.parquet"]


def _instant(time_ps: int) -> str:
    return f"{format_duration(time_ps, 6)} ({time_ps} ps)"
