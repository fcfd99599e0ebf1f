"""Claims about pipeline schedules: complete, in an order that can run, with the bubbles that theory has for them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.workload.compiler.loops import find_loops
from models.workload.compiler.schedules.passes import Pass
from models.workload.compiler.schedules.schedule import stage_passes

SCHEDULES = ("1f1b", "gpipe", "zero-bubble-1p", "zero-bubble-2p")


def all_passes(schedule, pp: int, vpp: int, m: int, times=(1, 1, 1)) -> list[list[Pass]]:
    return [stage_passes(schedule, pp, stage, vpp, m, times) for stage in range(pp)]


def finish(passes: list[list[Pass]], pp: int, vpp: int, time_of: dict[str, int]) -> tuple[int, int]:
    """When the last stage is done on an ideal network, and the most forward passes ahead of backward ones on stage 0.

    Messages between two stages come in the order in which they are sent, and are taken in the order of the schedule,
    so this also fails if a schedule would take one for another.
    """
    at, free = [0] * pp, [0] * pp
    sent: dict[tuple[int, int, str], list[tuple[Pass, int]]] = {}
    taken: dict[tuple[int, int, str], int] = {}
    n_left, ahead, most = sum(map(len, passes)), 0, 0
    while n_left:
        moved = False
        for stage in range(pp):
            while at[stage] < len(passes[stage]):
                one = passes[stage][at[stage]]
                is_forward, is_weight = one.which == "forward", one.which == "backward-weight"
                begin = free[stage]
                is_first = stage == 0 and one.chunk == 0
                is_last = stage == pp - 1 and one.chunk == vpp - 1
                waits = not is_weight and not (is_first if is_forward else is_last)
                way = ((stage - 1) % pp if is_forward else (stage + 1) % pp, stage, "f" if is_forward else "b")
                if waits:
                    queue = sent.get(way, [])
                    if taken.get(way, 0) == len(queue):
                        break
                    source, at_time = queue[taken.get(way, 0)]
                    taken[way] = taken.get(way, 0) + 1
                    chunk = one.chunk - (stage == 0) if is_forward else one.chunk + (stage == pp - 1)
                    assert (source.chunk, source.microbatch) == (chunk, one.microbatch)
                    begin = max(begin, at_time)
                free[stage] = begin + time_of[one.which]
                if not is_weight and not (is_last if is_forward else is_first):
                    to = (stage + 1) % pp if is_forward else (stage - 1) % pp
                    sent.setdefault((stage, to, "f" if is_forward else "b"), []).append((one, free[stage]))
                if stage == 0:
                    ahead += is_forward - (one.which in ("backward", "backward-weight"))
                    most = max(most, ahead)
                at[stage] += 1
                n_left, moved = n_left - 1, True
        assert moved, "the schedule is stuck"
    return max(free), most


@given(st.sampled_from(SCHEDULES), st.integers(1, 8), st.integers(1, 3), st.integers(1, 20))
def test_every_pass_of_every_microbatch_runs_once_and_none_waits_for_ever(schedule, pp, vpp, m):
    vpp = vpp if schedule == "1f1b" and pp > 1 else 1
    passes = all_passes(schedule, pp, vpp, m)
    whiches = {one.which for one in passes[0]}
    for stage in passes:
        assert sorted(stage) == sorted(Pass(w, c, i) for w in whiches for c in range(vpp) for i in range(m))
        for c in range(vpp):
            for i in range(m):
                order = [stage.index(Pass(w, c, i)) for w in sorted(whiches, key=len)]
                assert order == sorted(order)
    finish(passes, pp, vpp, dict.fromkeys(whiches, 1))


@given(st.integers(1, 8), st.integers(1, 24), st.integers(1, 5), st.integers(1, 9))
def test_1f1b_and_gpipe_take_the_bubble_of_all_other_stages(pp, m, forward, backward):
    """(m + p - 1) (F + B): Narayanan et al. SC'21, 2.2.1. 1F1B holds p activations, GPipe all."""
    times = {"forward": forward, "backward": backward}
    for schedule, most in (("1f1b", min(pp, m)), ("gpipe", m)):
        assert finish(all_passes(schedule, pp, 1, m), pp, 1, times) == ((m + pp - 1) * (forward + backward), most)


