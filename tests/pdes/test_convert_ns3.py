"""Claims about `convert ns3`: the config means what the case's files say, and what is lost is said."""

from pathlib import Path

import pytest

from models.congestion.law import find_law
from pdes.cli import main
from pdes.config import FlowsConfig, Ns3Config, TopologyFileConfig, load_config
from pdes.convert.ns3 import convert
from pdes.errors import ConfigError

CONFIG = """\
ENABLE_QCN 1
PACKET_PAYLOAD_SIZE 1000 {packet size (bytes)}

TOPOLOGY_FILE mix/topology.txt
SIMULATOR_STOP_TIME 4.00
CC_MODE 8
EWMA_GAIN 0.0625
MIN_RATE 1000Mb/s
DCTCP_RATE_AI 615Mb/s
LINK_DOWN 0 0 0
ERROR_RATE_PER_LINK 0.0000
HAS_WIN 1
GLOBAL_T 1
VAR_WIN 1
KMAX_MAP 1 100000000000 300
KMIN_MAP 1 100000000000 300
PMAX_MAP 1 100000000000 1.00
"""
ROUTES = {"next_hops_file": "nexthops.txt", "paths_file": "paths.txt"}


@pytest.fixture
def case(tmp_path: Path) -> Path:
    folder = tmp_path / "case"
    folder.mkdir()
    (folder / "topology.txt").write_text("3 1 2\n2\n0 2 100Gbps 0.001ms 0\n1 2 100Gbps 0.001ms 0\n")
    (folder / "flow.txt").write_text("1\n0 1 3 100 1000000 2.0\n")
    (folder / "config.txt").write_text(CONFIG)
    (folder / "nexthops.txt").write_text("2 0 0\n2 1 1\n")
    return folder


def change(case: Path, old: str, new: str) -> None:
    text = (case / "config.txt").read_text()
    assert old in text
    (case / "config.txt").write_text(text.replace(old, new))


def test_a_converted_case_is_a_config_with_the_case_s_values(case: Path, tmp_path: Path) -> None:
    assert convert(case, tmp_path / "case.toml") == []
    config = load_config(tmp_path / "case.toml")
    network = config.network
    assert (network.congestion_control, network.compatibility) == ("dctcp", "ns3-hpcc")
    assert (network.payload_bytes, network.header_bytes, network.ack_bytes) == (1000, 48, 60)
    assert network.dctcp == {"gain": 0.0625, "rate_increase": "615Mbps", "min_rate": "1Gbps"}
    assert (network.window, network.window_follows_rate, network.base_rtt, network.ecn) == (
        "max-bdp",
        True,
        "max",
        True,
    )
    (marks,) = network.ecn_rate
    assert (marks.rate_bps, marks.kmin_bytes, marks.kmax_bytes, marks.pmax) == (10**11, 300_000, 300_000, 1.0)
    assert network.buffer.size == 16 * 2**20
    assert config.simulation.stop_time_ps == 4 * 10**12
    assert isinstance(config.topology, TopologyFileConfig) and isinstance(config.workload, FlowsConfig)
    assert config.input_path(config.topology.file).samefile(case / "topology.txt")
    assert config.input_path(config.workload.file).samefile(case / "flow.txt")
    assert config.workload.queue_pairs == "per-flow"


def test_nothing_but_the_config_is_written(case: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in case.iterdir()}
    out = tmp_path / "out"
    out.mkdir()
    convert(case, out / "case.toml")
    assert [path.name for path in out.iterdir()] == ["case.toml"]
    assert {path: path.read_bytes() for path in case.iterdir()} == before


@pytest.mark.parametrize("present", [("nexthops.txt", "paths.txt"), ("paths.txt",), ()])
def test_routes_come_from_next_hops_else_paths_else_there_is_a_warning(case: Path, present: tuple[str, ...]) -> None:
    (case / "nexthops.txt").unlink()
    for name in present:
        (case / name).touch()
    warnings = convert(case, case / "case.toml")
    network = load_config(case / "case.toml").network
    used = {key for key in ROUTES if getattr(network, key) is not None}
    assert used == {key for key, name in ROUTES.items() if present and name == present[0]}
    assert [("paths may differ" in text) for text in warnings] == ([] if present else [True])


