"""Converted lists of flows end alike on any number of ranks: all find all rates, and each has hosts of its own."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pdes.convert.flows import Links, convert
from reference.flow_cases import poisson_case, write_case

K = 4
FILES = ("result.json", "flows.parquet", "ports.parquet")


@pytest.mark.parametrize("compensation", ["none", "forwarding"])
def test_lists_of_flows_are_the_same_bytes(
    compensation: str, tmp_path: Path, simulate: Callable, rank_counts: Callable
) -> None:
    convert(write_case(tmp_path / "flows.csv", poisson_case(K, 200, 0.8, 300_000, 5)), tmp_path / "case.toml", Links(K))
    counts = rank_counts(1, 2, 3)
    for n in counts:
        simulate(n, tmp_path / "case.toml", tmp_path / str(n), f"wormhole.flow.compensation={compensation}")
    for n in counts[1:]:
        assert json.loads((tmp_path / str(n) / "run.json").read_text())["ranks"] == n
        differ = [f for f in FILES if (tmp_path / "1" / f).read_bytes() != (tmp_path / str(n) / f).read_bytes()]
        assert not differ, n
    facts = json.loads((tmp_path / "1" / "result.json").read_text())["fast_forward"]["flow_mode"]
    assert facts["messages"] == 200 and facts["instants"] > 300
