"""A spool gives back what was written, whoever wrote it in whatever order, and a table's bytes follow from that."""

import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdes.errors import CapacityError, SimError
from pdes.results.spool import RowSpool
from pdes.results.tables import read_table, write_table

COLUMNS = ("iteration", "gpu", "kind", "stream", "start_ps", "end_ps", "bytes")
NAMES = {"kind": ["forward", "tp"], "stream": ["compute", "network"]}


def read_all(spool: RowSpool, group: int = 7) -> dict[str, np.ndarray]:
    groups = list(spool.read_groups(group))
    return {c: np.concatenate([np.empty(0, np.int64)] + [g[c] for g in groups]) for c in spool.columns}


def make_spools(folder: Path, n_rank: int, n_row: int, fill: int = -1, memory_rows: int = 0) -> list[RowSpool]:
    return [RowSpool(folder, "t", n_row, COLUMNS, fill, (rank, n_rank), memory_rows) for rank in range(n_rank)]


cells = st.lists(
    st.tuples(st.integers(0, 39), st.sampled_from(COLUMNS), st.integers(0, 1), st.integers(0, 2)),
    max_size=60,
    unique_by=lambda cell: (cell[0], cell[1]),
)


@given(written=cells, n_rank=st.integers(1, 3), memory_rows=st.sampled_from([0, 1000]), data=st.data())
@settings(deadline=None, max_examples=60)
def test_any_order_and_any_split_over_ranks_gives_the_same_parquet_bytes(written, n_rank, memory_rows, data):
    shuffled = data.draw(st.permutations(written))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spools = make_spools(folder, n_rank, 40, memory_rows=memory_rows)
        for row, column, value, rank in shuffled:
            spools[rank % n_rank].scatter(np.array([row]), {column: np.array([value])})
        expected = np.full((40, len(COLUMNS)), -1, np.int64)
        for row, column, value, _ in written:
            expected[row, COLUMNS.index(column)] = value
        read = read_all(spools[0])
        assert all((read[column] == expected[:, i]).all() for i, column in enumerate(COLUMNS))
        write_table(folder / "a", "tasks", spools[0].read_groups(data.draw(st.integers(1, 50))), NAMES)
        whole = {column: expected[:, i] for i, column in enumerate(COLUMNS)}
        write_table(folder / "b", "tasks", [whole], NAMES)
        assert (folder / "a").read_bytes() == (folder / "b").read_bytes()
        for spool in spools:
            spool.close()


@given(
    written=cells, was=st.sampled_from([(1, 1000), (1, 0), (3, 0)]), now=st.sampled_from([(1, 1000), (1, 0), (2, 0)])
)
@settings(deadline=None, max_examples=40)
def test_what_ranks_have_saved_any_number_of_ranks_takes_over(written, was, now):
    """A row's cells come partly before and partly after; was, now: ranks, and rows that are kept in memory."""
    half = len(written) // 2
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        before, after = (
            make_spools(Path(first), was[0], 40, 7, was[1]),
            make_spools(Path(second), now[0], 40, 7, now[1]),
        )
        for row, column, value, rank in written[:half]:
            before[rank % was[0]].scatter(np.array([row]), {column: np.array([value])})
        for spool in before:
            stream = io.BytesIO()
            spool.save(stream)
            stream.seek(0)
            after[0].load(stream)
        for row, column, value, rank in written[half:]:
            after[rank % now[0]].scatter(np.array([row]), {column: np.array([value])})
        expected = np.full((40, len(COLUMNS)), 7, np.int64)
        for row, column, value, _ in written:
            expected[row, COLUMNS.index(column)] = value
        read = read_all(after[0])
        assert all((read[column] == expected[:, i]).all() for i, column in enumerate(COLUMNS))
        for spool in (*before, *after):
            spool.close()


@given(fill=st.integers(-(2**63), 2**63 - 1), values=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=9))
@settings(deadline=None, max_examples=40)
def test_every_int64_survives_and_the_rest_reads_as_fill(fill, values):
    with tempfile.TemporaryDirectory() as name:
        for memory_rows in (0, 100):
            (spool,) = make_spools(Path(name), 1, 10, fill, memory_rows)
            row_id = np.arange(len(values))
            spool.scatter(row_id, {"gpu": np.array(values, np.int64)})
            assert read_all(spool)["gpu"].tolist() == values + [fill] * (10 - len(values))
            assert set(read_all(spool)["bytes"].tolist()) == {fill}
            spool.close()


def test_sender_and_receiver_write_their_columns_of_one_row_from_two_processes(tmp_path):
    sender = RowSpool(tmp_path, "t", 1000, COLUMNS, ranks=(0, 2))
    code = f"""
import numpy as np
from pathlib import Path
from pdes.results.spool import RowSpool
spool = RowSpool(Path({str(tmp_path)!r}), "t", 1000, {COLUMNS!r}, ranks=(1, 2))
spool.scatter(np.arange(999, -1, -1), {{"end_ps": np.arange(999, -1, -1) + 7}})
"""
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    sender.scatter(np.arange(0, 1000, 2), {"bytes": np.arange(500), "start_ps": np.arange(500) * 3})
    read = read_all(sender)
    assert (read["end_ps"] == np.arange(1000) + 7).all()
    assert (read["bytes"][::2] == np.arange(500)).all() and (read["bytes"][1::2] == -1).all()


def test_reading_goes_on_where_it_left_off(tmp_path):
    (spool,) = make_spools(tmp_path, 1, 4)
    spool.scatter(np.array([2]), {"gpu": np.array([5])})
    assert read_all(spool)["gpu"].tolist() == [-1, -1, 5, -1]
    spool.scatter(np.array([0, 2]), {"gpu": np.array([1, 6])})
    assert read_all(spool)["gpu"].tolist() == [1, -1, 6, -1]


