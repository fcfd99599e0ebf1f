"""Pipeline bubble and exposed communication: of pipelines whose waits are known in closed form, whole and in parts."""

from itertools import pairwise

import numpy as np
import pytest

from pdes.results.iteration import TASK_KINDS, breakdown_rows, times_of_tasks
from pdes.results.pipeline import Pipeline, pipeline_shape, split_waits
from reference.plain_pipeline import make_tasks

MS = 10**9
F, B, C = 20 * MS, 40 * MS, 3 * MS


def columns(rows: list[tuple]) -> dict[str, np.ndarray]:
    gpu, iteration, kind, start_ps, end_ps = zip(*rows, strict=True)
    codes = [TASK_KINDS.index(name) for name in kind]
    values = {"gpu": gpu, "iteration": iteration, "kind": codes, "start_ps": start_ps, "end_ps": end_ps}
    return {name: np.array(value, np.int64) for name, value in values.items()}


def parts_of(rows: list[tuple], n_stage: int, n_microbatch: int) -> list[dict[str, int]]:
    """Rows of the summary, stage by stage, and last of all."""
    times = times_of_tasks(columns(rows), n_stage, 0, Pipeline(n_stage, n_microbatch, True))
    return [dict(breakdown_rows(times.mean(i, i + 1))) for i in range(n_stage)] + [dict(breakdown_rows(times.mean()))]


def test_two_stages_and_two_microbatches_wait_what_their_messages_take() -> None:
    """Stage 1 waits f + c for its first input, and idles b + c at the end. Stage 0 waits b + 2 c for the first
    gradients, behind its second forward pass, and f for the others: of f + b + 2 c the bubble is f + b.
    """
    rows = make_tasks([(F, B)] * 2, 2, C)
    assert max(row[4] for row in rows) == 3 * (F + B) + 2 * C
    first, second, whole = parts_of(rows, 2, 2)
    assert (first["PP exposed"], first["pipeline bubble"], first["idle"]) == (2 * C, F + B, 0)
    assert (second["PP exposed"], second["pipeline bubble"], second["idle"]) == (C, F + B, C)
    assert (whole["PP exposed"], whole["pipeline bubble"], whole["idle"]) == (3 * C // 2, F + B, C // 2)


@pytest.mark.parametrize("n_stage, n_microbatch", [(2, 2), (3, 4), (4, 4), (4, 9)])
def test_exposed_is_what_is_waited_beyond_a_network_without_delay(n_stage: int, n_microbatch: int) -> None:
    """Of equal stages, compared with the same pipeline whose messages take no time; and the whole is the mean."""
    waits = [
        [sum(row[4] - row[3] for row in rows if row[0] == stage and row[2] == "pp-wait") for stage in range(n_stage)]
        for rows in (make_tasks([(F, B)] * n_stage, n_microbatch, delay_ps) for delay_ps in (0, C))
    ]
    *stages, whole = parts_of(make_tasks([(F, B)] * n_stage, n_microbatch, C), n_stage, n_microbatch)
    for stage, parts in enumerate(stages):
        assert parts["PP exposed"] == pytest.approx(waits[1][stage] - waits[0][stage], abs=n_stage)
        assert parts["pipeline bubble"] == pytest.approx((n_stage - 1) * (F + B), abs=n_stage)
    for name, part_ps in whole.items():
        assert part_ps == pytest.approx(sum(parts[name] for parts in stages) / n_stage, abs=4)
    assert whole["PP exposed"] > 0


def test_waiting_for_a_slower_stage_is_no_communication() -> None:
    """A perfect network, and a last stage that takes twice as long: nothing is exposed, what is waited is bubble."""
    first, second, whole = parts_of(make_tasks([(F, B), (2 * F, 2 * B)], 4, 0), 2, 4)
    assert first["PP exposed"] == second["PP exposed"] == whole["PP exposed"] == 0
    assert (first["pipeline bubble"], second["pipeline bubble"]) == (5 * (F + B), F + B)


def test_waits_for_the_next_iteration_are_idle_time_of_this_one() -> None:
    """Stage 1 is done before stage 0 and waits for its next input: not for the network, as stage 0 still computes."""
    rows = make_tasks([(F, B)] * 2, 2, C)
    end_ps = max(row[4] for row in rows)
    later = [(1, 1, "pp-wait", end_ps - B - C, end_ps + F + C), (0, 1, "forward", end_ps, end_ps + F)]
    assert parts_of(rows + later, 2, 2) == parts_of(rows, 2, 2)


def test_stages_that_are_not_known_hide_less_than_they_wait() -> None:
    """All of the bubble may lie before: what is exposed is a lower bound, and no more than with known stages."""
    rows = make_tasks([(F, B)] * 4, 8, C)
    known, unknown = (times_of_tasks(columns(rows), 4, 0, Pipeline(4, 8, order)).mean() for order in (True, False))
    assert 0 < unknown["pp_exposed_ps"] < known["pp_exposed_ps"]
    assert unknown["bubble_ps"] == known["bubble_ps"]


def test_the_shape_is_that_of_the_config() -> None:
    workload = {"parallel": {"pp": 4, "vpp": 3}, "schedule": "1f1b", "placement": "in-order"}
    result = {"config": {"workload": workload}, "workload": {"microbatches": 8}}
    assert pipeline_shape(result) == (4, 24, True)
    workload |= {"placement": "optimised", "parallel": {"pp": 2, "vpp": "auto"}}
    assert pipeline_shape(result) == (2, 8, False)
    assert pipeline_shape({}) == (1, 1, True)


def test_without_a_pipeline_every_wait_is_exposed() -> None:
    parts = {name: np.array([10, 20]) for name in ("compute_ps", "tp_ps", "cp_ps", "ep_ps", "pp_wait_ps", "idle_ps")}
    bubble_ps, exposed_ps = split_waits(parts, np.array([4, 0]), np.zeros(2, np.int64), Pipeline())
    assert bubble_ps.tolist() == [0, 0] and exposed_ps.tolist() == [6, 20]


def test_the_plain_pipeline_keeps_its_order() -> None:
    """The maker of tasks itself: passes of a stage do not overlap, and no input is used before it is there."""
    rows = make_tasks([(F, B), (F, 2 * B), (2 * F, B)], 5, C)
    for stage in range(3):
        own = [row for row in rows if row[0] == stage]
        assert sum(row[2] == "forward" for row in own) == sum(row[2] == "backward" for row in own) == 5
        assert all(a[4] <= b[3] for a, b in pairwise(own))
