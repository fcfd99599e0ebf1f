"""Where compiled code is kept, and records whose fields have names."""

import numpy as np

from pdes.engine import jit


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
