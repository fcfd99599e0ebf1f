"""Round-trip times of a flow's packets are what a bystander of the twin sees, and nobody else notices them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from models.congestion.law import find_law
from models.network.build import work as build
from models.network.host import rtt_rows
from models.network.state.parameters import GO_BACK_N, SELECTIVE_REPEAT, TransportParameters
from models.topology.base_rtt import path_base_rtt
from models.topology.leaf_spine import leaf_spine
from reference.network_case import NetworkCase, assert_equal, make_flow_case, make_parameters
from reference.network_managed_strategies import managed_cases
from reference.network_strategies import chains, dumbbells, leaf_spines, stars
from reference.network_twin.sender import Sender

GBPS, NS, US = 10**9, 10**3, 10**6
Row = tuple[int, int, int]


def rtt_of(case: NetworkCase, flow: int) -> list[Row]:
    """(first byte, sent, round-trip time) of the engine's rows."""
    case = replace(case, parameters=replace(case.parameters, rtt_flow=flow))
    return list(map(tuple, case.run().model.rtt_rows().tolist()))


class Bystander:
    """Sees which packet leaves and which acknowledgement takes in new bytes, by the packet's own time of sending."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, flow: int) -> None:
        self.rows: list[Row] = []
        self._first: dict[tuple[Any, int], tuple[int, int]] = {}  # (sender, sent) -> (flow, first byte in it)
        make_packet, take_ack = Sender.make_packet, Sender.take_ack

        def sees_packet(sender: Sender, now_ps: int) -> Any:
            packet = make_packet(sender, now_ps)
            begin = 0
            for end, flow_id in sender.all_ends:
                if begin <= packet.number < end:
                    self._first[sender, packet.sent_ps] = flow_id, packet.number - begin
                begin = end
            return packet

        def sees_ack(sender: Sender, ack: Any, now_ps: int) -> None:
            flow_id, first_byte = self._first[sender, ack.sent_ps]
            if flow_id == flow and not ack.is_nack and ack.number > sender.acked:
                self.rows.append((first_byte, ack.sent_ps, now_ps - ack.sent_ps))
            take_ack(sender, ack, now_ps)

        monkeypatch.setattr(Sender, "make_packet", sees_packet)
        monkeypatch.setattr(Sender, "take_ack", sees_ack)


def small_fabric(**keys: Any) -> NetworkCase:
    topology = leaf_spine(2, 1, 3, 100 * GBPS, 40 * GBPS, 1000 * NS, 1000 * NS)
    flows = [(i, 3 + i, 30_000 + 997 * i, 100_000 * i) for i in range(3)] + [(0, 3, 12_345, US)]
    case = make_flow_case(topology, flows, make_parameters(topology, **keys), queue_pairs="per-pair")
    rtt_ps = path_base_rtt(topology, case.paths, 1100, 60)[0]
    return replace(case, parameters=replace(case.parameters, base_rtt_ps=rtt_ps))


def test_a_flow_alone_has_the_round_trip_of_an_idle_path() -> None:
    topology = leaf_spine(1, 1, 2, 100 * GBPS, 100 * GBPS, 1000 * NS, 1000 * NS)
    rows = rtt_of(make_flow_case(topology, [(0, 1, 5_500, 7)]), 0)
    full_ps, last_ps, ack_ps, delay_ps = 1048 * 80, 548 * 80, 60 * 80, 4 * US
    assert [row[:2] for row in rows] == [(1000 * i, 7 + full_ps * i) for i in range(6)]
    assert [row[2] for row in rows[:5]] == [2 * (full_ps + ack_ps) + delay_ps] * 5
    assert rows[5][2] == full_ps + last_ps + 2 * ack_ps + delay_ps  # it waits in the switch, behind the one before it


@pytest.mark.parametrize("flow", range(4))
@pytest.mark.parametrize("law", ["dctcp", "timely", "hpcc", "hpcc-pint", "none"])
def test_every_packet_has_a_row_whatever_the_control_carries(monkeypatch: pytest.MonkeyPatch, law: str, flow: int):
    case = small_fabric(law=find_law(law), law_values={}, header_bytes=48 + find_law(law).header_bytes)
    size_bytes = case.flow_list[flow][2]
    seen = Bystander(monkeypatch, flow)
    case.run_twin()
    assert rtt_of(case, flow) == seen.rows
    assert [row[0] for row in seen.rows] == list(range(0, size_bytes, 1000))


@pytest.mark.parametrize("recovery", ["go-back-n", "selective-repeat"])
def test_coalesced_acknowledgements_answer_their_last_packet(monkeypatch: pytest.MonkeyPatch, recovery: str) -> None:
    mode = {"recovery": SELECTIVE_REPEAT} if recovery == "selective-repeat" else {}
    case = small_fabric(transport=TransportParameters(ack_every=3, **mode))
    seen = Bystander(monkeypatch, 0)
    case.run_twin()
    rows = rtt_of(case, 0)
    if mode:  # only where it answers one packet
        assert rows == seen.rows[len(seen.rows) - len(rows) :]
    else:
        assert rows == seen.rows and [row[0] for row in rows][:3] == [2000, 5000, 8000]


@given(managed_cases(stars() | dumbbells() | leaf_spines() | chains()))
@settings(max_examples=60)
def test_where_packets_are_lost_and_reordered_no_row_is_a_guess(case: NetworkCase) -> None:
    for flow in sorted({0, len(case.flow_list) - 1}):
        with pytest.MonkeyPatch.context() as patch:
            seen = Bystander(patch, flow)
            twin = case.run_twin()
        noted = replace(case, parameters=replace(case.parameters, rtt_flow=flow))
        engine = noted.run()
        assert_equal(engine, twin)
        if case.plan.n_part == 1:
            assert set(map(tuple, engine.model.rtt_rows().tolist())) <= set(seen.rows)


NOSY = """
class Nosy:
    state = {"n_seen": 0}

    @staticmethod
    def on_ack(flow, event, p):
        flow.n_seen += event.rtt_ps
        flow.rate_bps = max(1_000_000_000, flow.line_rate_bps - flow.n_seen)
"""


@pytest.mark.parametrize("recovery", [GO_BACK_N, SELECTIVE_REPEAT])
def test_a_control_that_did_not_ask_for_round_trip_times_is_not_told(tmp_path: Path, recovery: int) -> None:
    (tmp_path / "nosy.py").write_text(NOSY)
    law = find_law("nosy.py:Nosy", tmp_path)
    case = small_fabric(law=law, law_values={}, transport=TransportParameters(recovery))
    noted = replace(case, parameters=replace(case.parameters, rtt_flow=0)).run()
    assert len(noted.model.rtt_rows()) == 30
    assert_equal(noted, case.run_twin())
    assert_equal(case.run(), case.run_twin())


def test_beyond_its_bound_a_table_is_just_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rtt_of(small_fabric(), 0)
    monkeypatch.setattr(build, "MAX_RTT_ROWS", 7)
    assert rtt_of(small_fabric(), 0) == whole[:7]
    assert rtt_rows.MAX_RTT_ROWS > 7


def test_a_run_that_is_asked_for_none_keeps_none() -> None:
    rows = small_fabric().run().model.rtt_rows()
    assert rows.shape == (0, 3) and rows.dtype == np.int64
