"""Claims about the window engine: the same bytes as the usual one's, on a CPU, under the CUDA simulator, together."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pdes
from models.network.windows import make, room
from models.network.windows.engine import CpuEngine
from pdes.cli import main
from pdes.simulation.devices.run import simulate_together

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from tiny_runs import FILES, differing, tiny_config  # noqa: E402

DCTCP = ("dctcp",)  # compiled once: the others run below, as plain Python


@given(number=st.integers(0, 10**6))
def test_windows_leave_the_same_bytes(number: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("tiny")
    assert differing(tiny_config(number, folder, DCTCP), folder, "cpu-windows") == []


def test_bytes_are_the_same_where_room_runs_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Links and nodes begin with one place each, and have to grow in the middle of windows."""
    monkeypatch.setattr(make, "FIRST_PLACES", 1)
    monkeypatch.setattr(make, "_first_places", lambda networks: np.ones(sum(n.topology.n_port for n in networks), int))
    n_relieved, relieve = [0], room.relieve

    def counted(w: Any) -> Any:
        n_relieved[0] += 1
        return relieve(w)

    monkeypatch.setattr("models.network.windows.engine.relieve", counted)
    for number in range(3):
        assert differing(tiny_config(number, tmp_path, DCTCP), tmp_path, "cpu-windows") == []
    print("N", n_relieved)
    assert n_relieved[0] > 13  # three times in the beginning


def test_records_are_aligned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a record that may lie anywhere a GPU loads every number byte by byte."""
    seen: list[Any] = []

    def run(self: Any, w: Any, tick: Any = None) -> Any:  # noqa: ARG001
        seen.append(w)
        raise KeyboardInterrupt

    monkeypatch.setattr(CpuEngine, "run", run)
    for number in range(5):  # one of each control
        with pytest.raises(KeyboardInterrupt):
            pdes.simulate(tiny_config(number, tmp_path), tmp_path / "out", device="cpu-windows")
    for w in seen:
        tables = {name: table for name, table in w._asdict().items() if table.dtype.names is not None}
        assert len(tables) > 10 and all(table.dtype.isalignedstruct for table in tables.values())


def test_experiments_in_one_loop_are_as_they_are_alone(tmp_path: Path) -> None:
    """Other topologies, seeds and flows: nothing of one reaches another."""
    configs = [tiny_config(number, tmp_path, DCTCP) for number in range(8)]
    folders = [tmp_path / str(i) for i in range(8)]
    simulate_together(configs, folders, "cpu-windows")
    for i, config in enumerate(configs):
        alone = pdes.simulate(config, tmp_path / "alone").directory
        assert [name for name in FILES if (alone / name).read_bytes() != (folders[i] / name).read_bytes()] == []


def test_many_on_a_device_are_in_the_order_that_they_were_given_and_as_alone(tmp_path: Path) -> None:
    configs = [tiny_config(number, tmp_path, DCTCP) for number in range(3)]
    for config, found in zip(configs, pdes.simulate_many(configs, "cpu-windows"), strict=True):
        alone = pdes.simulate(config, tmp_path / "alone")
        assert found.summary == alone.summary and found.flows.equals(alone.flows) and found.tables == alone.tables


@pytest.mark.slow
def test_threads_leave_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdes.simulation.devices.run.make_engine", lambda device: CpuEngine(n_thread=0))
    for number in range(20, 26):
        assert differing(tiny_config(number, tmp_path, DCTCP), tmp_path, "cpu-windows") == []


def test_experiments_with_two_controls_are_refused(tmp_path: Path) -> None:
    configs = [tiny_config(0, tmp_path, (law,)) for law in ("none", "fixed-window")]
    with pytest.raises(pdes.ConfigError, match="fixed-window, none together"):
        simulate_together(configs, [tmp_path / "a", tmp_path / "b"], "cpu-windows")


@pytest.mark.long
@pytest.mark.skipif(find_spec("numba.cuda") is None, reason="this Numba has no CUDA target: the extra cuda has one")
def test_every_control_leaves_the_same_bytes_under_the_simulator() -> None:
    simulated = {"NUMBA_ENABLE_CUDASIM": "1", "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, str(HERE / "tiny_runs.py"), "cuda", "20", "25", "20000"]
    done = subprocess.run(command, env=os.environ | simulated, capture_output=True, text=True, check=True)
    words = done.stdout.split()
    assert words[:3] == ["5", "configs", "compared,"] and int(words[3]) > 0, done.stdout


BUFFER = {"network": {"congestion_control": "dctcp", "buffer": {"size": "1MB"}}}
COLLECTIVE = {"name": "ring", "operation": "all-reduce", "size": "40kB"}
REFUSED = [
    ({"simulation": {"stop_time": "1ms"}}, "stop_time"),
    ({"network": {"congestion_control": "swift"}}, 'congestion_control = "swift"'),
    ({"network": {"buffer": {"size": "1MB"}}}, r"\[network.pfc\]|\[network.buffer\]"),
    ({"workload": {"kind": "collectives", "collective": [COLLECTIVE]}}, "independent flows"),
    ({"output": {"sample_interval": "1us"}}, "sample_interval"),
]


@pytest.mark.parametrize(("tables", "text"), REFUSED)
def test_what_it_does_not_simulate_is_refused_before_it_runs(tables: dict[str, Any], text: str, tmp_path: Path) -> None:
    flows = tmp_path / "flows.csv"
    flows.write_text("src,dst,size_bytes,start_ps\n0,1,1000,0\n")
    given_tables: dict[str, Any] = {
        "topology": {"kind": "leaf-spine", "leaves": 1, "spines": 1, "hosts_per_leaf": 2},
        "workload": {"kind": "flows", "file": str(flows)},
    }
    config = pdes.make_config(given_tables | tables)
    with pytest.raises(pdes.ConfigError, match=text):
        pdes.simulate(config, tmp_path / "out", device="cpu-windows")
    assert not (tmp_path / "out").exists()


def test_without_a_gpu_the_command_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "c.toml"
    (tmp_path / "flows.csv").write_text("src,dst,size_bytes,start_ps\n0,1,1000,0\n")
    config.write_text(
        '[topology]\nkind = "leaf-spine"\nleaves = 1\nspines = 1\nhosts_per_leaf = 2\n'
        '[workload]\nkind = "flows"\nfile = "flows.csv"\n'
    )
    if main([str(config), "--device", "cuda", "--out", str(tmp_path / "out")]) != 0:
        error = capsys.readouterr().err
        assert error.startswith("pdes-sim: error: --device cuda: Numba") and error.count("\n") == 1, error
