"""Swift and NSCC, which set a window: fixed points, bounds, what one round trip can do; and the two that do nothing."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.congestion.interface import NEVER
from reference.control_driver import Driver

LINE_BPS, BASE_RTT_PS, PAYLOAD = 100 * 10**9, 10_000_000, 1000
BDP_BYTES = LINE_BPS * BASE_RTT_PS // (8 * 10**12)
BDP_PKTS = BDP_BYTES // PAYLOAD


def driver(name, n_bdp=4, **values):
    return Driver(name, values, line_rate_bps=LINE_BPS, base_rtt_ps=BASE_RTT_PS, max_window_bytes=n_bdp * BDP_BYTES)


def acks(cc, n_ack, rtt_ps, now_ps=0, gap_ps=0, marked=0):
    """ACKs of one packet each; the time after the last."""
    for i in range(1, n_ack + 1):
        now_ps += gap_ps
        cc.ack(
            i * PAYLOAD,
            i * PAYLOAD + int(cc.flow.window_bytes),
            now_ps=now_ps,
            rtt_ps=rtt_ps,
            newly_acked_bytes=PAYLOAD,
            is_marked=marked,
        )
    return now_ps


def bottleneck(cc, n_round_trip, mark_above_ps=None):
    """A window on a link of line rate whose queue holds what the path does not: the round trips, ps."""
    now_ps, rtts = 0, []
    for _ in range(n_round_trip):
        n_packet = max(1, math.ceil(cc.flow.window_bytes / PAYLOAD))
        rtt_ps = max(BASE_RTT_PS, n_packet * PAYLOAD * 8 * 10**12 // LINE_BPS)
        marked = int(mark_above_ps is not None and rtt_ps - BASE_RTT_PS > mark_above_ps)
        acks(cc, n_packet, rtt_ps, now_ps, rtt_ps // n_packet, marked)
        now_ps += rtt_ps
        rtts.append(rtt_ps)
    return rtts


def swift_target_ps(window_pkts):
    """Section 3.1 in the paper's form: alpha / sqrt(window) + beta, between 0 and its range."""
    least, most, span_ps = 0.1, 100.0, 1.0 * BASE_RTT_PS
    alpha = span_ps / (1 / math.sqrt(least) - 1 / math.sqrt(most))
    beta = -alpha / math.sqrt(most)
    return 1.25 * BASE_RTT_PS + max(0.0, min(alpha / math.sqrt(window_pkts) + beta, span_ps))


def test_swift_holds_the_round_trip_at_its_target():
    cc = driver("swift")
    rtts = bottleneck(cc, 400)
    target_ps = swift_target_ps(1.25 * BDP_PKTS)
    packet_ps = PAYLOAD * 8 * 10**12 // LINE_BPS
    assert sum(rtts[200:]) / 200 == pytest.approx(target_ps, abs=2 * packet_ps)  # it hunts by a packet a round trip


@given(st.floats(0.01, 400.0))
def test_swift_stays_where_the_round_trip_is_the_target(window_pkts):
    cc = driver("swift")
    cc.flow.window_pkts = window_pkts
    acks(cc, 1, math.ceil(swift_target_ps(window_pkts)) + 1, now_ps=10**9)
    assert cc.flow.window_pkts == pytest.approx(window_pkts, rel=1e-6)


@pytest.mark.parametrize("window_pkts", [2, 10, 100])
def test_swift_adds_a_packet_in_a_round_trip_below_the_target(window_pkts):
    cc = driver("swift")
    cc.flow.window_pkts = window_pkts
    acks(cc, window_pkts, BASE_RTT_PS)
    assert window_pkts + 0.75 < cc.flow.window_pkts <= window_pkts + 1


def test_swift_decreases_once_in_a_round_trip_and_at_most_to_half():
    cc = driver("swift")
    cc.flow.window_pkts = 100.0
    acks(cc, 50, 100 * BASE_RTT_PS, now_ps=10**9)
    assert cc.flow.window_pkts == 50.0
    cc.flow.window_pkts, cc.flow.last_decrease_ps = 100.0, 0
    cc.ack(0, 0, now_ps=2 * 10**9, rtt_ps=BASE_RTT_PS, is_nack=1)
    assert cc.flow.window_pkts == 50.0


def test_swift_below_a_packet_paces_one_at_a_time():
    cc = driver("swift")
    cc.flow.window_pkts, cc.flow.last_decrease_ps = 0.5, 0
    cc.ack(0, 1000, rtt_ps=4 * BASE_RTT_PS, now_ps=0)  # no decrease is due
    assert (cc.flow.window_pkts, cc.flow.window_bytes) == (0.5, 500)
    assert cc.flow.rate_bps == 0.5 * PAYLOAD * 8 * 10**12 // (4 * BASE_RTT_PS)


def test_swift_after_five_timeouts_in_a_row_has_the_least_window():
    cc = driver("swift")
    for k in range(1, 6):
        cc.call("on_timeout", now_ps=k * 10**9)
        assert cc.flow.window_pkts == (4 * BDP_PKTS * 0.5**k if k < 5 else 0.001)
    assert cc.flow.rate_bps >= 1


