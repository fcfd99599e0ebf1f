"""Rounds' arrays beside plain loops."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from models.cluster.job import Job, Request
from models.cluster.schedulers.rounds.ledger import LEAST_ROWS, Ledger, that_fit
from pdes.engine import pickled


@given(st.lists(st.integers(1, 9), max_size=40), st.integers(0, 60))
def test_who_fits_is_what_one_after_the_other_finds(sizes: list[int], room: int) -> None:
    left, taken = room, []
    for i, size in enumerate(sizes):
        if size <= left:
            taken.append(i)
            left -= size
    assert that_fit(np.array(sizes, np.int64), room).tolist() == taken


@given(st.lists(st.integers(0, 3), max_size=300), st.randoms())
def test_rows_stay_with_their_jobs(steps: list[int], draws) -> None:
    """Jobs come three times as often as they go, past the rows that there are at first."""
    ledger, own = Ledger(2), {}
    for number, step in enumerate([1] * (LEAST_ROWS - 2) + steps):
        if step or not own:
            job = Job(Request(number, str(number), 0, 1 + number % 5, 1))
            own[number] = job
            ledger.add(job, [True, number % 2 == 0])
            ledger.share[ledger.row_of[number]] = number, number + 0.5
        else:
            ledger.remove(own.pop(draws.choice(sorted(own))))
        assert ledger.n == len(own) == len(ledger.number)
    assert sorted(ledger.number.tolist()) == sorted(own) == sorted(ledger.row_of)
    for number, job in own.items():
        row = ledger.row_of[number]
        assert ledger.number[row] == number and ledger.n_gpu[row] == job.n_gpu
        assert ledger.share[row].tolist() == [number, number + 0.5] and ledger.pool[row] == -1


@given(st.lists(st.tuples(*[st.sampled_from([0.0, 0.25, 1.0])] * 2, st.integers(0, 2), st.booleans()), max_size=20))
def test_a_line_is_sorted_by_share_over_time_received(rows: list[tuple[float, float, int, bool]]) -> None:
    ledger = Ledger(1)
    for number, (share, deficit, received, may_use) in enumerate(rows):
        ledger.add(Job(Request(number, str(number), 0, 1, 1)), [may_use])
        ledger.share[number], ledger.deficit_us[number], ledger.received_us[number] = share, deficit, received
    for is_strict in (False, True):
        wanted = sorted(
            (
                (s / (1.5 + r), d, s, -number)
                for number, (s, d, r, may) in enumerate(rows)
                if may and (s or not is_strict)
            ),
            reverse=True,
        )
        assert ledger.line(0, 1.5, is_strict).tolist() == [-entry[-1] for entry in wanted]


def test_a_checkpoint_keeps_views_and_rows_together() -> None:
    ledger = Ledger(1)
    ledger.add(Job(Request(0, "0", 0, 1, 1)), [True])
    copied = pickled.copied(ledger)
    copied.share[0] = 0.5
    copied.add(Job(Request(1, "1", 0, 1, 1)), [True])
    assert copied.share.tolist() == [[0.5], [0.0]] and ledger.share.tolist() == [[0.0]]
