"""Claims about for how long a rate may be relied on: what two windows must show, and what they cannot."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdes.engine.jit import loop_kernel
from pdes.skipping import history as h
from pdes.skipping.fluid.trusted_rates import (
    MOST_WINDOWS,
    N_COLUMN,
    N_KEPT,
    N_ROUND_TRIP,
    SWING,
    trusted_ps,
)
from pdes.skipping.windows import keep_sample

WINDOW_PS, RATE, TOLERANCE = 100_000, 50, 0.02  # of the first window; bytes per ps


@loop_kernel
def judge(samples, tolerance, kept):
    n = np.int64(0)
    for i in range(samples.shape[0]):
        n = keep_sample(kept, n, samples[i])
    return trusted_ps(kept, n, tolerance)


def trusted(samples: list[dict[int, int]], tolerance: float = TOLERANCE) -> float:
    """For how long a flow with these samples may be relied on."""
    rows = np.array([[values.get(k, 0) for k in range(h.N_COLUMN)] for values in samples], np.int64)
    return float(judge(rows.reshape(-1, h.N_COLUMN), tolerance, np.zeros((N_KEPT, N_COLUMN), np.int64)))


def even(n_window: int, in_flight: int = 1000, **last: Any) -> list[dict[int, int]]:
    """A flow at one rate, sampled where its windows begin and end. last: of the last sample, beside that."""
    samples = []
    for k in range(n_window + 1):
        now_ps = 10**7 + (2**k - 1) * WINDOW_PS
        values = {h.DONE: RATE * now_ps, h.DONE_PS: now_ps, h.SENT: RATE * now_ps + in_flight, h.SENT_PS: now_ps}
        samples.append(values | {h.RATE: 10**11, h.WINDOW: 10**6})
    samples[-1] |= {getattr(h, name): value for name, value in last.items()}
    return samples


def test_two_windows_are_trusted_for_some_times_the_last_and_three_or_a_settled_control_for_longer() -> None:
    assert trusted(even(1)) < 0
    for n_window, window in ((2, 10**6), (3, 10**6), (3, 990_000)):
        assert trusted(even(n_window, WINDOW=window)) > 100 * MOST_WINDOWS * WINDOW_PS
    assert trusted(even(2, WINDOW=990_000)) == MOST_WINDOWS * 2 * WINDOW_PS
    assert trusted(even(7)) > 10**6 * WINDOW_PS  # of which the last samples are kept


@pytest.mark.parametrize("n_window", [2, 3])
def test_a_queue_that_fills_or_drains_is_no_rate(n_window: int) -> None:
    """What is in flight changes by a share of what the last window acknowledges, against the tolerance."""
    done = RATE * 2 ** (n_window - 1) * WINDOW_PS
    sent = even(n_window)[-1][h.SENT]
    for share, is_trusted in ((0.9, True), (1.1, False), (-0.9, True), (-1.1, False)):
        samples = even(n_window, SENT=sent + int(share * TOLERANCE * done))
        assert (trusted(samples) >= 0) == is_trusted


def test_a_window_shorter_than_the_round_trips_of_now_says_nothing() -> None:
    last_bytes = RATE * 2 * WINDOW_PS
    assert trusted(even(2, in_flight=int(0.99 * last_bytes / N_ROUND_TRIP))) > 0
    assert trusted(even(2, in_flight=int(1.01 * last_bytes / N_ROUND_TRIP))) < 0


@pytest.mark.parametrize("name, value", [("RATE", 10**11), ("WINDOW", 10**6)])
@pytest.mark.parametrize("n_window", [2, 3])
def test_a_control_that_swings_is_not_trusted_however_even_its_rate(name: str, value: int, n_window: int) -> None:
    assert trusted(even(n_window, **{name: int(value * (1 - 0.9 * SWING))})) > 0
    assert trusted(even(n_window, **{name: int(value * (1 - 1.1 * SWING))})) < 0


def test_a_timer_that_is_on_and_a_flow_that_stands_still_are_not_trusted() -> None:
    assert trusted(even(3, HAS_TIMER=1)) < 0
    before = even(3)[-2]
    assert trusted(even(3, DONE=before[h.DONE], SENT=before[h.SENT] + 1)) < 0


@given(st.integers(2, 3), st.floats(-0.3, 0.3), st.floats(0.1, 20))
def test_a_change_that_goes_on_does_not_put_what_is_trusted_off_by_more_than_the_tolerance(
    n_window: int, slope: float, span: float
) -> None:
    """The time per byte grows along a line: by a share of itself in so many first windows."""
    samples = even(n_window)
    for values in samples:
        x = (values[h.DONE] - samples[0][h.DONE]) / (RATE * WINDOW_PS)  # bytes, in those of the first window
        values[h.DONE_PS] = values[h.SENT_PS] = round(10**7 + WINDOW_PS * (x + slope / span * x * x / 2))
    may_ps = min(trusted(samples), 1000.0 * WINDOW_PS)
    if may_ps <= 0 or min(np.diff([values[h.DONE_PS] for values in samples])) <= 0:
        return
    n_last, last_ps = 2 ** (n_window - 1), samples[-1][h.DONE_PS] - samples[-2][h.DONE_PS]
    begin, n_rest = 2**n_window - 1, may_ps / (last_ps / n_last)  # first windows' bytes at the rate that was seen
    end = begin + n_rest
    real_ps = WINDOW_PS * (n_rest + slope / span * (end * end - begin * begin) / 2)
    assert abs(real_ps / may_ps - 1) < TOLERANCE * (1 + 3 * TOLERANCE) + 1e-3
