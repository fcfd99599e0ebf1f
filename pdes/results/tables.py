"""The Parquet tables of a result folder: columns, order and bytes.

Bytes depend on content only: fixed row groups, compression and encodings, no metadata about the writer but the version
that pyarrow puts there. It does not compute results; it knows names and types.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from pdes.errors import ConfigError, SimError
from pdes.files import require_file
from pdes.results.arrow import as_int64, taken, texts, whole_numbers

ROW_GROUP = 1 << 16
UNWRITTEN = -1
"""In an int64 column: no value yet, null in the table. No column holds negative values."""

PARTS = ("compute", "optimizer", "tp", "cp", "ep", "dp", "pp")
"""What a GPU's time is spent on, as its main stream sees it."""

COLUMNS: dict[str, tuple[str, ...]] = {
    "flows": (
        *("flow_id", "src", "dst", "size_bytes", "start_ps", "delivered_ps", "finish_ps", "fct_ps", "ideal_fct_ps"),
        *("hops", "retransmitted_bytes", "ecn_marks", "tag"),
    ),
    "ports": (
        *("port_id", "node", "peer", "rate_bps", "tx_bytes", "busy_ps", "max_queue_bytes", "ecn_marks", "paused_ps"),
        *("pause_frames", "drops", "drops_buffer", "drops_loss", "drops_link"),
    ),
    "tasks": ("task_id", "gpu", "iteration", "kind", "stream", "start_ps", "end_ps", "bytes"),
    "breakdown": ("row_id", "gpu", "iteration", "end_ps", "span_ps", *(f"{part}_ps" for part in PARTS), "idle_ps"),
    "samples_ports": ("time_ps", "port_id", "queue_bytes", "paused", "tx_bytes"),
    "samples_flows": ("time_ps", "flow_id", "rate_bps", "window_bytes", "in_flight_bytes", "acked_bytes"),
    "rtt": ("flow_id", "sequence", "sent_ps", "rtt_ps"),
    "trace": (
        *("time_ps", "node", "event", "packet", "port_id", "flow_id", "queue_pair", "sequence", "size_bytes"),
        *("queue_bytes", "rate_bps", "window_bytes"),
    ),
    "partitions": ("time_ps", "partitions", "steady", "replayed", "flows", "flows_frozen"),
}
"""Columns of each table, in order; the first is the row's id, of samples (time, id), of "rtt" (id, sequence)."""

JOB = "job"
"""Last column of flows, tasks and breakdown where the config has several jobs."""
_KNOWN = frozenset(column for columns in COLUMNS.values() for column in columns) | {JOB}
STRING_COLUMNS = frozenset({"tag", "node", "peer", "kind", "stream", "event", "packet", JOB})

Columns = Mapping[str, np.ndarray]


def write_table(
    path: Path, schema_name: str, groups: Iterable[Columns], names: Mapping[str, Sequence[str]] | None = None
) -> int:
    """Write a table as Parquet, row group by row group; return its number of rows.

    schema_name: a key of COLUMNS. groups: any split of the rows, in id order, each {column:
    int64[n]}; the id column may be left out (then it counts from 0), and so may fct_ps (finish_ps - start_ps).
    names: for each string column the list that its int64 column indexes; with JOB in it, the table has that column.
    UNWRITTEN becomes null, in every column.
    SimError: a value below UNWRITTEN, which only an overflow can make, or an index beyond its list.
    """
    import pyarrow.parquet as pq

    columns = _columns_of(schema_name, names)
    strings = [column for column in columns if column in STRING_COLUMNS]
    settings: dict[str, Any] = {
        "version": "2.6",
        "compression": "zstd",
        "compression_level": 3,
        "use_dictionary": strings,
        "column_encoding": {c: "DELTA_BINARY_PACKED" for c in columns if c not in STRING_COLUMNS},
        "store_schema": False,
    }
    n_row = 0
    with pq.ParquetWriter(path, _schema(columns), **settings) as writer:
        for table in _arrow_tables(schema_name, groups, names):
            writer.write_table(table, ROW_GROUP)
            n_row += table.num_rows
    return n_row


def arrow_table(schema_name: str, groups: Iterable[Columns], names: Mapping[str, Sequence[str]] | None = None) -> Any:
    """The same as an Arrow table in memory: what reading the file gives."""
    import pyarrow as pa

    tables = list(_arrow_tables(schema_name, groups, names))
    return pa.concat_tables(tables) if tables else _schema(_columns_of(schema_name, names)).empty_table()


def arrow_tables(
    schema_name: str, columns: Columns, names: Mapping[str, Sequence[str]] | None, ends: Sequence[int]
) -> list[Any]:  # fmt: skip
    """`arrow_table` of each of several runs. columns: rows of all, with ids; ends: behind the last row of each."""
    import pyarrow as pa

    known = _columns_of(schema_name, names)
    whole, lists = complete(columns, known, 0), _lists(known, names)
    arrays = [_arrow_column(schema_name, c, whole[c], lists.get(c)) for c in known]
    table = pa.Table.from_arrays(arrays, schema=_schema(known))
    return [table.slice(first, end - first) for first, end in zip([0, *ends[:-1]], ends, strict=True)]


def _lists(columns: Sequence[str], names: Mapping[str, Sequence[str]] | None) -> dict[str, Any]:
    """The strings that each column of strings indexes, as Arrow has them."""
    return {c: texts((names or {}).get(c, ())) for c in columns if c in STRING_COLUMNS}


def _columns_of(schema_name: str, names: Mapping[str, Sequence[str]] | None) -> tuple[str, ...]:
    return (*COLUMNS[schema_name], *([JOB] if JOB in (names or {}) else []))


@lru_cache
def _schema(columns: tuple[str, ...]) -> Any:
    import pyarrow as pa

    return pa.schema([_field(pa, column, column != columns[0]) for column in columns])


