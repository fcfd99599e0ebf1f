"""Windows that follow the rate: exactly the quotient, up to the largest ones there may be."""

from hypothesis import example, given
from hypothesis import strategies as st

from models.network.build.nic import MAX_RATE_BPS, MAX_WINDOW_BYTES
from models.network.host.congestion import window_at
from pdes.engine.jit import loop_kernel


@loop_kernel
def window_of(max_window_bytes, rate_bps, line_rate_bps):
    return window_at(max_window_bytes, rate_bps, line_rate_bps)


@given(st.data())
@example(None)
def test_a_window_is_the_quotient_rounded_down_and_at_least_a_byte(data: st.DataObject | None) -> None:
    if data is None:
        cases = [(MAX_WINDOW_BYTES, MAX_RATE_BPS - k, MAX_RATE_BPS) for k in range(50)]
        cases += [(10**6 + k, 10**11 // 3 * j, 10**11) for k in range(7) for j in range(1, 4)]
    else:
        line_rate_bps = data.draw(st.integers(1, MAX_RATE_BPS))
        window_bytes, rate_bps = data.draw(st.integers(1, MAX_WINDOW_BYTES)), data.draw(st.integers(1, line_rate_bps))
        cases = [(window_bytes, rate_bps, line_rate_bps)]
    for window_bytes, rate_bps, line_rate_bps in cases:
        found = window_of(window_bytes, rate_bps, line_rate_bps)
        assert found == max(1, window_bytes * rate_bps // line_rate_bps)
