"""Claims about pieces of tensors that groups of unequal sizes share: none is lost, and none is there twice."""

from collections import Counter
from fractions import Fraction
from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from models.workload.compiler.unequal import pairs_of, slices_of

SIZES = st.sampled_from([1, 2, 3, 4, 6, 8])


def groups_of(sizes: list[int]) -> list[tuple[int, ...]]:
    bounds = [0, *accumulate(sizes)]
    return [tuple(range(a, b)) for a, b in pairwise(bounds)]


@given(st.lists(SIZES, min_size=1, max_size=5))
def test_every_group_holds_every_piece_once_and_each_gpu_its_share(sizes: list[int]) -> None:
    groups = groups_of(sizes)
    pieces = [members for part in slices_of(groups) for members in part]
    held = Counter(gpu for members in pieces for gpu in members)
    for i, group in enumerate(groups):
        assert {members[i] for members in pieces} == set(group)
        assert all(Fraction(held[gpu], len(pieces)) == Fraction(1, len(group)) for gpu in group)


@given(st.lists(SIZES, min_size=1, max_size=5))
def test_no_gpu_is_twice_in_a_slice(sizes: list[int]) -> None:
    for part in slices_of(groups_of(sizes)):
        gpus = [gpu for members in part for gpu in members]
        assert len(set(gpus)) == len(gpus)


@given(SIZES, st.integers(1, 5))
def test_equal_groups_have_one_slice_of_gpus_at_the_same_place(tp: int, n: int) -> None:
    groups = groups_of([tp] * n)
    assert slices_of(groups) == [[tuple(group[t] for group in groups) for t in range(tp)]]


@given(SIZES, SIZES)
def test_what_a_stage_sends_is_what_the_next_one_keeps(one: int, other: int) -> None:
    """Both ends of a message have its piece, as shares of the tensor."""
    a, b = groups_of([one, other])
    pairs = pairs_of(a, b)
    for i, (gpu, peer) in enumerate(pairs):
        begin, end = Fraction(i, len(pairs)), Fraction(i + 1, len(pairs))
        for group, member in ((a, gpu), (b, peer)):
            at = group.index(member)
            assert Fraction(at, len(group)) <= begin and end <= Fraction(at + 1, len(group))
