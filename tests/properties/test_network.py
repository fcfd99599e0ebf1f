"""What holds in every network: nothing is lost behind PFC, everything arrives in spite of loss, no byte is made up."""

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st

from models.network.state.records import N_TIMEOUT
from properties.network_runs import LAWS, POLICIES, Outcome, flow_lists, least_buffer_bytes, run, topologies
from reference.both_ends import both_ends

EXAMPLES = settings(max_examples=60)


def assert_all_arrived(outcome: Outcome, flows: list) -> None:
    """Every flow is finished once, with all its bytes, and the network is empty."""
    rows, state = outcome.rows, outcome.model.state
    assert rows[:, 0].tolist() == list(range(len(flows)))
    assert rows[:, 2].tolist() == [size for _, _, size, _, _ in flows]
    assert (rows[:, 4] > rows[:, 3]).all()
    pairs = both_ends(state.nic)
    assert (pairs["acked_byte"] == pairs["posted_end"]).all()
    assert (pairs["expected_byte"] == pairs["posted_end"]).all()
    sent, received = int(pairs["sent_bytes"].sum()), int(pairs["received_bytes"].sum())
    assert sent == received + int(state.fabric.dropped[:, 0].sum()), "payload is conserved"
    resent = int(rows[:, 7].sum()) + int(pairs["resent_bytes"].sum())  # of messages, and since a pair's last one
    assert sent - int(pairs["posted_end"].sum()) == resent, "resends are counted"
    assert (state.fabric.ports["link_head"] < 0).all()
    if outcome.scenario.parameters.buffer is not None:
        assert (state.buffers.ingress["held_bytes"] == 0).all() and (state.buffers.switches["shared_bytes"] == 0).all()


@EXAMPLES
@given(
    topology=topologies(),
    flows=flow_lists(400_000, 20_000),
    law=st.sampled_from(LAWS),
    extra_kilobytes=st.integers(1, 40),
    scheduler=st.sampled_from(["strict", "round-robin", "weighted"]),
    alpha=st.sampled_from(["auto", 0.05, 0.5, 1.0, 4.0]),
    window=st.sampled_from(["auto", "none"]),
)
def test_pfc_never_loses_a_packet(topology, flows, law, extra_kilobytes, scheduler, alpha, window):
    network = {"congestion_control": law, "scheduler": {"kind": scheduler}, "window": window}
    tables = {"topology": topology, "network": network}
    size_bytes = least_buffer_bytes(tables, flows) + 1000 * extra_kilobytes
    network["buffer"] = {"size": f"{size_bytes}B", "alpha": alpha}
    outcome = run(tables, flows)
    state = outcome.model.state
    event("pauses" if state.buffers.egress["n_pause"].sum() else "does not pause")
    assert outcome.dropped == 0
    assert_all_arrived(outcome, flows)
    if state.fabric.counters[N_TIMEOUT] == 0:
        assert (outcome.rows[:, 7] == 0).all(), "resends without loss or timeout"
    assert state.fabric.ports["max_queued_bytes"].max() <= size_bytes


@EXAMPLES
@given(
    topology=topologies(),
    flows=flow_lists(20_000),
    law=st.sampled_from(LAWS),
    loss=st.floats(0.0, 0.05),
    recovery=st.sampled_from(["go-back-n", "selective-repeat"]),
    buffer=st.sampled_from(["unlimited", "60kB", "1MB"]),
    ack_every=st.integers(1, 4),
)
def test_every_flow_finishes_in_spite_of_loss(topology, flows, law, loss, recovery, buffer, ack_every):
    network = {
        "congestion_control": law,
        "loss": {"probability": loss},
        "buffer": {"size": buffer, "reserve": "0B"},
        "pfc": {"enabled": False},
        "transport": {"recovery": recovery, "timeout": "100us", "max_timeout": "1ms", "ack_every": ack_every},
    }
    assert_all_arrived(run({"topology": topology, "network": network}, flows), flows)


@EXAMPLES
@given(
    topology=topologies(),
    flows=flow_lists(),
    law=st.sampled_from(LAWS),
    policy=st.sampled_from(POLICIES),
    spine=st.integers(0, 2),
    leaf=st.integers(0, 1),
    down_us=st.integers(0, 20),
    lasts_us=st.integers(1, 400),
    rate=st.sampled_from([None, "10Gbps"]),
    loss=st.sampled_from([None, 0.02]),
    parts=st.integers(1, 3),
)
def test_every_flow_survives_a_link_that_goes_and_comes(
    topology, flows, law, policy, spine, leaf, down_us, lasts_us, rate, loss, parts
):
    link = [f"leaf{leaf}", f"spine{spine % topology['spines']}"]
    up = {"time": f"{down_us + lasts_us}us", "link": link, "state": "up"}
    up |= {key: value for key, value in (("rate", rate), ("loss", loss)) if value is not None}
    flows = [(src, dst, max(size, parts), start, priority) for src, dst, size, start, priority in flows]
    network = {
        "congestion_control": law,
        "routing": {"policy": policy, "convergence": "30us", "flowlet_gap": "2us", "queue_pairs_per_flow": parts},
        "link_event": [{"time": f"{down_us}us", "link": link, "state": "down"}, up],
        "transport": {"recovery": "selective-repeat", "timeout": "100us", "max_timeout": "1ms"},
    }
    tables = {"topology": topology, "network": network}
    outcome = run(tables, flows)
    if parts == 1:
        assert_all_arrived(outcome, flows)
    finished = np.bincount(outcome.rows[:, 0], minlength=len(flows))
    assert (finished == parts).all()
    other = run(tables, flows, threshold="50ns")
    assert np.array_equal(outcome.rows, other.rows), "the cut into LPs changes nothing"
