"""The congestion control of one queue pair: its class's plain handlers on plain objects."""

from typing import Any

from models.congestion.interface import EVENT_FIELDS, FLOW_FIELDS, N_TIMER, NEVER, Scaled
from models.congestion.law import Law
from models.congestion.source import handler_of


class Record:
    """Named values that keep their kind: what is stored into a whole number is cut off, as in the engine's memory."""

    def __init__(self, **values: Any) -> None:
        vars(self).update({name: list(v) if isinstance(v, tuple) else v for name, v in values.items()})

    def __setattr__(self, name: str, value: Any) -> None:
        kind = type(vars(self)[name])
        vars(self)[name] = kind(value)


class Control:
    """What a queue pair's control knows, and how it is called."""

    def __init__(self, law: Law, values: dict[str, Any], **known: int) -> None:
        self.law, self.known = law, known
        state = {name: tuple(map(type(sum(v)), v)) if isinstance(v, tuple) else v for name, v in _state(law).items()}
        timers = {"timer_ps": (NEVER,) * N_TIMER}
        self.flow: Any = Record(**{field[0]: 0 for field in FLOW_FIELDS} | known | timers | state)
        values = values or law.parameter_values({})
        self.p: Any = Record(**{name: _resolve(v, known["line_rate_bps"]) for name, v in values.items()})
        self.is_retimed = False

    def has(self, handler: str) -> bool:
        """Whether the control reacts to something."""
        return handler_of(self.law.control, handler) is not None

    def call(self, handler: str, **fields: Any) -> None:
        """Run a handler, if there is one, on an event of these fields."""
        function = handler_of(self.law.control, handler)
        if function is None:
            return
        zero = {field[0]: (0,) * field[2][0] if len(field) > 2 else 0 for field in EVENT_FIELDS}
        event: Any = Record(**zero | fields)
        function(self.flow, event, self.p)
        self.is_retimed |= bool(event.retime)

    @property
    def rate_bps(self) -> int:
        """The rate that it asks for, within what the line can do."""
        return min(max(self.flow.rate_bps, 1), self.known["line_rate_bps"])


def _state(law: Law) -> dict[str, Any]:
    return getattr(law.control, "state", {})


def _resolve(value: Any, line_rate_bps: int) -> Any:
    """A parameter at a line rate: in proportion to 100 Gbit/s if it is scaled, whole units rounded down."""
    if not isinstance(value, Scaled):
        return int(value) if isinstance(value, bool) else value
    at_100g: Any = value.at_100g
    return at_100g * line_rate_bps / 10**11 if isinstance(at_100g, float) else at_100g * line_rate_bps // 10**11
