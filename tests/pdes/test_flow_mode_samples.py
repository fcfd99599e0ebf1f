"""Time series in flow mode: what max-min rates say by hand, no byte lost, no other table changed."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import pdes
from pdes.skipping.max_min.solve import RESERVE_FRAC
from reference.flow_runs import LEAF_SPINE, Ran, config, run

US = 10**6
PS_PER_BYTE = 80  # at 100 Gbps
WHOLE_ACKS_BYTES = 8 * 60  # a message's come one by one
ONE_LEAF = {"kind": "leaf-spine", "leaves": 1, "spines": 1, "hosts_per_leaf": 4}


def sampled(folder: Path, flows: list[tuple[int, int, int, int]], topology: dict[str, Any], **more: Any) -> Ran:
    """A run that is looked at every 10 us."""
    made = config(folder, flows, topology, **more)
    made["output"]["sample_interval"] = "10us"
    pdes.simulate(made)
    return Ran(Path(made["output"]["dir"]))


def table(ran: Ran, name: str) -> dict[str, np.ndarray]:
    columns = pq.read_table(ran.folder / f"{name}.parquet")
    return {c: np.array(columns[c].to_pylist(), dtype=object) for c in columns.column_names}


def series(rows: dict[str, np.ndarray], key: str, number: int, value: str) -> tuple[np.ndarray, np.ndarray]:
    """(times, values) of a port or flow."""
    mine = rows[key] == number
    return rows["time_ps"][mine].astype(np.int64), rows[value][mine].astype(np.int64)


def test_two_messages_have_half_of_a_port_each_until_one_is_over(tmp_path: Path) -> None:
    """1 and 3 MB into one host: half of 100 Gbps each for as long as the smaller one needs, then all of it."""
    ran = sampled(tmp_path / "two", [(1, 0, 10**6, 0), (2, 0, 3 * 10**6, 0)], ONE_LEAF)
    flows = table(ran, "samples_flows")
    begin_ps = run(tmp_path / "one", [(1, 0, 1000, 0)], ONE_LEAF).flows["delivered_ps"][0] - 1048 * PS_PER_BYTE
    for flow, size in ((0, 10**6), (1, 3 * 10**6)):
        at_ps, rate_bps = series(flows, "flow_id", flow, "rate_bps")
        _, acked = series(flows, "flow_id", flow, "acked_bytes")
        shared = at_ps < begin_ps + 2 * 1_048_000 * PS_PER_BYTE
        assert shared.sum() > 10 and (np.abs(rate_bps[shared] - 50 * 10**9) <= 1).all()
        assert (np.abs(rate_bps[~shared] - 100 * 10**9) <= 1).all()
        came = (at_ps - begin_ps) / PS_PER_BYTE / 2  # on the wire
        came[~shared] = 1_048_000 + (at_ps[~shared] - begin_ps - 2 * 1_048_000 * PS_PER_BYTE) / PS_PER_BYTE
        assert np.abs(acked - came * 1000 / 1048).max() <= 2 and acked.max() < size
    assert (at_ps[-1] > 250 * US) and set(flows["window_bytes"]) == {None}


@pytest.fixture
def random_flows() -> list[tuple[int, int, int, int]]:
    draw = np.random.default_rng(5)
    pairs = [draw.choice(8, 2, replace=False).tolist() for _ in range(60)]
    return [(src, dst, int(draw.integers(1, 2 * 10**6)), int(draw.integers(0, 300 * US))) for src, dst in pairs]


LINK_EVENTS = [
    {"time": "50us", "link": ["leaf0", "spine0"], "state": "down"},
    {"time": "90us", "link": ["leaf1", "spine1"], "rate": "10Gbps"},
    {"time": "400us", "link": ["leaf0", "spine0"], "state": "up"},
]


@pytest.mark.parametrize("network", [{}, {"link_event": LINK_EVENTS, "transport": {"recovery": "go-back-n"}}])
def test_what_was_seen_adds_up_to_what_was_sent(
    network: dict[str, Any], random_flows: list[tuple[int, int, int, int]], tmp_path: Path
) -> None:
    ran = sampled(tmp_path, random_flows, LEAF_SPINE, network=dict(network))
    ports, flows = table(ran, "samples_ports"), table(ran, "samples_flows")
    end_ps = ran.flows["finish_ps"].max()
    for port in np.unique(ports["port_id"].astype(np.int64)):
        at_ps, sent = series(ports, "port_id", port, "tx_bytes")
        assert (np.diff(sent) >= 0).all() and sent[-1] <= ran.ports["tx_bytes"][port]
        most = ran.ports["rate_bps"][port] / 8e12 * np.diff(at_ps, prepend=0)
        over = np.diff(sent, prepend=0) - most
        assert (over <= RESERVE_FRAC * most + WHOLE_ACKS_BYTES).all(), "faster than the link"
        if at_ps[-1] >= end_ps:
            assert sent[-1] == ran.ports["tx_bytes"][port]
    for flow in np.unique(flows["flow_id"].astype(np.int64)):
        at_ps, acked = series(flows, "flow_id", flow, "acked_bytes")
        size, delivered_ps = ran.flows["size_bytes"][flow], ran.flows["delivered_ps"][flow]
        assert (np.diff(acked) >= 0).all() and acked.max() <= size and at_ps.max() <= delivered_ps
    assert ran.result["samples"]["rows"] == {"ports": len(ports["time_ps"]), "flows": len(flows["time_ps"])}


def test_a_series_changes_no_other_table(random_flows: list[tuple[int, int, int, int]], tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", random_flows, LEAF_SPINE)
    seen = sampled(tmp_path / "seen", random_flows, LEAF_SPINE)
    for name in ("flows", "ports"):
        assert (whole.folder / f"{name}.parquet").read_bytes() == (seen.folder / f"{name}.parquet").read_bytes()
