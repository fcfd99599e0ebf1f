"""Objects that come back from bytes: what shared memory still does, and what is not ours is refused."""

import io
import os
import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from pdes.engine import pickled
from pdes.skipping.steady import Settings, Steadiness, Verdict


def test_views_of_one_memory_stay_views_of_one() -> None:
    verdict = Verdict(4)
    for _ in range(3):  # what came back can be saved again
        verdict = pickled.copied(verdict)
        verdict.progress[1] = 7
        assert (verdict.span_ps == 7).all()
        verdict.marked[:] = 9
        assert (verdict.progress[4] == 9).all()


def test_memory_seen_as_floats_stays_the_same_memory() -> None:
    criterion = Steadiness((2, 1), Settings(10**6, 1000), np.full(3, 10**6))
    criterion.memory.kept[1, 2, 3, 4] = 5
    again = pickled.copied(criterion)
    again.memory.floats[0, 0, 0, 0] = 1.0
    assert again.memory.kept[0, 0, 0, 0] == np.float64(1.0).view(np.int64) and again.memory.kept[1, 2, 3, 4] == 5
    assert not np.shares_memory(again.memory.kept, criterion.memory.kept)


def test_the_same_array_twice_is_one_array() -> None:
    array = np.arange(5)
    one, other = pickled.copied([array, array])
    assert one is other and one.flags.writeable


@pytest.mark.parametrize(
    "value", [{1: (2, None)}, {3, 4}, Counter(a=1), Path("a/b"), np.arange(6).reshape(2, 3).T, np.int64(3), b"x", 1.5]
)
def test_plain_values_come_back(value: object) -> None:
    again = pickled.copied(value)
    assert type(again) is type(value) and np.all(again == value)


@pytest.mark.parametrize("value", [os.system, pickled.load, eval, io.BytesIO])
def test_what_no_checkpoint_has_is_refused(value: object) -> None:
    with pytest.raises(pickled.UnknownObjectError, match="in no checkpoint"):
        pickled.load(io.BytesIO(pickle.dumps(value)))


@pytest.mark.parametrize(
    "name",
    [
        ("pdes.witness", "subprocess.Popen"),  # reached through what a module of ours imports
        ("pdes.witness", "subprocess"),
        ("pdes.witness", "Path"),
        ("pdes.engine.pickled", "np.ndarray"),
        ("pdes.engine.pickled", "dump"),
        ("pdes.__main__", "main"),
        ("builtins", "object.__subclasses__"),
        ("numpy.testing", "scalar"),
        ("numpy", "ndarray.tofile"),
        ("pathlib", "os.fspath"),
        ("pathlib", "WindowsPath"),
    ],
)
def test_names_are_of_the_list_or_of_classes_where_they_are_defined(name: tuple[str, str]) -> None:
    with pytest.raises(pickled.UnknownObjectError, match="in no checkpoint"):
        pickled._Unpickler(io.BytesIO()).find_class(*name)
    assert pickled._Unpickler(io.BytesIO()).find_class("pdes.skipping.steady", "Verdict") is Verdict
