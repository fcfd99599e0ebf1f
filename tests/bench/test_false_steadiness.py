"""What is skipped of incasts that look steady before they are: nothing whose rates are off by 2 % or more."""

import false_steadiness
import pytest


@pytest.mark.parametrize("control", ["hpcc", "timely", "dcqcn"])
@pytest.mark.parametrize("n", [4, 8])
def test_incasts_that_drift_or_swing_are_not_taken_for_steady(n: int, control: str) -> None:
    found = false_steadiness.measure(n, control, 10 * false_steadiness.MB)
    assert found["max_rate_error"] is None or found["max_rate_error"] < 0.02
    assert found["max_fct_error"] <= max(0.02, found["max_floor"])


def test_what_is_steady_is_skipped() -> None:
    found = false_steadiness.measure(2, "dctcp", 20 * false_steadiness.MB)
    assert found["skipped"] > 0.3 and found["max_rate_error"] < 0.02 and found["max_fct_error"] < 0.001
