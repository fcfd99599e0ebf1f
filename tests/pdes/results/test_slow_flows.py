"""Who else used the ports of the slowest flows: counted by hand, and the same however rows are grouped."""

import numpy as np
import pytest

from pdes.results.slow_flows import explain_slowest
from pdes.results.tables import UNWRITTEN

# Pairs 0 and 1 share port 5, pairs 1 and 2 port 6; ACKs of pair 2 go over port 5, which is no data.
START = np.array([0, 2, 3, 5, 6, 7, 8])
PORT = np.array([1, 5, 2, 5, 6, 3, 6, 5])
FLOWS = {
    "pair": np.array([0, 1, 2, 1, 0, 1]),
    "size_bytes": np.array([1000, 400, 700, 900, 50, 60]),
    "start_ps": np.array([100, 50, 0, 300, 100, 150]),
    "finish_ps": np.array([200, 150, 1000, 400, UNWRITTEN, 151]),
}


def grouped(n):
    return [{name: column[i : i + n] for name, column in FLOWS.items()} for i in range(0, 6, n)]


@pytest.mark.parametrize("n", [1, 2, 5, 6])
def test_flows_beside_are_counted_with_the_bytes_that_they_sent_meanwhile(n):
    found = explain_slowest([{"flow_id": 0}, {"flow_id": 1}], grouped(n), START, PORT)
    assert found[0] == {
        "flow_id": 0,
        "path": [
            {"port_id": 1, "flows_beside": 0, "bytes_beside": 0},
            {"port_id": 5, "flows_beside": 2, "bytes_beside": 400 * 50 // 100 + 60},
        ],
    }
    # Flow 1 runs at 50..150: beside flow 0 at port 5, beside flow 2 at port 6; not beside flow 5, which begins then.
    assert [tuple(port.values()) for port in found[1]["path"]] == [(5, 1, 500), (6, 1, 70)]


def test_no_slow_flows_need_no_explanation():
    assert explain_slowest([], grouped(6), START, PORT) == []
