"""Claims about flow mode's numbers: measured, shipped with the program or taken from a file, and named by results."""

import json
import math
import tomllib
from pathlib import Path
from typing import Any

import pytest

import pdes
from models.congestion.law import BUILT_IN
from pdes.cli import main
from pdes.config import Config, load_config
from pdes.errors import ConfigError
from pdes.results.fast_forward import how_sure_text
from pdes.scenario import build_scenario
from pdes.scenario.flow_numbers import flow_numbers, shipped_calibrations
from pdes.scenario.skipping import skipping_facts
from pdes.simulation.calibration.calibrate import Calibration, beds, calibrate, table_text, write_table
from pdes.simulation.calibration.cases import all_cases, lay_out, weights
from pdes.simulation.calibration.fit_use import fit_use
from pdes.skipping.max_min.table import WHOLE, Use

ROOT = Path(__file__).resolve().parents[2]
CONFIG = """\
[topology]
kind = "leaf-spine"
leaves = 2
spines = 1
hosts_per_leaf = 2
host_rate = "400Gbps"
spine_rate = "400Gbps"
[network]
payload = "4000B"
[workload]
kind = "flows"
file = "flows.csv"
[wormhole]
mode = "flow"
"""
ROW = 'alone = 0.9\nshared = 0.8\nqueue = "2us"\nerror = 0.01\nworst = 0.2\nport_error = 0.02\nexchange_error = 0\n'
ROW += "ring_error = 0.03\nfar_error = 0.04\n"
ROW += 'rate = "100Gbps"\nrtt = "8us"\npayload = "1kB"\nparameters = "none"\nversion = "0.1.0"\n'


def quick(name: str) -> Calibration:
    """Of tiny cases."""
    (bed,) = beds(None, [name])
    return calibrate(bed, lambda _: None, all_cases(bed.rate_bps, (100_000, 400_000), (1, 2), ()))


def config(folder: Path, *sets: str) -> Config:
    (folder / "config.toml").write_text(CONFIG)
    (folder / "flows.csv").write_text("src,dst,size_bytes,start_ps\n0,2,500000,0\n1,2,500000,0\n")
    return load_config(folder / "config.toml", list(sets))


# Measuring


@pytest.mark.parametrize("name", ["none", "dctcp"])
def test_what_shares_fairly_gets_whole_links_and_the_same_again(name: str) -> None:
    one, other = quick(name), quick(name)
    assert one.fit.numbers == other.fit.numbers and table_text([one], []) == table_text([other], [])
    assert one.fit.numbers.alone == 1.0 and one.fit.numbers.shared > 0.98 and one.fit.numbers.queue_ps < 1_000_000
    assert one.fit.error <= one.fit.before < 0.01 and one.ring_error < 0.01


def test_kinds_of_cases_have_the_same_weight_and_hosts_of_their_own() -> None:
    cases = all_cases(100 * 10**9)
    layout, weight = lay_out(cases), weights(cases)
    assert layout.n_host == sum(one.n_host for one in cases) and (layout.messages[:, 3] >= 0).all()
    assert sum(weight[i] for i, one in enumerate(cases) if one.is_exchange) == pytest.approx(0.5)
    assert weight.sum() == pytest.approx(1.0) and [one.name for one, w in zip(cases, weight, strict=True) if not w] == [
        "ring"
    ]
    for host in range(layout.n_host):  # nobody sends to others than those of its case
        mine = (layout.messages[:, :2] == host).any(axis=1)
        assert len(set(layout.case[mine].tolist())) == 1


def test_a_bed_has_the_line_rate_the_round_trip_and_the_packets_of_a_config(tmp_path: Path) -> None:
    c = config(tmp_path)
    (bed,) = beds(c, [])
    assert bed.rate_bps == 400 * 10**9 and bed.config.network.payload_bytes == 4000
    assert bed.rtt_ps == pytest.approx(build_scenario(c).base_rtt_ps, abs=4)
    (other,) = beds(c, ["hpcc"])
    assert other.control.law.name == "hpcc" and other.config.network.payload_bytes == 4000