def _arrow_tables(
    schema_name: str, groups: Iterable[Columns], names: Mapping[str, Sequence[str]] | None
) -> Iterator[Any]:  # fmt: skip
    """An Arrow table for each ROW_GROUP rows."""
    import pyarrow as pa

    columns = _columns_of(schema_name, names)
    lists, schema = _lists(columns, names), _schema(columns)
    for group in _regroup(groups, columns):
        arrays = [_arrow_column(schema_name, c, group[c], lists.get(c)) for c in columns]
        yield pa.Table.from_arrays(arrays, schema=schema)


def read_table(path: Path, columns: Sequence[str]) -> Iterator[dict[str, np.ndarray]]:
    """Yield columns of a table row group by row group: int64 with UNWRITTEN for null, or an object array of str."""
    with open_table(path, columns, read_dictionary=[name for name in columns if name in STRING_COLUMNS]) as file:
        for i_group in range(file.num_row_groups):
            table = file.read_row_group(i_group, columns=list(columns))
            yield {column: _numpy_column(table.column(column), column) for column in columns}


def with_jobs(groups: Iterable[Columns], first: Sequence[int]) -> Iterable[Columns]:
    """Rows in the order of their ids with the number of their job. first: of each job's rows; []: as they are."""
    n_done, starts = 0, np.array(first, np.int64)
    for group in groups:
        if not len(starts):
            yield group
            continue
        n = len(next(iter(group.values())))
        job = np.searchsorted(starts, np.arange(n_done, n_done + n), side="right") - 1
        yield {**group, JOB: job}
        n_done += n


def open_table(path: Path, columns: Sequence[str] = (), **settings: Any) -> Any:
    """A table's ParquetFile. ConfigError: it is none, lacks one of `columns`, or one that we know has another type."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    accepted = "Accepted: a table that a run has left. Run the simulation again"
    try:
        file = pq.ParquetFile(require_file(path), **settings)
        schema = file.schema_arrow
    except (OSError, ValueError, pa.ArrowException) as error:
        raise ConfigError(
            str(path), f"is no Parquet table: {' '.join(str(error).split()).rstrip('.')}", accepted
        ) from error
    missing = [name for name in columns if name not in schema.names]
    if missing:
        raise ConfigError(f"{path}: column {missing[0]}", "is missing", accepted)
    for field in schema:
        is_text = field.name in STRING_COLUMNS
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if field.name in _KNOWN and kind != (pa.string() if is_text else pa.int64()):
            what = "text" if is_text else "whole numbers of 64 bits"
            raise ConfigError(f"{path}: column {field.name}", f"holds {field.type}, not {what}", accepted)
    return file


def _field(pa: Any, column: str, nullable: bool) -> Any:
    return pa.field(column, pa.string() if column in STRING_COLUMNS else pa.int64(), nullable)


def _regroup(groups: Iterable[Columns], columns: Sequence[str]) -> Iterator[dict[str, np.ndarray]]:
    """Complete each group and cut the rows into groups of exactly ROW_GROUP; the last one may be shorter."""
    pending: dict[str, np.ndarray] = {column: np.empty(0, np.int64) for column in columns}
    n_done = 0
    for group in groups:
        n_pending = len(pending[columns[0]])
        whole = complete(group, columns, n_done + n_pending)
        if n_pending:
            whole = {column: np.concatenate([pending[column], whole[column]]) for column in columns}
        pending = whole
        n_full = len(pending[columns[0]]) // ROW_GROUP * ROW_GROUP
        for start in range(0, n_full, ROW_GROUP):
            yield {column: pending[column][start : start + ROW_GROUP] for column in columns}
        pending = {column: pending[column][n_full:] for column in columns}
        n_done += n_full
    if len(pending[columns[0]]):
        yield pending


def complete(group: Columns, columns: Sequence[str], first_id: int) -> dict[str, np.ndarray]:
    """The group with these columns, of which it may lack the ids and fct_ps. first_id: of its first row."""
    whole = dict(group)
    n = len(next(iter(whole.values())))
    whole.setdefault(columns[0], np.arange(first_id, first_id + n, dtype=np.int64))
    if "fct_ps" in columns and "fct_ps" not in whole:
        finish_ps = whole["finish_ps"]
        whole["fct_ps"] = np.where(finish_ps == UNWRITTEN, UNWRITTEN, finish_ps - whole["start_ps"])
    missing = [column for column in columns if column not in whole]
    assert not missing, f"columns {missing} are missing"
    return {column: np.asarray(whole[column], np.int64) for column in columns}


def _arrow_column(schema_name: str, column: str, value: np.ndarray, name_list: Any) -> Any:
    """One column of one row group. name_list: the strings that `value` indexes, or None for a number."""
    n_name, least = 2**63 if name_list is None else len(name_list), int(value.min(initial=0))
    if least < UNWRITTEN or (name_list is not None and int(value.max(initial=UNWRITTEN)) >= n_name):
        bad = least if least < UNWRITTEN else int(value.max())
        raise SimError(f"table {schema_name}, column {column}: {bad} is outside -1..{n_name - 1}, an internal error")
    array = whole_numbers(value, value == UNWRITTEN if least == UNWRITTEN else None)
    return array if name_list is None else taken(name_list, array)


def _numpy_column(column: Any, name: str) -> np.ndarray:
    if name not in STRING_COLUMNS:
        return as_int64(column, UNWRITTEN)
    parts = [np.zeros(0, object)]
    for chunk in column.chunks:
        words = np.array([*chunk.dictionary.to_pylist(), None], object)
        parts.append(words[as_int64(chunk.indices, len(words) - 1)])
    return parts[-1] if len(parts) == 2 else np.concatenate(parts)
