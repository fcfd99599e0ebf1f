"""What is asked of a run beyond its config, as the command line gives it; and what that means for a scenario."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pdes.debug.conditions import Condition, Quantity
    from pdes.debug.trace import TraceRequest
    from pdes.scenario import Scenario


@dataclass(frozen=True)
class DebugOptions:
    """trace, condition: as they were written, None: not asked for. trace_rows: most that are kept.

    check_every_ps: simulated time between two checks at least; 0: every round. shows_end: say what is under way where a
    stop time ends the run. enters_debugger: where the condition holds.
    """

    trace: str | None = None
    trace_rows: int = 0
    condition: str | None = None
    checks: bool = False
    check_every_ps: int = 0
    shows_end: bool = False
    enters_debugger: bool = False


@dataclass(frozen=True)
class DebugPlan:
    """The same with ids in the place of names; the same on every rank."""

    options: DebugOptions = DebugOptions()
    trace: "TraceRequest | None" = None
    condition: "Condition | None" = None
    ids: "dict[Quantity, int] | None" = None

    @property
    def looks_at_rounds(self) -> bool:
        """Whether somebody looks at the state of a rank round by round: then its nodes have to stay there."""
        return self.trace is not None or self.condition is not None or self.options.checks


def resolve(options: DebugOptions, scenario: "Scenario") -> DebugPlan:
    """Look the names up. Raises ConfigError."""
    trace = condition = ids = None
    if options.trace is not None:
        from pdes.debug.entities import Entities
        from pdes.debug.trace import parse_trace

        entities = Entities(scenario.topology, scenario.plan.n_flow)
        trace = parse_trace(options.trace, options.trace_rows, entities)
    if options.condition is not None:
        from pdes.debug.conditions import parse_condition, quantities_of
        from pdes.debug.quantities import resolve as resolve_quantities

        condition = parse_condition(options.condition)
        ids = resolve_quantities(scenario, list(quantities_of(condition)))
    return DebugPlan(options, trace, condition, ids)
