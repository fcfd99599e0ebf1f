"""Claims about the bench of Sailor's plans: what it reads is what was measured, and one plan's time is close to it."""

from pathlib import Path

import pytest
from sailor import groups_of, own_plans, simulated

from pdes.convert.sailor import Group, Rows


def test_groups_are_read_as_they_are_written() -> None:
    assert groups_of("RTX-3090:8 RTX-2080:4*2") == [Group("RTX-3090", 8), *[Group("RTX-2080", 4)] * 2]


def test_every_plan_has_its_layers_groups_and_measurements() -> None:
    plans = own_plans()
    assert len(plans) == 23
    for one in plans:
        assert sum(one.plan.layers) == {"OPT-350": 24, "GPT-Neo-2.7": 32}[one.model]
        assert len(one.plan.stages) == len(one.plan.layers)
        assert one.plan.global_batch % (one.plan.microbatch * len(one.plan.stages[0])) == 0
        assert one.iteration_s > 0 and one.memory_bytes > 2**30
        sizes = {(g.gpu, g.tp) for stage in one.plan.stages for g in stage}
        for gpu, tp in sizes if one.model == "OPT-350" else ():
            assert parts(one.times[gpu], tp, one.plan.microbatch) == {"embedding", "layer", "head"}


def parts(rows: Rows, tp: int, microbatch: int) -> set[object]:
    return {row[2] for row in rows if (int(str(row[0])), int(str(row[1]))) == (tp, microbatch)}


@pytest.mark.parametrize(("name", "most"), [("clariden N2_D1", 0.05), ("mit N4_D4", 0.05)])
def test_a_plan_takes_about_as_long_as_measured(name: str, most: float, tmp_path: Path) -> None:
    """A pipeline of two stages, and four replicas of three types that sum their gradients over gigabit Ethernet."""
    one = next(one for one in own_plans() if (one.name, one.model) == (name, "OPT-350"))
    seconds, need, _ = simulated(one, tmp_path, {})
    assert abs(seconds / one.iteration_s - 1) < most
    assert need < 1.1 * one.memory_bytes
