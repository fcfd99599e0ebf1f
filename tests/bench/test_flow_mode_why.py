"""What flow mode's errors are made of, and how much of a port is used."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from flow_mode_why import errors, use


def finished(fct_ps: list[int]) -> Any:
    """A run with these completion times, of messages whose least time is 100 ps."""
    table = {"flow_id": np.arange(len(fct_ps)), "fct_ps": np.array(fct_ps), "ideal_fct_ps": np.full(len(fct_ps), 100)}
    return cast(Any, SimpleNamespace(columns=lambda _, names: {name: table[name] for name in names}))


def test_errors_are_parts_of_the_sum_with_packets() -> None:
    found = errors(finished([100, 150, 250]), finished([101, 200, 200]))
    assert found["error"] == pytest.approx(1 / 500)
    assert found["alone"] == pytest.approx(1 / 500) and found["shared"] == pytest.approx(0)
    assert found["worst"] == pytest.approx(found["error"]), "of four there are three"
    assert (found["first"], found["median"], found["last"]) == pytest.approx((100 / 101, 100 / 101, 1.25))


def test_use_is_the_mean_over_windows_in_which_a_port_sends() -> None:
    """Full for 20 us, silent for 40, half full for 20 at 100 Gbps."""
    time_ps = np.array([20, 60, 80]) * 1_000_000
    assert use(time_ps, np.array([250_000, 250_000, 375_000]), 100e9) == pytest.approx(0.75)
    assert use(time_ps, np.zeros(3), 100e9) == 0
