"""Claims about the load of acknowledgements: who meets it, and what it does."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pdes.skipping.fluid.ack_load import AckLoad, Slowdown

N_PORT = 10


@st.composite
def networks(draw: st.DrawFn) -> tuple[list[list[int]], list[list[int]]]:
    """(ports of each flow's data, of its acknowledgements), which have none in common."""
    n_flow, data, acks = draw(st.integers(1, 7)), [], []
    for _ in range(n_flow):
        way = draw(st.lists(st.integers(0, N_PORT - 1), min_size=2, max_size=8, unique=True))
        n = draw(st.integers(1, len(way) - 1))
        data.append(way[:n])
        acks.append(way[n:])
    return data, acks


def flat(ways: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.cumsum([0, *map(len, ways)]), np.array([p for way in ways for p in way], np.int32)


@given(networks(), st.data())
def test_who_meets_acknowledgements(network: tuple[list[list[int]], list[list[int]]], data: st.DataObject) -> None:
    ways, acks = network
    everything = [sorted(a + b) for a, b in zip(ways, acks, strict=True)]
    load, before = AckLoad(flat(ways), flat(everything), N_PORT), set()
    everybody = np.arange(len(ways))
    for _ in range(data.draw(st.integers(1, 6))):
        sending = data.draw(st.lists(st.integers(0, len(ways) - 1), unique=True))
        changed = load.update(np.array(sending, np.int64))
        ports = {p for flow in sending for p in acks[flow]}
        assert set(changed.tolist()) >= ports ^ before and len(set(changed.tolist())) == len(changed)
        assert load.meets(everybody).tolist() == [bool(ports & set(way)) for way in ways]
        before = ports


def test_who_fills_a_port_is_slowed_down() -> None:
    slowdown = Slowdown(0.06, np.array([2.0]))
    assert slowdown.times(0, 100, 200, False, True) == 1.06  # at line rate: one acknowledgement for each packet
    assert slowdown.times(0, 100, 212, True, False) == 1 / 1.06
    assert slowdown.times(0, 100, 210, False, True) == 1.06  # up to a target of 95 %
    assert slowdown.times(0, 100, 400, False, True) == 1.0  # at half of it both have room
    assert slowdown.times(0, 100, 200, True, True) == slowdown.times(0, 100, 200, False, False) == 1.0
    assert slowdown.may_be_alone(0, 100, 200) and not slowdown.may_be_alone(0, 100, 190)
