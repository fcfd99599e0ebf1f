"""A trace as text: a line per row, columns aligned, and in front what it is and where it stops."""

from collections.abc import Iterator, Sequence

import numpy as np

from pdes.debug.entities import Entities
from pdes.debug.trace import TraceRequest
from pdes.units import format_count, format_duration

_HEADINGS = ("time_ps", "node", "event", "packet", "port", "flow", "pair", "sequence", "bytes", "queue", "rate_bps",
             "window")  # fmt: skip
_COLUMNS = ("time_ps", "node", "event", "packet", "port_id", "flow_id", "queue_pair", "sequence", "size_bytes",
            "queue_bytes", "rate_bps", "window_bytes")  # fmt: skip
_LEFT = ("node", "event", "packet", "port_id")


def title(request: TraceRequest, n_row: int, n_seen: int, last_ps: int, entities: Entities) -> str:
    """One line that says what is in it, and, if rows are missing, where it stops."""
    what = [*(f"flow {flow}" for flow in request.flows), *(f"port {entities.port_text(p)}" for p in request.ports)]
    text = f"trace of {', '.join(what)}: {n_row:,} events"
    if n_seen <= request.n_row:
        return text
    more = f"the first of {format_count(n_seen)}, stopped at {format_duration(last_ps, 6)} ({last_ps} ps)"
    return f"{text}, {more}; --trace-limit for more"


def lines(
    columns: dict[str, np.ndarray], names: dict[str, Sequence[str]], entities: Entities
) -> Iterator[str]:  # fmt: skip
    """A heading and a line per row, as wide as needed."""
    n_row = len(columns["time_ps"])
    texts = []
    port_name: dict[int, str] = {}
    for heading, column in zip(_HEADINGS, _COLUMNS, strict=True):
        values = columns[column].tolist()
        if column == "port_id":
            port_name |= {port: entities.port_name(port) for port in set(values) - {-1}}
            cells = [port_name.get(value, "") for value in values]
        elif column in names:
            cells = [names[column][value] if value >= 0 else "" for value in values]
        else:
            cells = [str(value) if value >= 0 else "" for value in values]
        width = max([len(heading), *map(len, cells)])
        side = "<" if column in _LEFT else ">"
        texts.append([f"{cell:{side}{width}}" for cell in (heading, *cells)])
    for i in range(n_row + 1):
        yield "  ".join(column[i] for column in texts).rstrip()
