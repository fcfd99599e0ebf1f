"""What `import pdes` gives, and that it costs nothing until it is used."""

import subprocess
import sys

import pytest

import pdes


def test_every_public_name_is_there_and_documented():
    for name in pdes.__all__:
        assert getattr(pdes, name).__doc__, name


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'flow_rate'"):
        _ = pdes.flow_rate


def test_importing_pdes_loads_no_numba_and_no_pydantic():
    code = "import sys, pdes; sys.exit(any(m in sys.modules for m in ('numba', 'pydantic', 'pyarrow', 'mpi4py')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_there_are_at_most_fifteen_names():
    assert len(pdes.__all__) <= 15


def test_a_config_can_be_simulated_from_python(tmp_path):
    (tmp_path / "c.toml").write_text(
        '[topology]\nkind = "leaf-spine"\nleaves = 1\nspines = 1\nhosts_per_leaf = 4\n'
        '[workload]\nkind = "collectives"\n'
        '[[workload.collective]]\nname = "ar"\noperation = "all-reduce"\nsize = "40kB"\n'
    )
    pdes.simulate(pdes.load_config(tmp_path / "c.toml", [f"output.dir='{tmp_path / 'out'}'"]))
    assert sorted(p.name for p in (tmp_path / "out").iterdir() if p.is_file()) == [
        "flows.parquet", "ports.parquet", "result.json", "run.json", "tasks.parquet",
    ]  # fmt: skip
