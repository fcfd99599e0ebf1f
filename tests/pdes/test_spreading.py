"""When rank 0 is joined by others and when they fall asleep again: clocks and counts of the test's own."""

import signal
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest

from pdes.checkpoint_requests import Requests
from pdes.config.values import make_config
from pdes.debug.options import DebugPlan
from pdes.engine.round import COMPUTE_NS, N_LOOP
from pdes.scenario import build_scenario
from pdes.simulation import spreading
from pdes.simulation.crew import PREPARES, hear
from pdes.simulation.job import begins_alone
from pdes.simulation.memory import PROCESS_BYTES, expected_bytes
from pdes.simulation.spreading import COST_NODE_S, COST_S, PATIENCE, TRIAL_S, Spreading
from pdes.units import NS_PER_S

N_NODE = 10


class Ranks:
    """So many, of which this is rank 0; what they say is the same on all."""

    def __init__(self, size: int) -> None:
        self.rank, self.size = 0, size
        self.told: list[tuple[int, list[int]]] = []

    def allgather(self, value: Any) -> list[Any]:
        return [value] * self.size

    def bcast(self, value: Any) -> Any:
        return value

    def tell(self, word: int, ranks: list[int]) -> None:
        self.told = [*self.told, (word, ranks)]


class Bed:
    """A run whose packets take a share of the time, on 2 ranks; changes take `change_s`."""

    def __init__(self, n_rank: int = 2) -> None:
        self.now_s, self.change_s, self.hops = 100.0, 1.0, 0
        self.job: Any = SimpleNamespace(
            world=Ranks(1), everyone=Ranks(n_rank), is_asleep=False, loop=np.zeros(N_LOOP, np.int64), now_ps=0,
            scenario=SimpleNamespace(
                n_lp=100, topology=SimpleNamespace(n_node=N_NODE), parameters=SimpleNamespace(has_packets=True)
            ),
        )  # fmt: skip
        self.spreading = Spreading(self.job, lambda: self.now_s)

    def run(self, seconds: float, packets: float, hops_per_s: float) -> None:
        """packets: share of the time."""
        self.now_s += seconds
        self.hops += int(hops_per_s * seconds)
        self.job.loop[COMPUTE_NS] += int(packets * seconds * NS_PER_S)

    def change(self, job: Any) -> None:
        self.now_s += self.change_s
        job.world = Ranks(1 if job.world.size > 1 else job.everyone.size)


@pytest.fixture
def bed() -> Iterator[Bed]:
    beds: list[Bed] = []

    def change(job: Any) -> None:
        beds[0].change(job)

    with mock.patch.multiple(
        spreading, hops_of=lambda _: beds[0].hops if beds else 0, spread=change, collect=change
    ):  # fmt: skip
        beds.append(Bed())
        yield beds[0]


FIRST_S = PATIENCE * (2 * (COST_S + COST_NODE_S * N_NODE) + TRIAL_S)


def test_a_run_of_decisions_stays_on_one_rank(bed: Bed) -> None:
    bed.run(100 * FIRST_S, 0.3, 1e6)
    assert not bed.spreading.is_due


def test_a_run_of_packets_gets_all_ranks_when_a_trial_costs_little_beside_it(bed: Bed) -> None:
    bed.run(0.9 * FIRST_S, 0.9, 1e6)
    assert not bed.spreading.is_due
    bed.run(0.2 * FIRST_S, 0.9, 1e6)
    assert bed.spreading.tick() and bed.spreading.rest() and bed.job.world.size == 2


def test_ranks_that_make_it_faster_stay_and_are_looked_at_ever_more_seldom(bed: Bed) -> None:
    bed.run(2 * FIRST_S, 0.9, 1e6)
    assert bed.spreading.rest()
    for seconds in (TRIAL_S, 2 * TRIAL_S, 4 * TRIAL_S):
        bed.run(0.9 * seconds, 0.5, 0.7e6)  # of each of the two
        assert not bed.spreading.is_due
        bed.run(0.2 * seconds, 0.5, 0.7e6)
        assert bed.spreading.is_due and not bed.spreading.rest()
    assert [change["to"] for change in bed.spreading.facts()["changes"]] == ["all ranks"]


