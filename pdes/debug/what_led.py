"""What came before a row that differs: earlier rows about the same flow, port or GPU, in tables and trace."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from pdes.debug.differences import NEVER_PS, Difference, Row, read

MOST_ROWS = 5
SAME = {  # what rows are about
    "tasks": ("gpu",), "flows": ("src", "dst"), "samples_flows": ("flow_id",), "samples_ports": ("port_id",),
    "rtt": ("flow_id",), "breakdown": ("gpu",),
}  # fmt: skip
ORDER = {"tasks": "start_ps", "flows": "start_ps", "rtt": "sent_ps", "breakdown": "end_ps"}  # else time_ps


def earlier_rows(folder: Path, difference: Difference) -> list[Row]:
    """Rows of the same table about the same, that began before it; the last ones."""
    row, name = difference.a or difference.b or {}, difference.table
    table = read(folder, name)
    if table is None:
        return []
    keys = ("flow_id",) if row.get("flow_id") is not None else ("port_id",)
    keys = SAME.get(name, keys if name == "trace" else ())
    if not keys:
        return []
    order = ORDER.get(name, "time_ps")
    limit = row.get(order)
    return _last(table, {key: row[key] for key in keys}, order, limit if limit is not None else NEVER_PS)


def earlier_events(folder: Path, difference: Difference) -> list[Row]:
    """Rows of the trace about the flow or the port, up to the time of the difference; [] without a trace of it."""
    row, table = difference.a or difference.b or {}, read(folder, "trace")
    if table is None or difference.table == "trace":
        return []
    key = next((name for name in ("flow_id", "port_id") if row.get(name) is not None), None)
    return [] if key is None else _last(table, {key: row[key]}, "time_ps", difference.time_ps)


def _last(table: pa.Table, same: Row, order: str, limit_ps: int) -> list[Row]:
    is_it = pc.less(table.column(order), limit_ps)  # pyright: ignore[reportAttributeAccessIssue]
    for name, value in same.items():
        is_it = pc.and_(is_it, pc.equal(table.column(name), value))  # pyright: ignore[reportAttributeAccessIssue]
    found = table.filter(is_it)
    if order != "time_ps":
        found = found.sort_by(order)
    return found.slice(max(found.num_rows - MOST_ROWS, 0)).to_pylist()
