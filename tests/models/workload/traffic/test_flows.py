"""Flow lists: files as they are, and what is said about a line that cannot be."""

from dataclasses import replace

import numpy as np
import pytest

from models.topology.leaf_spine import leaf_spine
from models.workload.traffic.flows import NO_PRIORITY, FlowList, plan_flows, read_csv_flows, read_ns3_flows, to_hosts
from pdes.errors import ConfigError
from reference.network_case import make_flow_case

NS3 = "2\n0 1 3 100 5000 2.0\n\n3 0 3 200 1 0.000001\nignored: ns-3 reads as many as announced\n"
CSV = "src,dst,size_bytes,start_ps,tag\n0,1,5000,7,red\n\n3, 0, 1, 0, blue\n"


def rows(flows: FlowList) -> list[tuple[int, ...]]:
    return list(zip(*(c.tolist() for c in (flows.src, flows.dst, flows.size_bytes, flows.start_ps)), strict=True))


def write(tmp_path, text: str):
    path = tmp_path / "flows.txt"
    path.write_text(text)
    return path


def test_ns3_flows_are_read_exactly(tmp_path):
    flows = read_ns3_flows(write(tmp_path, NS3))
    assert rows(flows) == [(0, 1, 5000, 2 * 10**12), (3, 0, 1, 10**6)]
    assert flows.dport.tolist() == [100, 200]
    assert flows.node_ids


def test_csv_flows_are_read_exactly(tmp_path):
    flows = read_csv_flows(write(tmp_path, CSV))
    assert rows(flows) == [(0, 1, 5000, 7), (3, 0, 1, 0)]
    assert flows.tag == ("red", "blue")
    assert not flows.node_ids


def test_priorities_are_read(tmp_path):
    assert read_ns3_flows(write(tmp_path, NS3.replace("0 3 200", "0 7 200"))).priority.tolist() == [3, 7]
    assert read_csv_flows(write(tmp_path, CSV)).priority.tolist() == [NO_PRIORITY] * 2
    text = "src,priority,dst,size_bytes,start_ps\n0,5,1,1,0\n0,0,1,1,0\n"
    assert read_csv_flows(write(tmp_path, text)).priority.tolist() == [5, 0]


def test_starts_can_be_cut_off_to_ns_as_ns3_does(tmp_path):
    text = "1\n0 1 3 100 1 0.0007000005\n"
    assert read_ns3_flows(write(tmp_path, text)).start_ps.tolist() == [700_000_500]
    assert read_ns3_flows(write(tmp_path, text), is_ns3=True).start_ps.tolist() == [700_000_000]


def test_columns_of_a_csv_may_stand_in_any_order(tmp_path):
    flows = read_csv_flows(write(tmp_path, "start_ps,size_bytes,dst,src\n1,2,3,4\n"))
    assert rows(flows) == [(4, 3, 2, 1)]
    assert flows.tag == ("",)


BIG = str(2**63)


@pytest.mark.parametrize(
    "text, message",
    [
        ("", r"flows\.txt: is empty"),
        ("x\n", r"flows\.txt, line 1: number of flows 'x'"),
        ("0\n", r"flows\.txt, line 1: announces no flow"),
        ("3\n0 1 3 100 5 0\n", r"flows\.txt, line 1: announces 3 flows and the file holds 1"),
        ("-2\n0 1 3 100 5 0\n1 0 3 100 5 0\n2 0 3 100 5 0\n", r"flows\.txt, line 1: .*-2"),
        ("1\n0 1 3 100 5\n", r"flows\.txt, line 2: 5 columns\. Accepted: 6: src dst"),
        ("1\n\n0 one 3 100 5 0\n", r"flows\.txt, line 3: dst 'one'\. Accepted: a whole number"),
        ("1\n0 1 3 100 5 soon\n", r"flows\.txt, line 2: start 'soon'\. Accepted: seconds"),
        ("1\n0 1 3 100 5 nan\n", r"flows\.txt, line 2: start 'nan'\. Accepted: seconds"),
        ("1\n0 1 3 100 5 1/0\n", r"flows\.txt, line 2: start '1/0'\. Accepted: seconds"),
        ("1\n0 1 3 100 5 -1\n", r"flows\.txt, line 2: start.* -1000000000000"),
        ("1\n0 1 3 100 5 1e10\n", r"flows\.txt, line 2: start.* 10000000000000000000000"),
        ("1\n0 1 3 100 0 0\n", r"flows\.txt, line 2: size.* 0.*\. Accepted: at least 1 byte"),
        ("1\n1 1 3 100 5 0\n", r"flows\.txt, line 2: a flow from 1 to itself"),
        ("1\n0 1 8 100 5 0\n", r"flows\.txt, line 2: priority 8\. Accepted: 0\.\.7"),
        (f"1\n0 1 3 100 {BIG} 0\n", r"flows\.txt, line 2: .*9223372036854775808"),
        (f"1\n{BIG} 1 3 100 5 0\n", r"flows\.txt, line 2: .*9223372036854775808"),
    ],
)
def test_a_fault_in_ns3_flows_is_named_with_its_line(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message):
        read_ns3_flows(write(tmp_path, text))


HEADER = "src,dst,size_bytes,start_ps\n"