def test_strided_views_of_a_kernel_buffer_are_taken(tmp_path):
    buffer = np.arange(12).reshape(4, 3)
    for memory_rows in (0, 100):
        (spool,) = make_spools(tmp_path, 1, 12, memory_rows=memory_rows)
        spool.scatter(buffer[:, 0], {"gpu": buffer[:, 1], "bytes": buffer[:, 2]})
        buffer_copy = read_all(spool)
        assert buffer_copy["gpu"][[0, 3, 6, 9]].tolist() == [1, 4, 7, 10]
        assert buffer_copy["bytes"][[0, 3, 6, 9]].tolist() == [2, 5, 8, 11]


def test_a_sparse_spool_of_many_rows_takes_little_disk_and_unwritten_cells_are_null(tmp_path):
    n_row = 1_100_000
    spool = RowSpool(tmp_path, "t", n_row, COLUMNS)
    spool.scatter(np.array([n_row - 1]), {"bytes": np.array([9])})
    assert write_table(tmp_path / "x", "tasks", spool.read_groups(), NAMES) == n_row
    disk_bytes = sum(512 * path.stat().st_blocks for path in tmp_path.iterdir())
    assert disk_bytes < 8 * n_row  # of 56 n_row had every cell been stored
    last = list(read_table(tmp_path / "x", ("task_id", "bytes", "kind")))[-1]
    assert last["task_id"][-1] == n_row - 1
    assert last["bytes"][-2:].tolist() == [-1, 9] and last["kind"][-1] is None


def test_a_small_run_on_one_rank_makes_no_file_and_an_empty_one_has_no_rows(tmp_path):
    (spool,) = make_spools(tmp_path, 1, 10, memory_rows=10)
    spool.scatter(np.array([1]), {"gpu": np.array([1])})
    assert list(tmp_path.iterdir()) == []
    for n_rank in (1, 2):
        spools = make_spools(tmp_path, n_rank, 0)
        assert list(spools[0].read_groups()) == []
        spools[0].scatter(np.empty(0, np.int64), {"gpu": np.empty(0, np.int64)})


@pytest.mark.parametrize("row", [-1, 10])
def test_a_row_id_out_of_range_is_refused(tmp_path, row):
    (spool,) = make_spools(tmp_path, 1, 10)
    with pytest.raises(CapacityError, match=rf"rows 0\.\.9, but row {row}"):
        spool.scatter(np.array([3, row]), {"gpu": np.array([1, 1])})


def test_a_missing_or_cut_part_is_an_error_and_not_a_table_of_nulls(tmp_path):
    spools = make_spools(tmp_path, 2, 10)
    spools[1].scatter(np.arange(10), {"gpu": np.arange(10)})
    part = tmp_path / "t.part1"
    os.truncate(part, part.stat().st_size - 8)
    with pytest.raises(SimError, match="cut short"):
        read_all(spools[0])
    part.unlink()
    with pytest.raises(SimError, match="rows of rank 1"):
        read_all(spools[0])


def test_memory_does_not_grow_with_the_number_of_rows(tmp_path):
    code = f"""
import resource
from pathlib import Path
import numpy as np
from pdes.results.spool import RowSpool
def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
spool = RowSpool(Path({str(tmp_path)!r}), "t", 4_000_000, {COLUMNS!r})
before = peak_bytes()
for start in range(0, 4_000_000, 50_000):
    spool.scatter(np.arange(start, start + 50_000), {{c: np.ones(50_000, np.int64) for c in {COLUMNS!r}}})
assert sum(int(group["gpu"].sum()) for group in spool.read_groups()) == 4_000_000
print(peak_bytes() - before)
"""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], check=True, env=env, capture_output=True, text=True)
    assert int(done.stdout) < 120_000_000 < 8 * len(COLUMNS) * 4_000_000


def test_a_disk_without_room_is_refused_before_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10**6))
    with pytest.raises(SimError, match=r"table t needs 112 MB in .*, where 1 MB are free"):
        RowSpool(tmp_path, "t", 2_000_000, COLUMNS)
    RowSpool(tmp_path, "t", 1000, COLUMNS, ranks=(0, 2)).close()


@pytest.mark.parametrize(("n_rank", "memory_rows"), [(1, 10**9), (1, 0), (3, 0)])
def test_a_table_that_turns_out_short_is_as_if_it_had_been_short_from_the_start(
    tmp_path, monkeypatch, n_rank, memory_rows
):
    """10**8 rows are 5.6 GB, and nowhere is room for them."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10**6))
    n_row, written = 10**8, {"gpu": np.arange(40) * 3}
    spools = [
        RowSpool(tmp_path, "t", n_row, COLUMNS, ranks=(rank, n_rank), memory_rows=memory_rows, least_rows=30)
        for rank in range(n_rank)
    ]
    for rank, spool in enumerate(spools):
        spool.scatter(np.arange(rank, 40, n_rank), {"gpu": written["gpu"][rank::n_rank]})
        spool.truncate(50)
    assert read_all(spools[0])["gpu"].tolist() == written["gpu"].tolist() + [-1] * 10
    if not memory_rows:
        assert (tmp_path / "t.rows").stat().st_size == 50 * 8 * len(COLUMNS)
    with pytest.raises(CapacityError, match=r"rows 0\.\.49, but row 50"):
        spools[0].scatter(np.array([50]), {"gpu": np.array([1])})
    for spool in spools:
        spool.close()
    with pytest.raises(SimError, match="table t needs 56 MB"):
        RowSpool(tmp_path, "t", n_row, COLUMNS, memory_rows=0, least_rows=10**6)
