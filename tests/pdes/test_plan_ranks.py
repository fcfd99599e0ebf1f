"""`plan --ranks`: a profile counts every step, a fit finds what it was made of, what is printed says what it is of."""

import argparse
from pathlib import Path

import numpy as np
import pytest

from pdes import cli
from pdes.config import load_config
from pdes.engine.round import STRETCH_ROUNDS
from pdes.errors import ConfigError
from pdes.plan_options import add_arguments, asked
from pdes.scenario import build_scenario
from pdes.simulation.profile.make import WHOLE, make_profile
from pdes.simulation.profile.profile_file import read_profile, write_profile
from pdes.simulation.profile.stretches import fit_costs

CONFIG = """\
[topology]
kind = "leaf-spine"
leaves = 2
spines = 1
hosts_per_leaf = 2
host_delay = "500ns"
[workload]
kind = "flows"
file = "flows.csv"
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "flows.csv").write_text("src,dst,size_bytes,start_ps\n0,2,90000,0\n1,3,90000,0\n3,1,40000,500000\n")
    (tmp_path / "case.toml").write_text(CONFIG)
    return tmp_path / "case.toml"


def test_a_fit_finds_what_rounds_are_made_of() -> None:
    rng = np.random.default_rng(1)
    visits = rng.integers(1, 20, 4000)
    hosts, switches = rng.integers(0, 5, 4000) * visits, rng.integers(0, 8, 4000) * visits
    table = np.stack([np.ones(4000), visits, hosts, switches], axis=1)
    busy_ns = 300 + 50 * visits + 70 * hosts + 25 * switches + rng.normal(0, 30, 4000)
    found = fit_costs(table, busy_ns)
    assert found == pytest.approx((300, 50, 70, 25), rel=0.1)
    assert (table @ found).sum() == pytest.approx(busy_ns.sum())


def test_a_fit_says_nothing_below_zero() -> None:
    hosts = np.arange(1.0, 200.0)
    table = np.stack([np.ones(199), np.ones(199), hosts, np.zeros(199)], axis=1)
    found = fit_costs(table, np.maximum(50.0 * hosts - 40, 1))
    assert found.min() >= 0 and found[2] == pytest.approx(50, rel=0.1)


def test_a_profile_to_the_end_has_every_round_and_every_packet(config: Path, tmp_path: Path) -> None:
    scenario = build_scenario(load_config(config))
    found = make_profile(scenario, 1000.0)
    (p,) = found.run.stretches
    assert found.kind == WHOLE and p.weight == 1 and found.run.serial_ns == 0
    assert p.n_round > 20 and (np.diff(p.round_of) >= 0).all() and p.round_of.max() < p.n_round
    assert set(p.lp.tolist()) == set(range(scenario.n_lp)) and (p.ns > 0).any()
    a, b, packets = found.run.edges
    src, dst = (scenario.lp_of_node[end] for end in (scenario.topology.port_src, scenario.topology.port_dst))
    assert packets.sum() == scenario.port_hops[src != dst].sum() and (a != b).all()
    identity = scenario.identity()
    write_profile(tmp_path / "p.npz", found, identity)
    again = read_profile(tmp_path / "p.npz", identity)
    assert again.hops == found.hops and again.run.one_rank_ns == pytest.approx(found.run.one_rank_ns)
    assert np.array_equal(again.run.stretches[0].ns, p.ns) and again.at_ps.tolist() == found.at_ps.tolist()
    with pytest.raises(ConfigError, match="of another config"):
        read_profile(tmp_path / "p.npz", identity | {"more": 1})
    (tmp_path / "p.npz").write_bytes((tmp_path / "p.npz").read_bytes()[:200])
    with pytest.raises(ConfigError, match="is no (whole )?profile"):
        read_profile(tmp_path / "p.npz", identity)


def reductions_of(config: Path, more: str) -> tuple[int, int]:
    """(reductions, rounds) of a profile to the end; its flows are long ones."""
    longer = config.with_name("longer.toml")
    (config.parent / "long.csv").write_text("src,dst,size_bytes,start_ps\n0,2,3000000,0\n1,3,3000000,0\n")
    longer.write_text(CONFIG.replace("flows.csv", "long.csv") + more)
    found = make_profile(build_scenario(load_config(longer)), 1000.0)
    assert found.is_whole and found.run.serial_ns == 0
    (p,) = found.run.stretches
    return p.n_reduction, p.n_round


@pytest.mark.parametrize(
    ("without", "close", "far"),
    [
        ("", '[output]\nsample_interval = "5us"\n', '[output]\nsample_interval = "200us"\n'),
        (
            '[network.buffer]\nsize = "300kB"\n[network.pfc]\ndeadlock_check = "off"\n',
            '[network.buffer]\nsize = "300kB"\n[network.pfc]\ndeadlock_check = "5us"\n',
            '[network.buffer]\nsize = "300kB"\n[network.pfc]\ndeadlock_check = "200us"\n',
        ),
    ],
    ids=["samples", "PFC checks"],
)
def test_looks_in_every_stretch_leave_every_round_its_reduction(
    config: Path, without: str, close: str, far: str
) -> None:
    """A stretch is 64 lookaheads. One with a look has no rounds without a reduction but for those behind its last look:
    of looks every 5 us, at most 11 lookaheads of 500 ns or more.
    """
    few, n_round = reductions_of(config, without)
    assert 0 < few < n_round / 4
    most, n_round = reductions_of(config, close)
    assert (1 - 11 / STRETCH_ROUNDS) * n_round <= most <= n_round
    some, n_round = reductions_of(config, far)
    assert few < some < n_round * 3 / 4


def test_plan_prints_a_row_per_rank_count(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", str(config), "--ranks", "1,2,4", "--reduction", "2=1us,8=4us"]) == 0
    out = capsys.readouterr().out
    rows = [line.split() for line in out[out.index("limit") :].splitlines()[1:]]
    assert [row[0] for row in rows if row and row[1] != "ranks,"] == ["1", "2", "4"]
    assert "1 us on 2, 4 us on 8 ranks (as given)" in out and "the whole run" in out and "critical path" in out


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(words)


def test_ranks_go_on_by_their_ratio() -> None:
    for text, ranks in (("1,2,4,..,64", [1, 2, 4, 8, 16, 32, 64]), ("3", [3]), ("1,10,...,500", [1, 10, 100, 500])):
        found = asked(options("--ranks", text))
        assert found is not None and found.ranks == ranks
    assert asked(options()) is None


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--ranks", "2,1"), 'found "1"'),
        (("--ranks", "0"), 'found "0"'),
        (("--ranks", "1,,2"), 'found ""'),
        (("--ranks", "..,4"), 'found ".."'),
        (("--ranks", "1,2,..,99999999999"), "99999999999"),
        (("--ranks", "1", "--reduction", "2=1us"), "--reduction"),
        (("--ranks", "1", "--reduction", "2=1us,4=5"), 'found "5"'),
        (("--ranks", "1", "--profile-time", "0s"), "above zero"),
        (("--profile", "x"), "--ranks"),
    ],
)
def test_bad_options_are_one_message(words: tuple[str, ...], text: str) -> None:
    with pytest.raises(ConfigError) as error:
        asked(options(*words))
    assert text in str(error.value)
