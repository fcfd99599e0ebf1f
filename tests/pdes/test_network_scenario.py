"""Claims about [network] on a topology: what "auto" stands for, ns-3's rules, and what only then can be refused."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from models.network.state.parameters import (
    GO_BACK_N,
    NO_MARKING,
    ROUND_ROBIN,
    SELECTIVE_REPEAT,
    STRICT,
    WEIGHTED,
    WINDOW_FIXED,
    BufferParameters,
)
from pdes.config import load_config
from pdes.convert.ns3 import convert
from pdes.errors import ConfigError
from pdes.scenario import Scenario, build_scenario

STAR = "4 1 3\n3\n0 3 100Gbps 1us 0\n1 3 100Gbps 1us 0.01\n2 3 400Gbps 500ns 0\n"
FLOWS = "src,dst,size_bytes,start_ps,priority\n0,1,1000,0,3\n0,2,1000,0,6\n1,2,1000,0,1\n"
HEAD = '[topology]\nkind = "file"\nfile = "topology.txt"\n[workload]\nkind = "flows"\nfile = "flows.csv"\n'
LIMITED = '[network.buffer]\nsize = "1MB"\n'


@pytest.fixture
def build(tmp_path: Path):
    """Build the scenario of a star of two slow hosts and a fast one with the [network] given."""
    (tmp_path / "topology.txt").write_text(STAR)
    (tmp_path / "flows.csv").write_text(FLOWS)

    def build_it(network: str = "") -> Scenario:
        (tmp_path / "config.toml").write_text(HEAD + network)
        return build_scenario(load_config(tmp_path / "config.toml"))

    return build_it


def into_switch(s: Scenario) -> list[int]:
    return list(s.topology.in_ports(3))


def test_without_tables_nothing_can_be_lost_but_on_lossy_links(build, tmp_path: Path) -> None:
    p = build().parameters
    assert (p.buffer, p.ns3) == (None, None)
    assert p.transport is not None and p.transport.timeout_ps == 10**9  # there is a lossy link
    (tmp_path / "topology.txt").write_text(STAR.replace("0.01", "0"))
    p = build().parameters
    assert (p.transport, p.loss_probability) == (None, None)
    assert build("[network.transport]\n").parameters.transport is not None
    assert build(LIMITED).parameters.transport is not None


def test_a_link_without_a_loss_of_its_own_has_the_network_s(build) -> None:
    s = build("[network.loss]\nprobability = 0.001\n")
    assert s.parameters.loss_probability is not None
    assert s.parameters.loss_probability[into_switch(s)].tolist() == [0.001, 0.01, 0.001]


def test_transport_is_what_the_table_says(build) -> None:
    t = build(
        '[network.transport]\nrecovery = "selective-repeat"\nreorder = "9kB"\nack_every = 2\n'
    ).parameters.transport
    assert (t.recovery, t.reorder_bytes, t.ack_every, t.nack_interval_ps) == (SELECTIVE_REPEAT, 9000, 2, 5 * 10**8)
    assert build("[network.transport]\n").parameters.transport.recovery == GO_BACK_N


@pytest.mark.parametrize(
    ("scheduler", "kind", "weight"),
    [
        ("", STRICT, ()),
        ('[network.scheduler]\nkind = "round-robin"\n', ROUND_ROBIN, ()),
        ('[network.scheduler]\nkind = "weighted"\nweights = { 6 = 4, 1 = 2 }\n', WEIGHTED, (0, 4, 1, 2)),
    ],
)
def test_priorities_in_use_become_queues_the_highest_first(build, scheduler: str, kind: int, weight: tuple) -> None:
    p = build(scheduler).parameters
    assert (p.pair_queue.tolist(), p.n_queue, p.scheduler, p.queue_weight) == ([2, 1, 3], 4, kind, weight)


def test_flows_without_a_priority_have_the_network_s(build, tmp_path: Path) -> None:
    (tmp_path / "flows.csv").write_text("src,dst,size_bytes,start_ps\n0,1,1,0\n")
    assert build("[network]\npriority = 5\n").plan.pair_priority.tolist() == [5]
    assert build().parameters.n_queue == 2


def test_queues_of_ns_3_keep_their_order_and_priority_0_keeps_queue_0(build, tmp_path: Path) -> None:
    p = build('[network]\ncompatibility = "ns3-hpcc"\n').parameters
    assert (p.pair_queue.tolist(), p.n_queue, p.scheduler) == ([2, 3, 1], 4, ROUND_ROBIN)
    (tmp_path / "flows.csv").write_text(FLOWS.replace(",6\n", ",0\n"))
    p = build('[network]\ncompatibility = "ns3-hpcc"\n[network.ns3]\nack_high_priority = false\n').parameters
    assert (p.pair_queue.tolist(), p.n_queue) == ([2, 0, 1], 3)
    assert p.ns3 is not None and p.ns3.ack_queue_mask == 1 << 2  # priority 3's queue


def buffer_of(s: Scenario) -> BufferParameters:
    assert s.parameters.buffer is not None
    return s.parameters.buffer


def test_auto_buffers_follow_the_hosts_and_the_links(build, tmp_path: Path) -> None:
    (tmp_path / "topology.txt").write_text("5 2 4\n3 4\n0 3 100Gbps 1us 0\n1 3 100Gbps 1us 0\n2 4 100Gbps 1us 0\n"
                                           "3 4 400Gbps 2us 0\n")  # fmt: skip
    s = build('[network.buffer]\nsize = "auto"\n')
    buffer = buffer_of(s)
    assert buffer.size_bytes.tolist() == [0, 0, 0, 2 * 16 * 2**20, 2 * 16 * 2**20]
    n_queue, packets = 3, 3 * 1048
    hosts, trunk = 25_000 + packets + n_queue * 43, 200_000 + packets + n_queue * 43
    assert buffer.headroom_bytes[into_switch(s)].tolist() == [hosts, hosts, trunk]
    assert buffer.headroom_bytes[~s.topology.is_switch[s.topology.port_dst]].tolist() == [0, 0, 0]
    assert buffer.alpha_1024[into_switch(s)].tolist() == [128, 128, 512]
    assert (buffer.pfc, buffer.reserve_bytes, buffer.pfc_bytes, buffer.resume_offset_bytes) == (True, 4096, 43, 3072)


def test_headroom_covers_telemetry_and_a_switch_s_latency(build) -> None:
    law = '[network]\ncongestion_control = "hpcc"\nswitch_latency = "1us"\n' + LIMITED
    s = build(law)
    expected = (2 * 10**6 + 10**6) * 10**11 // (8 * 10**12) + 3 * (1048 + 42) + 3 * 43
    assert buffer_of(s).headroom_bytes[into_switch(s)[0]] == expected


def test_without_pauses_there_is_no_headroom(build) -> None:
    buffer = buffer_of(build(LIMITED + "[network.pfc]\nenabled = false\n"))
    assert (buffer.pfc, buffer.headroom_bytes.max()) == (False, 0)


def test_sizes_that_are_given_hold_for_every_port(build) -> None:
    s = build(LIMITED + 'alpha = 0.5\nheadroom = "10kB"\nreserve = "0B"\n')
    buffer = buffer_of(s)
    assert buffer.alpha_1024.tolist() == [512] * 6 and buffer.headroom_bytes[into_switch(s)].tolist() == [10_000] * 3
    assert (buffer.size_bytes.tolist(), buffer.reserve_bytes) == ([0, 0, 0, 10**6], 0)


def test_ns_3_s_headroom_is_cut_off_before_it_is_tripled(build) -> None:
    """CORRECTIONS.md fact 12; and the buffer may be less than the headroom."""
    s = build('[network]\ncompatibility = "ns3-hpcc"\n[network.buffer]\nsize = "1kB"\n')
    assert buffer_of(s).headroom_bytes[into_switch(s)].tolist() == [37_500, 37_500, 75_000]


def test_a_buffer_that_headroom_and_reserve_exceed_is_refused(build, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        build('[network.buffer]\nsize = "100kB"\n')
    text = str(caught.value)
    assert text.startswith(f"{tmp_path / 'config.toml'}:8: [network.buffer] size: 100000 B, but switch3 sets aside ")
    assert "3 ports x 3 priorities x (reserve 4096 B + headroom of up to 53273 B, at 400 Gbps)" in text


def test_marks_follow_the_control_the_config_and_the_rate(build) -> None:
    def found(network: str) -> list[tuple[int, int, float]]:
        s = build(network)
        p = s.parameters
        columns = (p.ecn_min_bytes, p.ecn_max_bytes, p.ecn_max_probability)
        return list(zip(*(column[into_switch(s)].tolist() for column in columns), strict=True))[1:]

    assert found("") == [(300_000, 300_000, 1.0), (1_200_000, 1_200_000, 1.0)]
    dcqcn = '[network]\ncongestion_control = "dcqcn"\n'
    assert found(dcqcn) == [(400_000, 1_600_000, 0.2), (1_600_000, 6_400_000, 0.2)]
    assert found(dcqcn + 'ecn_kmin = "1kB"\necn_kmax = "2kB"\necn_pmax = 0.5\n') == [
        (1000, 2000, 0.5),
        (4000, 8000, 0.5),
    ]
    row = '[[network.ecn_rate]]\nrate = "400Gbps"\nkmin = "0B"\nkmax = "7B"\npmax = 0.1\n'
    assert found(row) == [(300_000, 300_000, 1.0), (0, 7, 0.1)]
    off = (NO_MARKING, NO_MARKING, 1.0)
    assert found('[network]\ncongestion_control = "hpcc"\n') == found("[network]\necn = false\n") == [off, off]
    with pytest.raises(ConfigError, match=r'\[network\] ecn: is true, but "hpcc" has no thresholds of its own'):
        build('[network]\ncongestion_control = "hpcc"\necn = true\n')


@pytest.mark.parametrize(
    ("network", "window", "rtt_ps"),
    [
        ("", [52216] * 3, [4_177_280] * 3),
        ('[network]\nwindow = "none"\n', [0] * 3, [4_177_280] * 3),
        ('[network]\nwindow = "9kB"\n', [9000] * 3, [4_177_280] * 3),
        ('[network]\ncompatibility = "ns3-hpcc"\n', [52_000] * 3, [4_160_000] * 3),
        (
            '[network]\ncompatibility = "ns3-hpcc"\nwindow = "pair-bdp"\n',
            [52_000, 38_750, 38_750],
            [4_160_000, 3_100_000, 3_100_000],
        ),
        (
            '[network]\ncompatibility = "ns3-hpcc"\nwindow = "none"\nbase_rtt = "pair"\n',
            [0] * 3,
            [4_160_000, 3_100_000, 3_100_000],
        ),
    ],
)
def test_windows_and_round_trips(build, network: str, window: list[int], rtt_ps: list[int]) -> None:
    s = build(network)
    assert s.max_window_bytes.tolist() == window
    assert s.parameters.base_rtt_ps.tolist() == rtt_ps
    assert s.base_rtt_ps == max(rtt_ps)


def test_a_window_may_stay_whatever_the_rate(build) -> None:
    assert build("[network]\nwindow_follows_rate = false\n").parameters.window_mode == WINDOW_FIXED


def test_headers_carry_what_the_control_adds_and_acks_echo_it(build) -> None:
    sizes = {
        name: build(f'[network]\ncongestion_control = "{name}"\n').parameters for name in ("dctcp", "hpcc", "timely")
    }
    assert {name: (p.header_bytes, p.ack_bytes) for name, p in sizes.items()} == {
        "dctcp": (48, 60), "hpcc": (90, 88), "timely": (56, 60),
    }  # fmt: skip


def test_parameters_of_a_control_are_checked_and_part_of_the_identity(build) -> None:
    s = build(
        '[network]\ncongestion_control = "hpcc"\n[network.hpcc]\nmin_rate = "2Gbps"\n[network.dctcp]\ngain = 0.5\n'
    )
    assert s.parameters.law_values["min_rate_bps"] == 2 * 10**9
    network = s.identity()["network"]
    assert network["law"]["parameters"]["min_rate_bps"] == 2 * 10**9
    assert network["law"]["parameters"]["rate_increase_bps"] == {"at_100g": 40 * 10**6}
    assert "dctcp" not in network and "hpcc" not in network
    assert json.dumps(s.identity()) == json.dumps(pickle.loads(pickle.dumps(s)).identity())


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        ("[network.dctcp]\ngian = 0.1\n", r'\[network.dctcp\] gian: unknown key. Did you mean "gain"'),
        ('[network.dctcp]\nmin_rate = "1ms"\n', r"\[network.dctcp\] min_rate: found"),
        ("[network.hpcc]\nmax_stag = 1\n", r'\[network.hpcc\] max_stag: unknown key. Did you mean "max_stage"'),
        ('[network]\nconstants = "papr"\n', r'\[network\] constants: found "papr". Did you mean "paper"'),
        (
            '[network]\ncongestion_control = "hpc"\n',
            r'\[network\] congestion_control: found "hpc". Did you mean "hpcc"',
        ),
        ('[network]\ncongestion_control = "my.py:Mine"\n', r"\[network\] congestion_control: cannot read .*my.py"),
        (
            '[network]\ncongestion_control = "mine.py:Mine"\n[network.parameters]\nstp = 1\n',
            r'config.toml:\d+: \[network.parameters\] stp: unknown key. Did you mean "step"',
        ),
        (
            '[network]\ncongestion_control = "hpcc"\npayload = "65480B"\n',
            r"\[network\] payload: makes packets of 65570",
        ),
    ],
)
def test_what_only_the_control_can_refuse_names_the_key(build, tmp_path: Path, network: str, expected: str) -> None:
    (tmp_path / "mine.py").write_text(
        'class Mine:\n    """A control."""\n\n    parameters = {"step": 1}\n\n'
        "    @staticmethod\n    def on_ack(flow, event, p):\n        flow.rate_bps += p.step\n"
    )
    with pytest.raises(ConfigError, match=expected):
        build(network)


def test_a_named_set_of_constants_is_taken(build) -> None:
    assert (
        build('[network]\ncongestion_control = "hpcc"\nconstants = "paper"\n').parameters.law_values["max_stage"] == 5
    )


def test_a_converted_case_runs_by_ns_3_s_rules(tmp_path: Path) -> None:
    (tmp_path / "topology.txt").write_text("3 1 2\n2\n0 2 100Gbps 0.0007ms 0\n1 2 100Gbps 0.001ms 0\n")
    (tmp_path / "flow.txt").write_text("1\n0 1 3 100 1000000 2.0007\n")
    (tmp_path / "config.txt").write_text(
        "CC_MODE 8\nDCTCP_RATE_AI 615Mb/s\nX_STOP_S 2.2000007\nENABLE_QCN 0\nACK_HIGH_PRIO 1\nVAR_WIN 1\n"
    )
    convert(tmp_path, tmp_path / "case.toml")
    s = build_scenario(load_config(tmp_path / "case.toml"))
    assert set(s.topology.port_delay_ps.tolist()) == {699_000, 10**6}
    assert s.plan.operations["time_ps"].tolist() == [2_000_700_000_000]
    assert s.stop_ps == 2_200_000_699_000 - 1  # cut off, and ns-3 does not run the events of its last ns
    assert (s.base_rtt_ps, s.max_window_bytes.tolist()) == (3_558_000, [44_475])
    assert np.all(buffer_of(s).size_bytes == [0, 0, 16 * 2**20])
    assert s.parameters.ns3 is not None and s.parameters.ns3.ack_queue_mask == 0
