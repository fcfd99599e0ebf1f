"""Claims about --trace: it has every event, says when each was, and stops where it says."""

from collections import Counter
from pathlib import Path

import pytest

from reference.debug_runs import INCAST, ONE_FLOW, run, table, write_case

N_PACKET, N_HOP = 20, 2  # of ONE_FLOW
WIRE_PS, DELAY_PS, ACK_PS = 83_840, 1_000_000, 4_800  # 1048 B and 60 B at 100 Gbps


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alone")
    done = run(write_case(folder, ONE_FLOW), folder / "out", "--trace", "flow=0")
    assert done.returncode == 0, done.stderr
    return folder / "out"


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crowd")
    done = run(write_case(folder, INCAST), folder / "out", "--trace", "flow=1,port=leaf0->host0")
    assert done.returncode == 0, done.stderr
    return folder / "out"


def test_a_flow_alone_has_an_event_for_every_packet_and_hop(alone: Path) -> None:
    found = Counter((row["event"], (row["packet"] or "").split(" ")[0]) for row in table(alone, "trace"))
    each = N_PACKET * N_HOP
    assert found == {
        ("posted", ""): 1, ("delivered", ""): 1, ("finished", ""): 1, ("ack", ""): N_PACKET,
        ("start", "data"): each, ("arrive", "data"): each, ("start", "ack"): each, ("arrive", "ack"): each,
    }  # fmt: skip


def test_times_are_those_of_an_idle_path(alone: Path) -> None:
    rows = table(alone, "trace")
    first = [(r["time_ps"], r["node"], r["event"]) for r in rows if r["sequence"] == 0 and r["packet"] == "data"]
    at_switch, at_host = WIRE_PS + DELAY_PS, 2 * (WIRE_PS + DELAY_PS)
    assert first == [
        (0, "host0", "start"),
        (at_switch, "leaf0", "arrive"),
        (at_switch, "leaf0", "start"),
        (at_host, "host1", "arrive"),
    ]
    ends = {row["event"]: row["time_ps"] for row in rows if row["event"] in ("delivered", "finished")}
    flow = table(alone, "flows")[0]
    assert ends == {"delivered": flow["delivered_ps"], "finished": flow["finish_ps"]}
    assert flow["finish_ps"] == at_host + (N_PACKET - 1) * WIRE_PS + 2 * (ACK_PS + DELAY_PS)


def test_a_port_has_sent_what_its_trace_says(crowd: Path) -> None:
    port = next(p for p in table(crowd, "ports") if (p["node"], p["peer"]) == ("leaf0", "host0"))
    mine = [row for row in table(crowd, "trace") if row["port_id"] == port["port_id"]]
    sent = [row for row in mine if row["event"] in ("start", "dequeue")]
    assert sum(row["size_bytes"] for row in sent) == port["tx_bytes"] > 0
    waited = Counter(row["event"] for row in mine)
    assert waited["queue"] == waited["dequeue"] > 0 and waited["arrive"] == len(sent)
    assert max(row["queue_bytes"] for row in mine if row["event"] == "queue") == port["max_queue_bytes"]


def test_rows_are_in_order_and_of_what_was_chosen(crowd: Path) -> None:
    rows = table(crowd, "trace")
    assert [row["time_ps"] for row in rows] == sorted(row["time_ps"] for row in rows)
    port = next(p["port_id"] for p in table(crowd, "ports") if (p["node"], p["peer"]) == ("leaf0", "host0"))
    assert {row["flow_id"] for row in rows if row["port_id"] != port} == {1}
    assert {row["queue_pair"] for row in rows if row["port_id"] == port} == {0, 1, 2}


def test_the_text_has_the_rows_of_the_table(crowd: Path) -> None:
    title, heading, *lines = (crowd / "trace.txt").read_text().splitlines()
    rows = table(crowd, "trace")
    assert title == f"# trace of flow 1, port leaf0:0 (leaf0->host0): {len(rows):,} events"
    assert heading.split()[:3] == ["time_ps", "node", "event"]
    assert [int(line.split()[0]) for line in lines] == [row["time_ps"] for row in rows]


