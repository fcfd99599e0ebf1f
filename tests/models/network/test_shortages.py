"""Packets that run short in the middle of a round: the run stops between two events and goes on with a larger pool."""

from collections.abc import Callable

import pytest

from models.network import model
from models.network.build import arrays as build
from models.network.build.arrays import grow_packets
from models.network.model import NetworkModel
from models.network.state.records import FREE_PACKET, N_FREE_PACKET, NEED_PACKETS, Fabric
from reference.network_case import NetworkCase, Outcome, assert_equal, squeezed

N_FIRST = 8
CASES: dict[str, Callable[[], NetworkCase]] = {
    "pauses": lambda: squeezed("none", 12, pfc=True),
    "pauses, marks and loss": lambda: squeezed("dcqcn", 30, pfc=True, loss=0.01),
    "pauses and telemetry": lambda: squeezed("hpcc", 30, pfc=True),
    "drops": lambda: squeezed("none", 12, pfc=False),
}


def run_short(
    case: NetworkCase, grow: Callable[[int], int], each_round: Callable[[NetworkModel], None] | None = None
) -> tuple[Outcome, int]:
    """Run a case whose first pool has N_FIRST packets, and grow(n) after n; and how often a switch had too few.

    A host goes on with NEED_PACKETS free packets, so whoever stops with as many is a switch.
    """
    n_short_switch = 0

    def grow_and_count(fabric: Fabric, n_packet: int) -> Fabric:
        nonlocal n_short_switch
        n_short_switch += int(fabric.counters[N_FREE_PACKET] >= fabric.constants[NEED_PACKETS])
        return grow_packets(fabric, grow(n_packet // 2))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "FIRST_PACKETS", N_FIRST)
        patch.setattr(model, "grow_packets", grow_and_count)
        return case.run(each_round=each_round), n_short_switch


def forget_free_packets(network: NetworkModel) -> None:
    """Leave a round's end without a free packet: they are never used again."""
    counters = network.state.fabric.counters
    counters[FREE_PACKET], counters[N_FREE_PACKET] = -1, 0


@pytest.mark.parametrize("name", CASES)
def test_a_small_pool_of_packets_changes_nothing(name):
    case = CASES[name]()
    outcome, n_short_switch = run_short(case, lambda n: n + 1)
    assert n_short_switch > 10
    assert len(outcome.model.state.fabric.packets) < build.FIRST_PACKETS // 10
    assert_equal(outcome, case.run())


@pytest.mark.parametrize("n_more", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_a_pool_that_is_short_in_every_round_changes_nothing(name, n_more):
    case = CASES[name]()
    outcome, n_short_switch = run_short(case, lambda n: n + n_more, forget_free_packets)
    assert n_short_switch > 50
    assert_equal(outcome, case.run())
