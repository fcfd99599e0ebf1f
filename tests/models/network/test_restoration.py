"""What thaws without its queues: nothing is lost or counted twice, and queues have the depths that they are given."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.network.build.arrays import NetworkState
from models.network.restore.make_restoration import make_restoration
from models.network.restore.restoration import Depths, Restoration, why_no_restoration
from models.network.skip.fast_forward import FastForward
from models.network.state.parameters import (
    SELECTIVE_REPEAT,
    STRICT,
    BufferParameters,
    NetworkParameters,
    TransportParameters,
)
from models.network.state.records import HEADER_BYTES, PAYLOAD_BYTES
from models.topology.leaf_spine import leaf_spine
from pdes.engine.exchange import World
from reference.both_ends import both_ends
from reference.freezing import MARKED_LAWS, Rest, controlled, gamble, run_double
from reference.network_case import NetworkCase, Outcome

GBPS, US = 10**9, 10**6
TOPOLOGY = leaf_spine(2, 2, 4, 100 * GBPS, 100 * GBPS, US, US)
FLOWS = [(i, 4 + (i % 2), 2_000_000 + 997 * i, 0) for i in range(4)]
SHORT = [(src, dst, n_byte // 3, start_ps) for src, dst, n_byte, start_ps in FLOWS]
COMERS = [(*ends, 40_000, at * US) for ends in ((0, 5), (6, 3)) for at in (130, 231, 333, 437)]
Check = Callable[["Restored", NetworkState, Any], None]


@dataclass
class Made:
    """Depths that a test makes up, by port."""

    depth_bytes: np.ndarray

    def compile(self, state: NetworkState) -> None:
        pass

    def note(self, state: NetworkState, pairs: np.ndarray) -> None:
        pass

    def predict(self, ports: np.ndarray) -> np.ndarray:
        return self.depth_bytes[ports]


class Restored(FastForward):
    """Thaws with a restoration; `checks` are called before what has thawed goes on."""

    depths: Depths | None = None
    checks: tuple[Check, ...] = ()
    n_thaw = 0

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._thaw, self.suspension.thaw = self.suspension.thaw, self._restored

    @property
    def restoration(self) -> Restoration | None:
        return self.suspension.restoration

    def _restored(self, state: NetworkState, ended: Any, grow: Any) -> NetworkState:
        double: Any = self._controller
        if self.restoration is None:
            case: NetworkCase = double.case
            depths = self.depths
            made = make_restoration(case.topology, double.model, case.parameters, World(), self, depths)
            self.suspension.restoration = made
        # The rate by which queues are shared out: `Rest` says packets until its end.
        for freeze, _ in ended:
            freeze.done_packets, freeze.done_ps = freeze.packets, freeze.end_ps - freeze.begin_ps
        state = self._thaw(state, ended, grow)
        self.n_thaw += len(ended)
        for freeze, _ in ended:
            for check in self.checks:
                check(self, state, freeze)
        return state


def sips(seed: int) -> Callable[[Any, int, np.ndarray], list[Rest]]:
    """As `gamble`, for up to 20 us, of a few packets each."""
    choose = gamble(seed, 20 * US)

    def sip(double: Any, now_ps: int, rows: np.ndarray) -> list[Rest]:
        found = choose(double, now_ps, rows)
        for rest in found:
            rest.packets = np.minimum(rest.packets, 1 + rest.packets % 40)
        return found

    return sip


def kind(depths: Depths | None, *checks: Check) -> type[Restored]:
    return type("OneRestored", (Restored,), {"depths": depths, "checks": checks})


def waiting(state: NetworkState, port: int) -> list[tuple[int, int]]:
    """(queue pair, sequence) of the data packets that wait at a port of a switch that knows no classes."""
    found, packet = [], int(state.fabric.ports["data_head"][port])
    while packet >= 0:
        item = state.fabric.packets[packet]
        found.append((int(item["queue_pair"]), int(item["sequence"])))
        packet = int(item["next"])
    return found


def nothing_is_there(fast: Restored, state: NetworkState, freeze: Rest) -> None:
    ports = state.fabric.ports[freeze.ports]
    pairs = {name: column[freeze.pairs] for name, column in both_ends(state.nic).items()}
    assert (ports["link_head"] < 0).all() and fast.restoration is not None
    at_switch, is_managed = fast.restoration.ways.is_switch_port[freeze.ports], fast.restoration.is_managed
    plain = ports[~at_switch] if is_managed else ports
    assert (plain["data_head"] < 0).all() and (plain["ack_head"] < 0).all() and not ports["queued_bytes"].any()
    if is_managed:
        managed = state.buffers.managed[freeze.ports[at_switch]]
        assert not managed["waiting"].any() and not managed["queued_bytes"].any()
    for name in ("next_byte", "high_byte", "expected_byte"):
        assert (pairs[name] == pairs["acked_byte"]).all(), name
    assert (pairs["sent_bytes"] == pairs["received_bytes"]).all()


def assert_all_done(case: NetworkCase, outcome: Outcome) -> None:
    assert sorted(outcome.flows) == list(range(len(case.flow_list)))
    pairs = both_ends(outcome.model.state.nic)
    sent = [int(case.plan.pair_bytes[pair]) for pair in outcome.model.pairs.pair_of_row]
    for name in ("posted_end", "acked_byte", "expected_byte", "sent_bytes", "received_bytes"):
        assert pairs[name].tolist() == sent, name
    assert not pairs["resent_bytes"].any()
    assert outcome.model.fast_forward.n_thaw > 5


@pytest.mark.parametrize("law", MARKED_LAWS)
def test_without_restoration_nothing_is_in_flight_and_nothing_is_lost(law: str) -> None:
    """Verified after every round: bytes sent = delivered + queued + on wires, of every queue pair (design R8)."""
    case = controlled(law, TOPOLOGY, FLOWS + COMERS)
    outcome = run_double(case, sips(3), US, verify=True, kind=kind(None, nothing_is_there))
    assert_all_done(case, outcome)
    assert outcome.model.fast_forward.counters.thaws_interrupted > 0


@settings(max_examples=10)
@given(st.integers(0, 2**30), st.sampled_from(["dctcp", "hpcc", "swift"]), st.booleans(), st.integers(0, 300_000))
def test_whatever_depths_are_put_back_nothing_is_lost(seed: int, law: str, is_managed: bool, most: int) -> None:
    keys = {"n_queue": 3, "scheduler": STRICT} if is_managed else {}
    case = controlled(law, TOPOLOGY, SHORT + COMERS, **keys)
    depths = Made(np.random.default_rng(seed).integers(0, most + 1, TOPOLOGY.n_port))
    outcome = run_double(case, sips(seed), US, verify=True, kind=kind(depths))
    assert_all_done(case, outcome)


def test_queues_have_the_depths_that_they_are_given_shared_out_by_rates() -> None:
    """Four flows, two to each receiver: at its leaf's port, as many packets as were asked for, in turns."""
    depth_bytes = np.full(TOPOLOGY.n_port, 20_000)
    n_checked = 0

    def check(fast: Restored, state: NetworkState, freeze: Any) -> None:
        nonlocal n_checked
        constants = state.fabric.constants
        wire, payload = int(constants[PAYLOAD_BYTES] + constants[HEADER_BYTES]), int(constants[PAYLOAD_BYTES])
        assert fast.restoration is not None
        ways = fast.restoration.ways
        found: dict[int, list[int]] = {pair: [] for pair in freeze.pairs.tolist()}
        for port in freeze.ports.tolist():
            packets = waiting(state, port)
            flows = [pair for pair in found if port in ways.ports_of[pair].tolist()[1:]]
            last = [pair for pair in flows if port == ways.ports_of[pair][-1]]
            if not flows:
                assert not packets
                continue
            assert int(state.fabric.ports["queued_bytes"][port]) == len(packets) * wire
            assert len(packets) <= 20_000 / wire + 0.5
            if last:  # nothing is nearer the receiver, so only what was in flight bounds it
                rate = {pair: freeze.done_packets[freeze.pairs.tolist().index(pair)] for pair in last}
                for pair in last:
                    share = 20_000 / wire * rate[pair] / max(sum(rate.values()), 1)
                    mine = [sequence for p, sequence in packets if p == pair]
                    assert len(mine) <= share + 1
                    n_checked += abs(len(mine) - share) <= 1
            for pair, sequence in packets:
                found[pair].append(sequence)
        for pair, sequences in found.items():
            record = {name: column[pair] for name, column in both_ends(state.nic).items()}
            acked, n = int(record["acked_byte"]), len(sequences)
            assert sorted(sequences) == [acked + i * payload for i in range(n)]
            assert record["next_byte"] == record["high_byte"] == acked + n * payload
            assert record["expected_byte"] == acked
            assert record["sent_bytes"] - record["received_bytes"] == n * payload

    case = controlled("dctcp", TOPOLOGY, FLOWS)
    outcome = run_double(case, sips(3), US, verify=True, kind=kind(Made(depth_bytes), check))
    assert_all_done(case, outcome)
    assert n_checked > 10


