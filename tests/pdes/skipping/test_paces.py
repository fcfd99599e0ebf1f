"""Claims about paces: what is extrapolated, and that a slow change is not taken for an even pace."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdes.engine.time_index import NEVER
from pdes.skipping import history as h
from pdes.skipping.fluid.paces import Paces
from pdes.skipping.fluid.trusted_paces import MOST_WINDOWS

RTT_PS = 1000
ONE, NOT_LOADED = np.ones(1, np.bool_), np.zeros(1, np.bool_)


def sample(done: int, done_ps: int, end: int, message: int = 5) -> np.ndarray:
    row = np.zeros((1, h.N_COLUMN), np.int64)
    row[0, [h.ID, h.DONE, h.DONE_PS, h.MESSAGE_END]] = message, done, done_ps, end
    row[0, [h.SENT, h.SENT_PS]] = done + 5000, done_ps
    row[0, h.WINDOW] = 10**6 + (done_ps // (8 * RTT_PS)) % 2 * 10**4  # a control that has not settled
    return row


def known_at(paces: Paces, done_at, end: int, most_ps: int) -> int:
    """When the pace of a message is known that has got done_at(ps) bytes done by then; NEVER: not until most_ps."""
    now_ps = RTT_PS
    while now_ps < most_ps:
        rows = sample(int(done_at(now_ps)), now_ps, end)
        if paces.look(now_ps, rows, ONE, np.zeros(1, np.int64), NOT_LOADED)[0]:
            return now_ps
        assert paces.next_look_ps >= now_ps
        now_ps = max(now_ps + RTT_PS, paces.next_look_ps)
    return NEVER


@pytest.mark.parametrize("left, n_window", [(MOST_WINDOWS * 16 - 1, 2), (MOST_WINDOWS * 16 + 1, 3)])
def test_an_even_pace_is_known_after_two_windows_and_for_a_long_rest_after_three(left: int, n_window: int) -> None:
    """Windows of 8, 16 and 32 round trips. left: round trips after two of them."""
    paces, known = Paces(1, 0.02, RTT_PS), 1 + 8 * (2**n_window - 1)
    assert known_at(paces, lambda ps: 30 * ps, 30 * RTT_PS * (25 + left), 10**9) == known * RTT_PS
    assert paces.pace(0)[1] == 4 * 2**n_window * RTT_PS


@given(st.floats(0.3, 1.0), st.integers(20, 5000), st.integers(100, 20000))
def test_a_rate_that_grows_as_before_is_not_off_by_more_than_the_tolerance(begin: float, turns: int, long: int) -> None:
    """A control that regains its rate, linearly over so many round trips, and keeps it then."""
    tolerance, end = 0.02, 100 * RTT_PS * long

    def done_at(ps: float) -> float:
        grown = min(ps, turns * RTT_PS)
        full = turns * RTT_PS
        return 100 * (begin * ps + (1 - begin) * (grown * grown / (2 * full) + (ps - grown)))

    low, high = 0.0, 10.0 * RTT_PS * (long + turns)
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if done_at(middle) < end else (low, middle)
    paces = Paces(1, tolerance, RTT_PS)
    at_ps = known_at(paces, done_at, end, int(low))
    if at_ps < NEVER:
        size, span_ps = paces.pace(0)
        rest_ps = (end - done_at(at_ps)) * span_ps / size
        assert abs(rest_ps / max(low - at_ps, 1) - 1) < 1.5 * tolerance or rest_ps < RTT_PS


@pytest.mark.parametrize("what", ["message", "disturbed", "load", "not asked for"])
def test_it_begins_anew(what: str) -> None:
    paces, end = Paces(1, 0.02, RTT_PS), 100 * 150 * RTT_PS
    since_ps, load, message = np.zeros(1, np.int64), NOT_LOADED, 5
    found = []
    for k in range(1, 60):
        now_ps = k * RTT_PS
        if k == 20:
            since_ps = since_ps + now_ps * (what == "disturbed")
            load, message = load ^ (what == "load"), message + (what == "message")
            may = ONE ^ (what == "not asked for")
        else:
            may = ONE
        if paces.look(now_ps, sample(100 * now_ps, now_ps, end, message), may, since_ps, load)[0]:
            found.append(k)
    assert found[0] == 44 + (what == "not asked for")
