"""Claims about messages that go evenly over all shortest ways: rates and latencies that one can work out by hand."""

import pytest

from models.topology.even_ways import EvenWays
from models.topology.graph import LinkKind
from models.topology.leaf_spine import leaf_spine
from models.topology.rail_optimised import rail_optimised

G = 10**9
US = 10**6


@pytest.mark.parametrize(("spines", "rate"), [(1, 50 * G), (2, 100 * G), (4, 100 * G)])
def test_messages_that_leave_a_leaf_share_its_uplinks_and_no_more_than_their_own_port(spines: int, rate: int) -> None:
    ways = EvenWays(leaf_spine(2, spines, 2, 100 * G, 100 * G, US, US), 1000)
    assert ways.way([(0, 2), (1, 3)]).rate_bps == rate
    assert ways.way([(0, 2)]).rate_bps == 100 * G
    assert ways.way([(0, 1), (1, 0)]).rate_bps == 100 * G  # below the leaf
    assert ways.way([(0, 2), (0, 2)]).rate_bps == 50 * G


def test_latency_is_that_of_the_links_and_of_a_packet_at_every_port_but_the_slowest() -> None:
    ways = EvenWays(leaf_spine(2, 2, 2, 100 * G, 400 * G, US, 3 * US), 1000)
    host_ps, spine_ps = 80_000, 20_000  # 1000 B at 100 and 400 Gbps
    assert ways.way([(0, 3)]).latency_ps == 2 * US + 6 * US + host_ps + 2 * spine_ps
    assert ways.way([(0, 1)]).latency_ps == 2 * US + host_ps


def test_gpus_of_a_server_use_their_links_and_others_their_rail() -> None:
    nic, nvlink = LinkKind(100 * G, US), LinkKind(3600 * G, 25_000)
    ways = EvenWays(rail_optimised(16, 8, 32, nic, nic, 1.0, nvlink), 1000)
    assert ways.way([(0, 1)]).rate_bps == 3600 * G
    assert ways.way([(i, i + 8) for i in range(8)]).rate_bps == 100 * G
    assert ways.way([(0, 8)]).port != ways.way([(0, 1)]).port