@pytest.mark.parametrize(
    "text, message",
    [
        ("", r"flows\.txt, line 1: header ''\. Accepted: columns src, dst, size_bytes, start_ps"),
        ("src,dst\n", r"flows\.txt, line 1: header 'src,dst'"),
        (HEADER + "0,1,5\n", r"flows\.txt, line 2: 3 columns\. Accepted: 4, as in the header"),
        (HEADER + "\n0,1,5,0,9\n", r"flows\.txt, line 3: 5 columns"),
        (HEADER + "0,1,5KB,0\n", r"flows\.txt, line 2: size_bytes '5KB'\. Accepted: a whole number"),
        (HEADER + "0,1,-5,0\n", r"flows\.txt, line 2: size.* -5"),
        (HEADER + "0,1,5,-1\n", r"flows\.txt, line 2: start.* -1"),
        (HEADER + "2,2,5,0\n", r"flows\.txt, line 2: a flow from 2 to itself"),
        ("priority," + HEADER + "9,0,1,5,0\n", r"flows\.txt, line 2: priority 9\. Accepted: 0\.\.7"),
        (HEADER + f"0,1,{BIG},0\n", r"flows\.txt, line 2: .*9223372036854775808"),
    ],
)
def test_a_fault_in_a_csv_is_named_with_its_line(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message):
        read_csv_flows(write(tmp_path, text))


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(ConfigError, match=r"absent\.csv: cannot be read"):
        read_csv_flows(tmp_path / "absent.csv")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_ns3_flows(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="binary: cannot be read"):
        read_csv_flows(tmp_path / "binary")


def make(*flows: tuple[int, int, int, int], node_ids: bool = False) -> FlowList:
    columns = np.array(flows, np.int64).reshape(-1, 4).T
    return FlowList(*(c.copy() for c in columns), np.full(len(flows), 100), ("",) * len(flows), node_ids)


def test_hosts_are_numbered_as_the_topology_lists_them():
    flows = to_hosts(make((7, 9, 1, 0), (9, 2, 1, 0), node_ids=True), np.array([2, 7, 9]), "f")
    assert (flows.src.tolist(), flows.dst.tolist()) == ([1, 2], [2, 0])


@pytest.mark.parametrize("node_ids", [True, False])
def test_a_host_that_the_topology_lacks_is_named(node_ids):
    with pytest.raises(ConfigError, match=r"f: flow 1: host 5\. Accepted: one of the topology's 3 hosts"):
        to_hosts(make((0, 1, 1, 0), (1, 5, 1, 0), node_ids=node_ids), np.array([0, 1, 2]), "f")


def test_every_flow_has_a_queue_pair_of_its_own_with_ports_as_in_ns3():
    plan = plan_flows(make((0, 1, 9, 5), (0, 1, 8, 0), (1, 0, 7, 0), (0, 1, 6, 0)), 2)
    assert plan.pair_src.tolist() == [0, 0, 1, 0]
    assert plan.pair_sport.tolist() == [10000, 10001, 10000, 10002]
    assert plan.pair_bytes.tolist() == [9, 8, 7, 6]
    assert plan.streams["gpu"].tolist() == [0, 1]
    # Host 0 posts in order of (start, id): flows 1, 3, 0.
    assert plan.operations["flow"].tolist() == [1, 3, 0, 2]
    assert plan.slots.tolist() == [1, 3, 0, 2]


def test_flows_between_two_hosts_may_share_a_queue_pair():
    plan = plan_flows(make((0, 1, 9, 5), (1, 0, 8, 0), (0, 1, 7, 0)), 2, "per-pair")
    assert (plan.pair_src.tolist(), plan.pair_dst.tolist()) == ([0, 1], [1, 0])
    assert plan.pair_bytes.tolist() == [16, 8]


def test_flows_of_different_priority_share_no_queue_pair():
    flows = replace(make((0, 1, 9, 5), (0, 1, 8, 0), (0, 1, 7, 0)), priority=np.array([3, 1, 3]))
    plan = plan_flows(flows, 2, "per-pair")
    assert plan.pair_priority is not None and plan.pair_priority.tolist() == [1, 3]
    assert (plan.pair_bytes.tolist(), plan.pair_sport.tolist()) == ([8, 16], [10000, 10001])
    plan = plan_flows(flows, 2)
    assert plan.pair_priority is not None and plan.pair_priority.tolist() == [3, 1, 3]


def test_no_flow_is_refused():
    with pytest.raises(ConfigError, match="no flow"):
        plan_flows(make(), 2)


def test_flows_of_one_instant_start_one_by_one():
    """Each start is an event of its own (design R2): the NIC sends for the first flow before the second one starts.

    The second one's queue pair is the NIC's first, so it would get the first turn if both were posted before.
    """
    topology = leaf_spine(1, 0, 4, 10**11, 10**11, 10**6, 10**6)
    case = make_flow_case(topology, [(0, 3, 1000, 0), (0, 1, 1000, 0)], queue_pairs="per-pair")
    assert case.plan.pair_dst.tolist() == [1, 3]
    flows = case.run().flows
    assert flows[1][1] - flows[0][1] == 1048 * 80


@pytest.mark.parametrize("queue_pairs", ["per-flow", "per-pair"])
def test_two_thousand_flows_at_once_from_one_host_all_arrive(queue_pairs):
    topology = leaf_spine(1, 0, 3, 10**11, 10**11, 10**6, 10**6)
    case = make_flow_case(topology, [(0, 1 + i % 2, 1 + i, 0) for i in range(2000)], queue_pairs=queue_pairs)
    outcome = case.run()
    assert sorted(outcome.flows) == list(range(2000))
    assert outcome.flows == case.run_twin().flows
