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


SMALLER = {"two-kinds": ["workload.model.layers=1"]}
CASES = [(path.stem, SMALLER.get(path.stem, [])) for path in sorted(EXAMPLES.glob("*.toml"))]
DETOURS = [("dragonfly", [f"topology.routing={rule}"]) for rule in ("valiant", "ugal")]


@pytest.mark.parametrize(("name", "small"), [*CASES, *DETOURS])
def test_a_fabric_carries_what_it_is_given(
    name: str, small: list[str], tmp_path: Path, simulate: Callable, rank_counts: Callable
) -> None:
    path = EXAMPLES / f"{name}.toml"
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
    data_hops = result["packet_hops"] // 2
    if s.plan.n_part == 1:
        data_hops = (-(-size_bytes // n.payload_bytes) * hops).sum()
        is_detour = (name, small) in DETOURS  # where acknowledgements may take more hops, or fewer
        assert result["packet_hops"] == (s.port_hops.sum() if is_detour else 2 * data_hops)
    on_the_way = (size_bytes * hops).sum() + n.header_bytes * data_hops
    on_the_way += n.ack_bytes * (result["packet_hops"] - data_hops)
    assert sum(ports["tx_bytes"].to_pylist()) == on_the_way
    assert sum(ports["drops"].to_pylist()) == 0
