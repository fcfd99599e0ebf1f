"""The engine's exchange inside MPI: reductions, records to neighbours, broadcasts, and PHOLD on top of them.

Run by `mpirun -n 2 python -m pytest --with-mpi -m mpi`. Collective calls come before assertions: a rank that fails an
assertion must not leave the others waiting inside MPI.
"""

import os

import numpy as np
import pytest

from models.phold import PholdConfig, run_phold
from pdes.engine import shared_memory
from pdes.engine.exchange import World, world
from pdes.engine.round_exchange import HEADER_WORDS, make_exchange, most_box_words, reduce_min, swap
from pdes.engine.time_index import NEVER

pytestmark = pytest.mark.mpi(min_size=2)
N_WORD = 12


@pytest.fixture(scope="module")
def ranks() -> World:
    return world()


def test_there_are_at_least_two_ranks(ranks: World) -> None:
    places = ranks.allgather((ranks.rank, ranks.size))
    assert ranks.size >= 2
    assert places == [(r, ranks.size) for r in range(ranks.size)]


@pytest.mark.parametrize("least", [-5, 0, 2**31 + 7, NEVER - 1])
def test_reduce_min_is_the_least_of_all_ranks_on_every_rank(ranks: World, least: int) -> None:
    ex = make_exchange(ranks, [r for r in range(ranks.size) if r != ranks.rank], 1)
    found = [int(reduce_min(ex, least if ranks.rank == owner else NEVER)) for owner in range(ranks.size)]
    found.append(int(reduce_min(ex, least + ranks.rank)))
    assert ranks.size >= 2 and found == [least] * (ranks.size + 1)


def message(source: int, target: int, i_round: int) -> list[int]:
    """What a rank sends another in a round: 0 to N_WORD words, none of which another message has."""
    n_word = (source + 2 * target + i_round) * 5 % (N_WORD + 1)
    return [((source * 64 + target) * 1000 + i_round) * 100 + k + 2**40 for k in range(n_word)]


def test_swap_brings_every_neighbour_its_records_round_after_round(ranks: World) -> None:
    peers = [r for r in range(ranks.size) if r != ranks.rank]
    ex = make_exchange(ranks, peers, N_WORD)
    received, left, least = [], [], []
    for i_round in range(20):
        for i, peer in enumerate(peers):
            words = message(ranks.rank, peer, i_round)
            ex.outbox[i, HEADER_WORDS : HEADER_WORDS + len(words)] = words
            ex.n_out[i] = len(words)
        least.append(int(swap(ex, 100 * i_round + ranks.rank)))
        received.append([ex.inbox[i, HEADER_WORDS : HEADER_WORDS + ex.n_in[i]].tolist() for i in range(len(peers))])
        left.append(ex.n_out.tolist())
    ranks.barrier()
    assert len(peers) >= 1
    assert received == [[message(peer, ranks.rank, i) for peer in peers] for i in range(20)]
    assert left == [[0] * len(peers)] * 20
    assert ex.is_complete[0] == 1 and least == [100 * i for i in range(20)]


def test_swap_without_records_leaves_every_inbox_empty(ranks: World) -> None:
    ex = make_exchange(ranks, [r for r in range(ranks.size) if r != ranks.rank], N_WORD)
    ex.n_in[:] = 99
    swap(ex, NEVER)
    ranks.barrier()
    assert ranks.size >= 2 and ex.n_in.tolist() == [0] * (ranks.size - 1)


def test_a_broadcast_brings_rank_0s_value_and_gathers_keep_rank_order(ranks: World) -> None:
    value = {"rank": ranks.rank, "rows": np.arange(3) + ranks.rank}
    got = ranks.bcast(value)
    gathered, everywhere = ranks.gather(ranks.rank), ranks.allgather(ranks.rank)
    assert ranks.size >= 2
    assert got["rank"] == 0 and got["rows"].tolist() == [0, 1, 2]
    assert gathered == (list(range(ranks.size)) if ranks.rank == 0 else None)
    assert everywhere == list(range(ranks.size))


@pytest.mark.parametrize(("n_piece", "more"), [(1, 0), (1, 1), (2, 0), (2, 5)])
def test_a_long_message_of_one_rank_comes_whole_and_the_next_one_too(ranks: World, n_piece: int, more: int) -> None:
    peers = [r for r in range(ranks.size) if r != ranks.rank]
    n_word = n_piece * (most_box_words(ranks.size) - HEADER_WORDS) + more
    ex = make_exchange(ranks, peers, 3 * most_box_words(ranks.size))
    received, least = [], []
    senders = (0, ranks.size - 1, -1, 0)  # the third time nobody
    for sender in senders:
        if ranks.rank == sender:
            ex.outbox[0, HEADER_WORDS : HEADER_WORDS + n_word] = np.arange(n_word) + sender
            ex.n_out[0] = n_word
        least.append(int(swap(ex, 7 + ranks.rank)))
        received.append([ex.inbox[i, HEADER_WORDS : HEADER_WORDS + ex.n_in[i]].copy() for i in range(len(peers))])
    ranks.barrier()
    for sender, boxes in zip(senders, received, strict=True):
        target = min(r for r in range(ranks.size) if r != sender)
        for peer, box in zip(peers, boxes, strict=True):
            is_for_me = peer == sender and target == ranks.rank
            assert np.array_equal(box, np.arange(n_word) + sender if is_for_me else np.zeros(0, np.int64))
    assert ranks.size >= 2 and least == [7] * 4


def test_a_value_that_is_shared_is_rank_0s_and_what_one_rank_writes_no_other_sees(ranks: World) -> None:
    rows = np.arange(5000) + 1000 * ranks.rank
    once = ranks.bcast_once({"rank": ranks.rank, "rows": rows, "few": [np.zeros((2, 3)), "text"], "none": np.zeros(0)})
    made = ranks.once_per_machine(lambda: np.full(3000, 7.5))
    ranks.barrier()
    once["rows"][ranks.rank] = made[ranks.rank] = -1
    ranks.barrier()
    expected = np.arange(5000)
    expected[ranks.rank] = -1
    assert ranks.size >= 2 and once["rank"] == 0 and once["few"][0].shape == (2, 3) and len(once["none"]) == 0
    assert np.array_equal(once["rows"], expected) and (made == -1).sum() == 1 and made[-1] == 7.5
    assert once["rows"].ctypes.data % 64 == 0


@pytest.mark.parametrize("call", ["create", "attach"])
def test_without_room_to_share_every_rank_gets_the_value_all_the_same(
    ranks: World, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("no room")

    if ranks.rank == (0 if call == "create" else ranks.size - 1):
        monkeypatch.setattr(shared_memory, call, fail)
    before = set(shared_memory.FOLDER.glob(f"pdes-{os.getpid()}-*"))
    got = ranks.bcast_once([ranks.rank, np.arange(4)])
    assert ranks.size >= 2 and got[0] == 0 and got[1].tolist() == [0, 1, 2, 3]
    assert set(shared_memory.FOLDER.glob(f"pdes-{os.getpid()}-*")) == before


@pytest.mark.parametrize("remote_frac", [0.0, 0.3, 1.0])
def test_phold_has_the_same_history_on_one_rank_and_on_all(ranks: World, remote_frac: float) -> None:
    config = PholdConfig(n_lp=37, population=3, remote_frac=remote_frac, end_ps=60_000_000, seed=11)
    together = run_phold(config, ranks)
    alone = run_phold(config, World())
    assert ranks.size >= 2
    assert together[:2] == alone[:2] and alone[0] > 1_000
