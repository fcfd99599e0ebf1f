"""Claims about --until, --break and --check: where they stop, what they say, and what they leave."""

import json
from pathlib import Path

import pytest

from models.network.model import NetworkModel
from models.topology.leaf_spine import leaf_spine
from pdes.debug.check import RoundCheck
from pdes.engine.exchange import World
from pdes.errors import CausalityError
from reference.debug_runs import INCAST, run, table, write_case
from reference.network_case import make_flow_case, make_parameters

LOOKAHEAD_PS = 1_000_000


def stopped_ps(out: Path) -> int:
    return json.loads((out / "result.json").read_text())["stopped_by"]["time_ps"]


def test_a_condition_on_a_flow_stops_in_the_round_in_which_it_comes_true(tmp_path: Path) -> None:
    config = write_case(tmp_path, INCAST)
    assert run(config, tmp_path / "whole").returncode == 0
    done = run(config, tmp_path / "part", "--break", "flow(1).finished and flow(1).acked == 20kB")
    end_ps = table(tmp_path / "whole", "flows")[1]["finish_ps"]
    assert done.returncode == 0 and end_ps < stopped_ps(tmp_path / "part") <= end_ps + LOOKAHEAD_PS
    assert "flow(1).acked is 20,000" in done.stderr
    whole, part = (table(tmp_path / name, "flows") for name in ("whole", "part"))
    assert part[1] == whole[1] and part[2]["finish_ps"] is None  # what had happened by then, and no more


def test_a_condition_on_a_port_holds_where_it_stops_and_not_before(tmp_path: Path) -> None:
    config = write_case(tmp_path, INCAST)
    done = run(config, tmp_path / "out", "--break", "queue(leaf0:0) > 5kB", "--trace", "port=leaf0:0")
    depths = [
        (row["time_ps"], row["queue_bytes"])
        for row in table(tmp_path / "out", "trace")
        if row["event"] in ("queue", "dequeue", "start")
    ]
    stop_ps = stopped_ps(tmp_path / "out")
    assert depths[-1][0] < stop_ps and depths[-1][1] > 5_000
    earlier = [depth for time_ps, depth in depths if time_ps < stop_ps - 2 * LOOKAHEAD_PS]
    assert not earlier or earlier[-1] <= 5_000
    assert f"queue(leaf0:0) is {depths[-1][1]:,}" in done.stderr
    assert "port leaf0:0 (leaf0->host0), 100 Gbps:" in done.stderr and "packets of host1 -> host0" in done.stderr


def test_a_condition_that_never_holds_changes_nothing(tmp_path: Path) -> None:
    config = write_case(tmp_path, INCAST)
    done = run(config, tmp_path / "asked", "--break", "queue(leaf0:0) > 5GB or time > 1s")
    assert "this never held: queue(leaf0:0) > 5GB or time > 1s" in done.stderr
    assert run(config, tmp_path / "plain").returncode == 0
    assert (tmp_path / "asked" / "result.json").read_bytes() == (tmp_path / "plain" / "result.json").read_bytes()


def test_until_is_the_stop_time_and_says_what_is_under_way(tmp_path: Path) -> None:
    config = write_case(tmp_path, INCAST)
    done = run(config, tmp_path / "until", "--until", "4us", "--check")
    assert run(config, tmp_path / "set", "--set", "simulation.stop_time=4us").returncode == 0
    assert (tmp_path / "until" / "flows.parquet").read_bytes() == (tmp_path / "set" / "flows.parquet").read_bytes()
    assert "stopped at 4 us (4000000 ps)" in done.stderr and "2 messages under way" in done.stderr
    assert "flow 0, host1 -> host0, queue pair 0: 20 kB posted at 0 ps" in done.stderr
    n_round = json.loads((tmp_path / "until" / "run.json").read_text())["rounds"]
    assert n_round > 3 and f"checked {n_round} rounds" in done.stderr


def test_checks_now_and_then_are_so_far_apart_and_change_nothing(tmp_path: Path) -> None:
    config = write_case(tmp_path, INCAST)
    assert run(config, tmp_path / "plain").returncode == 0
    done = run(config, tmp_path / "checked", "--check-every", "3us")
    facts = json.loads((tmp_path / "plain" / "result.json").read_text())
    n_check = int(done.stderr.split("checked ")[1].split()[0])
    assert 1 < n_check <= facts["simulated_time_ps"] // 3_000_000 + 1
    assert (tmp_path / "checked" / "flows.parquet").read_bytes() == (tmp_path / "plain" / "flows.parquet").read_bytes()
    both = run(config, tmp_path / "both", "--check", "--check-every", "3us")
    assert both.returncode == 2 and "Accepted: one of them" in both.stderr


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("--break", "queue(leaf7:0) > 1kB", '"leaf7" is no node. Accepted: names of nodes, such as "leaf0"'),
        ("--break", "flow(3).sent > 1kB", '"3" is no flow. Accepted: flow_id 0 to 2'),
        ("--break", "buffer(leaf0) > 1kB", "the buffer is unlimited. Accepted: with [network.buffer] size"),
        ("--trace", "port=leaf0:9", '"9" is no port of leaf0. Accepted: leaf0:0 to host0, leaf0:1 to host1'),
        ("--trace", "port=leaf0->host9", 'leaf0 has no links to "host9". Accepted: leaf0:0 to host0'),
        ("--trace", "port=host1,flow=1", '"host1" is no port. Accepted: "leaf3:2" (port 2 of node leaf3, from 0)'),
        ("--trace", "flo=1", "names no flow and no port. Accepted: flow=ID and port=NAME"),
        ("--until", "4", "found \"4\", which has no unit. Accepted: a duration with its unit"),
    ],
)  # fmt: skip
def test_what_does_not_exist_is_bad_input(tmp_path: Path, option: str, value: str, expected: str) -> None:
    done = run(write_case(tmp_path, INCAST), tmp_path / "out", option, value)
    assert done.returncode == 2 and expected in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_state_that_does_not_add_up_is_found_at_the_end_of_its_round() -> None:
    topology = leaf_spine(1, 1, 4, 10**11, 10**11, 10**6, 10**6)
    case = make_flow_case(topology, [(1, 0, 20_000, 0)], make_parameters(topology))
    rounds = []

    def check(model: NetworkModel) -> None:
        checks = RoundCheck(topology, model.rank_of_node, World(), lambda: (model.exchange, None))
        rounds.append(len(rounds))
        if len(rounds) == 3:
            model.state.nic.queue_pairs["sent_bytes"][0] += 1
        checks.look(model.state, 10**6)

    with pytest.raises(CausalityError, match=r"--check: queue pair 0: 20001 B sent.*at check 1, 1 us"):
        case.run(case.thresholds_ps()[0], check)
    assert len(rounds) == 3
