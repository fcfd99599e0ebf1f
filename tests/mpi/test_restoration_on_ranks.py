"""What thaws with other queues than it had does so alike on any number of ranks."""

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

FILES = ("result.json", "flows.parquet", "ports.parquet")
CONFIG = """\
[topology]
kind = "fat-tree"
k = 4
[network]
congestion_control = "{control}"
[workload]
kind = "flows"
file = "flows.csv"
[partition]
delay_threshold = "1us"
[wormhole]
mode = "exact"
"""
FLOWS = [(0, 5, 20_000_000, 0), (9, 5, 20_000_000, 0), (2, 14, 25_000_000, 0), (12, 3, 3_000_000, 300_000_000)]
CASES = [("fixed-window", "default"), ("hpcc", "paper")]


def write_case(folder: Path, control: str) -> Path:
    lines = ["src,dst,size_bytes,start_ps", *(",".join(map(str, row)) for row in FLOWS)]
    (folder / "flows.csv").write_text("\n".join(lines) + "\n")
    (folder / "config.toml").write_text(CONFIG.format(control=control))
    return folder / "config.toml"


def assert_same(config: Path, simulate: Callable, rank_counts: Callable, *sets: str) -> None:
    alone = config.parent / "1"
    simulate(1, config, alone, *sets)
    facts = json.loads((alone / "result.json").read_text())["fast_forward"]
    assert facts["freezes"] > 1 and facts["thaws_interrupted"] + facts["thaws_planned"] > 1
    for n_rank, placement in rank_counts((2, "metis"), (3, "round-robin")):
        out = config.parent / str(n_rank)
        simulate(n_rank, config, out, *sets, f"partition.placement={placement}")
        run = json.loads((out / "run.json").read_text())
        assert run["ranks"] == n_rank and set(run["rank_of_lp"]) == set(range(n_rank))
        assert [name for name in FILES if (alone / name).read_bytes() != (out / name).read_bytes()] == []


@pytest.mark.parametrize(("control", "criterion"), CASES)
def test_what_is_emptied_is_emptied_on_every_rank(
    control: str, criterion: str, tmp_path: Path, simulate: Callable, rank_counts: Callable
) -> None:
    sets = ("wormhole.paper.restoration=none", f"wormhole.paper.criterion={criterion}")
    assert_same(write_case(tmp_path, control), simulate, rank_counts, *sets)


@pytest.mark.parametrize(("control", "criterion"), CASES)
def test_what_one_rank_predicts_all_put_back(
    control: str, criterion: str, tmp_path: Path, simulate: Callable, rank_counts: Callable
) -> None:
    pytest.importorskip("torch", reason="the extra `learned` is not installed")
    from pdes.skipping.papers.queue_model import Shape, train, windows

    traces = [np.full(40, depth) for depth in range(0, 200_000, 5_000)]
    train(*windows(traces, 16, 1, 10**6), Shape(), n_epoch=2).save(tmp_path / "queues.pt")
    sets = (
        "wormhole.paper.restoration=learned",
        "wormhole.paper.restoration_model=queues.pt",
        f"wormhole.paper.criterion={criterion}",
    )
    assert_same(write_case(tmp_path, control), simulate, rank_counts, *sets)
    assert "restoration_model_sha256" in (tmp_path / "1" / "result.json").read_text()


def test_a_model_that_is_missing_or_cannot_be_read_ends_all_ranks(tmp_path: Path, start: Callable) -> None:
    config, sets = write_case(tmp_path, "hpcc"), ("restoration=learned", "restoration_model=none.pt")
    overrides = [word for text in sets for word in ("--set", f"wormhole.paper.{text}")]
    said = "none.pt: cannot be read" if find_spec("torch") else "pip install pdes-sim[learned]"
    for n_rank in (1, 2):
        done = start(n_rank, "-m", "pdes", config, "--out", tmp_path / "out", "--quiet", *overrides)
        assert done.returncode == 2
        assert "[wormhole.paper] restoration_model: " in done.stderr and done.stderr.count(said) == 1
        assert not (tmp_path / "out").exists()
