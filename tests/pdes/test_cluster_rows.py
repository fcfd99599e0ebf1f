"""Rows and texts that go to a file: what comes back is what was put in, whatever has gone where."""

import io
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from pdes.cli import main
from pdes.cluster import rows
from pdes.cluster.rows import Rows, Texts

CONFIG = """
[[cluster.pool]]
gpu = "H100"
servers = 2
[cluster.arrivals]
jobs = 40
per_hour = 20
gpus = { 1 = 5, 8 = 3 }
duration = { distribution = "lognormal", median = "40min", sigma = 1 }
"""


@pytest.mark.parametrize("has_file", [True, False])
@pytest.mark.parametrize("n", [0, 1, 9, 10, 57])
def test_what_is_put_in_comes_back(n: int, has_file: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "IN_MEMORY", 10)
    monkeypatch.setattr(rows, "IN_MEMORY_BYTES", 40)
    monkeypatch.setattr(rows, "CHUNK_BYTES", 64)
    folder = tmp_path if has_file else None
    table, texts = Rows(3, folder), Texts(folder)
    wanted = np.array([(i, -i, i * i) for i in range(2 * n)], np.int64).reshape(-1, 3)
    names = [f"job {i} é" * (i % 4) for i in range(2 * n)]
    begins = []
    for i in range(2 * n):
        if i == n:  # a run goes on from a checkpoint
            stream = io.BytesIO()
            table.save(stream)
            texts.save(stream)
            stream.seek(0)
            table, texts = Rows(3, folder), Texts(folder)
            table.load(stream)
            texts.load(stream)
        table.add((i, -i, i * i))
        begins.append(texts.add(names[i]))
    assert len(table) == 2 * n
    assert (table.part(slice(0, None)) == wanted).all()
    assert (table.part(np.arange(2 * n)[::-2]) == wanted[::-2]).all()
    assert (table.column(2) == wanted[:, 2]).all()
    assert texts.part(np.array(begins[::-1], np.int64)) == names[::-1]
    assert not list(tmp_path.iterdir())  # the file has no name


def test_rows_that_are_cut_are_refused(tmp_path: Path) -> None:
    table, stream = Rows(2, tmp_path), io.BytesIO()
    table.add((1, 2))
    table.save(stream)
    with pytest.raises(EOFError):
        Rows(2, tmp_path).load(io.BytesIO(stream.getvalue()[:-1]))


def test_few_rows_are_in_memory(tmp_path: Path) -> None:
    table = Rows(2, tmp_path)
    for i in range(3 * rows.IN_MEMORY):
        table.add((i, i))
        assert len(table._last) < 2 * rows.IN_MEMORY


def test_tables_are_the_same_in_small_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "config.toml"
    config.write_text(CONFIG)
    tables = []
    for n in (1 << 16, 7):
        monkeypatch.setattr("pdes.cluster.tables.GROUP", n)
        out = tmp_path / str(n)
        assert main([str(config), "--out", str(out), "--quiet"]) == 0
        tables.append([pq.read_table(out / f"{name}.parquet") for name in ("jobs", "events", "places", "usage")])
        assert pq.ParquetFile(out / "jobs.parquet").num_row_groups == -(-40 // n)
    assert tables[0] == tables[1]
    assert tables[1][0]["job_id"].to_pylist() == list(range(40))