@given(st.integers(2, 6), st.integers(1, 4), st.integers(2, 4), st.integers(1, 4))
def test_interleaving_divides_the_bubble_by_the_chunks(pp, groups, vpp, forward):
    """m v (f + b) + (p - 1) (f + b) for chunks of f and b (SC'21, 2.2.2): microbatches are a multiple of p."""
    m, times = pp * groups, {"forward": forward, "backward": 2 * forward}
    end, _ = finish(all_passes("1f1b", pp, vpp, m), pp, vpp, times)
    assert end == (m * vpp + pp - 1) * 3 * forward


@given(st.integers(2, 8), st.integers(0, 12), st.integers(1, 4))
def test_zero_bubble_leaves_what_the_paper_says(pp, extra, time):
    """Equal times and enough microbatches: stage 0 idles (p - 1) T with the memory of 1F1B, hardly with twice that.

    Qi et al. 2024, table 1: (p - 1)(T_F + T_B - T_W) for ZB-H1, and (p - 1)(T_F + T_B - 2 T_W) = 0 for ZB-H2; the end
    of all stages is the last one's, p - 1 forward passes behind the first one's start.
    """
    m = 2 * pp + extra
    times = dict.fromkeys(("forward", "backward-input", "backward-weight"), time)
    end, most = finish(all_passes("zero-bubble-1p", pp, 1, m, (time,) * 3), pp, 1, times)
    assert most <= pp and end <= (3 * m + 2 * (pp - 1)) * time
    end, most = finish(all_passes("zero-bubble-2p", pp, 1, m, (time,) * 3), pp, 1, times)
    assert most <= 2 * pp and end <= (3 * m + pp) * time


@given(st.integers(2, 8), st.integers(0, 24), st.sampled_from([(4, 4, 4), (10, 9, 6), (11, 11, 8), (2, 2, 1)]))
def test_zero_bubble_has_none_between_iterations(pp, extra, times):
    """ZB-2p, 32 s b h of 87 left: a stage begins an iteration when it has ended one, and never waits (section 4).

    With four microbatches per stage; with three, and times that differ, 30 of 700 cases wait for up to a microbatch.
    """
    m, time_of = 4 * pp + extra, dict(zip(("forward", "backward-input", "backward-weight"), times, strict=True))
    passes = [stage_passes("zero-bubble-2p", pp, stage, 1, m, times, 368) for stage in range(pp)]
    once, _ = finish(passes, pp, 1, time_of)
    twice, _ = finish([stage * 2 for stage in passes], pp, 1, time_of)
    assert twice - once == m * sum(times)


@given(
    st.sampled_from([("zero-bubble-1p", 1), ("zero-bubble-2p", 2)]), st.integers(2, 8), st.integers(1, 40),
    st.integers(1, 1000), st.tuples(*[st.integers(1, 5)] * 3),
)  # fmt: skip
def test_zero_bubble_holds_no_more_activations_than_it_may(schedule, pp, m, left, times):
    """Whole ones from the forward pass to the backward pass for inputs, a share of them to that for weights."""
    changes = {"forward": 1000, "backward-input": left - 1000, "backward-weight": -left}
    for stage in range(pp):
        passes = stage_passes(schedule[0], pp, stage, 1, m, times, left)
        held = [sum(changes[one.which] for one in passes[: i + 1]) for i in range(len(passes))]
        assert max(held) <= 1000 * schedule[1] * pp and held[-1] == 0


@given(st.lists(st.integers(0, 2), max_size=60))
def test_loops_written_out_are_the_sequence(sequence):
    assert [x for times, part in find_loops(sequence) for _ in range(times) for x in part] == sequence


@pytest.mark.parametrize(("pp", "vpp", "m"), [(8, 1, 1024), (8, 4, 1024), (16, 2, 512)])
def test_a_long_schedule_is_a_few_loops(pp, vpp, m):
    for stage in range(pp):
        sequence = [(one.which, one.chunk) for one in stage_passes("1f1b", pp, stage, vpp, m)]
        assert sum(len(part) for _, part in find_loops(sequence)) <= 12 * pp * vpp
