"""bench/pipeline_schedules.py: links from what messages took."""

import pytest
from pipeline_schedules import boundary_bytes, links_of


def test_links_that_made_the_times_are_found_again() -> None:
    """Messages of three sizes, over seven links of one server, and over 15 of which one leads to another server."""
    rows = []
    for pp, nodes, hidden in ((8, 1, 1024), (8, 1, 4096), (16, 2, 2048), (16, 2, 4096)):
        row = {"pp": str(pp), "nodes": str(nodes), "hidden": str(hidden), "seq": "1024", "mbs": "2"}
        bits, n_link, n_between = 8 * boundary_bytes(row), pp - 1, nodes - 1
        inside_s, between_s = 1e-4 + bits / 4e11, 1e-4 + bits / 1e11
        mean_s = ((n_link - n_between) * inside_s + n_between * between_s) / n_link
        rows.append(row | {"T_comm_ms": str(1e3 * mean_s)})
    found = links_of(rows)
    assert found.latency_s == pytest.approx(1e-4, rel=1e-6)
    assert (found.inside_bps, found.between_bps) == pytest.approx((4e11, 1e11), rel=1e-6)
    assert found.keys()["nic_delay"] == "25000ns"  # a message has two links, and is acknowledged over two
    one_server = links_of(rows[:2])
    assert one_server.between_bps == one_server.inside_bps == pytest.approx(4e11, rel=1e-6)
