"""Topology files: what is read, and what is said about a line that cannot be."""

import pytest

from models.topology.ns3_file import read_ns3_next_hops, read_ns3_topology
from pdes.errors import ConfigError

GOOD = "4 1 3\n3\n0 3 100Gbps 0.001ms 0\n1 3 25Gbps 500ns 0.000000\n2 3 10GBps 1us 0\n"
SIMAI = """7 2 2 1 8 H100
4 5 6
0 4 2880Gbps 0.000025ms 0
1 4 2880Gbps 0.000025ms 0
2 5 2880Gbps 0.000025ms 0
3 5 2880Gbps 0.000025ms 0
0 6 400Gbps 0.0005ms 0
1 6 400Gbps 0.0005ms 0
2 6 400Gbps 0.0005ms 0
3 6 400Gbps 0.0005ms 0
"""


@pytest.fixture
def write(tmp_path):
    def write_text(text: str):
        path = tmp_path / "topology.txt"
        path.write_bytes(text.encode())
        return path

    return write_text


def test_rates_delays_and_ids_are_read_exactly(write):
    topology = read_ns3_topology(write(GOOD))
    assert topology.node_name == ("host0", "host1", "host2", "switch3")
    assert topology.server.tolist() == [0, 1, 2, -1]
    into_switch = list(topology.in_ports(3))
    assert topology.port_rate_bps[into_switch].tolist() == [100 * 10**9, 25 * 10**9, 80 * 10**9]
    assert topology.port_delay_ps[into_switch].tolist() == [10**6, 500_000, 10**6]


def test_rates_in_bytes_are_warned_of_once_each_but_not_inside_servers(write):
    said = []
    path = write(GOOD.replace("25Gbps", "10GBps"))
    read_ns3_topology(path, warn=said.append)
    assert said == [f'{path}, line 4: "10GBps" is 80 Gbps; write 10Gbps if bits were meant (links with it: 2)']
    said.clear()
    read_ns3_topology(write(SIMAI.replace("2880Gbps", "360GB/s")), warn=said.append)
    assert said == []
    read_ns3_topology(write(SIMAI.replace("3 6 400Gbps", "3 6 50GB/s")), warn=said.append)
    assert [text.split(", ")[1] for text in said] == ['line 10: "50GB/s" is 400 Gbps; write 50Gbps if bits were meant']


def test_an_error_rate_is_the_loss_of_both_directions_of_its_link(write):
    topology = read_ns3_topology(write(GOOD.replace("0.000000", "0.001")))
    lossy = (topology.port_src == 1) | (topology.port_dst == 1)
    assert topology.port_loss.tolist() == [0.001 if is_lossy else 0.0 for is_lossy in lossy]


def test_ns3_s_own_reading_cuts_delays_off_to_ns(write):
    text = GOOD.replace("0.001ms", "0.0007ms")
    assert read_ns3_topology(write(text), is_ns3=True).port_delay_ps.max() == 10**6
    assert sorted(set(read_ns3_topology(write(text), is_ns3=True).port_delay_ps.tolist()))[1] == 699_000
    assert sorted(set(read_ns3_topology(write(text)).port_delay_ps.tolist()))[1] == 700_000
    with pytest.raises(ConfigError, match='line 4: found "500n", which has the unit "n"'):
        read_ns3_topology(write(GOOD.replace("500ns", "500n")), is_ns3=True)


def test_carriage_returns_blank_lines_split_switch_ids_and_trailing_text_do_not_matter(write):
    links = ["0 3 100Gbps 0.001ms 0", "1 4 100Gbps 0.001ms 0", "3 4 100Gbps 0.001ms 0"]
    lines = ["5 2 3", "3", "", "4", *links, "", "0 4 1Gbps 1us 0", "nodes, ids"]
    topology = read_ns3_topology(write("\r\n".join(lines)))
    assert (topology.n_node, topology.n_host, topology.n_port) == (5, 3, 6)


def test_switch_ids_may_come_first_and_hosts_are_numbered_in_order(write):
    topology = read_ns3_topology(write("3 1 2\n0\n0 1 1Gbps 1us 0\n0 2 1Gbps 1us 0\n"), gpus_per_server=2)
    assert topology.host.tolist() == [1, 2]
    assert topology.server.tolist() == [-1, 0, 0]
    assert topology.node_name == ("switch0", "gpu1", "gpu2")


def test_a_network_without_switches_has_a_blank_line_of_ids(write):
    assert read_ns3_topology(write("2 0 1\n\n0 1 25Gbps 0.005ms 0\n")).n_host == 2


def test_simai_headers_bring_servers_and_nvswitches(write):
    topology = read_ns3_topology(write(SIMAI))
    assert topology.node_name[3:] == ("gpu3", "nvswitch4", "nvswitch5", "switch6")
    assert topology.server.tolist() == [0, 0, 1, 1, 0, 1, -1]


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("4 1 3", "4 1", "line 1: a header of 2 words"),
        ("4 1 3", "4 x 3", "line 1: 'x', which is no whole number"),
        ("4 1 3", "4 5 3", "line 1: '4 5 3', counts"),
        ("4 1 3", "4 1 4", "ends after 3 links. The header promises 4"),
        ("\n3\n", "\n9\n", "line 2: node 9"),
        ("\n3\n", "\n3 3\n", "line 2: node 3 a second time"),
        ("1 3 25Gbps", "1 9 25Gbps", "line 4: a link of nodes 1 and 9"),
        ("1 3 25Gbps", "1 1 25Gbps", "line 4: a link of nodes 1 and 1"),
        ("25Gbps", "25Gbit", 'line 4: found "25Gbit", which has the unit "Gbit"'),
        ("25Gbps", "0Gbps", "line 4: the rate 0Gbps"),
        ("500ns", "500", 'line 4: found "500", which has no unit'),
        ("500ns", "-5ns", "line 4: found .* below zero"),
        ("0.000000", "1.5", "line 4: the error rate 1.5. A probability is accepted"),
        ("0.000000", "nan", "line 4: the error rate nan. A probability is accepted"),
        ("0.000000", "none", "line 4: the error rate 'none'"),
        (" 0.000000", "", "line 4: 4 words"),
    ],
)
def test_a_bad_line_is_named_with_its_number(write, old, new, text):
    assert old in GOOD
    with pytest.raises(ConfigError, match=text):
        read_ns3_topology(write(GOOD.replace(old, new)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "an empty file"),
        ("4 2 0\n1\n", "ends after 1 switch ids. The header promises 2"),
        ("1 1 0\n0\n", "no host is left"),
        (SIMAI.replace("7 2 2", "7 0 2"), "line 1: 0 GPUs per server"),
    ],
)
def test_a_file_that_cannot_be_a_network_is_refused(write, text, message):
    with pytest.raises(ConfigError, match=message):
        read_ns3_topology(write(text))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.txt: cannot be read: No such file"):
        read_ns3_topology(tmp_path / "none.txt")


def test_next_hops_keep_the_order_of_the_table(write):
    assert read_ns3_next_hops(write("16 0 0\n16 2 25 24\n")) == {(16, 0): [0], (16, 2): [25, 24]}
    with pytest.raises(ConfigError, match="line 2: fewer than 3 words"):
        read_ns3_next_hops(write("16 0 0\n16 2\n"))
    with pytest.raises(ConfigError, match="line 1: 'a'"):
        read_ns3_next_hops(write("16 0 a\n"))
