"""The controls that ns-3 has do exactly what its twin does: the same integers and the same bits of doubles."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import control_twin as twin
from reference.control_driver import Driver

PS_PER_NS = 1000
GBPS = 10**9

# (acknowledged so far moves by, not sent yet lies beyond it by, something of the ACK): moves back after a NACK too.
steps = st.tuples(st.integers(-3_000, 40_000), st.integers(-5_000, 60_000))


def sequences(acks):
    """(acked byte, next byte, the rest) with both at least 0."""
    acked = 0
    for (move, beyond), *rest in acks:
        acked = max(0, acked + move)
        yield acked, max(0, acked + beyond), *rest


@settings(max_examples=300)
@given(st.lists(st.tuples(steps, st.booleans()), max_size=80), st.sampled_from([25, 100, 400]))
def test_dctcp_is_the_twins(acks, line_gbps):
    line_bps = line_gbps * GBPS
    ours, flow = Driver("dctcp", line_rate_bps=line_bps), twin.TwinFlow(max_rate=line_bps)
    theirs = twin.Dctcp(ai=615 * 10**6 * line_gbps // 100)
    for acked, next_byte, marked in sequences(acks):
        ours.ack(acked, next_byte, is_marked=marked)
        flow.snd_nxt = next_byte
        theirs.ack(flow, acked, marked)
        assert (ours.flow.rate_bps, ours.flow.alpha, ours.flow.batch) == (flow.rate, flow.alpha, flow.batch)


@settings(max_examples=300)
@given(st.lists(st.tuples(steps, st.integers(1_000, 900_000)), max_size=80), st.sampled_from([25, 100, 400]))
def test_timely_is_the_twins(acks, line_gbps):
    line_bps = line_gbps * GBPS
    ours, flow = Driver("timely", line_rate_bps=line_bps), twin.TwinFlow(max_rate=line_bps)
    theirs = twin.Timely(ai=10**6 * line_gbps, hai=5 * 10**6 * line_gbps)
    for acked, next_byte, rtt_ns in sequences(acks):
        ours.ack(acked, next_byte, rtt_ps=rtt_ns * PS_PER_NS)
        flow.snd_nxt = next_byte
        theirs.ack(flow, acked, rtt_ns)
        assert (ours.flow.rate_bps, ours.flow.rtt_difference_ns) == (flow.rate, flow.rtt_diff)


hop = st.tuples(st.integers(1, 3_000), st.integers(0, 60), st.integers(0, 3_000))  # ns, quanta sent, quanta queued


@settings(max_examples=300)
@given(
    st.lists(st.tuples(steps, st.lists(hop, min_size=5, max_size=5)), max_size=40),
    st.integers(1, 5),
    st.sampled_from([(25, 1, 0), (100, 4, 0), (100, 4, 3), (400, 16, 5)]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2**40),
)
def test_hpcc_is_the_twins(acks, n_hop, case, fast_react, wraps, start):
    line_gbps, multi, max_stage = case
    line_bps = line_gbps * GBPS
    tx_quantum, queue_quantum = 128 * multi, 80 * multi
    values = {"max_stage": max_stage, "fast_react": int(fast_react)}
    if wraps:
        values |= {"time_wrap_ps": 2**24 * PS_PER_NS, "tx_wrap_bytes": 2**20 * tx_quantum}
    ours, flow = Driver("hpcc", values, line_rate_bps=line_bps), twin.TwinFlow(max_rate=line_bps)
    theirs = twin.Hpcc(4 * 10**5 * line_gbps, mi_thresh=max_stage, fast_react=fast_react, int_multi=multi)
    rates = [line_bps, 2 * line_bps, 4 * line_bps, 2 * line_bps, line_bps]
    times, sent = [start] * 5, [start // 7] * 5
    for acked, next_byte, hops in sequences(acks):
        times = [time + gap for time, (gap, _, _) in zip(times, hops, strict=True)]
        sent = [total + quanta for total, (_, quanta, _) in zip(sent, hops, strict=True)]
        queues = [quanta for _, _, quanta in hops]
        stamps = [(t & 0xFFFFFF, s & 0xFFFFF) for t, s in zip(times, sent, strict=True)]
        seen = stamps if wraps else list(zip(times, sent, strict=True))
        retime = ours.ack(
            acked,
            next_byte,
            n_hop=n_hop,
            hop_time_ps=[t * PS_PER_NS for t, _ in seen[:n_hop]],
            hop_tx_bytes=[s * tx_quantum for _, s in seen[:n_hop]],
            hop_queue_bytes=[q * queue_quantum for q in queues[:n_hop]],
            hop_rate_bps=rates[:n_hop],
        )
        flow.snd_nxt = next_byte
        before = (flow.u, flow.last_update)
        theirs.ack(flow, acked, [(*stamp, q, r) for stamp, q, r in zip(stamps, queues, rates, strict=True)][:n_hop])
        assert (ours.flow.rate_bps, ours.flow.utilisation) == (flow.rate, flow.u)
        assert (ours.flow.reference_bps, ours.flow.stage) == (flow.cur_rate, flow.inc_stage)
        assert retime == (before[1] > 0 and (fast_react or acked > before[1]))


@settings(max_examples=300)
@given(
    st.lists(st.one_of(st.integers(0, 40), st.integers(0, 20_000), st.integers(0, 1_000_000)), max_size=40),
    st.sampled_from([1_000, 4_000, 333, 2_000]),
    st.booleans(),
    st.integers(0, 3),
    st.sampled_from([25, 100, 400]),
)
def test_dcqcn_is_the_twins(gaps_ns, t_alpha_ns, clamp, fast_recovery, line_gbps):
    values = {"alpha_interval_ps": t_alpha_ns * PS_PER_NS, "clamp_target": int(clamp)}
    values["fast_recovery_times"] = fast_recovery
    ours = Driver("dcqcn", values, line_rate_bps=line_gbps * GBPS)
    theirs = twin.Dcqcn(line_gbps * GBPS, clamp, fast_recovery, t_alpha_ns)
    for now_ns in itertools.accumulate([0, *gaps_ns, 3_000_000]):
        ours.run_timers(now_ns * PS_PER_NS)
        theirs.run(now_ns)
        most = fast_recovery + 1  # beyond it the stage makes no difference, and ours rests at line rate
        assert (ours.flow.rate_bps, min(ours.flow.stage, most)) == (theirs.rate, min(theirs.stage, most))
        if now_ns:
            ours.ack(0, 0, now_ps=now_ns * PS_PER_NS, is_cnp=1)
            theirs.cnp(now_ns)
            assert (ours.flow.target_bps, ours.flow.alpha) == (theirs.target_rate, theirs.alpha)
    ours.run_timers(now_ns * PS_PER_NS + 5_000_000)
    theirs.run(now_ns + 5_000)
    assert ours.flow.rate_bps == theirs.rate


@pytest.mark.parametrize("k", range(1, 12))
def test_a_notification_at_the_instant_of_a_check_counts_for_it(k):
    first_ns = 777
    for offset_ns in (-1, 0, 1):
        ours, theirs = Driver("dcqcn"), twin.Dcqcn()
        for now_ns in (first_ns, first_ns + 4_001 + 4_000 * k + offset_ns):
            ours.run_timers(now_ns * PS_PER_NS)
            theirs.run(now_ns)
            ours.ack(0, 0, now_ps=now_ns * PS_PER_NS, is_cnp=1)
            theirs.cnp(now_ns)
        ours.run_timers((now_ns + 1) * PS_PER_NS)
        theirs.run(now_ns + 1)
        assert ours.flow.rate_bps == theirs.rate


def test_alpha_fades_to_nothing_in_a_pause_and_catching_up_is_bounded():
    ours = Driver("dcqcn")
    for now_ps in (10**6, 1000 * 10**12):
        ours.run_timers(now_ps)
        ours.ack(0, 0, now_ps=now_ps, is_cnp=1)
    assert 0 < ours.flow.alpha < 1e-300
    assert ours.flow.rate_bps == ours.flow.line_rate_bps - 1  # both halves are rounded down