def test_a_control_of_ones_own_is_found_beside_its_config(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text((ROOT / "examples" / "my_cc.py").read_text())
    (bed,) = beds(config(tmp_path, "network.congestion_control=own.py:Aimd"), [])
    assert bed.control.law.name == "own" and bed.control.law.digest


def test_the_command_writes_what_a_config_reads(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr(
        "pdes.simulation.calibration.calibrate.all_cases", lambda rate: all_cases(rate, (100_000,), (1, 2), ())
    )
    path = tmp_path / "made.toml"
    assert main(["calibrate", "--flow", "--control", "dctcp", "-o", str(path)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("dctcp: alone 1, shared ") and out[1] == f"written: {path}"
    assert "Made by: pdes-sim calibrate --flow --control dctcp -o made.toml\n" in path.read_text()
    numbers = flow_numbers(config(tmp_path, "wormhole.flow.calibration=made.toml"))
    assert numbers.control == "dctcp" and not numbers.has_other_parameters and numbers.row["rate"] == 100 * 10**9


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--control", "dctpc"], 'Did you mean "dctcp"'),
        (["--control", "dctcp", "--control", "dctcp"], "dctcp is there twice"),
        (["-o", "no/such/folder.toml"], "is in a folder that is not there"),
        (["no-such-config.toml"], "cannot be read"),
    ],
)
def test_bad_input_ends_with_one_message(words: list[str], text: str, capsys: Any) -> None:
    assert main(["calibrate", "--flow", *words]) == 2
    err = capsys.readouterr().err
    assert text in err and err.startswith("pdes-sim: error: ") and err.count("\n") == 1


# The table that comes with the program


def test_every_built_in_control_has_a_row_in_range_of_its_own_parameters() -> None:
    table = shipped_calibrations()
    assert list(table) == list(BUILT_IN)
    for (bed,), row in zip((beds(None, [name]) for name in BUILT_IN), table.values(), strict=True):
        assert 0.5 < row["alone"] <= 1 and 0.5 < row["shared"] <= 1 and 0 <= row["queue"] < 10**9
        assert 0 <= row["error"] <= max(row["port_error"], row["exchange_error"]) <= row["worst"]
        assert not flow_numbers(bed.config).has_other_parameters, bed.control.law.name
        assert (row["rate"], row["rtt"]) == (bed.rate_bps, bed.rtt_ps)
    head = (ROOT / "models/network/flow_mode/calibrated.toml").read_text().splitlines()[0]
    assert head.endswith("pdes-sim calibrate --flow -o calibrated.toml")


def test_a_row_of_other_parameters_is_told(tmp_path: Path) -> None:
    assert flow_numbers(config(tmp_path, "network.dctcp.gain=0.5")).has_other_parameters
    s = build_scenario(config(tmp_path, "network.dctcp.gain=0.5"))
    assert "other parameters than this run's dctcp" in skipping_facts(s.config, s.parameters)[1][1]


# Configs


def test_a_file_stands_for_what_comes_with_the_program(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(f"[dctcp]\n{ROW}")
    p = build_scenario(config(tmp_path, "wormhole.flow.calibration=mine.toml")).parameters
    assert p.flow is not None and p.flow.fracs == (0.9, 0.8) and p.flow.queue_ps == 2_000_000
    with pytest.raises(ConfigError, match=r'calibration: mine.toml has no row of "hpcc", only of dctcp. .*calibrate'):
        build_scenario(config(tmp_path, "wormhole.flow.calibration=mine.toml", "network.congestion_control=hpcc"))
    for wrong, text in {
        "alone = 1.5": "alone: found 1.5. Accepted: a number above 0, at most 1",
        'queue = "2"': "queue: found",
        "alone = 1.0\nmore = 1": "more: unknown key",
    }.items():
        name = wrong.partition(" =")[0]
        rows = [line for line in ROW.splitlines() if not line.startswith(f"{name} ")]
        (tmp_path / "mine.toml").write_text("\n".join(["[dctcp]", *rows, wrong]))
        with pytest.raises(ConfigError, match=text):
            build_scenario(config(tmp_path, "wormhole.flow.calibration=mine.toml"))


LISTS = 'use = [1.0, 0.5]\nreach = [1, 0.25]\nuse_from = ["0ps", "50us"]\n'


def test_a_file_says_how_much_of_a_contended_port_is_used(tmp_path: Path) -> None:
    """Two messages into one port have half of it after 50 us, so what is left by then takes twice as long."""
    (tmp_path / "mine.toml").write_text(f"[dctcp]\n{ROW.replace('0.9', '1').replace('0.8', '1')}{LISTS}")
    sets = ["wormhole.flow.calibration=mine.toml", 'topology.spine_rate="800Gbps"', "workload.file=long.csv"]
    (tmp_path / "long.csv").write_text("src,dst,size_bytes,start_ps\n0,2,5000000,0\n1,2,5000000,0\n")
    found = config(tmp_path, *sets)
    assert flow_numbers(found).use == Use((1.0, 0.5), (1.0, 0.25), (0, 50 * 10**6))
    runs = [pdes.simulate(found, tmp_path / "half"), pdes.simulate(config(tmp_path, *sets[1:]), tmp_path / "whole")]
    took, whole = (max(one.table("flows")["fct_ps"].to_pylist()) for one in runs)
    left_ps = 10**7 // 4000 * 4048 * 20 - 50 * 10**6
    assert took - whole == pytest.approx(left_ps, rel=0.02)
    assert runs[0].summary["config"]["wormhole"]["flow"]["numbers"]["contended"]["from_ps"] == [0, 50 * 10**6]


def test_curves_of_unlimited_buffers_are_not_used_where_these_are_limited(tmp_path: Path) -> None:
    """Pauses then stop senders, and a control is not cut so far; one's own file is of one's own network."""
    dcqcn, limited = "network.congestion_control=dcqcn", "network.buffer.size=8MB"
    shipped = shipped_calibrations()["dcqcn"]["contended"]
    assert flow_numbers(config(tmp_path, dcqcn)).use == shipped != WHOLE
    assert flow_numbers(config(tmp_path, dcqcn, limited)).use == WHOLE
    (tmp_path / "mine.toml").write_text(f"[dcqcn]\n{ROW}{LISTS}")
    mine = flow_numbers(config(tmp_path, dcqcn, limited, "wormhole.flow.calibration=mine.toml")).use
    assert mine == Use((1.0, 0.5), (1.0, 0.25), (0, 50 * 10**6))


def test_bad_lists_are_named(tmp_path: Path) -> None:
    for wrong, text in {
        LISTS.replace("1, 0.25", "1"): "Accepted: three lists of equal lengths",
        LISTS.replace("0.25", "0"): "reach: found 0. Accepted: a number above 0, at most 1",
        LISTS.replace('"50us"', '"0ps"'): "use_from: found .* Accepted: times that grow, from 0",
        LISTS.replace("use = [1.0, 0.5]\n", ""): "reach: unknown key",
    }.items():
        (tmp_path / "mine.toml").write_text(f"[dctcp]\n{ROW}{wrong}")
        with pytest.raises(ConfigError, match=text):
            build_scenario(config(tmp_path, "wormhole.flow.calibration=mine.toml"))


def test_shares_of_a_contended_port_are_found_from_what_they_make_of_times() -> None:
    """The error is how far a shape is from one that is not among those that are tried first."""
    rtt_ps, wanted = 8 * 10**6, [1.0] * 6 + [0.9] * 4 + [1.0, 1.0, 0.3, 0.07, 0.15, 0.4, 0.8, 1.0, 1.0, 1.0]

    def error(use: Use) -> float:
        values = [*use.use, *use.reach] or [1.0] * 20
        return sum(abs(math.log(value / other)) for value, other in zip(values, wanted, strict=True))

    found = fit_use(error, rtt_ps)
    assert [*found.use, *found.reach] == pytest.approx(wanted, rel=0.05)
    assert found.from_ps[:2] == (0, 4 * rtt_ps) and len(found.from_ps) == 10
    assert fit_use(lambda use: 1.0 + 0.001 * len(use.use), rtt_ps) == WHOLE  # of no use


def test_a_number_and_no_compensation_need_no_calibration(tmp_path: Path) -> None:
    for sets, fracs in {("efficiency=0.9",): (0.9, 0.9), ('compensation="none"',): (1.0, 1.0)}.items():
        p = build_scenario(config(tmp_path, "network.congestion_control=hpcc", *(f"wormhole.flow.{s}" for s in sets)))
        assert p.parameters.flow is not None
        assert p.parameters.flow.fracs == fracs and p.parameters.flow.queue_ps == 0
    (tmp_path / "mine.toml").write_text(f"[dctcp]\n{ROW}")
    with pytest.raises(ConfigError, match=r'calibration: is there, but efficiency is 0.9. Accepted: .*"calibrated"'):
        config(tmp_path, "wormhole.flow.efficiency=0.9", "wormhole.flow.calibration=mine.toml")
    with pytest.raises(ConfigError, match='efficiency: found "auto". Accepted: "calibrated", or a number'):
        config(tmp_path, "wormhole.flow.efficiency=auto")


def test_a_control_of_ones_own_gets_whole_links_and_a_line(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "own.py").write_text((ROOT / "examples" / "my_cc.py").read_text())
    own = "network.congestion_control=own.py:Aimd"
    p = build_scenario(config(tmp_path, own)).parameters
    assert p.flow is not None and p.flow.fracs == (1.0, 1.0)
    err = capsys.readouterr().err
    assert err.count("warning: ") == 1 and f"pdes-sim calibrate --flow {tmp_path}" in err
    (tmp_path / "mine.toml").write_text(f"[own]\n{ROW}")
    assert build_scenario(config(tmp_path, own, "wormhole.flow.calibration=mine.toml")).parameters.flow.fracs[0] == 0.9
    assert capsys.readouterr().err == ""


# Results


def test_results_and_plans_name_the_numbers_and_how_sure_they_are(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "mine.toml").write_text(f"[dctcp]\n{ROW}")
    config(tmp_path)
    sets = ["--set", "wormhole.flow.calibration=mine.toml"]
    assert main([str(tmp_path / "config.toml"), *sets, "--out", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    numbers = result["config"]["wormhole"]["flow"]["numbers"]
    assert (numbers["alone"], numbers["shared"], numbers["queue_ps"]) == (0.9, 0.8, 2_000_000)
    assert numbers["made_at"]["rate_bps"] == 100 * 10**9 and numbers["error"] == 0.01
    text = "calibrated for dctcp to within 1 %, mean error of completion times where it was calibrated (100 Gbps, round"
    assert f"How sure: flow mode, no packet was simulated; {text}" in out and "audit" not in out
    assert how_sure_text(result).endswith("0 % in all-to-alls, 2 % where messages meet in one port)")
    assert main(["plan", str(tmp_path / "config.toml"), *sets]) == 0
    assert text in capsys.readouterr().out
    assert main(["plan", str(tmp_path / "config.toml"), "--set", "wormhole.flow.efficiency=0.9"]) == 0
    assert "not calibrated for dctcp: data get 90 % of a link's rate" in capsys.readouterr().out


def test_a_table_is_whole_or_not_there(tmp_path: Path) -> None:
    write_table(tmp_path / "a.toml", f"[dctcp]\n{ROW}")
    assert list(tmp_path.iterdir()) == [tmp_path / "a.toml"] and tomllib.loads((tmp_path / "a.toml").read_text())
    (tmp_path / "b.toml").mkdir()
    with pytest.raises(ConfigError, match="cannot be written"):
        write_table(tmp_path / "b.toml", "")
