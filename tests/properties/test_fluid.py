"""What holds of every network in which messages go at flow level: no byte is made up, and ports count what they would
have sent."""

from itertools import count
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from models.network.model import NetworkModel
from models.network.skip.taken_interrupts import meets_frozen
from models.network.state.records import PACKET_HOPS
from models.network.verify.network import verify_network
from models.network.watch.results import FlowFacts
from properties.network_runs import Outcome, least_buffer_bytes, run
from properties.test_network import assert_all_arrived
from reference.both_ends import both_ends

MB, US = 10**6, 10**6
N_HOST = 8
LAWS = ("dctcp", "dcqcn", "hpcc", "timely", "swift", "fixed-window")
Flow = tuple[int, int, int, int, int]
EXACT = st.sampled_from([["replay"], ["periodic", "replay"]])


@st.composite
def networks(draw: st.DrawFn) -> dict[str, Any]:
    """Two leaves; more spines than one let messages be alone between them."""
    topology = {
        "kind": "leaf-spine",
        "leaves": 2,
        "spines": draw(st.integers(1, 3)),
        "hosts_per_leaf": N_HOST // 2,
        "host_rate": "100Gbps",
        "spine_rate": draw(st.sampled_from(["100Gbps", "400Gbps"])),
        "host_delay": "1us",
        "spine_delay": draw(st.sampled_from(["300ns", "1us"])),
    }
    return {
        "topology": topology,
        "network": {"congestion_control": draw(st.sampled_from(LAWS))},
        "workload": {"queue_pairs": "per-pair"},
        "wormhole": {
            "mode": "auto",
            "tolerance": 0.05,
            "paper": {"forecasts": [*draw(EXACT), "similar", "alone", *draw(st.sampled_from([[], ["shares"]]))]},
            "audit": draw(st.sampled_from([0.0, 0.0, 0.3, 1.0])),
        },
    }


@st.composite
def flow_lists(draw: st.DrawFn) -> list[Flow]:
    """Pairs of hosts with many messages of one size, one after the other or at once, and some that come in between."""
    flows, size_bytes = [], draw(st.integers(1 * MB, 4 * MB))
    for _ in range(draw(st.integers(1, 4))):
        src = draw(st.integers(0, N_HOST - 1))
        dst = (src + draw(st.integers(1, N_HOST - 1))) % N_HOST
        start_ps, every_ps = (
            draw(st.integers(0, 300 * US)),
            draw(st.sampled_from([0, 100 * US, 300 * US, 400 * US, 450 * US])),
        )
        odd = draw(st.sampled_from([size_bytes, size_bytes, 100_000, 1_500_000]))  # every third, or fifth
        every = draw(st.sampled_from([3, 5]))
        n = draw(st.integers(3, 12))
        flows += [(src, dst, odd if i % every == 2 else size_bytes, start_ps + i * every_ps, 3) for i in range(n)]
    for _ in range(draw(st.integers(0, 4))):
        src = draw(st.integers(0, N_HOST - 1))
        dst = (src + draw(st.integers(1, N_HOST - 1))) % N_HOST
        flows.append((src, dst, draw(st.integers(1, 3 * MB)), draw(st.integers(0, 4000 * US)), 3))
    return flows


