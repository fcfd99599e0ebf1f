"""What a run is expected to take, what there is, and that a run which does not fit is refused before it starts."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pdes import cli
from pdes.config import load_config
from pdes.errors import ConfigError
from pdes.scenario import build_scenario
from pdes.simulation.memory import (
    NO_LIMIT_BYTES,
    PROCESS_BYTES,
    check_memory,
    expected_bytes,
    free_bytes,
    limit_bytes,
    shared_bytes,
    within_memory,
)

CONFIG = """\
[topology]
kind = "fat-tree"
k = 4
[workload]
kind = "collectives"
[[workload.collective]]
name = "one"
operation = "all-to-all"
size = "{size}"
"""
MEMINFO = {"/proc/meminfo": "MemTotal: 100 kB\nMemAvailable:   5000000 kB\n"}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "config.toml").write_text(CONFIG.format(size="1MB"))
    return tmp_path / "config.toml"


def group(version: int, place: str, limit: str, used: int, cached: int) -> dict[str, str]:
    """Files of a control group."""
    if version == 2:
        root = f"/sys/fs/cgroup{place}"
        return {
            "/proc/self/cgroup": f"0::{place}\n", f"{root}/memory.max": f"{limit}\n",
            f"{root}/memory.current": f"{used}\n", f"{root}/memory.stat": f"anon 5\ninactive_file {cached}\n",
        }  # fmt: skip
    root = f"/sys/fs/cgroup/memory{place}"
    return {
        "/proc/self/cgroup": f"5:cpu:/x\n4:memory:{place}\n0::/\n", f"{root}/memory.limit_in_bytes": f"{limit}\n",
        f"{root}/memory.usage_in_bytes": f"{used}\n", f"{root}/memory.stat": f"total_inactive_file {cached}\n",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (MEMINFO, 5_000_000 * 1024),
        ({}, NO_LIMIT_BYTES),
        (MEMINFO | group(2, "/slurm/job1", "4000000000", 1_000_000_000, 500), 3_000_000_500),
        (MEMINFO | group(2, "/slurm/job1", "max", 1_000_000_000, 500), 5_000_000 * 1024),
        (MEMINFO | group(1, "/slurm/job1", "4000000000", 1_000_000_000, 7), 3_000_000_007),
        (MEMINFO | group(2, "/x", "1000", 5000, 0), 0),
    ],
)
def test_what_is_free_is_the_least_of_machine_and_groups(files: dict[str, str], expected: int) -> None:
    assert free_bytes(files) == expected


def test_a_group_further_up_counts_too() -> None:
    files = MEMINFO | group(2, "/a/b", "max", 1, 0)
    files |= {"/sys/fs/cgroup/a/memory.max": "2000000000", "/sys/fs/cgroup/a/memory.current": "500000000"}
    assert free_bytes(files) == 1_500_000_000


def test_larger_messages_more_hosts_and_fewer_ranks_take_more(config: Path) -> None:
    scenarios = {
        sets: build_scenario(load_config(config, list(sets)))
        for sets in ((), ("topology.k=8",), ("workload.collective.0.size=1GB",))
    }
    alone = expected_bytes(scenarios[()])
    assert all(expected_bytes(scenario) > alone for sets, scenario in scenarios.items() if sets)
    assert PROCESS_BYTES < expected_bytes(scenarios[()], 4) < alone


def test_the_limit_is_that_of_all_ranks_here(config: Path) -> None:
    scenario = build_scenario(load_config(config, ["run.memory_limit=900MB"]))
    check_memory(scenario, 4, 2)  # two machines with two ranks each
    with pytest.raises(ConfigError, match=r"expected to take 8 ranks with 2\d\d MB each, and there is room for 900 MB"):
        check_memory(scenario, 8, 8)


def test_what_ranks_of_a_machine_share_counts_once(config: Path) -> None:
    scenario = build_scenario(load_config(config, ["topology.k=8", "run.memory_limit=1GB"]))
    s = scenario
    arrays = (s.topology.port_src, s.topology.port_dst, s.paths.port, s.paths.start, s.plan.pair_src, s.plan.pair_dst)
    shared = shared_bytes(scenario)
    assert sum(a.nbytes for a in arrays) < shared < expected_bytes(scenario, 4) - PROCESS_BYTES
    together = 4 * expected_bytes(scenario, 4) - 3 * shared - PROCESS_BYTES
    fits = replace(s, config=load_config(config, ["topology.k=8", f"run.memory_limit={together}B"]))
    check_memory(fits, 4, 4)
    short = replace(s, config=load_config(config, ["topology.k=8", f"run.memory_limit={together - 1}B"]))
    with pytest.raises(ConfigError, match="4 ranks with"):
        check_memory(short, 4, 4)


def test_a_run_that_does_not_fit_is_refused(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = [str(config), "--out", str(tmp_path / "out"), "--quiet", "--set", "topology.k=8"]
    argv += ["--set", "run.memory_limit=1MB"]
    assert cli.main(argv) == 2
    said = capsys.readouterr().err
    assert said.count("pdes-sim: error") == 1 and "[run] memory_limit" in said and str(config) in said
    assert 'or [run] memory_limit = "off"' in said and not (tmp_path / "out").exists()
    assert cli.main(["plan", str(config), "--set", "run.memory_limit=1MB"]) in (0, 2)


def test_building_what_does_not_fit_is_refused_and_not_killed(config: Path) -> None:
    limited = load_config(config, ["run.memory_limit=100MB"])
    with (
        pytest.raises(ConfigError, match="building this topology and workload takes more"),
        within_memory(limited),
    ):
        np.ones(10**9)
    np.ones(3 * 10**7)  # 240 MB: the limit is gone again


def test_off_is_no_limit(config: Path) -> None:
    unlimited = load_config(config, ["run.memory_limit=off"])
    assert limit_bytes(unlimited) is None
    with within_memory(unlimited):
        np.ones(3 * 10**7)


@pytest.mark.parametrize("text", ["run.memory_limit=0GB", "run.memory_limit=5", "run.stall_limit=0s", "run.stal=1s"])
def test_bad_limits_are_refused(config: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"--set run\.(memory_limit|stall_limit|stal): "):
        load_config(config, [text])


def test_limits_are_no_part_of_what_determines_a_result(config: Path) -> None:
    changed = load_config(config, ["run.memory_limit=7GB", "run.stall_limit=off"])
    assert changed.resolved() == load_config(config).resolved()
