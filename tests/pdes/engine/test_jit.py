"""Where compiled code is kept, and records whose fields have names."""

import mmap
from pathlib import Path

import numpy as np
import pytest

from pdes.engine import jit

PAGEMAP = Path("/proc/self/pagemap")
IS_PRESENT = np.uint64(1) << np.uint64(63)


def test_the_cache_is_where_the_user_says(tmp_path, monkeypatch):
    monkeypatch.setenv("PDES_CACHE_DIR", str(tmp_path))
    folder = jit.cache_folder()
    assert folder == tmp_path / "pdes-sim" / jit.source_digest()
    assert folder.is_dir()


def test_the_cache_moves_when_the_users_folder_cannot_be_made(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("PDES_CACHE_DIR", str(blocked))
    monkeypatch.setattr(jit.tempfile, "gettempdir", lambda: str(tmp_path))
    assert jit.cache_folder().is_relative_to(tmp_path)


def test_rows_of_a_record_have_named_fields():
    rows = np.zeros(2, jit.record([("time_ps", np.int64), ("port", np.int32)]))
    rows[1].time_ps = 5
    assert rows["time_ps"].tolist() == [0, 5]


def resident_pages(array: np.ndarray) -> int:
    """Pages of an array that are in memory."""
    first = array.ctypes.data // mmap.PAGESIZE
    n_page = (array.ctypes.data + array.nbytes - 1) // mmap.PAGESIZE + 1 - first
    with PAGEMAP.open("rb", buffering=0) as file:
        file.seek(8 * first)
        return int(np.count_nonzero(np.frombuffer(file.read(8 * n_page), np.uint64) & IS_PRESENT))


@pytest.mark.skipif(not PAGEMAP.exists(), reason="only Linux says which pages are in memory")
def test_only_pages_that_are_written_take_memory():
    n_row, row = 2**17, jit.record([("time_ps", np.int64), ("count", np.int64, 23)])
    rows = jit.zeros_for(3 * 40, n_row, row)
    assert rows.ctypes.data % jit.CACHE_LINE_BYTES == 0 and len(rows) == n_row and rows.dtype == row
    assert resident_pages(rows) == 0
    for first in (0, 50_000, n_row - 40):
        rows["count"][first : first + 40] = 1
    written = np.concatenate([np.arange(first, first + 40) for first in (0, 50_000, n_row - 40)])
    touched = np.unique(np.stack([written * row.itemsize + 8, (written + 1) * row.itemsize - 1]) // mmap.PAGESIZE)
    assert resident_pages(rows) == len(touched) < n_row * row.itemsize // mmap.PAGESIZE // 100
    assert rows["count"].sum() == 3 * 40 * 23 and not rows["time_ps"].any()


def test_a_table_that_is_written_whole_lies_as_any_other():
    rows = jit.zeros_for(100, 100, np.int64)
    assert rows.ctypes.data % jit.CACHE_LINE_BYTES == 0 and rows.shape == (100,) and not rows.any()
    assert jit.zeros_for(0, 0, np.int64).shape == (0,)
