"""What holds of every network that is fast-forwarded: no byte is made up, no message is early, and little is off."""

from typing import Any

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st

from models.network.state.records import PACKET_HOPS
from models.network.watch.results import FlowFacts
from properties.network_runs import LAWS, Outcome, run
from reference.both_ends import both_ends

MB, US = 10**6, 10**6
PACKET_PS = 1200 * 80  # more than a packet takes at a host, with any control's header
# The most by which the mean completion time of a run's flows may be off. Windows of a flow that is skipped agree within
# 2 % (`steady.Settings`), and a skip is no longer than a drift of 0.5 % allows, so that is beyond what is meant to
# happen. Single flows can differ by more: where they share queues, two full runs whose starts differ by 50 ns do.
MOST_ERROR = 0.03
Flow = tuple[int, int, int, int, int]
EXACT = ["periodic", "replay"]


@st.composite
def networks(draw: st.DrawFn) -> dict[str, Any]:
    """A star, a dumbbell, or two leaves and two spines; every control with its defaults. With PFC in every second."""
    leaves, spines = draw(st.sampled_from([(1, 1), (2, 1), (2, 2)]))
    topology = {
        "kind": "leaf-spine",
        "leaves": leaves,
        "spines": spines,
        "hosts_per_leaf": draw(st.integers(3, 8)) // leaves + 1,
        "host_rate": "100Gbps",
        "spine_rate": draw(st.sampled_from(["100Gbps", "400Gbps"])),
        "host_delay": "1us",
        "spine_delay": draw(st.sampled_from(["300ns", "1us"])),
    }
    workload = {"queue_pairs": draw(st.sampled_from(["per-flow", "per-pair"]))}
    network: dict[str, Any] = {"congestion_control": draw(st.sampled_from(LAWS))}
    if draw(st.booleans()):
        sizes, alphas = st.sampled_from(["500kB", "1MB", "auto"]), st.sampled_from(["auto", 0.125, 1.0])
        network["buffer"] = {"size": draw(sizes), "alpha": draw(alphas)}
    return {
        "topology": topology,
        "network": network,
        "workload": workload,
        "wormhole": {"mode": "exact", "paper": {"forecasts": draw(st.sampled_from([EXACT[:1], EXACT, EXACT]))}},
    }


@st.composite
def flow_lists(draw: st.DrawFn, n_host: int) -> list[Flow]:
    """Up to six flows, most of them with room for skips, that come while others are under way."""
    flows = []
    for _ in range(draw(st.integers(1, 6))):
        src = draw(st.integers(0, n_host - 1))
        dst = (src + draw(st.integers(1, n_host - 1))) % n_host
        size_bytes = draw(st.integers(2 * MB, 20 * MB) | st.sampled_from([1, 100_000]))
        flows.append((src, dst, size_bytes, draw(st.just(0) | st.integers(0, 1000 * US)), 3))
    return flows


def assert_in_order(outcome: Outcome, flows: list[Flow]) -> None:
    """Whole, conserved, in the order of each queue pair, and none sooner than on an idle network but for rounding."""
    s, rows, state = outcome.scenario, outcome.rows, outcome.model.state
    assert rows[:, 0].tolist() == list(range(len(flows)))
    assert rows[:, 2].tolist() == [size for _, _, size, _, _ in flows]
    assert rows[:, 3].tolist() == [start for *_, start, _ in flows]
    facts = FlowFacts(s.topology, s.paths, s.plan, s.parameters)
    _, columns = facts.columns(rows, outcome.model.pairs.pair_of_row)
    # A skip gives a flow its nearest whole number of packets, so half a packet's time may be missing for each.
    rounded_ps = outcome.model.fast_forward.counters.freezes * PACKET_PS // 2
    assert (rows[:, 4] - rows[:, 3] >= columns["ideal_fct_ps"] - rounded_ps).all()
    delivered_ps = np.array([outcome.delivered_ps[i] for i in range(len(flows))])
    assert (rows[:, 3] < delivered_ps).all() and (delivered_ps < rows[:, 4]).all()
    for pair in np.unique(rows[:, 1]):
        mine = np.flatnonzero(rows[:, 1] == pair)
        mine = mine[np.lexsort((mine, rows[mine, 3]))]
        assert (np.diff(delivered_ps[mine]) > 0).all() and (np.diff(rows[mine, 4]) > 0).all()
    pairs = both_ends(state.nic)
    for name in ("acked_byte", "expected_byte", "sent_bytes", "received_bytes"):
        assert (pairs[name] == pairs["posted_end"]).all(), name
    if s.parameters.buffer is not None:
        assert outcome.dropped == 0 and (state.buffers.ingress["held_bytes"] == 0).all()
        assert not state.buffers.switches["shared_bytes"].any() and not state.buffers.switches["frozen_bytes"].any()
        event("pauses" if state.buffers.egress["n_pause"].any() else "does not pause")
    assert (state.fabric.ports["link_head"] < 0).all() and not state.nic.frozen_port.any()


@settings(max_examples=200)
@given(st.data())
def test_fast_forwarding_conserves_everything_and_is_hardly_off(data):
    tables = data.draw(networks())
    flows = data.draw(flow_lists(tables["topology"]["leaves"] * tables["topology"]["hosts_per_leaf"]))
    fast, plain = run(tables, flows), run(tables | {"wormhole": {"mode": "off"}}, flows)
    assert_in_order(fast, flows)
    assert fast.model.fast_forward is not None
    skipped = fast.model.fast_forward.skipped
    simulated, whole = (int(outcome.model.state.fabric.counters[PACKET_HOPS]) for outcome in (fast, plain))
    # What a network partition that follows another has on its wires is counted as if it had begun there.
    assert abs(simulated + skipped.packet_hops - whole) <= (
        50 if tables["wormhole"]["paper"]["forecasts"] == EXACT else 0
    )
    event(f"skips {'nothing' if skipped.packet_hops == 0 else 'most' if 2 * simulated < whole else 'some'}")
    error = np.abs((fast.rows[:, 4] - fast.rows[:, 3]) / (plain.rows[:, 4] - plain.rows[:, 3]) - 1)
    event(f"mean error {'0' if error.mean() == 0 else f'below 10^{int(np.floor(np.log10(error.mean()))) + 1}'}")
    assert error.mean() < MOST_ERROR
