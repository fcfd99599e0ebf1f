"""Traces have the same results on any number of ranks, compiled or not."""

from collections.abc import Callable
from pathlib import Path

import pytest

from reference import made_traces as made

FILES = ("result.json", "flows.parquet", "tasks.parquet", "ports.parquet")
CONFIG = """\
[topology]
kind = "leaf-spine"
leaves = 2
spines = 2
hosts_per_leaf = 4
[workload]
kind = "trace"
"""
TRACES = {
    "chakra": 'format = "chakra"\nfile = "llama"\ncommunicators = "llama.json"\n',
    "goal": 'format = "goal"\nfile = "ring.goal"\n',
    "simai": 'format = "simai"\nfile = "layers.txt"\n',
    "htsim": 'format = "htsim"\nfile = "serial.cm"\n',
}


@pytest.mark.parametrize("name", TRACES)
def test_the_same_bytes_on_any_number_of_ranks(
    name: str, tmp_path: Path, simulate: Callable, rank_counts: Callable
) -> None:
    made.hybrid_llama(tmp_path)
    for file, text in (("ring.goal", made.GOAL_RING), ("layers.txt", made.SIMAI), ("serial.cm", made.HTSIM_SERIAL)):
        (tmp_path / file).write_text(text)
    config = tmp_path / "config.toml"
    config.write_text(CONFIG + TRACES[name])
    simulate(1, config, tmp_path / "1")
    for n_rank, environment in rank_counts((2, {}), (3, {}), (1, {"NUMBA_DISABLE_JIT": "1"})):
        out = tmp_path / f"{n_rank}{len(environment)}"
        simulate(n_rank, config, out, "partition.placement=round-robin", **environment)
        assert [f for f in FILES if (tmp_path / "1" / f).read_bytes() != (out / f).read_bytes()] == []


def test_a_stuck_trace_ends_all_ranks_with_one_message(tmp_path: Path, start: Callable) -> None:
    made.write_stuck(tmp_path)
    config = tmp_path / "config.toml"
    config.write_text(CONFIG + 'format = "chakra"\nfile = "stuck"\ncommunicators = "groups.json"\n')
    for n_rank in (1, 2):
        done = start(n_rank, "-m", "pdes", config, "--out", tmp_path / "out", "--quiet")
        assert done.returncode != 0 and done.stderr.count("the run cannot go on") == 1
        assert "a circle: host0 waits for host1 waits for host0" in done.stderr
