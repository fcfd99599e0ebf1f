"""Claims about ports for which flows contend: which those are, how much of them is used, and for how long."""

import numpy as np
import pytest

from pdes.skipping.max_min.contention import enter_phases
from pdes.skipping.max_min.solve import begin_change, join, leave, solve
from pdes.skipping.max_min.table import MaxMin, Use, make_max_min

RATE, US = 12.5e-3, 10**6  # bytes per ps: 100 Gbps
USE = Use((1.0, 1.0, 0.8), (1.0, 0.25, 1.0), (0, 10 * US, 30 * US))


def star(pairs: list[tuple[int, int]], n_host: int, rates: dict[int, float] | None = None, use: Use = USE) -> MaxMin:
    """A flow for each pair of hosts: over port src of a sender, then n_host + dst of the switch. rates: but RATE."""
    start = 2 * np.arange(len(pairs) + 1)
    port = np.array([end for src, dst in pairs for end in (src, n_host + dst)], np.int32)
    byte_per_ps = np.full(2 * n_host, RATE)
    for one, rate in (rates or {}).items():
        byte_per_ps[one] = rate
    return make_max_min([(start, port, np.ones(len(port), np.float32))], byte_per_ps, use=use)


def change(m: MaxMin, now_ps: int, begin: tuple[int, ...] = (), end: tuple[int, ...] = ()) -> list[float]:
    """What flow mode does at an instant; the flows' rates then, of RATE."""
    begin_change(m)
    for flow in end:
        leave(m, flow)
    for flow in begin:
        join(m, flow, 10**9, now_ps)
    enter_phases(m, now_ps)
    solve(m, now_ps)
    return (m.flows["level"] / RATE).round(9).tolist()


def test_two_into_one_port_have_less_of_it_from_phase_to_phase() -> None:
    m = star([(0, 2), (1, 2)], 3)
    assert change(m, 5 * US, (0,)) == [1.0, 0.0] and m.phases[1] > 10**15
    assert change(m, 20 * US, (1,)) == [0.5, 0.5] and m.phases[1] == 30 * US
    assert change(m, 30 * US) == [0.25, 0.25] and m.phases[1] == 50 * US  # two reach a quarter of what each could send
    assert change(m, 50 * US) == [0.4, 0.4] and m.phases[1] > 10**15
    assert change(m, 60 * US, end=(0,)) == [0.0, 1.0]


def test_many_senders_fill_a_port_that_two_do_not() -> None:
    m = star([(i, 8) for i in range(8)], 9)
    change(m, 0, tuple(range(8)))
    assert change(m, 10 * US) == [0.125] * 8
    assert change(m, 11 * US, end=(0, 1, 2, 3, 4, 5)) == [0.0] * 6 + [0.25] * 2  # fewer reach less at once


@pytest.mark.parametrize("n", [3, 4, 7])
def test_an_exchange_of_everybody_with_everybody_contends_for_nothing(n: int) -> None:
    pairs = [(src, dst) for src in range(n) for dst in range(n) if src != dst]
    m, was_on = star(pairs, n), False
    for i in range(len(pairs)):  # one after the other: some ports are contended on the way
        change(m, 20 * US + i, (i,))
        was_on |= bool(m.contention["is_on"].any())
    assert was_on and not m.contention["is_on"].any()
    rates = change(m, 100 * US)
    assert rates == pytest.approx([1 / (n - 1)] * len(pairs)) and m.phases[1] > 10**15


def test_flows_of_one_sender_contend_for_nothing_and_slow_senders_neither() -> None:
    m = star([(0, 1), (0, 1), (0, 2)], 3)
    assert change(m, 0, (0, 1, 2)) == pytest.approx([1 / 3] * 3) and not m.contention["is_on"].any()
    m = star([(0, 2), (1, 2)], 3, {0: RATE / 4, 1: RATE / 2})
    assert change(m, 0, (0, 1)) == [0.25, 0.5] and not m.contention["is_on"].any()


def test_a_pause_counts_backwards() -> None:
    """Contended for 12 us, not for 4: it goes on where it was after 8."""
    m = star([(0, 2), (1, 2)], 3)
    change(m, 0, (0, 1))
    assert change(m, 10 * US) == [0.25, 0.25]
    assert change(m, 12 * US, end=(1,)) == [1.0, 0.0]
    assert change(m, 16 * US, (1,)) == [0.5, 0.5] and m.phases[1] == 18 * US
    assert change(m, 18 * US) == [0.25, 0.25]
    change(m, 19 * US, end=(1,))
    assert change(m, 40 * US, (1,)) == [0.5, 0.5] and m.phases[1] == 50 * US  # after longer than that it is forgotten


def test_shares_of_one_are_as_if_there_were_none() -> None:
    whole = star([(0, 2), (1, 2), (0, 1)], 3, use=Use((1.0, 1.0), (1.0, 1.0), (0, US)))
    without = star([(0, 2), (1, 2), (0, 1)], 3, use=Use())
    for now_ps, begin, end in ((0, (0, 1), ()), (2 * US, (2,), ()), (3 * US, (), (0,))):
        assert change(whole, now_ps, begin, end) == change(without, now_ps, begin, end)
        assert whole.flows["end_ps"].tolist() == without.flows["end_ps"].tolist()
