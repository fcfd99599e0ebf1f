"""Claims about an audit of flow mode: what is drawn goes as packets go, what is said of it is what flow mode says, and
nothing of the rest is lost."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pdes
from pdes.errors import ConfigError
from pdes.results.fast_forward import how_sure_text
from reference.checkpointed import different
from reference.flow_runs import LEAF_SPINE, Flow, Ran, config

STAR = {"kind": "leaf-spine", "leaves": 1, "spines": 1, "hosts_per_leaf": 8}
US, MS = 10**6, 10**9


def run(folder: Path, flows: list[Flow], mode: str, audit: float | None = None, **more: Any) -> Ran:
    """more: topology, control, queue_pairs, seed; tables."""
    topology, network = more.pop("topology", LEAF_SPINE), {"congestion_control": more.pop("control", "dctcp")}
    pairs, seed = more.pop("queue_pairs", "per-flow"), more.pop("seed", 1)
    made = config(folder, flows, topology, mode, network=network | more.pop("network", {}), **more)
    made["wormhole"] = {"mode": mode} | ({} if audit is None else {"audit": audit})
    made["workload"]["queue_pairs"], made["simulation"] = pairs, {"seed": seed}
    made["output"]["dir"] = str(folder / f"{mode}-{audit}")
    pdes.simulate(made)
    return Ran(Path(made["output"]["dir"]))


def found_by(ran: Ran) -> dict[str, Any]:
    return ran.result["fast_forward"]["audit"]["flow_mode"]


def random_flows(n: int, most_bytes: int, span_ps: int) -> list[Flow]:
    draws = np.random.default_rng(1)
    src, off = draws.integers(0, 8, n), draws.integers(1, 8, n)
    rows = src, (src + off) % 8, draws.integers(1, most_bytes, n), draws.integers(0, span_ps, n)
    return list(zip(*(row.tolist() for row in rows), strict=True))


def incasts(n: int) -> list[Flow]:
    """Of four, one after the other."""
    return [(src, 0, 100_000, 100 * k * US) for k in range(n) for src in (1, 2, 3, 5)]


@pytest.mark.parametrize(
    ("control", "queue_pairs"), [("dctcp", "per-flow"), ("hpcc", "per-pair"), ("dcqcn", "per-flow")]
)
def test_an_audit_of_everything_is_all_packets_and_says_what_flow_mode_is_off_by(
    control: str, queue_pairs: str, tmp_path: Path
) -> None:
    flows, more = random_flows(200, 200_000, MS), {"control": control, "queue_pairs": queue_pairs}
    packets, rates = run(tmp_path, flows, "off", **more), run(tmp_path, flows, "flow", **more)
    audited = run(tmp_path, flows, "flow", 1.0, **more)
    assert np.array_equal(audited.flows["fct_ps"], packets.flows["fct_ps"])
    assert np.array_equal(audited.ports["tx_bytes"], packets.ports["tx_bytes"])
    assert audited.result["packet_hops"] == packets.result["packet_hops"]
    off, found = rates.flows["fct_ps"] / packets.flows["fct_ps"] - 1, found_by(audited)
    assert found["audited"] == found["flows"] == len(flows) and found["void"] == 0
    assert found["mean_fct_error"] == pytest.approx(np.abs(off).mean(), rel=1e-9)
    assert found["max_fct_error"] == pytest.approx(np.abs(off).max(), rel=1e-9)
    assert found["p99_fct_error"] == pytest.approx(np.sort(np.abs(off))[-len(off) // 100 - 1], rel=1e-9)
    assert found["fct_bias"] == pytest.approx(off.mean(), rel=1e-9)


def test_a_share_of_the_time_says_the_same_of_what_repeats(tmp_path: Path) -> None:
    """Every incast is as far off as any other, so those that are drawn say it of all."""
    flows = incasts(40)
    all_of_it, some = found_by(run(tmp_path, flows, "flow", 1.0)), run(tmp_path, flows, "flow", 0.3)
    found = found_by(some)
    assert 0 < found["flows"] <= found["audited"] < 0.7 * len(flows)
    assert found["mean_fct_error"] > 0.02
    assert found["mean_fct_error"] == pytest.approx(all_of_it["mean_fct_error"], rel=0.02)
    assert 0 < some.result["packet_hops"] < 0.7 * (some.result["packet_hops"] + some.result["skipped_packet_hops"])
    assert "audit, mean error: flow mode" in how_sure_text(some.result)


def test_what_is_not_drawn_ends_as_in_flow_mode(tmp_path: Path) -> None:
    flows = incasts(40)
    rates, some = (run(tmp_path, flows, "flow", audit).flows["fct_ps"] for audit in (None, 0.3))
    packets = run(tmp_path, flows, "off").flows["fct_ps"]
    is_rate, is_packet = some == rates, some == packets
    assert is_rate.sum() > 0.3 * len(flows) and is_packet.sum() > 0
    assert (is_rate | is_packet).sum() > 0.8 * len(flows)


def test_no_audit_changes_no_byte(tmp_path: Path) -> None:
    flows = random_flows(50, 100_000, MS)
    run(tmp_path, flows, "flow")
    run(tmp_path, flows, "flow", 0.0)
    assert different(tmp_path / "flow-None", tmp_path / "flow-0.0") == []


MESSAGES = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 7), st.integers(1, 100_000), st.integers(0, 3 * 10**8))
    .filter(lambda flow: flow[0] != flow[1]),
    min_size=1, max_size=60,
)  # fmt: skip


@settings(max_examples=20)
@given(
    flows=MESSAGES, control=st.sampled_from(["dctcp", "dcqcn", "hpcc", "swift"]), seed=st.integers(1, 9),
    queue_pairs=st.sampled_from(["per-flow", "per-pair"]), share=st.sampled_from([0.2, 0.5, 0.8]),
)  # fmt: skip
def test_every_message_ends_and_no_byte_is_lost(
    flows: list[Flow], control: str, seed: int, queue_pairs: str, share: float,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    """Whatever is drawn."""
    folder, more = tmp_path_factory.mktemp("audit"), {"control": control, "queue_pairs": queue_pairs, "seed": seed}
    audited, packets = run(folder, flows, "flow", share, **more), run(folder, flows, "off", **more)
    assert audited.result["flows_finished"] == len(flows)
    assert np.array_equal(audited.ports["tx_bytes"], packets.ports["tx_bytes"])
    assert (audited.flows["fct_ps"] >= audited.flows["ideal_fct_ps"]).all()
    found, counts = found_by(audited), audited.result["fast_forward"]["flow_mode"]
    assert found["flows"] + found["void"] == found["audited"] == counts["as_packets"]
    assert counts["as_packets"] + counts["messages"] == len(flows)


def test_many_messages_need_more_room_than_there_is_at_first(tmp_path: Path) -> None:
    """Of one queue pair, which all wait in one line."""
    flows = [(0, 1, 1000, 0)] * 3000
    more = {"queue_pairs": "per-pair", "control": "hpcc"}
    audited, packets = run(tmp_path, flows, "flow", 1.0, **more), run(tmp_path, flows, "off", **more)
    assert np.array_equal(audited.flows["fct_ps"], packets.flows["fct_ps"])
    assert found_by(audited)["flows"] == 3000


@pytest.mark.parametrize(
    ("network", "why"),
    [
        ({"routing": {"policy": "spray"}, "transport": {"recovery": "selective-repeat"}}, "packets may be lost"),
        ({"buffer": {"size": "1MB"}}, "packets may be lost, or wait for others' buffers"),
        ({"congestion_control": "hpcc-pint"}, "switches draw"),
    ],
)
def test_where_packets_cannot_be_beside_rates_it_is_refused(network: dict, why: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"audit.*no packets can be simulated beside flow mode: {why}"):
        run(tmp_path, [(0, 1, 1000, 0)], "flow", 0.5, topology=STAR, network=network)
