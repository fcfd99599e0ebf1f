"""What results say of iterations that were left out: times add up, a stop time holds, and people can read it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdes.results.fast_forward import (
    audit_text,
    extrapolate,
    iterations_text,
    last_simulated,
    passes_text,
    simulated_ps,
    simulated_text,
)

MS = 10**9


def test_what_is_left_out_takes_the_mean_of_what_agreed():
    found = extrapolate([30, 10, 11, 12, 10], [10, 11, 12], 3, 80, None, 0.2, 1)
    assert found.time_ps == [30, 10, 11, 12, 10, 11, 11, 11]
    assert (found.n_simulated, found.extrapolated_ps, found.bound, found.cycle) == (5, 33, 0.2, 1)
    assert found.facts() == {
        "iterations_simulated": 5, "iterations_extrapolated": 3, "iteration_error_bound": 0.2, "iteration_cycle": 1,
        "extrapolated_time_ps": 33,
    }  # fmt: skip


def test_without_agreement_nothing_is_added():
    found = extrapolate([30, 10], [], 7, 41, 90, None, None)
    assert (found.time_ps, found.n_simulated, found.extrapolated_ps) == ([30, 10], 2, 0)


@pytest.mark.parametrize(
    "stop_ps, n, end_ps", [(1000, 5, 94), (94, 5, 94), (91, 5, 91), (90, 5, 90), (89, 4, 89), (44, 0, 44)]
)
def test_iterations_that_would_end_behind_the_stop_have_no_time(stop_ps, n, end_ps):
    """Four of 10 are simulated, the last event comes 4 later; five are left."""
    found = extrapolate([10] * 4, [10] * 3, 5, 44, stop_ps, 0.0, 1)
    assert (len(found.time_ps), 44 + found.extrapolated_ps) == (4 + n, end_ps)


@given(
    times=st.lists(st.integers(0, 10**15), min_size=1, max_size=5),
    n_left=st.integers(0, 50),
    tail=st.integers(0, 10**15),
    room=st.none() | st.integers(0, 10**17),
)
def test_a_run_never_ends_before_its_iterations_nor_behind_its_stop(times, n_left, tail, room):
    last_ps = sum(times) + tail
    stop_ps = None if room is None else last_ps + room
    found = extrapolate(times, times, n_left, last_ps, stop_ps, 0.0, 1)
    end_ps = last_ps + found.extrapolated_ps
    assert sum(found.time_ps) <= end_ps and found.extrapolated_ps >= 0
    assert end_ps <= (stop_ps if stop_ps is not None else end_ps)
    assert len(found.time_ps) <= len(times) + n_left


FACTS = {
    "iterations_simulated": 4, "iterations_extrapolated": 996, "iteration_error_bound": 0.000123,
    "iteration_cycle": 1, "extrapolated_time_ps": 996 * MS,
}  # fmt: skip
RESULT = {"simulated_time_ps": 1000 * MS, "iteration_time_ps": [MS] * 1000}


def test_the_summary_tells_simulated_from_extrapolated():
    result = RESULT | {"fast_forward": FACTS}
    assert (simulated_ps(result), last_simulated(result)) == (4 * MS, 3)
    assert simulated_text(result) == "Simulated 4 ms, extrapolated to 1 s"
    expected = (
        "Iterations: 4 of 1,000 simulated, 996 extrapolated from the last of them{}, their mean to about 0.012 %; "
    )
    expected += "tables and counts are of those simulated"
    assert iterations_text(result) == expected.format("")
    assert iterations_text(RESULT | {"fast_forward": FACTS | {"iteration_cycle": 2}}) == expected.format(
        ", which take turns"
    )


def test_the_summary_says_why_all_were_simulated():
    none = {"iterations_simulated": 1000, "iterations_extrapolated": 0, "extrapolated_time_ps": 0}
    result = RESULT | {"fast_forward": none | {"iteration_error_bound": 0.015, "iteration_cycle": 2}}
    assert iterations_text(result) == "Iterations: all simulated; the last of them say the mean of more to about 1.5 %"
    assert simulated_text(result) == "Simulated 1 s"
    assert iterations_text(RESULT | {"fast_forward": none | {"iteration_error_bound": None}}) == ""


def test_results_without_fast_forward_are_as_ever():
    assert (simulated_ps(RESULT), last_simulated(RESULT)) == (1000 * MS, 999)
    assert iterations_text(RESULT) == "" and last_simulated({"simulated_time_ps": 1, "iteration_time_ps": []}) == -1


AUDIT = {"skips": 240, "skips_audited": 12, "mean_rate_error": 0.0012, "max_rate_error": 0.03, "standard_error": 0.0004}


def test_the_summary_says_how_far_skips_would_have_been_off():
    def text(**keys):
        return audit_text({"fast_forward": {"audit": AUDIT | keys}})

    begin = "Audit: 12 of 240 skips simulated instead; they would have been off by 0.12 % of a flow's rate on average"
    assert text() == f"{begin} (standard error 0.04 %), by 3 % at most"
    assert text(standard_error=None) == f"{begin}, by 3 % at most"
    assert text(skips_audited=0, mean_rate_error=None) == "Audit: 0 of 240 skips simulated instead"
    assert audit_text({"fast_forward": {}}) == audit_text({}) == ""


def test_the_summary_says_how_far_lanes_groups_and_waves_would_have_been_off():
    none = {"audited": 0, "void": 0, "mean_fct_error": None, "max_fct_error": None, "standard_error": None}
    lanes = none | {"audited": 1200, "void": 3, "mean_fct_error": 0.004, "max_fct_error": 0.05, "standard_error": 0.001}
    begin = "Audit: 0 of 240 skips simulated instead"
    audit = AUDIT | {"skips_audited": 0, "mean_rate_error": None, "waves": none, "lanes": lanes, "groups": none}
    assert audit_text({"fast_forward": {"audit": audit}}) == (
        f"{begin}. 1,200 messages that could have had lanes simulated instead, 3 of them in vain; they would have been "
        "off by 0.4 % of a completion time on average (standard error 0.1 %), by 5 % at most"
    )
    void = audit | {"lanes": none, "groups": none | {"audited": 1, "void": 1}}
    text = "1 groups that could have gone on together simulated instead, 1 of them in vain"
    assert audit_text({"fast_forward": {"audit": void}}) == f"{begin}. {text}"


def test_the_summary_says_what_passes_were_left_out():
    jumps = [{"error_bound": 0.0}, {"error_bound": 0.000123}]
    result = RESULT | {"fast_forward": {"passes": {"skipped": 1058, "skipped_time_ps": 5 * 10**12, "jumps": jumps}}}
    left_out = "Microbatches: 1,058 passes of the pipeline's loop left out, 5 s in all"
    assert passes_text(result) == f"{left_out}, as others repeat; their mean to about 0.012 %"
    for fast_forward in ({}, {"passes": {"skipped": 0, "skipped_time_ps": 0, "jumps": []}}):
        assert passes_text(RESULT | {"fast_forward": fast_forward}) == ""
