"""What is counted when a run is over of what was not simulated."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from models.network.skip.credits import Credits
from models.network.skip.skipped import Skipped


def test_packets_that_flow_level_took_out_are_counted_once_though_nothing_of_them_ended_there() -> None:
    """They went on at once, and were sent again: what ports had sent of them before is not theirs twice."""
    ports = np.zeros(3, [("tx_bytes", np.int64)])
    ports["tx_bytes"] = 9000, 8000, 7000  # with what was sent again
    none, state = np.zeros(0, np.int64), SimpleNamespace(fabric=SimpleNamespace(ports=ports))
    fluid = SimpleNamespace(totals=lambda _: (none,) * 4, twice=lambda: (np.array([1000, 0, 500]), 2))
    nothing: Any = None
    credits = Credits(nothing, Skipped())
    credits.settle_fluid(state, fluid)  # pyright: ignore[reportArgumentType]
    assert ports["tx_bytes"].tolist() == [8000, 8000, 6500]
    assert credits.skipped.hops_by_cause["fluid"] == credits.skipped.packet_hops == -2
