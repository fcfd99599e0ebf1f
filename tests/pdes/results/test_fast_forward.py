"""What results say of iterations that were left out: times add up, a stop time holds, and people can read it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.network.skip.skipped import CAUSES
from pdes.results.fast_forward import (
    extrapolate,
    how_sure_text,
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


def facts_of(packet_hops: int, *, audit: dict | None = None, **by_cause: int) -> dict:
    """A result of so many packet-hops simulated, and so many skipped by each cause."""
    facts = {"skipped_packet_hops": dict.fromkeys(CAUSES, 0) | by_cause}
    facts |= {"audit": audit} if audit else {}
    skipped = sum(by_cause.values())
    return {"packet_hops": packet_hops, "skipped_packet_hops": skipped, "fast_forward": facts}


AUDIT = {"skips": 240, "skips_audited": 12, "mean_rate_error": 0.0012, "max_rate_error": 0.03, "standard_error": 0.0004}
NOT_AUDITED = "nothing was audited: [wormhole] audit = 0.05 would measure the error"


def test_nothing_is_said_of_a_run_that_skipped_nothing() -> None:
    assert how_sure_text({}) == how_sure_text({"packet_hops": 5, "fast_forward": {}}) == ""
    assert how_sure_text(facts_of(1000)) == how_sure_text({"fast_forward": {"why_not": "spraying"}}) == ""


def test_an_exact_run_says_what_was_foretold_and_that_nothing_was_audited() -> None:
    text = "How sure: 75 % of packet-hops skipped (periodic 50 %, replay 25 %); " + NOT_AUDITED
    assert how_sure_text(facts_of(250, steady=500, memo=100, memo_file=50, follower=100)) == text


def test_what_was_replayed_is_exact_and_needs_no_audit() -> None:
    assert (
        how_sure_text(facts_of(500, memo=500)) == "How sure: 50 % of packet-hops skipped (replay 50 %); replay is exact"
    )
    passes = "How sure: 20 % of packet-hops skipped (microbatches 20 %); the line on microbatches bounds their error"
    assert how_sure_text(facts_of(800, **{"pass": 200})) == passes


def test_an_auto_run_without_an_audit_names_the_key_that_would_measure_its_error() -> None:
    text = "How sure: over 99.9 % of packet-hops skipped (similar 1 %, flow level 99 %); " + NOT_AUDITED
    assert how_sure_text(facts_of(1, wave=100, fluid=9900)) == text


def test_an_auto_run_with_an_audit_says_its_mean_errors_and_how_sure_these_are() -> None:
    none = {"audited": 0, "void": 0, "mean_fct_error": None, "max_fct_error": None, "standard_error": None}
    fluid = none | {"audited": 1200, "void": 3, "mean_fct_error": 0.004, "max_fct_error": 0.05, "standard_error": 0.001}
    audit = AUDIT | {"waves": none, "fluid": fluid}
    assert how_sure_text(facts_of(500, steady=250, fluid=250, audit=audit)) == (
        "How sure: 50 % of packet-hops skipped (periodic 25 %, flow level 25 %); audit, mean error: periodic 0.12 % "
        "of rates in 12 (standard error 0.04 %), flow level 0.4 % of completion times in 1,200 (standard error 0.1 %)"
    )
    one = audit | {"standard_error": None, "fluid": none}
    text = "How sure: 50 % of packet-hops skipped (periodic 50 %); audit, mean error: periodic 0.12 % of rates in 12"
    assert how_sure_text(facts_of(500, steady=500, audit=one)) == text


def test_an_audit_says_so_where_it_skipped_or_compared_nothing() -> None:
    begin = "How sure: nothing skipped; "
    assert how_sure_text(facts_of(500, audit=AUDIT)).startswith(begin + "audit, mean error: periodic 0.12 % of rates")
    nothing = AUDIT | {"skips_audited": 0, "mean_rate_error": None}
    text = "the audit drew nothing that can be compared: take a larger [wormhole] audit, or another seed"
    assert how_sure_text(facts_of(500, audit=nothing)) == begin + text


def test_the_summary_says_what_passes_were_left_out():
    jumps = [{"error_bound": 0.0}, {"error_bound": 0.000123}]
    result = RESULT | {"fast_forward": {"passes": {"skipped": 1058, "skipped_time_ps": 5 * 10**12, "jumps": jumps}}}
    left_out = "Microbatches: 1,058 passes of the pipeline's loop left out, 5 s in all"
    assert passes_text(result) == f"{left_out}, as others repeat; their mean to about 0.012 %"
    for fast_forward in ({}, {"passes": {"skipped": 0, "skipped_time_ps": 0, "jumps": []}}):
        assert passes_text(RESULT | {"fast_forward": fast_forward}) == ""
