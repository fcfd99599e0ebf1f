"""Slots by name: numbers in order of first use, and each GPU's own behind them."""

import pytest

from models.workload.plan import SLOT_GROUP, SLOT_PAIR, SLOT_UNUSED
from models.workload.slots import SlotNames


def test_keys_are_numbered_in_order_of_first_use():
    names = SlotNames()
    assert [names("a"), names("b", 3), names("c"), names("b", 3), names("a")] == [0, 1, 4, 1, 0]


def test_a_gpu_has_its_own_slots_in_that_order():
    names = SlotNames()
    names("a"), names("b", 2), names("c")
    table = {"c": [(SLOT_GROUP, 7)], "b": [(SLOT_PAIR, 1)], "x": [(SLOT_PAIR, 9)]}
    assert names.resolve(table) == [(SLOT_UNUSED, 0), (SLOT_PAIR, 1), (SLOT_UNUSED, 0), (SLOT_GROUP, 7)]


def test_a_key_has_as_many_slots_each_time():
    names = SlotNames()
    names("a", 2)
    with pytest.raises(ValueError, match='slots "a": 3, but 2 before'):
        names("a", 3)
    with pytest.raises(ValueError, match='slots "a": 3 for 2'):
        names.resolve({"a": [(SLOT_PAIR, 1)] * 3})
