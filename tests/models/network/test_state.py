"""Records of the state: names that mean the same compiled and not, and sizes that the design promises."""

import numpy as np
import pytest

from models.network.state import records as state
from models.network.state import switch_state
from models.network.state.records import PACKET, PORT
from models.network.state.switch_state import MANAGED_PORT
from models.workload import program
from pdes.engine import event_queue
from pdes.units import MAX_WIRE_BYTES

RECORDS = {
    f"{module.__name__}.{name}": value
    for module in (state, switch_state, program, event_queue)
    for name, value in vars(module).items()
    if isinstance(value, np.dtype)
}


@pytest.mark.parametrize("name", RECORDS)
def test_no_field_hides_behind_an_attribute_that_every_row_has(name):
    """Without compilation `row.flags` is NumPy's own flags, whatever the fields are called."""
    own = set(dir(np.zeros(1, np.dtype((np.record, [("x", np.int64)])))[0])) - {"x"}
    assert not own & set(RECORDS[name].names)


def test_a_port_is_a_cache_line_and_a_packet_half_of_one():
    assert (state.PORT.itemsize, state.PACKET.itemsize) == (64, 32)


@pytest.mark.parametrize("name", RECORDS)
def test_fields_are_aligned(name):
    for field, offset in RECORDS[name].fields.values():
        assert offset % field.itemsize == 0
    assert RECORDS[name].itemsize % 8 == 0


@pytest.mark.parametrize("name", RECORDS)
def test_no_float_holds_a_time_or_a_byte_count(name):
    """Design R1: times are int64 picoseconds, bytes are integers."""
    for field in RECORDS[name].names or ():
        kind = RECORDS[name][field]
        if field.endswith("_ps"):
            assert kind == np.int64, field
        if "byte" in field and field != "ps_per_byte":
            assert np.issubdtype(kind, np.integer), field


def test_a_packets_size_field_holds_the_largest_packet_that_a_config_may_ask_for():
    assert np.iinfo(PACKET["size_bytes"]).max == MAX_WIRE_BYTES


def test_a_managed_port_is_a_port_with_other_queues():
    for name in ("link_head", "link_tail", *PORT.names[6:]):
        assert MANAGED_PORT.fields[name] == PORT.fields[name]
    assert MANAGED_PORT.itemsize == PORT.itemsize == 64