def test_what_is_nearer_the_receiver_is_acknowledged_first() -> None:
    """A flow alone: its packets at the last switch are those before the ones at the first."""
    seen = 0

    def check(fast: Restored, state: NetworkState, freeze: Any) -> None:
        nonlocal seen
        assert fast.restoration is not None
        for pair in freeze.pairs.tolist():
            path = fast.restoration.ways.ports_of[pair]
            places = [[s for p, s in waiting(state, int(port)) if p == pair] for port in path[:0:-1]]
            together = [sequence for sequences in places for sequence in sequences]
            assert together == sorted(together)
            seen += sum(map(bool, places)) > 1

    case = controlled("dctcp", TOPOLOGY, [(0, 4, 4_000_000, 0)])
    depths = Made(np.full(TOPOLOGY.n_port, 5_000))
    outcome = run_double(case, sips(1), US, verify=True, kind=kind(depths, check))
    assert seen > 3 and sorted(outcome.flows) == [0]


def test_networks_that_cannot_be_emptied_say_why() -> None:
    plain = controlled("hpcc-pint", TOPOLOGY, FLOWS).parameters
    assert why_no_restoration(plain, is_learned=False) == ""
    assert "hpcc-pint carry" in why_no_restoration(plain, is_learned=True)
    selective = NetworkParameters(transport=TransportParameters(recovery=SELECTIVE_REPEAT))
    none = np.zeros(0, np.int64)
    assert "out of order" in why_no_restoration(selective, is_learned=False)
    assert "share their buffers" in why_no_restoration(
        NetworkParameters(buffer=BufferParameters(none, none, none)), False
    )
