"""What messages are said to take at flow level, against how they go: over seeds, for every congestion control."""

import numpy as np
import pytest

import fluid_errors

SEEDS = range(6)


@pytest.mark.parametrize("control", ["hpcc", "dctcp", "timely", "dcqcn"])
@pytest.mark.parametrize("kind", ["port", "ports", "lone"])
def test_no_flow_of_a_company_is_off_by_more_than_the_tolerance(kind: str, control: str) -> None:
    """Swift is not here: two of its flows drift apart faster and faster, from shares that are equal."""
    for seed in SEEDS:
        case = fluid_errors.make_case(kind, seed)
        found = fluid_errors.outcome(case, control, fluid_errors.FLUID | {"audit": 1.0}).audit["fluid"]
        assert found["flows"] == 0 or found["max_fct_error"] <= fluid_errors.TOLERANCE, (seed, found)


def test_something_is_skipped_and_nothing_that_timely_has_not_settled() -> None:
    found = {control: fluid_errors.measure("port", control, range(2)) for control in ("hpcc", "timely")}
    assert found["hpcc"]["skipped"] > 0.05
    assert found["timely"]["max_fct_error"] <= fluid_errors.TOLERANCE


def test_a_case_is_the_seeds_alone() -> None:
    for kind in fluid_errors.KINDS:
        one, again, other = (fluid_errors.make_case(kind, seed) for seed in (3, 3, 4))
        assert all(np.array_equal(a, b) for a, b in zip(one[1:], again[1:], strict=True))
        assert not np.array_equal(one.start_ps, other.start_ps)
