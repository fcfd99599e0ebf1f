"""Network partitions whose episodes are broken are keyed ever more seldom, until one comes to its end."""

import numpy as np
import pytest

from pdes.skipping.replay.patience import FREE, MOST, Patience


def turns(patience: Patience, first: int, n_chance: int) -> list[int]:
    """At which of so many chances a network partition is keyed; its episodes are all broken."""
    found = []
    for k in range(n_chance):
        if patience.takes(np.array([first]))[0]:
            found.append(k)
            patience.note(np.array([first]), is_broken=True)
    return found


def test_every_second_chance_then_every_fourth() -> None:
    patience = Patience(3)
    found = turns(patience, 1, 100)
    assert found[:FREE] == list(range(FREE))
    assert np.diff(found[FREE - 1 :]).tolist() == [2, 4, 8, 16, 32]
    assert turns(patience, 2, 3) == [0, 1, 2]  # which has nothing to do with that


def test_it_is_never_given_up() -> None:
    found = turns(Patience(1), 0, 3000)
    assert np.diff(found).max() == 2**MOST and found[-1] >= 3000 - 2**MOST


@pytest.mark.parametrize("n_broken", [1, FREE, 3 * FREE])
def test_an_episode_that_comes_to_its_end_makes_good_for_all_that_did_not(n_broken: int) -> None:
    patience, mine = Patience(1), np.array([0])
    for _ in range(n_broken):
        patience.note(mine, is_broken=True)
    patience.note(mine, is_broken=False)
    assert turns(patience, 0, FREE) == list(range(FREE))


def test_many_have_their_turns_at_once() -> None:
    patience = Patience(4)
    for _ in range(FREE):
        patience.note(np.array([1, 3]), is_broken=True)
    assert patience.takes(np.arange(4)).tolist() == [True, False, True, False]
    assert patience.takes(np.arange(4)).tolist() == [True, True, True, True]