@st.composite
def meetings(draw: st.DrawFn) -> list[Flow]:
    """Some hosts of the second leaf send to its last one, again and again, mostly two or three at a time; and some
    messages that come in between."""
    flows, size_bytes = [], draw(st.integers(2 * MB, 6 * MB))
    senders = draw(st.lists(st.integers(N_HOST // 2, N_HOST - 2), min_size=2, max_size=3, unique=True))
    every_ps = draw(st.sampled_from([500 * US, 1500 * US, 2500 * US]))
    for k in range(draw(st.integers(4, 9))):
        for host in senders:
            if draw(st.integers(0, 4)):
                flows.append((host, N_HOST - 1, size_bytes, k * every_ps + draw(st.integers(0, 60 * US)), 3))
    for _ in range(draw(st.integers(0, 3))):
        src = draw(st.integers(0, N_HOST - 2))
        flows.append((src, N_HOST - 1, draw(st.integers(1, 3 * MB)), draw(st.integers(0, 8 * every_ps)), 3))
    return flows or [(0, 1, size_bytes, 0, 3)]


def on_one_spine(control: str) -> dict[str, Any]:
    """One of `networks`."""
    topology = {
        "kind": "leaf-spine", "leaves": 2, "spines": 1, "hosts_per_leaf": 4, "host_rate": "100Gbps",
        "spine_rate": "100Gbps", "host_delay": "1us", "spine_delay": "1us",
    }  # fmt: skip
    return {
        "topology": topology,
        "network": {"congestion_control": control},
        "workload": {"queue_pairs": "per-pair"},
        "wormhole": {
            "mode": "auto",
            "tolerance": 0.05,
            "paper": {"forecasts": ["periodic", "replay", "similar", "alone"]},
        },
    }


SIZE = 2**20 + 1
NEXT_IS_AT_FLOW_LEVEL_WHEN_A_WAVE_ENDS = [
    *((2, 5, SIZE, 118 + i * 450 * US, 3) for i in range(12)),
    *((0, 5, SIZE, 39_916_799 + i * 300 * US, 3) for i in range(8)),
    *((1, 2, SIZE, 43_492_920 + i * 100 * US, 3) for i in range(9)),
    (6, 7, 76498, 15330, 3), (3, 4, 1791, 1953, 3), (1, 5, 15330, 1015, 3),
]  # fmt: skip


def watched(outcome: Outcome) -> dict[str, int]:
    fast = outcome.model.fast_forward
    assert fast is not None and fast.fluid is not None
    return fast.fluid.fluid.facts()


def meets_frozen_ports(model: NetworkModel) -> list[int]:
    """Queue pairs that send packets, or wait behind markers to do so, though somebody else's ports stand still."""
    nic, table = model.state.nic, model.state.nic.queue_pairs
    is_active = (table["acked_byte"] < table["posted_end"]) & (nic.is_frozen == 0)
    sends = is_active & ((nic.fluid["n_withdrawn"] == 0) | (table["next_byte"] < table["posted_end"]))
    return [pair for pair in np.flatnonzero(sends).tolist() if meets_frozen(model.state, pair)]


@settings(max_examples=100)
@given(networks(), st.one_of(flow_lists(), meetings()))
@example(on_one_spine("hpcc"), NEXT_IS_AT_FLOW_LEVEL_WHEN_A_WAVE_ENDS)
def test_flow_level_conserves_everything(tables: dict[str, Any], flows: list[Flow]) -> None:
    checked = []

    def check(model: Any) -> None:
        if model.fast_forward.waves.replayed:
            return  # what these have sent is not known before they end
        verify_network(model.state, model.topology, model.fast_forward.link_head)
        assert not meets_frozen_ports(model)
        checked.append(bool((model.state.nic.fluid["n_withdrawn"] > 0).any()))

    with patch("pdes.skipping.fluid.shares.FEW_SEEN", 1):  # so that flows go at flow level in runs as short as these
        fast = run(tables, flows, check=check)
    plain = run(tables | {"wormhole": {"mode": "off"}}, flows)
    s, rows, state = fast.scenario, fast.rows, fast.model.state
    for column in (0, 2, 3):
        assert (rows[:, column] == plain.rows[:, column]).all()
    _, columns = FlowFacts(s.topology, s.paths, s.plan, s.parameters).columns(rows, fast.model.pairs.pair_of_row)
    assert (rows[:, 4] - rows[:, 3] >= 0.9 * columns["ideal_fct_ps"]).all()
    delivered_ps = np.array([fast.delivered_ps[i] for i in range(len(flows))])
    assert (rows[:, 3] < delivered_ps).all() and (delivered_ps < rows[:, 4]).all()
    pairs = both_ends(state.nic)
    for name in ("acked_byte", "expected_byte", "sent_bytes", "received_bytes"):
        assert (pairs[name] == pairs["posted_end"]).all(), name
    assert (state.fabric.ports["link_head"] < 0).all() and not state.nic.frozen_port.any()
    assert not state.nic.fluid["n_withdrawn"].any()
    sent = [outcome.model.state.fabric.ports["tx_bytes"] for outcome in (fast, plain)]
    assert (sent[0] == sent[1]).all()
    ahead = fast.model.fast_forward
    assert ahead is not None and ahead.fluid is not None
    assert ahead.fluid.hops_so_far(state) == ahead.skipped.hops_by_cause["fluid"]  # what progress says, to the end
    counted = [int(outcome.model.state.fabric.counters[PACKET_HOPS]) for outcome in (fast, plain)]
    if not any(ahead.skipped.hops_by_cause[cause] for cause in ("follower", "memo", "wave")):
        assert counted[0] + ahead.skipped.packet_hops == counted[1]
        event("packet-hops add up")
    facts, audit = watched(fast), ahead.fluid.fluid.audit
    assert not len(audit.running) and not state.nic.fluid["n_unseen"].any()
    if tables["wormhole"].get("audit") == 1.0:
        assert ahead.skipped.hops_by_cause["fluid"] == ahead.skipped.hops_by_cause["wave"] == 0
    for name, found in audit.facts().items():
        assert found["void"] <= found["audited"]
        assert found["flows"] + found["void"] == found["audited"]
        event(f"compared {name}: {min(found['flows'], 3)}, void: {min(found['void'], 3)}")
    event(f"posted {min(facts['posted'], 5)}, joined {min(facts['joined'], 2)}, broken {min(facts['broken'], 2)}")
    event(f"measured: {min(facts['measured'], 5)}")
    event(f"in flight at {'some' if any(checked) else 'no'} look")
    error = np.abs((rows[:, 4] - rows[:, 3]) / (plain.rows[:, 4] - plain.rows[:, 3]) - 1)
    event(f"mean error {'0' if error.mean() == 0 else f'below 10^{int(np.floor(np.log10(error.mean()))) + 1}'}")


@settings(max_examples=60)
@given(
    networks(),
    st.one_of(flow_lists(), meetings()),
    st.integers(1, 400),
    st.sampled_from(["pauses", "drops", "unlimited"]),
    st.sampled_from(["strict", "round-robin", "weighted"]),
    st.sampled_from([{}, {"ack_every": 3}, {"recovery": "selective-repeat"}]),
)
def test_flow_level_keeps_the_books_of_shared_buffers(
    tables: dict[str, Any], flows: list[Flow], extra_kilobytes: int, kind: str, scheduler: str,
    transport: dict[str, Any],
) -> None:  # fmt: skip
    network = tables["network"] | {"scheduler": {"kind": scheduler}, "transport": transport}
    tables = tables | {"network": network}
    if kind == "pauses":
        size_bytes = least_buffer_bytes(tables, flows) + 1000 * extra_kilobytes
        network["buffer"] = {"size": f"{size_bytes}B"}
    elif kind == "drops":
        network["buffer"] = {"size": f"{200 + extra_kilobytes}kB", "reserve": "0B", "alpha": 0.5}
        network["pfc"] = {"enabled": False}
        network["transport"] = transport | {"timeout": "100us", "max_timeout": "1ms"}

    n_look = count()

    def check(model: Any) -> None:
        i = next(n_look)  # thousands of looks where millions of packets are dropped
        if (i < 100 or i % 100 == 0) and not model.fast_forward.waves.replayed:
            verify_network(model.state, model.topology, model.fast_forward.link_head)
            assert not meets_frozen_ports(model)

    with patch("pdes.skipping.fluid.shares.FEW_SEEN", 1):
        fast = run(tables, flows, check=check)
    assert_all_arrived(fast, flows)
    facts, state = watched(fast), fast.model.state
    assert not state.nic.frozen_port.any() and not state.nic.fluid["n_withdrawn"].any()
    assert fast.dropped == 0 or kind == "drops"
    event("pauses" if state.buffers.egress["n_pause"].sum() else "does not pause")
    event(f"drops {min(fast.dropped, 1)}")
    event(f"posted {min(facts['posted'], 5)}, joined {min(facts['joined'], 2)}, broken {min(facts['broken'], 2)}")


@settings(max_examples=40)
@given(
    networks(),
    st.one_of(flow_lists(), meetings()),
    st.sampled_from(["spray", "adaptive", "weighted"]),
    st.sampled_from([{}, {"ack_every": 3}]),
)
def test_flow_level_spreads_what_it_sends_over_the_ports_of_a_stage(
    tables: dict[str, Any], flows: list[Flow], policy: str, transport: dict[str, Any]
) -> None:
    """Where switches send packets of a flow different ways, or flows by links' rates, ports of a stage send together
    what they send packet by packet, each the same part of it; and all others what they do there."""
    network = {"transport": transport | {"recovery": "selective-repeat"}, "routing": {"policy": policy}}
    tables = tables | {"network": tables["network"] | network}

    def check(model: Any) -> None:
        verify_network(model.state, model.topology, model.fast_forward.link_head)

    with patch("pdes.skipping.fluid.shares.FEW_SEEN", 1), patch("pdes.skipping.fluid.generations.LEAST", 2):
        fast = run(tables, flows, check=check)
    assert_all_arrived(fast, flows)
    plain, facts, t = run(tables | {"wormhole": {"mode": "off"}}, flows), watched(fast), fast.scenario.topology
    sent, n_resent = [], 0
    for outcome in (fast, plain):
        sent.append(outcome.model.state.fabric.ports["tx_bytes"])
        n_resent += int(outcome.model.state.nic.queue_pairs["resent_bytes"].sum())
    assert facts["joined"] == facts["measured"] == 0 and not fast.model.state.nic.fluid["n_withdrawn"].any()
    if n_resent == 0 and "ack_every" not in transport:
        between = t.is_switch[t.port_src] & t.is_switch[t.port_dst]
        assert (sent[0][~between] == sent[1][~between]).all()
        is_leaf = np.bincount(t.port_dst[~between], minlength=t.n_node) > 0
        for end in (t.port_src, t.port_dst):  # of each leaf, all ports to the spines, and from there
            stage = np.where(between & is_leaf[end], end, t.n_node)
            together = [np.bincount(stage, each, t.n_node + 1)[:-1] for each in sent]
            assert (together[0] == together[1]).all()
        event("every byte counted")
    event(f"{policy}: posted {min(facts['posted'], 5)}, broken {min(facts['broken'], 2)}")


def test_nothing_goes_at_flow_level_behind_packets_that_may_be_dropped() -> None:
    """A small message goes packet by packet, and its end is dropped, as three others fill the pool. The large one
    behind it is posted when all of the small one has left: its marker would pass over what is missing."""
    topology = {
        "kind": "leaf-spine", "leaves": 1, "spines": 1, "hosts_per_leaf": N_HOST, "host_rate": "100Gbps",
        "spine_rate": "100Gbps", "host_delay": "20us", "spine_delay": "1us",
    }  # fmt: skip
    network = {
        "congestion_control": "fixed-window", "window": "none", "pfc": {"enabled": False},
        "buffer": {"size": "300kB", "reserve": "0B", "alpha": 1000.0},
        "transport": {"timeout": "1ms", "max_timeout": "4ms"},
    }  # fmt: skip
    tables = on_one_spine("dctcp") | {"topology": topology, "network": network}
    small, large = 1 * MB, 6 * MB
    took_us = {size: size * 8.48e-5 for size in (small, large)}  # at 100 Gbps, 1,060 B for 1,000
    every_us = took_us[large] + 40
    flows = [(0, 1, large, int(2 * k * every_us * US), 3) for k in range(4)]
    for k in range(6):
        end_us = (8 + 2 * k) * every_us + 1000 + took_us[small]
        flows += [(0, 1, small, int((end_us - took_us[small]) * US), 3), (0, 1, large, int((end_us + 30) * US), 3)]
        flows += [(host, 5, 400_000, int((end_us - 60) * US), 3) for host in (2, 3, 4)]
    fast = run(tables, flows)
    assert_all_arrived(fast, flows)
    assert fast.model.state.fabric.dropped[fast.rows[fast.rows[:, 2] == small, 1], 0].sum() > 0
    assert watched(fast)["posted"] > 0
