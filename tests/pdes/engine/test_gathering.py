"""Gathers on one rank alone, and the room that boxes have. Those of several: tests/mpi/test_gathering_on_ranks.py."""

import numpy as np
import pytest

from pdes.engine.exchange import World
from pdes.engine.gathering import (
    BOXES_WORDS,
    HEADER_WORDS,
    LEAST_BOX_WORDS,
    MOST_BOX_WORDS,
    agree_on_least,
    box_words,
    gather_words,
    make_gathering,
    n_offered,
    offer,
    shared_words,
    take,
    take_in_order,
)
from pdes.engine.meeting import BOXES, LINE_WORDS


def test_one_rank_gathers_what_it_has_itself() -> None:
    world, rows = World(), np.arange(12).reshape(4, 3)
    assert np.array_equal(world.gather_rows(rows), rows) and np.array_equal(world.gather_sum(rows), rows)
    assert [part.tolist() for part in world.gather_parts(rows)] == [rows.tolist()]
    assert world.gather_values({"rows": 4}) == [{"rows": 4}]
    assert world.is_any(True) and not world.is_any(False)


def test_what_one_rank_offers_is_what_it_takes() -> None:
    g, own, out = World().gathering, np.arange(9) + 2**40, np.full(12, -1)
    assert offer(g, own, 7, -3) == -3 and n_offered(g) == 7
    take(g, own, 7, out)
    assert out.tolist() == [*own[:7].tolist(), *[-1] * 5]
    assert agree_on_least(g, 5) == 5 and n_offered(g) == 0


def test_one_rank_has_its_rows_in_order_where_they_are() -> None:
    rows = np.arange(12).reshape(4, 3)
    offer(g := World().gathering, rows.reshape(-1), 9, 0)
    assert take_in_order(g, rows.reshape(-1), 9, np.zeros(0, np.int64), rows) == 3
    assert rows.tolist() == np.arange(12).reshape(4, 3).tolist()


@pytest.mark.parametrize("n_room", [8, 9, 10])
def test_what_there_is_no_room_for_is_left_to_be_taken(n_room: int) -> None:
    g, own, out = World().gathering, np.arange(9) + 1, np.zeros(n_room, np.int64)
    assert gather_words(g, own, out) == 9
    assert out[:9].tolist() == ([0] * 8 if n_room < 9 else own.tolist())


def test_boxes_are_lines_that_share_their_room_whatever_the_ranks() -> None:
    for n_rank in [*range(2, 300), 4096, 10**5]:
        words = box_words(n_rank)
        assert words % LINE_WORDS == 0 and HEADER_WORDS < LEAST_BOX_WORDS <= words <= MOST_BOX_WORDS
        assert shared_words(n_rank) == BOXES + 2 * n_rank * words
        assert n_rank * words <= max(BOXES_WORDS, n_rank * LEAST_BOX_WORDS)


def test_without_shared_memory_a_rank_has_a_box_of_each_and_one_to_send() -> None:
    g = make_gathering(3, 1, np.zeros(3, np.int64), None, 0)
    assert len(g.words) % 4 == 0 and len(g.words) // 4 > HEADER_WORDS
    assert len(make_gathering(1, 0, np.zeros(3, np.int64), None, 0).words) == 0


def test_only_words_of_8_bytes_are_gathered() -> None:
    with pytest.raises(AssertionError, match="float32 has no words of 8 bytes"):
        World()._gather_words(np.zeros(3, np.float32))
