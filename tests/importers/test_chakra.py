"""Claims about Chakra traces: what the fields mean, whatever the producer, and what is said of those that are wrong."""

import json
from pathlib import Path

import numpy as np
import pytest

from models.workload.importers.chakra import Device, read_chakra
from models.workload.importers.formats import TraceSource, read_trace
from models.workload.trace.graph import COLLECTIVE, COLLECTIVES, COMPUTE, RECEIVE, SEND, Leniency, TraceGraph
from pdes.errors import ConfigError
from reference import made_traces as made

DEVICE = Device(10**14, 10**12)
# What a producer wrote that is not ours: version "0.0.4"; a collective without an id, is_cpu_op in member 27,
# comm_type 2 and comm_size 1048576 in member 9.
FOREIGN = bytes.fromhex(
    "070a05302e302e344012" + "0a616c6c5f6761746865721807520e0a0969735f6370755f6f70d80100"
    "520d0a09636f6d6d5f747970654802520f0a09636f6d6d5f73697a6548808040"
)


def read(prefix: Path, tolerant: bool = False, groups: Path | None = None) -> tuple[TraceGraph, np.ndarray]:
    return read_trace(TraceSource("chakra", prefix, groups, tolerant=tolerant, device=DEVICE), 8)


def test_bytes_of_another_producer(tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"ag.{rank}.et").write_bytes(FOREIGN[:8] + bytes([len(FOREIGN) - 9]) + FOREIGN[9:])
    graph, _ = read(tmp_path / "ag")
    assert (graph.n_rank, graph.node_id.tolist(), graph.names) == (2, [0, 0], ("all_gather",))
    assert graph.kind.tolist() == [COLLECTIVE] * 2 and COLLECTIVES[graph.operation[0]] == "all-gather"
    assert graph.size_bytes.tolist() == [2 * 2**20] * 2  # comm_size is the rank's shard
    assert graph.communicators == ((0, 1),)


def test_fields_mean_what_chakra_says(tmp_path: Path) -> None:
    graph, order = read(made.write_chakra(tmp_path, "two", made.two_ranks()))
    assert graph.kind.tolist() == [COMPUTE, SEND, COLLECTIVE, COLLECTIVE, RECEIVE, COMPUTE]
    assert graph.duration_ps.tolist() == [10 * 10**6, 0, 0, 0, 0, 5 * 10**6]
    assert graph.peer[[1, 4]].tolist() == [1, 0] and graph.tag[[1, 4]].tolist() == [3, 3]
    assert graph.size_bytes.tolist() == [0, 50_000, 64_000, 64_000, 50_000, 0]
    assert [graph.dep[graph.dep_start[k] : graph.dep_start[k + 1]].tolist() for k in range(6)] == [
        [], [0], [1], [5], [], [4],
    ]  # fmt: skip
    assert order.tolist() == [0, 1, 2, 4, 5, 3]  # behind what it waits for, else as in the file
    assert graph.waits_for_ack


@pytest.mark.parametrize("number_type", [made.INT32, made.INT64, made.UINT64, 11, 27])
def test_any_member_of_the_oneof_carries_a_number(number_type: int, tmp_path: Path) -> None:
    from models.workload.importers import wire

    node: made.Node = (3, "s", made.COLL, [], {"comm_type": 6, "comm_size": 77})
    content = wire.message(b"") + wire.message(made.node_bytes(node, number_type, as_control=True))
    (tmp_path / "x.0.et").write_bytes(content)
    graph, _ = read(tmp_path / "x.0.et")
    assert graph.size_bytes.tolist() == [77] and COLLECTIVES[graph.operation[0]] == "all-to-all"


def test_control_dependencies_that_are_not_packed_count(tmp_path: Path) -> None:
    from models.workload.importers import wire

    nodes: list[made.Node] = [
        (1, "a", made.COMP, [], {}),
        (2, "b", made.COMP, [1], {}),
        (3, "c", made.COMP, [1, 2], {}),
    ]
    parts = [wire.message(wire.bytes_field(1, ""))]
    parts += [wire.message(made.node_bytes(node, as_control=True)) for node in nodes]
    (tmp_path / "x.0.et").write_bytes(b"".join(parts))
    graph, _ = read(tmp_path / "x.0.et")
    assert np.diff(graph.dep_start).tolist() == [0, 1, 2] and graph.dep.tolist() == [0, 0, 1]