event = st.tuples(
    st.sampled_from(["ack", "nack", "timeout"]),
    st.integers(BASE_RTT_PS // 2, 30 * BASE_RTT_PS),
    st.integers(0, BASE_RTT_PS),
    st.booleans(),
    st.integers(0, 20_000),
)


@given(st.sampled_from(["swift", "nscc"]), st.sampled_from([0, 1, 4]), st.lists(event, max_size=100))
def test_windows_and_rates_stay_within_their_bounds(name, n_bdp, events):
    cc, now_ps, acked = driver(name, n_bdp), 0, 0
    for kind, rtt_ps, gap_ps, marked, newly in events:
        now_ps, acked = now_ps + gap_ps, acked + newly
        fields = {"now_ps": now_ps, "rtt_ps": rtt_ps, "is_marked": marked, "newly_acked_bytes": newly}
        if kind == "timeout":
            cc.call("on_timeout", now_ps=now_ps, acked_byte=acked, next_byte=acked)
        else:
            cc.ack(acked, acked + int(cc.flow.window_bytes), is_nack=int(kind == "nack"), **fields)
        assert 1 <= cc.flow.window_bytes <= 1.5 * max(n_bdp, 1) * BDP_BYTES
        assert 1 <= cc.flow.rate_bps <= LINE_BPS
        assert cc.flow.timer_ps.tolist() == [NEVER] * 4


def test_nscc_keeps_the_link_busy_and_the_delay_below_its_target():
    cc = driver("nscc", n_bdp=1)
    rtts = bottleneck(cc, 300, mark_above_ps=BASE_RTT_PS // 5)
    assert all(rtt_ps <= 2 * BASE_RTT_PS for rtt_ps in rtts)
    assert min(rtts[100:]) > BASE_RTT_PS  # there is always something in the queue


def nscc_at(cwnd_bytes, **state):
    cc = driver("nscc", n_bdp=1)
    cc.flow.cwnd_bytes = cwnd_bytes
    cc.flow.look_ps = 10**15  # no quick adapt
    for name, value in state.items():
        setattr(cc.flow, name, value)
    return cc


def test_nscc_a_mark_with_a_short_delay_changes_nothing():
    cc = nscc_at(50_000.0)
    acks(cc, 8, BASE_RTT_PS + 1000, now_ps=1, marked=1)
    assert cc.flow.cwnd_bytes == 50_000.0


def test_nscc_decreases_by_how_far_the_mean_delay_exceeds_the_target_but_at_most_to_half():
    for mean_ps in (1.25 * BASE_RTT_PS, 10.0 * BASE_RTT_PS):
        cc = nscc_at(100_000.0, mean_delay_ps=mean_ps)
        acks(cc, 3, 2 * BASE_RTT_PS + int(mean_ps), now_ps=2 * BASE_RTT_PS, marked=1)
        mean_ps = 0.9875 * mean_ps + 0.0125 * (BASE_RTT_PS + mean_ps)  # the first ACK's delay is in already
        factor = max(0.5, 1 - 0.8 * (mean_ps - BASE_RTT_PS) / mean_ps)
        extra = 0.15 * PAYLOAD * BDP_BYTES / 150_000  # eta, once in a round trip
        assert cc.flow.cwnd_bytes == pytest.approx(100_000 * factor + extra)


@pytest.mark.parametrize(("delay_share", "gain"), [(1.5, 5.0), (0.5, 4.0 * 0.5 * BASE_RTT_PS / 12e6)])
def test_nscc_increases_are_those_of_the_specification(delay_share, gain):
    """Nine ACKs of a packet: fair, gain MTU a MTU, or proportional to what is left of the target; over the window."""
    cc = nscc_at(50_000.0, last_adjust_ps=10**9)
    acks(cc, 9, int(BASE_RTT_PS * (1 + delay_share)), now_ps=10**9)
    increase = gain * PAYLOAD * (BDP_BYTES / 150_000) * 9 * PAYLOAD / 50_000
    assert cc.flow.cwnd_bytes == pytest.approx(50_000 + increase)


def test_nscc_quick_adapt_takes_what_has_arrived_as_window():
    cc = driver("nscc", n_bdp=1)
    acks(cc, 1, BASE_RTT_PS, now_ps=1)
    acks(cc, 7, 20 * BASE_RTT_PS, now_ps=2, marked=0)
    before = cc.flow.cwnd_bytes
    acks(cc, 1, 20 * BASE_RTT_PS, now_ps=3 * BASE_RTT_PS)
    assert before > 100_000
    assert cc.flow.cwnd_bytes == 8 * PAYLOAD  # of the first look's period: the ACK that started it is not in


@pytest.mark.parametrize(("name", "window_bytes"), [("none", None), ("fixed-window", BDP_BYTES)])
def test_the_two_that_do_nothing_do_nothing(name, window_bytes):
    cc = driver(name, n_bdp=1)
    acks(cc, 20, 10 * BASE_RTT_PS, marked=1)
    assert cc.flow.rate_bps == LINE_BPS
    assert cc.law.controls_window is (window_bytes is not None)
    assert window_bytes in (None, cc.flow.window_bytes)