def test_ranks_that_make_it_slower_fall_asleep_for_twice_as_long(bed: Bed) -> None:
    bed.change_s = 2.0
    bed.run(2 * FIRST_S, 0.9, 1e6)
    assert bed.spreading.rest()
    bed.run(TRIAL_S, 0.5, 0.4e6)
    assert bed.spreading.is_due and bed.spreading.rest() and bed.job.world.size == 1
    bed.run(1.9 * PATIENCE * (2 * bed.change_s + TRIAL_S), 0.9, 1e6)
    assert not bed.spreading.is_due
    bed.run(0.2 * PATIENCE * (2 * bed.change_s + TRIAL_S), 0.9, 1e6)
    assert bed.spreading.is_due
    changes = bed.spreading.facts()["changes"]
    assert [(change["to"], change["seconds"]) for change in changes] == [("all ranks", 2.0), ("rank 0", 2.0)]
    assert changes[0]["ns_per_packet_hop"] == 1000 and changes[1]["ns_per_packet_hop"] == 1250


def test_what_is_lost_by_trials_is_a_small_part_of_any_run(bed: Bed) -> None:
    """All ranks always take twice as long: however long the run is, it loses no tenth beside rank 0 alone."""
    lost_s, begin_s, bed.change_s = 0.0, bed.now_s, COST_S
    for _ in range(200_000):
        before = bed.job.world.size, bed.now_s, bed.hops
        bed.run(0.2, 0.9, 1e6 if before[0] == 1 else 0.25e6)
        if bed.spreading.is_due:
            bed.spreading.rest()
        done = (bed.hops - before[2]) * before[0]
        lost_s += bed.now_s - before[1] - done / 1e6
        assert lost_s <= 0.1 * (bed.now_s - begin_s)
    assert lost_s > 0


def test_those_that_sleep_prepare_once_halfway_to_a_trial(bed: Bed) -> None:
    bed.run(0.4 * FIRST_S, 0.9, 1e6)
    assert not bed.spreading.tick() and bed.job.everyone.told == []
    for _ in range(2):
        bed.run(0.2 * FIRST_S, 0.9, 1e6)
        assert not bed.spreading.tick() and bed.job.everyone.told == [(PREPARES, [1])]
    bed.run(0.3 * FIRST_S, 0.9, 1e6)
    assert bed.spreading.tick()


def test_flows_without_packets_stay_on_one_rank(bed: Bed) -> None:
    bed.job.scenario.parameters.has_packets = False
    bed.run(100 * FIRST_S, 0.9, 1e6)
    assert not bed.spreading.tick()


def test_rank_0_begins_alone_if_every_rank_here_has_room_for_the_network() -> None:
    config = {
        "topology": {"kind": "leaf-spine", "leaves": 2, "spines": 1, "hosts_per_leaf": 2},
        "workload": {"kind": "collectives", "collective": [{"name": "ring", "operation": "all-reduce", "size": "1MB"}]},
        "wormhole": {"mode": "exact"},
    }
    prepared: Any = SimpleNamespace(scenario=build_scenario(make_config(config)), debug=DebugPlan())
    room_bytes = expected_bytes(prepared.scenario, 1) - PROCESS_BYTES
    with mock.patch("pdes.simulation.memory.limit_bytes", return_value=room_bytes):
        assert begins_alone(prepared, 2, 1) and begins_alone(prepared, 8, 1)  # others are on other machines
        assert not begins_alone(prepared, 2, 2) and not begins_alone(prepared, 1, 1)
    with mock.patch("pdes.simulation.memory.limit_bytes", return_value=room_bytes - 1):
        assert not begins_alone(prepared, 2, 1)


@pytest.mark.parametrize("n_with_lps", [1, 2])
def test_a_signal_that_was_passed_on_counts_whoever_has_been_woken_since(n_with_lps: int) -> None:
    heard = [signal.SIGTERM]
    everyone = SimpleNamespace(rank=0, size=2, told=lambda: heard.pop() if heard else None)
    job: Any = SimpleNamespace(begins_alone=True, everyone=everyone, world=Ranks(n_with_lps))
    requests = Requests(None, heeds_signals=False)
    for _ in range(2):
        hear(job, requests)
    assert requests.take().stops and not requests.is_pending