def test_communicators_by_name_and_work_by_roofline(tmp_path: Path) -> None:
    prefix = made.hybrid_llama(tmp_path)
    graph, order = read(prefix, groups=tmp_path / "llama.json")
    assert (graph.n_rank, graph.n_node) == (4, 24)
    assert graph.communicator_names == ("0", "1") and graph.communicators == ((0, 1), (2, 3))
    layers = [k for k in range(24) if graph.names[graph.label[k]] == "layer"]
    assert set(graph.duration_ps[layers].tolist()) == {3_120_000}  # 312e6 operations at 1e14 per second
    gathers = [k for k in range(24) if graph.names[graph.label[k]] == "gather"]
    assert set(graph.size_bytes[gathers].tolist()) == {8192}
    for rank in range(4):  # the backward collective stands first in the file, and comes last
        mine = [k for k in order.tolist() if graph.rank_of(k) == rank and graph.kind[k] == COLLECTIVE]
        assert [graph.names[graph.label[k]] for k in mine] == ["gather", "grad"]


def test_an_unlisted_communicator_is_named(tmp_path: Path) -> None:
    prefix = made.hybrid_llama(tmp_path)
    with pytest.raises(ConfigError, match=r'llama\.0\.et, rank 0, node 30: pg_name "0".*listed: none'):
        read(prefix)


def test_what_pytorch_traces_lack_is_left_out_when_tolerant(tmp_path: Path) -> None:
    path = tmp_path / "small.0.json"
    path.write_text(json.dumps(made.PYTORCH_JSON))
    with pytest.raises(ConfigError, match=r"rank 0, node 216 \(flatten\(0\)\): waits for node 3, which its rank does"):
        read(path)
    graph, _ = read(path, tolerant=True)
    assert graph.n_node == 3 and graph.duration_ps.tolist() == [318 * 10**6, 85 * 10**6, 28 * 10**6]
    assert graph.left_out == {
        "collectives without comm_type, taken for calls that take their duration": 2,
        "dependencies on missing nodes": 3,
    }


def test_protobuf_s_own_json_reads_alike(tmp_path: Path) -> None:
    nodes = [
        {"name": "a", "type": "COMP_NODE", "durationMicros": "7", "attr": [{"name": "is_cpu_op", "boolVal": True}]},
        {"id": "5", "name": "c", "type": "COMM_COLL_NODE", "dataDeps": ["0"],
         "attr": [{"name": "comm_type", "int64Val": "2"}, {"name": "comm_size", "uint64Val": "100"}]},
    ]  # fmt: skip
    (tmp_path / "x.0.json").write_text(json.dumps(nodes))
    graph, _ = read(tmp_path / "x.0.json")
    assert graph.node_id.tolist() == [0, 5] and graph.dep.tolist() == [0] and graph.lane.tolist() == [1, 0]


