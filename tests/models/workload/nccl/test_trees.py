"""Double binary trees: each spans all members, and nobody is inner in both."""

import pytest

from models.workload.nccl.trees import double_tree, tree_steps


@pytest.mark.parametrize("n", range(2, 40))
def test_both_trees_span_all_members(n):
    for tree in double_tree(n):
        (root,) = [i for i, node in enumerate(tree) if node.parent < 0]
        below = [root]
        for i in below:
            below += tree[i].children
            assert len(tree[i].children) <= 2
            assert all(tree[child].parent == i for child in tree[i].children)
        assert sorted(below) == list(range(n))


@pytest.mark.parametrize("n", range(2, 40, 2))
def test_of_an_even_number_everybody_is_a_leaf_in_one_tree(n):
    first, second = double_tree(n)
    assert all(not a.children or not b.children for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("n", range(3, 40))
def test_nobody_has_more_than_five_neighbours(n):
    trees = double_tree(n)
    assert max(sum(len(tree[i].children) + (tree[i].parent >= 0) for tree in trees) for i in range(n)) <= 5


def test_four_members_are_as_in_nccl():
    """trees.cc's comment: 0 -> 2 -> (1, 3), and its mirror."""
    first, second = double_tree(4)
    assert [node.parent for node in first] == [-1, 2, 0, 2]
    assert [node.parent for node in second] == [1, 3, 1, -1]


def test_a_member_is_behind_with_every_hop():
    """0 -> 2 -> (1, 3): a leaf starts at once, 2 and 0 have it one and two hops later; then it comes down."""
    first, _ = tree_steps(4)
    assert first == [(2, 2), (0, 4), (1, 3), (0, 4)]
