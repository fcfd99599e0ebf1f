"""Claims about running traces: what waits for what, to the picosecond; lanes, channels, algorithms; who is stuck."""

import json
from pathlib import Path

import numpy as np
import pytest

from pdes import simulation
from pdes.config.load import config_from_dict
from pdes.errors import SimError
from pdes.results.tables import read_table
from reference import made_traces as made

TASK, FLOW = ("task_id", "gpu", "kind", "stream", "start_ps", "end_ps"), ("src", "dst", "start_ps", "delivered_ps")


class Ran:
    """Tables of a run."""

    def __init__(self, folder: Path) -> None:
        self.result = json.loads((folder / "result.json").read_text())
        tasks = next(iter(read_table(folder / "tasks.parquet", TASK)))
        self.tasks = [dict(zip(TASK, row, strict=True)) for row in zip(*(tasks[c].tolist() for c in TASK), strict=True)]
        flows = list(read_table(folder / "flows.parquet", (*FLOW, "finish_ps", "size_bytes")))
        self.flows = {name: np.concatenate([group[name] for group in flows]) for name in flows[0]} if flows else {}

    def task(self, gpu: int, name: str) -> dict:
        (found,) = [task for task in self.tasks if task["gpu"] == gpu and task["stream"] == name]
        return found


def run(folder: Path, hosts: int = 4, **workload: object) -> Ran:
    data = {
        "topology": {"kind": "leaf-spine", "leaves": 2, "spines": 1, "hosts_per_leaf": hosts // 2},
        "workload": {"kind": "trace", **workload},
        "output": {"dir": str(folder / "out")},
    }
    simulation.simulate(config_from_dict(data, folder / "config.toml"))
    return Ran(folder / "out")


def chakra(folder: Path, ranks: list[list[made.Node]], **workload: object) -> Ran:
    made.write_chakra(folder, "t", ranks)
    return run(folder, format="chakra", file="t", **workload)


def test_a_chain_over_two_ranks_is_its_parts(tmp_path: Path) -> None:
    ran = chakra(tmp_path, made.two_ranks())
    send, receive = ran.task(0, "to the next"), ran.task(1, "from the last")
    assert ran.task(0, "forward") | {"start_ps": 0, "end_ps": 10_000_000} == ran.task(0, "forward")
    flow = int(np.flatnonzero(ran.flows["size_bytes"] == 50_000)[0])
    assert ran.flows["start_ps"][flow] == send["start_ps"] == 10_000_000
    assert send["end_ps"] == ran.flows["finish_ps"][flow]  # a Chakra send ends with its acknowledgement
    assert (receive["start_ps"], receive["end_ps"]) == (0, ran.flows["delivered_ps"][flow])
    compute = ran.task(1, "forward")
    assert (compute["start_ps"], compute["end_ps"]) == (receive["end_ps"], receive["end_ps"] + 5_000_000)
    begun = [task["start_ps"] for task in ran.tasks if task["stream"] == "gradients"]
    assert begun == [send["end_ps"], compute["end_ps"]]
    assert ran.result["iteration_time_ps"] == [max(task["end_ps"] for task in ran.tasks)]
    assert [task["task_id"] for task in ran.tasks] == list(range(6))


def test_lanes_run_side_by_side_and_a_lane_in_order_of_readiness(tmp_path: Path) -> None:
    nodes: list[made.Node] = [
        (1, "late", made.COMP, [2], {"duration_micros": 4}),
        (2, "first", made.COMP, [], {"duration_micros": 10}),
        (3, "second", made.COMP, [], {"duration_micros": 5}),
        (4, "cpu", made.COMP, [], {"duration_micros": 7, "is_cpu_op": 1}),
        (5, "join", 1, [1, 4], {}),
    ]
    ran = chakra(tmp_path, [nodes])
    spans = {task["stream"]: (task["start_ps"] // 10**6, task["end_ps"] // 10**6) for task in ran.tasks}
    assert spans == {"first": (0, 10), "second": (10, 15), "late": (15, 19), "cpu": (0, 7), "join": (19, 19)}


def test_goal_runs_and_its_sends_end_when_posted(tmp_path: Path) -> None:
    (tmp_path / "r.goal").write_text(made.GOAL_RING)
    ran = run(tmp_path, format="goal", file="r.goal")
    assert ran.task(0, "l1")["end_ps"] == 0
    assert ran.task(2, "z")["start_ps"] == ran.task(2, "x")["end_ps"] == ran.task(2, "y")["start_ps"]
    assert ran.task(0, "l3")["start_ps"] == ran.task(0, "l2")["end_ps"] and len(ran.flows["src"]) == 3


def test_receives_take_messages_of_their_own_tag(tmp_path: Path) -> None:
    text = """num_ranks 2
rank 0 {
s1: send 90000b to 1 tag 1
s2: send 1000b to 1 tag 2
s3: send 1000b to 1 tag 1
}
rank 1 {
r3: recv 1000b from 0 tag 1
r1: recv 90000b from 0 tag 1
r2: recv 1000b from 0 tag 2
}
"""
    (tmp_path / "r.goal").write_text(text)
    ran = run(tmp_path, format="goal", file="r.goal")
    delivered = dict(zip(ran.flows["size_bytes"].tolist(), ran.flows["delivered_ps"].tolist(), strict=True))
    ends = {name: ran.task(1, name)["end_ps"] for name in ("r1", "r2", "r3")}
    assert ends["r3"] == delivered[90000] <= ends["r1"]  # the first to begin takes the first message of the tag
    assert ends["r2"] < ends["r3"]


def test_triggers_follow_acknowledgements(tmp_path: Path) -> None:
    (tmp_path / "c.cm").write_text(made.HTSIM_SERIAL)
    ran = run(tmp_path, format="htsim", file="c.cm")
    second, third = ran.task(0, "connection 2"), ran.task(3, "connection 3")
    assert ran.task(0, "connection 1")["end_ps"] == second["start_ps"]
    told = [task for task in ran.tasks if task["stream"] == "trigger"]
    assert [task["gpu"] for task in told] == [0, 3]
    assert told[0]["start_ps"] == second["end_ps"] and third["start_ps"] == told[1]["end_ps"] > second["end_ps"]
    starts = sorted(ran.flows["start_ps"].tolist())
    assert 5_000_000 in starts


def test_communicators_run_in_an_order_that_dependencies_allow(tmp_path: Path) -> None:
    made.hybrid_llama(tmp_path)
    ran = run(tmp_path, format="chakra", file="llama", communicators="llama.json")
    assert len(ran.tasks) == 24
    for gpu in range(4):
        assert ran.task(gpu, "gather")["end_ps"] <= ran.task(gpu, "backward")["start_ps"]
        assert ran.task(gpu, "backward")["end_ps"] <= ran.task(gpu, "grad")["start_ps"]


ONE = {"all-reduce-implementation": ["ring"], "preferred-dataset-splits": 1}
SENT = {  # bytes that 4 ranks send in an all-reduce of 64 kB, and messages of a rank
    "ring": (6 * 16_000 * 4, 6),
    "direct": (6 * 16_000 * 4, 6),
    "halvingDoubling": (4 * 2 * (32_000 + 16_000), 4),
    "doubleBinaryTree": (2 * 3 * 2 * 32_000, 3),
}


@pytest.mark.parametrize("algorithm", SENT)
def test_algorithms_move_what_they_must(algorithm: str, tmp_path: Path) -> None:
    nodes: list[made.Node] = [(1, "c", made.COLL, [], {"comm_type": 0, "comm_size": 64_000})]
    (tmp_path / "system.json").write_text(json.dumps(ONE | {"all-reduce-implementation": [algorithm]}))
    ran = chakra(tmp_path, [nodes] * 4, system="system.json")
    n_bytes, per_rank = SENT[algorithm]
    assert int(ran.flows["size_bytes"].sum()) == n_bytes
    assert len(ran.flows["src"]) == per_rank * 4


@pytest.mark.parametrize(("kind", "n_bytes"), [
    (0, 4 * 2 * 8000 + 4 * 2 * 8000), (2, 4 * (32_000 + 16_000)), (7, 4 * (8000 + 4000)), (6, 4 * (8000 + 8000)),
    (5, 3 * 16_000), (1, 3 * 16_000), (3, 3 * 4000), (4, 3 * 4000), (9, 4 * 6 * 2),
])  # fmt: skip
def test_collectives_over_two_dimensions_and_from_roots(kind: int, n_bytes: int, tmp_path: Path) -> None:
    """All-reduce of 16 kB on 2 x 2: halves, then quarters, there and back; an all-gather's shards are of 16 kB."""
    size = 16_000
    nodes: list[made.Node] = [(1, "c", made.COLL, [], {"comm_type": kind, "comm_size": size})]
    dimensions = [2, 2] if kind in (0, 2, 6, 7) else [4]
    ran = chakra(tmp_path, [nodes] * 4, dimensions=dimensions)
    expected = {0: 4 * (8000 + 2 * 4000 + 8000)}.get(kind, n_bytes)
    assert int(ran.flows["size_bytes"].sum()) == expected


def test_who_waits_for_whom_and_in_which_circle(tmp_path: Path) -> None:
    ranks: list[list[made.Node]] = []
    for names in (("a", "b"), ("b", "a")):
        first, second = ({"comm_type": 0, "comm_size": 1000, "pg_name": name} for name in names)
        ranks.append([(1, "one", made.COLL, [], first), (2, "two", made.COLL, [1], second)])
    (tmp_path / "groups.json").write_text('{"a": [0, 1], "b": [0, 1]}')
    with pytest.raises(SimError) as error:
        chakra(tmp_path, ranks, communicators="groups.json")
    text = str(error.value)
    assert error.value.exit_status == 1 and "nothing is left to happen" in text
    assert "a circle: host0 waits for host1 waits for host0" in text
    assert "host0 node 1 (one), a collective, waits for a message from host1" in text


def test_a_receive_whose_send_waits_for_it_is_named(tmp_path: Path) -> None:
    ranks: list[list[made.Node]] = [
        [(1, "r", made.RECV, [], {"comm_size": 9, "comm_src": 1, "comm_tag": 0}),
         (2, "s", made.SEND, [1], {"comm_size": 9, "comm_dst": 1, "comm_tag": 0})],
        [(5, "r", made.RECV, [], {"comm_size": 9, "comm_src": 0, "comm_tag": 0}),
         (6, "s", made.SEND, [5], {"comm_size": 9, "comm_dst": 0, "comm_tag": 0})],
    ]  # fmt: skip
    with pytest.raises(SimError, match=r"circle: host0 waits for host1(.|\n)*host1 node 5 \(r\) waits for a message"):
        chakra(tmp_path, ranks)


def test_a_trace_without_messages_runs(tmp_path: Path) -> None:
    (tmp_path / "p.0.json").write_text(json.dumps(made.PYTORCH_JSON))
    ran = run(tmp_path, format="chakra", file="p.0.json", tolerant=True)
    assert ran.result["flows"] == 0 and ran.result["iteration_time_ps"] == [(318 + 85 + 28) * 10**6]
    assert ran.result["workload"]["left_out"]["dependencies on missing nodes"] == 3


@pytest.mark.parametrize(("form", "text"), [("simai", made.SIMAI), ("astra-sim-text", made.ASTRA_DATA)])
def test_layer_tables_run(form: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "w.txt").write_text(text)
    ran = run(tmp_path, hosts=8, format=form, file="w.txt")
    assert len(ran.tasks) == ran.result["workload"]["nodes"] and all(task["end_ps"] >= 0 for task in ran.tasks)


@pytest.mark.parametrize(("tables", "found"), [
    ({"simulation": {"iterations": 2}}, r"\[simulation\] iterations: 2, and the workload is a trace"),
    ({"network": {"routing": {"queue_pairs_per_flow": 2}}}, r"queue_pairs_per_flow: 2, and the workload is a trace"),
    ({"topology": {"kind": "leaf-spine", "leaves": 1, "spines": 1, "hosts_per_leaf": 2}}, r"3 ranks.*at most 2"),
])  # fmt: skip
def test_what_a_trace_cannot_have_is_said_before_the_run(tables: dict, found: str, tmp_path: Path) -> None:
    (tmp_path / "r.goal").write_text(made.GOAL_RING)
    data = {
        "topology": {"kind": "leaf-spine", "leaves": 2, "spines": 1, "hosts_per_leaf": 2},
        "workload": {"kind": "trace", "format": "goal", "file": "r.goal"},
        "output": {"dir": str(tmp_path / "out")},
    } | tables
    with pytest.raises(SimError, match=found) as error:
        simulation.simulate(config_from_dict(data, tmp_path / "config.toml"))
    assert error.value.exit_status == 2