BROKEN: dict[str, tuple[list[made.Node], str]] = {
    "circle": (
        [(1, "a", 4, [2], {}), (2, "b", 4, [1], {})],
        r"rank 0, node 1 \(a\): is part of a circle: 1 waits for 2",
    ),
    "itself": ([(1, "a", 4, [1], {})], r"rank 0, node 1 \(a\): waits for itself"),
    "missing": ([(1, "a", 4, [8], {})], r"rank 0, node 1 \(a\): waits for node 8"),
    "twice": ([(1, "a", 4, [], {}), (1, "b", 4, [], {})], r"rank 0, node 1 \(b\): the id of the 1th node.*a second"),
    "type": ([(1, "a", 12, [], {})], r"rank 0, node 1: a node of type 12"),
    "collective": ([(1, "a", 7, [], {"comm_type": 11})], r"rank 0, node 1: comm_type 11"),
    "rank": ([(1, "a", 5, [], {"comm_size": 4, "comm_dst": 9})], r"rank 0, node 1 \(a\): a send with rank 9"),
    "self": ([(1, "a", 5, [], {"comm_size": 4, "comm_dst": 0})], r"rank 0, node 1 \(a\): a send with its own rank"),
    "size": ([(1, "a", 5, [], {"comm_dst": 0})], r"rank 0, node 1 \(a\): a send of 0 bytes"),
    "no peer": ([(1, "a", 6, [], {"comm_size": 4})], r"rank 0, node 1: no comm_src"),
    "empty": ([], r"no node"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_wrong_trace_names_file_rank_and_node(name: str, tmp_path: Path) -> None:
    nodes, text = BROKEN[name]
    prefix = made.write_chakra(tmp_path, "wrong", [nodes])
    with pytest.raises(ConfigError, match=text):
        read(prefix)


def test_tolerance_cuts_a_circle_where_the_file_goes_back(tmp_path: Path) -> None:
    nodes: list[made.Node] = [(1, "a", 4, [3, 1], {}), (2, "b", 4, [1], {}), (3, "c", 4, [2], {})]
    graph, order = read(made.write_chakra(tmp_path, "x", [nodes]), tolerant=True)
    assert order.tolist() == [0, 1, 2] and graph.dep.tolist() == [0, 1]
    assert graph.left_out == {"dependencies on oneself": 1, "circles of dependencies": 1}


def unmatched() -> list[list[made.Node]]:
    ranks = made.two_ranks()
    ranks[1] = [node for node in ranks[1] if node[0] != 1] + [(1, "from the last", 4, [], {})]
    return ranks


def test_a_send_that_nobody_receives(tmp_path: Path) -> None:
    prefix = made.write_chakra(tmp_path, "two", unmatched())
    with pytest.raises(ConfigError, match=r"two\.0\.et, rank 0, node 7 .*send of 50000 bytes to rank 1, tag 3, that"):
        read(prefix)
    graph, _ = read(prefix, tolerant=True)
    assert graph.left_out == {"sends without a receive": 1} and not (graph.kind == SEND).any()


def test_collectives_that_differ_between_members(tmp_path: Path) -> None:
    ranks = made.two_ranks()
    ranks[1][0] = (4, "gradients", made.COLL, [2], {"comm_type": 0, "comm_size": 64_001})
    with pytest.raises(
        ConfigError, match=r"two\.1\.et, rank 1, node 4 .*all-reduce of 64001 bytes.*rank 0 has all-red"
    ):
        read(made.write_chakra(tmp_path, "two", ranks))
    ranks[1] = ranks[1][1:]
    with pytest.raises(ConfigError, match=r"two\.0\.et, rank 0, node 9 .*collective 1 of communicator all, and rank 1"):
        read(made.write_chakra(tmp_path, "two", ranks))


def test_a_file_that_breaks_off_names_the_byte(tmp_path: Path) -> None:
    prefix = made.write_chakra(tmp_path, "two", made.two_ranks())
    path = tmp_path / "two.1.et"
    whole = path.read_bytes()
    ends = {0, len(whole)}
    for size in range(1, len(whole)):
        path.write_bytes(whole[:size])
        try:
            graph = read_chakra(prefix, None, DEVICE, Leniency(True))
        except ConfigError as error:
            assert f"{path}, byte " in str(error) and "the end inside" in str(error)
        else:  # cut between two messages: fewer nodes
            ends.add(size)
            assert graph.n_node < 6
    assert len(ends) == 5


def test_bytes_that_are_no_trace(tmp_path: Path) -> None:
    (tmp_path / "x.0.et").write_bytes(bytes(range(200, 256)) * 3)
    with pytest.raises(ConfigError, match=r"x\.0\.et, byte \d+, message 1"):
        read(tmp_path / "x.0.et")


def test_a_missing_rank_is_named(tmp_path: Path) -> None:
    prefix = made.write_chakra(tmp_path, "two", made.two_ranks())
    (tmp_path / "two.0.et").unlink()
    with pytest.raises(ConfigError, match=r"there is no two\.0\.et"):
        read(prefix)
