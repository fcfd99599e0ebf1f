"""Claims about `import pdes`: configs from values, results as tables, a sweep by a loop, and nothing printed."""

import json
from pathlib import Path
from typing import Any

import pytest

import pdes

STAR = {"kind": "leaf-spine", "leaves": 1, "spines": 1, "hosts_per_leaf": 4}
RING = {"name": "ring", "operation": "all-reduce", "size": "40kB"}
TABLES: dict[str, Any] = {"topology": STAR, "workload": {"kind": "collectives", "collective": [RING]}}


def test_a_config_of_values_is_that_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(
        '[topology]\nkind = "leaf-spine"\nleaves = 1\nspines = 1\nhosts_per_leaf = 4\n'
        '[workload]\nkind = "collectives"\n'
        '[[workload.collective]]\nname = "ring"\noperation = "all-reduce"\nsize = "40kB"\n'
    )
    configs = pdes.make_config(TABLES), pdes.make_config(**TABLES), pdes.load_config(tmp_path / "c.toml")
    assert len({json.dumps(config.model_dump(mode="json")) for config in configs}) == 1


def test_keywords_come_on_top_and_leave_what_was_given_as_it_was() -> None:
    config = pdes.make_config(TABLES, topology={"hosts_per_leaf": 8}, network={"window": "none"})
    assert (config.topology.n_host, config.network.window) == (8, "none")
    assert STAR["hosts_per_leaf"] == 4


def test_a_mistake_is_an_exception_that_says_what_is_accepted() -> None:
    with pytest.raises(pdes.ConfigError, match=r"\[topology\] hosts_per_leaf: found 0. Accepted: at least 1"):
        pdes.make_config(TABLES, topology={"hosts_per_leaf": 0})


def test_a_sweep_by_a_loop_gives_tables_and_prints_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A ring all-reduce of n hosts moves 2 (n - 1) messages per host, each a share of 1 / n."""
    capfd.readouterr()
    for n_host in (2, 4):
        config = pdes.make_config(TABLES, topology={"hosts_per_leaf": n_host})
        result = pdes.simulate(config, tmp_path / str(n_host))
        assert result.flows.num_rows == n_host * 2 * (n_host - 1)
        assert set(result.flows.column("size_bytes").to_pylist()) == {40_000 // n_host}
        assert result.summary["flows"] == result.flows.num_rows and result.run["ranks"] == 1
        assert result.simulated_seconds == result.summary["simulated_time_ps"] / 1e12 > 0
        assert result.tables == ["flows", "ports", "tasks"] and "flows, ports, tasks" in repr(result)
        assert result.ports.column_names[0] == "port_id" and result.tasks.num_rows > 0
    assert capfd.readouterr() == ("", "")


def test_a_dict_and_a_file_can_be_simulated_at_once(tmp_path: Path) -> None:
    first = pdes.simulate(TABLES, tmp_path / "dict")
    (tmp_path / "c.toml").write_text("\n".join(f"{table} = {_inline(value)}" for table, value in TABLES.items()) + "\n")
    second = pdes.simulate(tmp_path / "c.toml", tmp_path / "file")
    assert first.flows.equals(second.flows) and second.directory == tmp_path / "file"


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_inline(inner)}" for key, inner in value.items()) + " }"
    return f"[{', '.join(map(_inline, value))}]" if isinstance(value, list) else json.dumps(value)


def test_tables_become_data_frames(tmp_path: Path) -> None:
    flows = pdes.simulate(TABLES, tmp_path / "out").flows
    pandas = pytest.importorskip("pandas")
    frame = flows.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and (frame["fct_ps"] >= frame["ideal_fct_ps"]).all()


def test_an_older_result_is_read_and_a_folder_without_one_is_refused(tmp_path: Path) -> None:
    pdes.simulate(TABLES, tmp_path / "out")
    assert pdes.Result(tmp_path / "out").flows.num_rows == 24
    with pytest.raises(pdes.ConfigError, match="has no table samples_ports. Accepted: flows, ports, tasks"):
        pdes.Result(tmp_path / "out").table("samples_ports")
    with pytest.raises(pdes.ConfigError, match="has no result.json"):
        pdes.Result(tmp_path / "nothing")
