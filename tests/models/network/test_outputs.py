"""Rounds that end by what may leave a logical process first: the same rows in fewer rounds, on one rank and cut anyhow.

On one rank logical processes exchange nothing at a round's end, so it is looked there at every link between two of
them: whatever was sent on it in the round is still on it, as it arrives behind the round's end.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.network.model import LogicalProcesses, NetworkModel
from models.network.outputs import MOST_PS
from pdes.config import config_from_dict
from pdes.engine.exchange import World
from pdes.engine.round import HORIZON, N_ROUND, make_loop, run_rounds
from pdes.scenario import Scenario, build_scenario

Rows = tuple[list[Any], ...]
MODEL = {"layers": 8, "hidden": 512, "vocabulary": 4096, "sequence": 256}


def scenario(dp: int, pp: int, servers: int, workload: dict[str, Any] | None = None, **network: Any) -> Scenario:
    """TP8, so that rings and pipelines are rails' alone; a rail switch for so many servers."""
    topology = {"kind": "roft", "gpus": 8 * dp * pp, "servers_per_rail_switch": servers}
    work = {"kind": "training", "model": MODEL, "parallel": {"tp": 8, "dp": dp, "pp": pp}} | (workload or {})
    tables = {"topology": topology, "workload": work, "network": network}
    return build_scenario(config_from_dict(tables, Path("t.toml")))


def model_of(s: Scenario, rows: Rows) -> NetworkModel:
    def sink(*parts: np.ndarray) -> None:
        for found, part in zip(rows, parts, strict=True):
            found.extend(map(tuple, part.tolist()))

    return NetworkModel(
        s.topology,
        s.paths,
        s.plan,
        s.max_window_bytes,
        LogicalProcesses(s.lp_of_node, np.zeros(s.n_lp, np.int64), s.lookahead_ps),
        World(),
        s.parameters,
        sink,
    )


def run(s: Scenario, model: NetworkModel, rows: Rows) -> tuple[Rows, list[int], int]:
    """(rows in order, bytes that ports sent, rounds)."""
    loop, fabric = make_loop(s.lookahead_ps, may_run_on=True), model.state.fabric
    between = np.flatnonzero(s.lp_of_node[s.topology.port_src] != s.lp_of_node[s.topology.port_dst])
    before = fabric.ports["tx_bytes"][between]

    def look() -> None:
        nonlocal before
        ports = model.state.fabric.ports
        sent, before = ports["tx_bytes"][between] - before, ports["tx_bytes"][between]
        for port, n_byte in zip(between[sent > 0].tolist(), sent[sent > 0].tolist(), strict=True):
            assert bytes_on(model, port) >= n_byte, f"port {port} before {loop[HORIZON]}"

    run_rounds(model, loop, model.exchange, look, pause_every_s=0.0)
    model.flush()
    return tuple(sorted(found) for found in rows), fabric.ports["tx_bytes"].tolist(), int(loop[N_ROUND])


def bytes_on(model: NetworkModel, port: int) -> int:
    """On a link, between its ends."""
    packets, n_byte = model.state.fabric.packets, 0
    packet = int(model.state.fabric.ports["link_head"][port])
    while packet >= 0:
        n_byte += int(packets["size_bytes"][packet])
        packet = int(packets["next"][packet])
    return n_byte


def runs(s: Scenario) -> tuple[tuple[Rows, list[int], int], tuple[Rows, list[int], int]]:
    """Without and with known outputs."""
    plain_rows, known_rows = ([], [], [], []), ([], [], [], [])
    plain, known = model_of(s, plain_rows), model_of(s, known_rows)
    known.know_outputs(s.lp_of_node, s.lookahead_ps, s.longest_round_ps)
    return run(s, plain, plain_rows), run(s, known, known_rows)


def test_an_all_reduce_below_one_switch_takes_few_rounds() -> None:
    """Stages 0 and 1 have a rail switch, 2 and 3 another one: only what stages 1 and 2 exchange crosses spines."""
    s = scenario(dp=2, pp=4, servers=4)
    assert s.lookahead_ps == 1_500_000 and s.n_lp > 16
    plain, known = runs(s)
    assert known[:2] == plain[:2]
    assert known[2] < plain[2] / 2


def test_nobody_would_get_away_with_a_bound_that_is_too_late() -> None:
    """The same as if no queue pair crossed."""
    s, rows = scenario(dp=2, pp=4, servers=4), ([], [], [], [])
    model, none = model_of(s, rows), np.zeros(0, np.int32)
    model.know_outputs(s.lp_of_node, s.lookahead_ps, s.longest_round_ps)
    assert len(model.outputs.pairs) == 8 * 2 * 2  # rails x DP x two directions
    assert len(model.outputs.nodes) == 8 * 2 * 2
    model.outputs = model.outputs._replace(pairs=none, nodes=none)
    with pytest.raises(AssertionError, match=r"port \d+ before"):
        run(s, model, rows)


def test_no_round_is_longer_than_a_timed_collective_or_as_said() -> None:
    s = scenario(dp=2, pp=4, servers=4)
    model = model_of(s, ([], [], [], []))
    least_ps = int(s.plan.group_time_ps.min())
    model.know_outputs(s.lp_of_node, s.lookahead_ps, 2**60)
    assert model.outputs.words[MOST_PS] == least_ps - s.lookahead_ps > 0
    model.know_outputs(s.lp_of_node, s.lookahead_ps, 5_000_000)
    assert model.outputs.words[MOST_PS] == 3_500_000
    model.know_outputs(s.lp_of_node, s.lookahead_ps, 1)
    assert model.outputs.words[MOST_PS] == 0


@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from([(2, 2), (2, 4), (4, 2), (1, 4), (4, 1)]), st.sampled_from([1, 2, 3, 4, 32]),
    st.sampled_from(["dctcp", "hpcc", "dcqcn", "none"]), st.integers(1, 4),
    st.sampled_from([None, ("1f1b", 0.0), ("gpipe", 0.2), ("zero-bubble-1p", 0.1)]),
)  # fmt: skip
def test_rows_are_those_of_short_rounds(
    layout: tuple[int, int], servers: int, control: str, microbatches: int, gpu: tuple[str, float] | None
) -> None:
    work: dict[str, Any] = {"microbatches": microbatches}
    if gpu is not None:  # streams of a GPU side by side, which slow each other down, behind gates
        work |= {"schedule": gpu[0], "compute": {"gpu": "h100", "jitter": gpu[1]}, "model": MODEL | {"heads": 8}}
    s = scenario(*layout, servers, work, congestion_control=control)
    plain, known = runs(s)
    assert known[:2] == plain[:2]
    assert known[2] <= plain[2]


def test_flows_that_cross_all_the_time_have_the_rounds_that_they_had(tmp_path: Path) -> None:
    flows = [f"{i},{(i + 5) % 16},200000,0" for i in range(16)]
    (tmp_path / "flows.csv").write_text("\n".join(["src,dst,size_bytes,start_ps", *flows]) + "\n")
    tables = {"topology": {"kind": "fat-tree", "k": 4}, "workload": {"kind": "flows", "file": "flows.csv"}}
    plain, known = runs(build_scenario(config_from_dict(tables, tmp_path / "t.toml")))
    assert known[:2] == plain[:2]
    assert plain[2] - 10 <= known[2] <= plain[2]