def test_keys_that_a_file_lacks_have_ns_3_s_defaults(case: Path) -> None:
    (case / "config.txt").write_text("RP_TIMER 900\n")
    warnings = convert(case, case / "case.toml")
    assert len(warnings) == 1 and "no KMIN_MAP, KMAX_MAP or PMAX_MAP for 100Gbps" in warnings[0]
    config = load_config(case / "case.toml")
    network = config.network
    assert (network.congestion_control, config.simulation.stop_time_ps) == ("dcqcn", 301 * 10**10)
    assert network.dcqcn == {
        "min_rate": "100Mbps", "gain": 0.0, "alpha_interval": "55us", "decrease_interval": "4us",
        "increase_interval": "900us", "fast_recovery_times": 5, "clamp_target": False,
    }  # fmt: skip
    assert (network.window, network.window_follows_rate) == ("max-bdp", False)
    assert network.ns3 is not None
    assert (network.ns3.ack_high_priority, network.ns3.ack_interval_bytes, network.ns3.chunk_bytes) == (False, 0, 4000)


@pytest.mark.parametrize(
    ("mode", "name", "keys"),
    [
        ("1", "dcqcn", {"gain", "rate_increase", "hyper_increase", "min_rate", "fast_recovery_times"}),
        ("3", "hpcc", {"target_utilisation", "max_stage", "fast_react", "time_wrap", "tx_wrap", "min_rate"}),
        ("7", "timely", {"rate_increase", "hyper_increase", "min_rate"}),
        ("10", "hpcc-pint", {"target_utilisation", "max_stage", "log_base", "min_rate"}),
    ],
)
def test_every_cc_mode_becomes_a_control_that_takes_its_table(case: Path, mode: str, name: str, keys: set[str]) -> None:
    more = "RATE_AI 50Mb/s\nRATE_HAI 100Mb/s\nRP_TIMER 300\nPINT_LOG_BASE 1.05\nMULTI_RATE 0\nINT_MULTI 4\n"
    change(case, "CC_MODE 8", f"{more}CC_MODE {mode}")
    warnings = convert(case, case / "case.toml")
    assert warnings == []
    network = load_config(case / "case.toml").network
    assert network.congestion_control == name
    table = network.law_parameters()[name]
    assert keys <= set(table)
    values = find_law(name).parameter_values(table)
    if "rate_increase" in keys:
        assert values["rate_increase_bps"] == 50 * 10**6
    if "tx_wrap" in keys:
        assert (values["time_wrap_ps"], values["tx_wrap_bytes"]) == (2**24 * 1000, 2**20 * 512)


def test_the_native_form_of_a_case_has_no_quirks(case: Path) -> None:
    change(case, "CC_MODE 8", "X_QBB_ENABLED 0\nMULTI_RATE 0\nCC_MODE 3")
    convert(case, case / "case.toml", is_native=True)
    network = load_config(case / "case.toml").network
    assert (network.compatibility, network.ns3, network.pfc.enabled) == ("none", None, False)
    assert network.scheduler.kind == "round-robin"
    assert "time_wrap" not in network.hpcc and "tx_wrap" not in network.hpcc


@pytest.mark.parametrize(
    ("keys", "window", "base_rtt"),
    [
        ("HAS_WIN 0\nGLOBAL_T 1", "none", "max"),
        ("HAS_WIN 0\nGLOBAL_T 0", "none", "pair"),
        ("HAS_WIN 1\nGLOBAL_T 0", "pair-bdp", "pair"),
    ],
)
def test_windows_and_round_trips_are_the_case_s(case: Path, keys: str, window: str, base_rtt: str) -> None:
    change(case, "HAS_WIN 1\nGLOBAL_T 1", keys)
    convert(case, case / "case.toml")
    network = load_config(case / "case.toml").network
    assert (network.window, network.base_rtt) == (window, base_rtt)


