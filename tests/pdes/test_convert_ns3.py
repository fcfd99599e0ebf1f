"""Claims about `convert ns3`: the config means what the case's files say, and what is lost is said."""

from pathlib import Path

import pytest

from pdes.config import FlowsConfig, TopologyFileConfig, load_config
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
    assert (network.payload_bytes, network.header_bytes, network.ack_bytes) == (1000, 48, 60)
    assert network.ecn_thresholds_bytes(10**11) == (300_000, 300_000) and network.ecn_pmax == 1.0
    assert (network.dctcp.gain, network.dctcp.rate_increase_bps) == (0.0625, 615 * 10**6)
    assert (network.dctcp.min_rate_bps, network.window) == (10**9, "max-bdp")
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


def test_the_stop_time_of_the_measuring_driver_goes_first(case: Path) -> None:
    change(case, "CC_MODE", "X_STOP_S 2.2\nX_QBB_ENABLED 0\nBUFFER_SIZE 1\nCC_MODE")
    warnings = convert(case, case / "case.toml")
    assert load_config(case / "case.toml").simulation.stop_time_ps == 22 * 10**11
    assert len(warnings) == 1 and "BUFFER_SIZE 1, X_QBB_ENABLED 0" in warnings[0]


def test_a_stop_time_beyond_the_largest_time_is_no_stop_time(case: Path) -> None:
    change(case, "SIMULATOR_STOP_TIME 4.00", "SIMULATOR_STOP_TIME 40000000000000.00")
    convert(case, case / "case.toml")
    assert load_config(case / "case.toml").simulation.stop_time_ps is None


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("ENABLE_QCN 1", "ENABLE_QNC 1", "line 1: ENABLE_QNC: unknown key, ignored"),
        ("LINK_DOWN 0 0 0", "LINK_DOWN 2000 0 2", "line 10: LINK_DOWN: 2000 0 2 is not modelled"),
        ("VAR_WIN 1", "VAR_WIN 0", "VAR_WIN: 0 is not modelled in this version, 1 is used"),
    ],
)
def test_what_gets_lost_is_a_warning_with_its_line(case: Path, old: str, new: str, expected: str) -> None:
    change(case, old, new)
    (warning,) = convert(case, case / "case.toml")
    assert expected in warning


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "CC_MODE 8",
            "CC_MODE 3",
            "line 6: CC_MODE: 3 (hpcc) is not available in this version. Accepted: CC_MODE 8 (dctcp)",
        ),
        ("CC_MODE 8", "CC_MODE 12", "12 (unknown) is not available"),
        ("CC_MODE 8\n", "", "CC_MODE is missing"),
        ("HAS_WIN 1", "HAS_WIN 0", "senders without a window are not available"),
        ("MIN_RATE 1000Mb/s", "MIN_RATE 1000", "line 8: MIN_RATE: found"),
        ("EWMA_GAIN 0.0625", "EWMA_GAIN fast", 'EWMA_GAIN: found "fast". Accepted: a number'),
        ("EWMA_GAIN 0.0625", "EWMA_GAIN", 'line 7: "EWMA_GAIN" has no value'),
        ("KMAX_MAP 1", "KMAX_MAP 2", "KMAX_MAP: found"),
        ("PACKET_PAYLOAD_SIZE 1000", "PACKET_PAYLOAD_SIZE 0.5", "PACKET_PAYLOAD_SIZE: found 1/2"),
        ("SIMULATOR_STOP_TIME 4.00", "SIMULATOR_STOP_TIME -1", "SIMULATOR_STOP_TIME: found"),
    ],
)
def test_what_this_version_cannot_do_is_refused_with_its_line(case: Path, old: str, new: str, expected: str) -> None:
    change(case, old, new)
    with pytest.raises(ConfigError) as caught:
        convert(case, case / "case.toml")
    assert expected in str(caught.value)
    assert not (case / "case.toml").exists()


def test_thresholds_that_follow_the_rate_become_one(case: Path) -> None:
    for name in ("KMAX_MAP", "KMIN_MAP"):
        change(case, f"{name} 1 100000000000 300", f"{name} 2 100000000000 300 400000000000 1200")
    change(case, "PMAX_MAP 1", "PMAX_MAP 2 400000000000 1.00")
    (case / "topology.txt").write_text("3 1 2\n2\n0 2 100Gbps 0.001ms 0\n1 2 400Gbps 0.001ms 0\n")
    convert(case, case / "case.toml")
    assert load_config(case / "case.toml").network.ecn_thresholds_bytes(4 * 10**11) == (1_200_000, 1_200_000)


def test_thresholds_of_rates_that_no_link_has_do_not_matter(case: Path) -> None:
    change(case, "KMAX_MAP 1 100000000000 300", "KMAX_MAP 2 25000000000 999 100000000000 300")
    assert convert(case, case / "case.toml") == []


def test_thresholds_that_do_not_follow_the_rate_are_refused(case: Path) -> None:
    change(case, "KMIN_MAP 1 100000000000 300", "KMIN_MAP 2 100000000000 300 400000000000 300")
    (case / "topology.txt").write_text("3 1 2\n2\n0 2 100Gbps 0.001ms 0\n1 2 400Gbps 0.001ms 0\n")
    with pytest.raises(ConfigError, match="thresholds in proportion to the link rate"):
        convert(case, case / "case.toml")


@pytest.mark.parametrize("name", ["topology.txt", "flow.txt", "config.txt"])
def test_a_missing_file_is_named(case: Path, name: str) -> None:
    (case / name).unlink()
    with pytest.raises(ConfigError, match=f"{name}: there is no such file"):
        convert(case, case / "case.toml")


def test_an_output_that_cannot_be_written_is_refused(case: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        convert(case, case / "nowhere" / "case.toml")
