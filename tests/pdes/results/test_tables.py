"""Tables have the agreed columns, and bytes that depend on content only."""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdes.errors import SimError
from pdes.results.tables import COLUMNS, ROW_GROUP, arrow_table, arrow_tables, read_table, write_table


def flows(n: int, seed: int = 1) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    columns = {column: rng.integers(0, 10**6, n) for column in COLUMNS["flows"]}
    del columns["fct_ps"]
    finish_ps = columns["start_ps"] + columns["finish_ps"]
    unfinished = rng.integers(0, 4, n) == 0
    columns["flow_id"] = np.arange(n)
    columns["finish_ps"] = np.where(unfinished, -1, finish_ps)
    columns["tag"] = rng.integers(-1, 3, n)
    return columns


TAGS = {"tag": ["dp", "pp", "tp"]}


def split(columns: dict[str, np.ndarray], cuts: list[int]) -> list[dict[str, np.ndarray]]:
    n = len(next(iter(columns.values())))
    edges = [0, *sorted(cuts), n]
    return [{c: v[a:b] for c, v in columns.items()} for a, b in zip(edges, edges[1:], strict=False)]


@given(cuts=st.lists(st.integers(0, 150_000), max_size=4))
@settings(deadline=None, max_examples=10)
def test_how_the_rows_arrive_does_not_change_the_bytes(cuts):
    columns = flows(150_000)
    with tempfile.TemporaryDirectory() as name:
        a, b = Path(name, "a"), Path(name, "b")
        write_table(a, "flows", [columns], TAGS)
        write_table(b, "flows", split(columns, cuts), TAGS)
        assert a.read_bytes() == b.read_bytes()
        metadata = pq.read_metadata(a)
        assert [metadata.row_group(i).num_rows for i in range(3)] == [ROW_GROUP, ROW_GROUP, 150_000 - 2 * ROW_GROUP]


@given(cuts=st.lists(st.integers(0, 40), max_size=5))
def test_tables_of_several_runs_at_once_are_those_of_each(cuts):
    columns = flows(40)
    runs = split(columns, cuts)
    columns["flow_id"] = np.concatenate([np.arange(len(run["src"])) for run in runs])
    ends = np.cumsum([len(run["src"]) for run in runs]).tolist()
    found = arrow_tables("flows", columns, TAGS, ends)
    assert len(found) == len(runs)
    for run, table in zip(runs, found, strict=True):
        del run["flow_id"]
        assert table.equals(arrow_table("flows", [run], TAGS)) and table.schema == arrow_table("flows", []).schema


def test_the_numbering_and_order_of_names_does_not_change_the_bytes(tmp_path):
    columns = flows(1000)
    write_table(tmp_path / "a", "flows", [columns], TAGS)
    renumbered = np.where(columns["tag"] < 0, -1, 3 - columns["tag"])
    write_table(tmp_path / "b", "flows", [columns | {"tag": renumbered}], {"tag": ["unused", "tp", "pp", "dp", "dp"]})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("schema_name", list(COLUMNS))
def test_a_table_without_rows_has_all_columns_in_order_and_plain_types(tmp_path, schema_name):
    assert write_table(tmp_path / "x", schema_name, []) == 0
    schema = pq.read_schema(tmp_path / "x")
    assert tuple(schema.names) == COLUMNS[schema_name]
    strings = {"tag", "node", "peer", "kind", "stream", "event", "packet"}
    assert all(str(field.type) == ("string" if field.name in strings else "int64") for field in schema)
    assert schema.metadata is None


def test_unfinished_flows_have_null_times_and_fct_is_finish_minus_start(tmp_path):
    columns = flows(500)
    write_table(tmp_path / "x", "flows", [columns], TAGS)
    table = pq.read_table(tmp_path / "x").to_pydict()
    assert None in table["finish_ps"] and table["tag"].count(None) == int((columns["tag"] < 0).sum())
    for start_ps, finish_ps, fct_ps in zip(table["start_ps"], table["finish_ps"], table["fct_ps"], strict=True):
        assert fct_ps == (None if finish_ps is None else finish_ps - start_ps)


def test_reading_gives_back_what_was_written(tmp_path):
    columns = flows(70_000)
    write_table(tmp_path / "x", "flows", [columns], TAGS)
    groups = list(read_table(tmp_path / "x", ("finish_ps", "hops", "tag")))
    for column in ("finish_ps", "hops"):
        assert (np.concatenate([group[column] for group in groups]) == columns[column]).all()
    shown = np.array([*TAGS["tag"], None], object)[columns["tag"]]
    assert (np.concatenate([group["tag"] for group in groups]) == shown).all()


def test_rows_are_counted_when_they_have_no_id(tmp_path):
    columns = flows(70_000)
    del columns["flow_id"]
    write_table(tmp_path / "x", "flows", split(columns, [10, 66_000]), TAGS)
    ids = np.concatenate([group["flow_id"] for group in read_table(tmp_path / "x", ("flow_id",))])
    assert (ids == np.arange(70_000)).all()


def test_an_overflow_is_refused_with_its_column(tmp_path):
    columns = flows(10)
    columns["start_ps"][3] = -5
    with pytest.raises(SimError, match="flows, column start_ps: -5"):
        write_table(tmp_path / "x", "flows", [columns | {"fct_ps": columns["hops"]}], TAGS)
    with pytest.raises(SimError, match=r"column tag: 2 is outside -1\.\.1"):
        write_table(tmp_path / "y", "flows", [flows(10) | {"tag": np.full(10, 2)}], {"tag": ["a", "b"]})


def test_extreme_values_survive(tmp_path):
    columns = flows(3) | {"size_bytes": np.array([0, 2**63 - 1, 1]), "start_ps": np.array([2**62, 0, 2**63 - 1])}
    columns["finish_ps"] = np.full(3, -1)
    write_table(tmp_path / "x", "flows", [columns], TAGS)
    table = pq.read_table(tmp_path / "x").to_pydict()
    assert table["size_bytes"] == [0, 2**63 - 1, 1] and table["start_ps"] == [2**62, 0, 2**63 - 1]
