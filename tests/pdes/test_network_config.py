"""Claims about [network] and its tables: what they mean in plain ints, and that every fault is named and placed."""

import tomllib

import pytest

from pdes.config import NetworkConfig, config_from_dict
from pdes.errors import ConfigError

BASE = (
    '[topology]\nkind = "fat-tree"\nk = 4\n[workload]\nkind = "collectives"\n'
    '[[workload.collective]]\nname = "ring"\noperation = "all-reduce"\nsize = "4MB"\n'
)
LIMITED = '[network.buffer]\nsize = "auto"\n'
NS3 = '[network]\ncompatibility = "ns3-hpcc"\n'


def network(text: str) -> NetworkConfig:
    return config_from_dict(tomllib.loads(BASE + text)).network


def message(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        network(text)
    assert caught.value.exit_status == 2
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "window"),
    [('"max-bdp"', "max-bdp"), ('"pair-bdp"', "pair-bdp"), ('"none"', "none"), ('"auto"', "auto"), ('"1kB"', 1000)],
)
def test_a_window_is_a_rule_or_a_size(text: str, window: str | int) -> None:
    assert network(f"[network]\nwindow = {text}\n").window == window


def test_quantities_of_all_tables_are_ints() -> None:
    n = network(
        '[network]\nswitch_latency = "300ns"\n[network.buffer]\nsize = "32MiB"\nreserve = "0B"\nheadroom = "0B"\n'
        'alpha = 0.25\n[network.pfc]\nframe = "64B"\nresume_offset = "0B"\n[network.transport]\nack_every = 4\n'
        'timeout = "2ms"\nrecovery = "selective-repeat"\nreorder = "64kB"\ncnp_interval = "50us"\n'
    )
    assert n.switch_latency_ps == 300_000
    assert (n.buffer.size, n.buffer.reserve_bytes, n.buffer.headroom_bytes, n.buffer.alpha) == (2**25, 0, 0, 0.25)
    assert (n.pfc.frame_bytes, n.pfc.resume_offset_bytes) == (64, 0)
    assert n.transport is not None
    assert (n.transport.timeout_ps, n.transport.max_timeout_ps) == (2 * 10**9, 64 * 10**9)
    assert (n.transport.reorder_bytes, n.transport.cnp_interval_ps, n.transport.ack_every) == (64_000, 50 * 10**6, 4)


@pytest.mark.parametrize(
    ("text", "has_pfc"),
    [("", False), (LIMITED, True), (LIMITED + "[network.pfc]\nenabled = false\n", False)],
)
def test_pauses_come_with_a_limited_buffer_unless_told_otherwise(text: str, has_pfc: bool) -> None:
    assert network(text).has_pfc is has_pfc


def test_priorities_of_weights_are_numbers() -> None:
    n = network('[network.scheduler]\nkind = "weighted"\nweights = { 3 = 2, 7 = 1 }\n')
    assert n.scheduler.weights == {3: 2, 7: 1}


def test_thresholds_can_be_fixed_by_rate() -> None:
    row = '[[network.ecn_rate]]\nrate = "{}"\nkmin = "0B"\nkmax = "{}"\n'
    first, second = network(row.format("100Gbps", "1kB") + row.format("400Gbps", "4kB") + "pmax = 0.2\n").ecn_rate
    assert (first.rate_bps, first.kmin_bytes, first.kmax_bytes, first.pmax) == (10**11, 0, 1000, 1.0)
    assert (second.rate_bps, second.kmax_bytes, second.pmax) == (4 * 10**11, 4000, 0.2)