def test_quirks_buffer_and_loss_are_the_case_s(case: Path) -> None:
    keys = "ACK_HIGH_PRIO 1\nL2_CHUNK_SIZE 2000\nL2_ACK_INTERVAL 3\nL2_BACK_TO_ZERO 1\nINT_MULTI 2\nRATE_BOUND 0\n"
    change(case, "CC_MODE", f"{keys}X_QBB_ENABLED 0\nBUFFER_SIZE 1\nCC_MODE")
    change(case, "ERROR_RATE_PER_LINK 0.0000", "ERROR_RATE_PER_LINK 0.001")
    change(case, "ENABLE_QCN 1", "ENABLE_QCN 0")
    assert convert(case, case / "case.toml") == []
    network = load_config(case / "case.toml").network
    quirks = Ns3Config.model_validate(
        {"ack_high_priority": True, "chunk": "2000B", "ack_interval": "3B", "back_to_zero": True}
        | {"ignore_pfc": True, "int_multi": 2, "rate_bound": False}
    )
    assert network.ns3 == quirks
    assert (network.buffer.size, network.loss.probability, network.ecn) == (2**20, 0.001, False)


def test_the_stop_time_of_the_measuring_driver_goes_first(case: Path) -> None:
    change(case, "CC_MODE", "X_STOP_S 2.2\nCC_MODE")
    convert(case, case / "case.toml")
    assert load_config(case / "case.toml").simulation.stop_time_ps == 22 * 10**11


def test_a_stop_time_beyond_the_largest_time_is_no_stop_time(case: Path) -> None:
    change(case, "SIMULATOR_STOP_TIME 4.00", "SIMULATOR_STOP_TIME 40000000000000.00")
    convert(case, case / "case.toml")
    assert load_config(case / "case.toml").simulation.stop_time_ps is None


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("ENABLE_QCN 1", "ENABLE_QNC 1", "line 1: ENABLE_QNC: unknown key, ignored"),
        ("LINK_DOWN 0 0 0", "LINK_DOWN 2000 0 2", "line 10: LINK_DOWN: 2000 0 2 is not modelled, the link stays up"),
        ("CC_MODE 8", "CC_MODE 3\nMULTI_RATE 1", "MULTI_RATE: 1 is not modelled, one rate for all hops is used"),
        ("CC_MODE 8", "CC_MODE 3", "without MULTI_RATE ns-3 has it on, which is not modelled"),
        ("CC_MODE 8", "CC_MODE 3\nMULTI_RATE 0\nSAMPLE_FEEDBACK 1", "SAMPLE_FEEDBACK: 1 is not modelled"),
        ("CC_MODE 8", "CC_MODE 10\nPINT_PROB 0.5", "PINT_PROB: 0.5 is not modelled, every packet carries its code"),
        ("KMIN_MAP 1 100000000000 300", "KMIN_MAP 0", "no KMIN_MAP, KMAX_MAP or PMAX_MAP for 100Gbps"),
    ],
)
def test_what_gets_lost_is_a_warning_with_its_line(case: Path, old: str, new: str, expected: str) -> None:
    change(case, old, new)
    (warning,) = convert(case, case / "case.toml")
    assert expected in warning


def test_a_flow_that_ns_3_cannot_hold_is_a_warning(case: Path) -> None:
    (case / "flow.txt").write_text("2\n0 1 3 100 4294967295 2.0\n0 1 3 100 4294967296 2.0\n")
    (warning,) = convert(case, case / "case.toml")
    assert "flow.txt: line 3: 4294967296 bytes; ns-3 keeps sizes in 32 bits" in warning


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "CC_MODE 8",
            "CC_MODE 99",
            'line 6: CC_MODE: found "99". Accepted: 1 (DCQCN), 3 (HPCC), 7 (TIMELY), 8 (DCTCP)',
        ),
        ("CC_MODE 8", "CC_MODE 12", 'CC_MODE: found "12". Accepted: 1'),
        ("EWMA_GAIN 0.0625", "EWMA_GAIN 1e-999999999", "EWMA_GAIN: found"),
        ("EWMA_GAIN 0.0625", f"EWMA_GAIN 0.{'9' * 5000}", "EWMA_GAIN: found"),
        ("CC_MODE 8", "CC_MODE dctcp", 'line 6: CC_MODE: found "dctcp". Accepted: a number'),
        ("CC_MODE 8", "CC_MODE 1\nRP_TIMER 0", 'RP_TIMER: found "0". Accepted: a whole number from 1 on'),
        ("MIN_RATE 1000Mb/s", "MIN_RATE 1000", "line 8: MIN_RATE: found"),
        ("EWMA_GAIN 0.0625", "EWMA_GAIN fast", 'EWMA_GAIN: found "fast". Accepted: a number'),
        ("EWMA_GAIN 0.0625", "EWMA_GAIN -1", 'EWMA_GAIN: found "-1". Accepted: a number from 0 on'),
        ("EWMA_GAIN 0.0625", "EWMA_GAIN", 'line 7: "EWMA_GAIN" has no value'),
        ("KMAX_MAP 1", "KMAX_MAP 2", "KMAX_MAP: found"),
        ("KMAX_MAP 1 100000000000", "KMAX_MAP 1 0", "KMAX_MAP: found"),
        ("PACKET_PAYLOAD_SIZE 1000", "PACKET_PAYLOAD_SIZE 0.5", 'PACKET_PAYLOAD_SIZE: found "0.5"'),
        ("SIMULATOR_STOP_TIME 4.00", "SIMULATOR_STOP_TIME -1", "SIMULATOR_STOP_TIME: found"),
        ("CC_MODE 8", "BUFFER_SIZE 0\nCC_MODE 8", 'BUFFER_SIZE: found "0". Accepted: a whole number from 1 on'),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_with_its_line(case: Path, old: str, new: str, expected: str) -> None:
    change(case, old, new)
    with pytest.raises(ConfigError) as caught:
        convert(case, case / "case.toml")
    assert expected in str(caught.value)
    assert not (case / "case.toml").exists()


