"""Claims about the keys that are there to measure by: [workload] start_jitter and [output] rtt_of_flow."""

import tomllib
from pathlib import Path

import numpy as np
import pytest

from pdes.config import config_from_dict
from pdes.errors import ConfigError
from pdes.scenario import Scenario, build_scenario

TOPOLOGY = '[topology]\nkind = "fat-tree"\nk = 4\n'
RING = '[[workload.collective]]\nname = "ring"\noperation = "all-reduce"\nsize = "4MB"\nstart = "3us"\n'
WORKLOADS = {
    "flows": 'kind = "flows"\nfile = "flows.csv"\n',
    "poisson": 'kind = "poisson"\nsizes = "web-search"\nload = 0.5\nflows = 40\n',
    "collectives": 'kind = "collectives"\n',
    "training": 'kind = "training"\nmodel = { layers = 2, hidden = 64 }\nparallel = { tp = 4, dp = 2, pp = 2 }\n',
}
TAILS = {"collectives": RING}


def scenario(kind: str, folder: Path, keys: str = "", tables: str = "") -> Scenario:
    (folder / "flows.csv").write_text("src,dst,size_bytes,start_ps\n0,1,9000,0\n0,2,9000,500\n3,1,9000,1000\n")
    text = f"{TOPOLOGY}{tables}[workload]\n{WORKLOADS[kind]}{keys}{TAILS.get(kind, '')}"
    if kind == "training":
        text = text.replace('"fat-tree"\nk = 4', '"roft"\ngpus = 16\ngpus_per_server = 4')
    return build_scenario(config_from_dict(tomllib.loads(text), folder / "config.toml"))


def starts_ps(found: Scenario) -> np.ndarray:
    """When each flow of a list, or each stream, begins."""
    if found.plan.name == "collectives" or found.plan.kinds:
        return found.plan.streams["wake_ps"]
    return found.plan.operations["time_ps"][np.argsort(found.plan.operations["flow"])]


@pytest.mark.parametrize("kind", WORKLOADS)
def test_every_workload_can_start_late(kind: str, tmp_path: Path) -> None:
    plain, none = scenario(kind, tmp_path), scenario(kind, tmp_path, 'start_jitter = "0s"\n')
    late, other = (
        scenario(kind, tmp_path, 'start_jitter = "50ns"\n', f"[simulation]\nseed = {seed}\n") for seed in (1, 2)
    )
    assert plain.config.workload.start_jitter_ps == 0 and plain.identity() == none.identity()
    assert late.identity()["workload"]["start_jitter_ps"] == 50_000
    assert (starts_ps(plain) == starts_ps(none)).all()
    begin_ps = 3_000_000 if kind == "collectives" else starts_ps(plain)
    delay_ps = starts_ps(late) - begin_ps
    assert delay_ps.min() >= 0 and delay_ps.max() < 50_000 and len(np.unique(delay_ps)) > 2
    if kind != "poisson":  # where the seed draws the messages, too
        assert (starts_ps(other) != starts_ps(late)).any()


@pytest.mark.parametrize("kind", WORKLOADS)
def test_by_ns3_rules_they_are_late_by_whole_ns(kind: str, tmp_path: Path) -> None:
    found = scenario(kind, tmp_path, 'start_jitter = "50ns"\n', '[network]\ncompatibility = "ns3-hpcc"\n')
    assert not (starts_ps(found) % 1000).any() and starts_ps(found).any()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'start_jitter = "50"\n',
            r'\[workload\] start_jitter: found "50", which has no unit\. Accepted: a duration wi',
        ),
        ("start_jitter = 50\n", r"\[workload\] start_jitter: found 50, which is not text"),
        ('start_jitter = "-1ns"\n', r'\[workload\] start_jitter: found "-1ns", which is below zero'),
        ('start_jitter = "1001us"\n', r'\[workload\] start_jitter: found "1001us"\. Accepted: at most 1ms'),
        ('start_jiter = "1us"\n', r'\[workload\] start_jiter: unknown key\. Did you mean "start_jitter"\?'),
    ],
)
def test_a_wrong_jitter_is_named(text: str, expected: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=expected):
        scenario("flows", tmp_path, text)


def test_round_trip_times_are_of_no_flow_unless_one_is_named(tmp_path: Path) -> None:
    plain, noted = (scenario("flows", tmp_path, "", text) for text in ("", "[output]\nrtt_of_flow = 2\n"))
    assert (plain.parameters.rtt_flow, noted.parameters.rtt_flow) == (-1, 2)
    assert plain.identity() == noted.identity()


SPLIT = "[network.routing]\nqueue_pairs_per_flow = 2\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rtt_of_flow = 3\n", r"\[output\] rtt_of_flow: found 3\. Accepted: 0 to 2, a flow's id"),
        ("rtt_of_flow = -1\n", r"\[output\] rtt_of_flow: found -1\. Accepted: at least 0"),
        ('rtt_of_flow = "0"\n', r'\[output\] rtt_of_flow: found "0"\. Accepted: a whole number'),
        ("rtt_of_flow = true\n", r"\[output\] rtt_of_flow: found true\. Accepted: a whole number"),
        (
            "rtt_of_flow = 0\n" + SPLIT,
            r"rtt_of_flow: is there, and 2 queue pairs share each flow\. Accepted: with queu",
        ),
        ("rtt_off_flow = 0\n", r'\[output\] rtt_off_flow: unknown key\. Did you mean "rtt_of_flow"\?'),
    ],
)
def test_a_wrong_flow_is_named(text: str, expected: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=expected):
        scenario("flows", tmp_path, "", "[output]\n" + text)