def test_a_short_trace_has_the_first_rows_and_says_where_it_stops(tmp_path: Path, crowd: Path) -> None:
    n_row = 50
    out, more = tmp_path / "out", ("--trace", "flow=1,port=leaf0->host0", "--trace-limit", str(n_row))
    done = run(write_case(tmp_path, INCAST), out, *more)
    rows, all_rows = table(out, "trace"), table(crowd, "trace")
    last_ps = rows[-1]["time_ps"]
    assert len(rows) == n_row < len(all_rows)
    before = [row for row in rows if row["time_ps"] < last_ps]
    assert before == all_rows[: len(before)] and all(row in all_rows for row in rows)
    assert f"50 events, the first of {len(all_rows)}, stopped at" in done.stderr and f"({last_ps} ps)" in done.stderr


def test_a_trace_changes_no_other_result(tmp_path: Path, crowd: Path) -> None:
    assert run(write_case(tmp_path, INCAST), tmp_path / "out").returncode == 0
    for name in ("flows.parquet", "ports.parquet", "result.json"):
        assert (tmp_path / "out" / name).read_bytes() == (crowd / name).read_bytes()
    assert not (tmp_path / "out" / "trace.parquet").exists()


def test_drops_and_pauses_are_events(tmp_path: Path) -> None:
    """What the trace counts is what the ports' table counts."""
    more = '[network.buffer]\nsize = "20kB"\nreserve = "0B"\nheadroom = "3kB"\n[network.pfc]\nenabled = true\n'
    flows = [(1, 0, 60_000, 0), (2, 0, 60_000, 0), (3, 0, 60_000, 0)]
    done = run(write_case(tmp_path, flows, more), tmp_path / "out", "--trace", "port=leaf0:0,port=host1->leaf0")
    assert done.returncode == 0, done.stderr
    ports = {(p["node"], p["peer"]): p for p in table(tmp_path / "out", "ports")}
    found = Counter((row["event"], row["port_id"]) for row in table(tmp_path / "out", "trace"))
    sender, bottleneck = ports["host1", "leaf0"], ports["leaf0", "host0"]
    assert found["pause", sender["port_id"]] == sender["pause_frames"] > 0
    assert found["drop: no room", bottleneck["port_id"]] == bottleneck["drops_buffer"] > 0


def test_rates_in_flow_mode_are_the_shares_of_each_time(tmp_path: Path) -> None:
    """Two messages into one host, a third one later; each has as much as the others until it has come across."""
    flows = [(1, 0, 1_000_000, 0), (2, 0, 2_000_000, 0), (3, 0, 3_000_000, 50_000_000)]
    case = write_case(tmp_path, flows, '[wormhole]\nmode = "flow"\n[wormhole.flow]\nefficiency = 1.0\n')
    done = run(case, tmp_path / "out", "--trace", "flow=0,flow=1,flow=2")
    assert done.returncode == 0, done.stderr
    rows = table(tmp_path / "out", "trace")
    begin_ps, wire_ps = 2 * DELAY_PS + WIRE_PS, 80 * 1048 * 1000  # of 1 MB at 100 Gbps
    third_ps = 50_000_000 + begin_ps
    first_ends_ps = third_ps + 3 * (wire_ps - 50_000_000 // 2)
    second_left_ps = 2 * wire_ps - 50_000_000 // 2 - (first_ends_ps - third_ps) // 3
    second_ends_ps = first_ends_ps + 2 * second_left_ps
    half, third, whole = 50 * 10**9, 100 * 10**9 // 3, 100 * 10**9
    expected = [
        (begin_ps, 0, half), (begin_ps, 1, half), (third_ps, 0, third), (third_ps, 1, third), (third_ps, 2, third),
        (first_ends_ps, 1, half), (first_ends_ps, 2, half), (second_ends_ps, 2, whole),
    ]  # fmt: skip
    found = [(row["time_ps"], row["flow_id"], row["rate_bps"]) for row in rows if row["event"] == "rate"]
    assert [row[1] for row in found] == [row[1] for row in expected]
    assert all(abs(a[0] - b[0]) <= 2 and abs(a[2] - b[2]) <= 1 for a, b in zip(found, expected, strict=True))
    ends = [[row["time_ps"] for row in rows if row["event"] == event] for event in ("delivered", "finished")]
    of_flows = table(tmp_path / "out", "flows")
    assert ends == [[flow[f"{name}_ps"] for flow in of_flows] for name in ("delivered", "finish")]