def test_every_rate_of_the_topology_has_its_thresholds(case: Path) -> None:
    change(case, "KMIN_MAP 1 100000000000 300", "KMIN_MAP 3 25000000000 9 100000000000 300 400000000000 1600")
    change(case, "KMAX_MAP 1 100000000000 300", "KMAX_MAP 2 100000000000 300 400000000000 1200")
    change(case, "PMAX_MAP 1 100000000000 1.00", "PMAX_MAP 2 400000000000 0.2 100000000000 1.00")
    (case / "topology.txt").write_text("3 1 2\n2\n0 2 100Gbps 0.001ms 0\n1 2 400Gbps 0.001ms 0\n")
    assert convert(case, case / "case.toml") == []
    rows = [(r.rate_bps, r.kmin_bytes, r.kmax_bytes, r.pmax) for r in load_config(case / "case.toml").network.ecn_rate]
    assert rows == [(10**11, 300_000, 300_000, 1.0), (4 * 10**11, 1_200_000, 1_200_000, 0.2)]


@pytest.mark.parametrize("name", ["topology.txt", "flow.txt", "config.txt"])
def test_a_missing_file_is_named(case: Path, name: str) -> None:
    (case / name).unlink()
    with pytest.raises(ConfigError, match=f"{name}: there is no such file"):
        convert(case, case / "case.toml")


def test_an_output_that_cannot_be_written_is_refused(case: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        convert(case, case / "nowhere" / "case.toml")


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("topology.txt", "x\n", "topology.txt, line 1: a header of 1 words. Accepted: 'nodes switches links'"),
        ("topology.txt", f"{'9' * 5000} 1 1\n", "topology.txt, line 1: '999"),
        ("flow.txt", "x\n", "flow.txt, line 1: number of flows 'x'. Accepted: a whole number"),
        ("flow.txt", f"1\n0 1 3 100 {'9' * 5000} 2.0\n", "flow.txt, line 2: bytes '999"),
        ("flow.txt", "1\n0 77 3 100 5000 2.0\n", "flow.txt, line 2: host 77. Accepted: one of the topology's"),
        ("flow.txt", "1\n0 1 3 100 5000 1e999999999\n", "flow.txt, line 2: start '1e999999999'. Accepted: seconds"),
        ("config.txt", "CC_MODE 99\n", 'config.txt: line 1: CC_MODE: found "99". Accepted: 1 (DCQCN), 3 (HPCC)'),
        ("nexthops.txt", "1 2\n", "nexthops.txt, line 1: fewer than 3 words"),
    ],
)
@pytest.mark.parametrize("option", [[], ["--native"]])
def test_a_case_that_could_not_run_is_not_converted(
    case: Path, name: str, text: str, expected: str, option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (case / name).write_text(text)
    assert main(["convert", "ns3", str(case), "-o", str(case / "case.toml"), *option]) == 2
    said = capsys.readouterr().err
    assert expected in said and len(said) < 1000, said
    assert not (case / "case.toml").exists()
