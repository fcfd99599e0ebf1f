"""What keys of network partitions are made of: states of all ranks put together, forms, and what is equal."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from models.network.skip.memo_states import FORM_WORDS, Layout, store_forms
from pdes.skipping.flow_ports import ports_of_groups
from pdes.skipping.replay.blocks import find_equal, merge_blocks

STATES = st.lists(st.tuples(st.integers(0, 1), st.lists(st.integers(0, 1), max_size=3)), min_size=1, max_size=12)


@given(STATES)
def test_each_is_like_the_first_with_the_same_form_and_words(states: list[tuple[int, list[int]]]) -> None:
    words = np.array([word for _, mine in states for word in mine], np.int64)
    ends, like = np.cumsum([0, *(len(mine) for _, mine in states)]), np.full(len(states), -1)
    find_equal(words, ends, np.array([form for form, _ in states]), like)
    assert like.tolist() == [states.index(state) for state in states]


OF_RANK = st.tuples(st.integers(0, 2), st.lists(st.integers(-9, 9), max_size=4))
BLOCKS = st.dictionaries(st.tuples(st.integers(0, 3), st.integers(0, 5)), OF_RANK, max_size=12)


@given(st.lists(BLOCKS, min_size=1, max_size=4))
def test_blocks_of_ranks_come_in_the_order_of_kind_and_number(parts: list[dict]) -> None:
    """Of each network partition (kind, number) -> (rank, words)."""
    n_rank = 3

    def words_of(part: dict, ranks: tuple[int, ...]) -> list[int]:
        found = [(*name, len(words), *words) for name, (rank, words) in sorted(part.items()) if rank in ranks]
        return [word for block in found for word in block]

    each = [[words_of(part, (rank,)) for part in parts] for rank in range(n_rank)]
    every = np.array([word for rank in each for mine in rank for word in mine], np.int64)
    flat = np.cumsum([0, *(len(mine) for rank in each for mine in rank)])
    end = np.stack([flat[rank * len(parts) :][: len(parts) + 1] for rank in range(n_rank)])
    out, end_word = np.zeros(len(every), np.int64), np.full(len(parts) + 1, -1)
    merge_blocks(every, end, np.zeros(n_rank, np.int64), out, end_word)
    found = [out[a:b].tolist() for a, b in zip(end_word, end_word[1:], strict=False)]
    assert found == [words_of(part, (0, 1, 2)) for part in parts]


def forms_of(ways: list[list[int]], groups: list[list[int]], links: list[tuple[int, int]], rates: list[int]) -> list:
    """Forms of groups of queue pairs: ways[pair] are ports, links[port] the nodes at its ends; the last is a switch."""
    n_node = max(node for link in links for node in link) + 1
    start = np.cumsum([0, *map(len, ways)])
    src, dst = np.array(links).T.copy()
    is_switch = (np.arange(n_node) == n_node - 1).astype(np.uint8)
    layout = Layout(
        start, np.array([port for way in ways for port in way], np.int32), src, dst, is_switch,
        np.full(n_node, -1), np.zeros(n_node, np.int64),
    )  # fmt: skip
    ports = [sorted({port for pair in group for port in ways[pair]}) for group in groups]
    ends = np.stack([np.cumsum([0, *map(len, each)]) for each in (groups, ports)])
    pairs, every = (np.array([one for each in found for one in each]) for found in (groups, ports))
    constants = np.zeros((FORM_WORDS, len(every)), np.int64)
    constants[2] = np.array(rates)[every]
    out, end_word = np.zeros(500, np.int64), np.zeros(len(groups) + 1, np.int64)
    store_forms(layout, np.zeros(len(links), np.int32), pairs, every, ends, constants, out, end_word)
    assert (layout.row_of_node == -1).all()
    return [out[a:b].tolist() for a, b in zip(end_word, end_word[1:], strict=False)]


def test_forms_are_equal_where_numbers_alone_differ() -> None:
    """Pairs 0 and 1, and 2 and 3, go from two hosts through a switch of their own to a third host."""
    links = [(0, 3), (1, 3), (3, 2), (4, 7), (5, 7), (7, 6)]
    ways, groups, rates = [[0, 2], [1, 2], [3, 5], [4, 5]], [[0, 1], [2, 3]], [8, 8, 9, 8, 8, 9]

    def are_alike(ways: list = ways, groups: list = groups, links: list = links, rates: list = rates) -> bool:
        one, other = forms_of(ways, groups, [*links, (8, 9)], rates)
        return one == other

    assert are_alike()
    assert not are_alike(rates=[8, 8, 9, 8, 7, 9])
    assert not are_alike(ways=[[0, 2], [1, 2], [3, 5], [3, 5]])
    assert not are_alike(ways=[[0, 2], [1, 2], [4, 5], [3, 5]])
    assert not are_alike(groups=[[0, 1], [2]])
    assert not are_alike(links=[*links[:5], (7, 4)])
    one, other = forms_of(ways, groups, links, rates)  # node 7 is a switch, and node 3 is none
    assert one != other


@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=5), min_size=1, max_size=8), st.data())
def test_ports_of_groups_are_those_of_their_flows(ways: list[list[int]], data: st.DataObject) -> None:
    cut = np.array([0, *sorted(data.draw(st.lists(st.integers(0, len(ways)), max_size=3))), len(ways)])
    start, ports = np.cumsum([0, *map(len, ways)]), np.array([port for way in ways for port in way], np.int32)
    out, end, is_seen = np.zeros(len(ports), np.int64), np.zeros(len(cut), np.int64), np.zeros(10, np.bool_)
    ports_of_groups(start, ports, np.arange(len(ways)), cut, is_seen, out, end)
    for i, (first, after) in enumerate(zip(cut, cut[1:], strict=False)):
        assert out[end[i] : end[i + 1]].tolist() == sorted({port for way in ways[first:after] for port in way})
    assert not is_seen.any()
