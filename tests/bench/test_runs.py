"""Which runs are kept: what determines a result makes another run, and nothing else does."""

from pathlib import Path

import pytest

import runs
from pdes.config import load_config
from pdes.simulation.versions import program

CONFIG = """\
[topology]
kind = "fat-tree"
k = 4
[workload]
kind = "flows"
file = "flows.csv"
[output]
dir = "results"
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "flows.csv").write_text("src,dst,size_bytes,start_ps\n0,1,5000,0\n2,3,5000,0\n")
    (tmp_path / "config.toml").write_text(CONFIG)
    return tmp_path / "config.toml"


def identity(config: Path, *overrides: str, n_rank: int = 1) -> str:
    return runs.identity(load_config(config, list(overrides)), n_rank)


@pytest.mark.parametrize(
    "override",
    [
        "simulation.seed=2", "network.congestion_control=hpcc", "workload.start_jitter=50ns", "output.rtt_of_flow=0",
        "wormhole.mode=exact",
    ],
)  # fmt: skip
def test_what_determines_a_result_makes_another_run(config: Path, override: str) -> None:
    assert identity(config, override) != identity(config)


def test_so_do_the_files_that_the_config_names_and_the_ranks(config: Path) -> None:
    before = identity(config)
    assert identity(config, n_rank=2) != before
    flows = config.with_name("flows.csv")
    flows.write_text(flows.read_text().replace("5000", "6000", 1))
    assert identity(config) != before


def test_a_control_of_one_s_own_counts_by_its_text(config: Path) -> None:
    config.with_name("my.py").write_text("one")
    before = identity(config, "network.congestion_control=my.py:Mine")
    config.with_name("my.py").write_text("another")
    assert identity(config, "network.congestion_control=my.py:Mine") != before


@pytest.mark.parametrize("override", ["output.dir=elsewhere", "partition.placement=block", "wormhole.mode=off"])
def test_what_does_not_is_the_same_run(config: Path, override: str) -> None:
    assert identity(config, override) == identity(config)


def test_without_fast_forwarding_its_other_keys_do_not_count(config: Path) -> None:
    settings = ("wormhole.iteration_repeats=5", "wormhole.mode=off")
    assert identity(config, *settings) == identity(config)
    assert identity(config, settings[0], "wormhole.mode=exact") != identity(config, "wormhole.mode=exact")


def test_a_kept_run_is_not_run_again(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, ...]] = []

    def simulate(config: Path, overrides: tuple[str, ...], folder: Path, n_rank: int = 1) -> runs.Finished:
        calls.append(tuple(overrides))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "result.json").write_text("{}")
        (folder / runs.FACTS).write_text('{"start_to_result_s": 1.5, "code": "abc"}')
        return runs.Finished(folder, 1.5, "abc")

    monkeypatch.setattr(runs, "simulate", simulate)
    first = runs.simulate_once(config, (), tmp_path / "out")
    assert calls == [()]
    again = runs.simulate_once(config, (), tmp_path / "out")
    assert len(calls) == 1 and again.is_kept and not first.is_kept and again.folder == first.folder
    assert runs.simulate_once(config, ("simulation.seed=2",), tmp_path / "out").folder != first.folder
    runs.simulate_once(config, (), tmp_path / "out", fresh=True)
    assert len(calls) == 3


def test_a_run_s_tables_and_times_can_be_read(config: Path, tmp_path: Path) -> None:
    found = runs.simulate(config, ["output.rtt_of_flow=1", "simulation.stop_time=6us"], tmp_path / "out")
    assert found.columns("flows", ["flow_id", "fct_ps"])["flow_id"].tolist() == [0, 1]
    assert found.columns("flows", ["fct_ps"])["fct_ps"].min() > 0
    assert found.columns("rtt", ["sequence"])["sequence"].tolist() == [0, 1000, 2000, 3000, 4000]
    assert found.result["flows"] == 2 and found.run["ranks"] == 1
    assert found.start_to_result_s > 0 and found.code == program()


def test_a_run_that_fails_ends_the_benchmark_with_what_it_said(
    config: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        runs.simulate(config, ["output.rtt_of_flow=7"], tmp_path / "out")
    assert caught.value.code == 2
    assert "rtt_of_flow: found 7. Accepted: 0 to 1" in capfd.readouterr().err


def test_compiling_ahead_leaves_no_results_and_says_what_is_wrong(
    config: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """With flow level, too, which a run that ends at once would not have."""
    auto = ["wormhole.mode=auto", "wormhole.tolerance=0.02"]
    runs.compile_ahead(config, auto, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.toml", "flows.csv"]
    with pytest.raises(SystemExit) as ended:
        runs.compile_ahead(config, ["wormhole.mode=fast"], tmp_path)
    said = capfd.readouterr().err
    assert ended.value.code == 2 and 'wormhole.mode: found "fast"' in said and "Traceback" not in said