def test_tables_of_controls_are_kept_for_the_controls_to_check() -> None:
    n = network('[network]\ncongestion_control = "hpcc"\n[network.hpcc]\nwhatever = 1\n[network.dctcp]\ngain = 0.5\n')
    assert n.law_parameters() == {"hpcc": {"whatever": 1}, "dctcp": {"gain": 0.5}}
    n = network('[network]\ncongestion_control = "my.py:Mine"\n[network.parameters]\nstep = 3\n')
    assert n.law_parameters() == {"my.py:Mine": {"step": 3}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[network]\ncompatibility = "ns3"\n', 'compatibility: found "ns3". Accepted: "none" or "ns3-hpcc"'),
        ('[network]\ncongestion_control = ""\n', "congestion_control: is empty"),
        ('[network]\necn_kmin = "1MB"\n', 'ecn_kmin: is a size, but ecn_kmax is "auto"'),
        ('[network]\necn_kmin = "2MB"\necn_kmax = "1MB"\n', "at most ecn_kmax = 1000000 bytes"),
        ("[network]\necn = 1\n", '[network] ecn: found 1. Accepted: "auto", true or false'),
        ("[network]\necn_pmax = 1.5\n", 'found 1.5. Accepted: "auto", or a number above 0, at most 1'),
        ("[network]\necn_pmax = true\n", "ecn_pmax: found true"),
        ('[network]\npayload = "2MB"\n', "packets of at most 65535 bytes"),
        ("[network]\npriority = 8\n", "[network] priority: found 8. Accepted: at most 7"),
        ("[network]\ndctcp = 3\n", "[network] dctcp: found 3. Accepted: a table"),
        ("[network]\nhpc = {}\n", '[network] hpc: unknown key. Did you mean "hpcc"?'),
        ("[network.fixed_window]\na = 1\n", '[network] fixed_window: unknown key. Did you mean "fixed-window"?'),
        ('[network]\nwindow = "wide"\n', 'Accepted: "auto" or "max-bdp" or "pair-bdp" or "none", or a size'),
        ('[network]\nbase_rtt = "1us"\n', 'base_rtt: found "1us". Accepted: "auto", "max" or "pair"'),
        ("[network.parameters]\nstep = 1\n", 'congestion_control is "dctcp". Accepted: [network.dctcp]'),
        ('[[network.ecn_rate]]\nrate = "1Gbps"\nkmin = "1B"\n', "[[network.ecn_rate]] 1: kmax: missing"),
        (
            '[[network.ecn_rate]]\nrate = "1Gbps"\nkmin = "2B"\nkmax = "1B"\n',
            "[[network.ecn_rate]] 1: kmin: found 2 bytes. Accepted: at most kmax = 1 bytes",
        ),
        (
            '[[network.ecn_rate]]\nrate = "1Gbps"\nkmin = "1B"\nkmax = "1B"\n' * 2,
            "[[network.ecn_rate]] 2: rate: 1Gbps is there twice. Accepted: each rate once",
        ),
        ('[network.buffer]\nsize = "0B"\n', 'Accepted: "unlimited" or "auto", or a value above zero'),
        (
            '[network.buffer]\nsize = "big"\n',
            'size: found "big", which is not a number and a unit. Accepted: "unlimited"',
        ),
        ("[network.buffer]\nalpha = 0\n", 'alpha: found 0. Accepted: "auto", or a number above 0, at most 1024'),
        ('[network.buffer]\nheadroom = "-1B"\n', "headroom: found"),
        ('[network.buffer]\nsiez = "1MB"\n', 'siez: unknown key. Did you mean "size"?'),
        ("[network.pfc]\nenabled = true\n", '[network.buffer] size is "unlimited": nothing would ever pause'),
        ('[network.pfc]\nenabled = "yes"\n', 'enabled: found "yes". Accepted: "auto", true or false'),
        ('[network.pfc]\nframe = "1MB"\n', "[network.pfc] frame: found 1000000 bytes. Accepted: at most 65535"),
        ('[network.scheduler]\nkind = "fair"\n', 'kind: found "fair". Accepted: "strict", "round-robin" or "weighted"'),
        (
            "[network.scheduler]\nweights = { 3 = 1 }\n",
            'but kind is "strict". Accepted: weights with kind = "weighted"',
        ),
        ('[network.scheduler]\nkind = "weighted"\nweights = { 8 = 1 }\n', 'found "8" = 1. Accepted: priorities 0 to 7'),
        ('[network.scheduler]\nkind = "weighted"\nweights = { 3 = 0 }\n', 'found "3" = 0. Accepted: priorities'),
        ("[network.scheduler]\nweights = 3\n", "weights: found 3. Accepted: a table"),
        ("[network.transport]\nack_every = 0\n", "ack_every: found 0. Accepted: at least 1"),
        ('[network.transport]\nrecovery = "none"\n', 'Accepted: "go-back-n" or "selective-repeat"'),
        ('[network.transport]\ntimeout = "1s"\n', "timeout: found 1s. Accepted: at most max_timeout = 64ms"),
        ('[network.transport]\nreorder = "1kB"\n', 'reorder: is there, but recovery is "go-back-n"'),
        ("[network.loss]\nprobability = 1.5\n", "probability: found 1.5. Accepted: at most 1"),
        ("[network.ns3]\nint_multi = 1\n", 'compatibility is "none". Accepted: with compatibility = "ns3-hpcc"'),
        (NS3 + "[network.ns3]\nint_multi = 0\n", "[network.ns3] int_multi: found 0. Accepted: at least 1"),
        (NS3 + 'switch_latency = "1us"\n', "[network] switch_latency: is not a choice in ns-3"),
        (NS3 + '[network.scheduler]\nkind = "strict"\n', "[network] scheduler: is not a choice in ns-3"),
        (NS3 + "[network.transport]\nack_every = 1\n", "[network] transport: is not a choice in ns-3"),
        (NS3 + "[network.pfc]\nenabled = false\n", "Accepted: [network.ns3] ignore_pfc = true"),
    ],
)
def test_a_fault_is_placed_and_explained(text: str, expected: str) -> None:
    assert expected in message(text)
