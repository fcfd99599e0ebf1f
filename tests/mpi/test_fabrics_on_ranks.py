"""The fabrics of examples/fabrics: the same bytes on any number of ranks, and every packet crosses its whole path."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from pdes.config import load_config
from pdes.scenario import build_scenario

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/fabrics"
FILES = ("result.json", "flows.parquet", "tasks.parquet", "ports.parquet")


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_a_fabric_carries_what_it_is_given(
    path: Path, tmp_path: Path, simulate: Callable, rank_counts: Callable
) -> None:
    small = ["workload.model.layers=1"] if path.stem == "two-kinds" else []
    for n in (counts := rank_counts(1, 2)):
        simulate(n, path, tmp_path / str(n), *small)
    assert [
        f for f in FILES if (tmp_path / "1" / f).read_bytes() != (tmp_path / str(counts[-1]) / f).read_bytes()
    ] == []
    run = json.loads((tmp_path / str(counts[-1]) / "run.json").read_text())
    assert len(set(run["rank_of_lp"])) == counts[-1] == 2
    s = build_scenario(load_config(path, small))
    flows, ports = (pq.read_table(tmp_path / "1" / f"{name}.parquet") for name in ("flows", "ports"))
    assert flows["finish_ps"].null_count == 0 and flows.num_rows == s.plan.n_flow
    result, n = json.loads((tmp_path / "1" / "result.json").read_text()), s.config.network
    size_bytes, hops = (np.array(flows[name].to_pylist()) for name in ("size_bytes", "hops"))
    on_the_way = (size_bytes * hops).sum() + (n.header_bytes + n.ack_bytes) * result["packet_hops"] // 2
    assert sum(ports["tx_bytes"].to_pylist()) == on_the_way
    if s.plan.n_part == 1:
        assert result["packet_hops"] == 2 * (-(-size_bytes // n.payload_bytes) * hops).sum()
    assert sum(ports["drops"].to_pylist()) == 0
