"""On several ranks, too, looks that find nothing stay in compiled rounds, and change nothing of what comes out."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# Counts what comes to Python, and prints what each rank has counted when the rounds are over.
SCRIPT = """\
import json, sys
from models.network.model import NetworkModel
from models.network.skip.fast_forward import FastForward
from pdes import cli
from pdes.simulation import loop

if __name__ == "__main__":
    counted, look, run_rounds, round_looks = {{"came": 0}}, NetworkModel.look, loop.run_rounds, FastForward.round_looks
    def count(self, horizon_ps):
        counted["came"] += 1
        return look(self, horizon_ps)
    def run(model, *rest):
        run_rounds(model, *rest)
        looks = model.fast_forward.counters.looks
        world = model.fast_forward._world
        found = world.allgather(counted | {{"rank": world.rank, "looks": looks}})
        if world.rank == 0:
            print(json.dumps(found), flush=True)
    NetworkModel.look, loop.run_rounds = count, run
    try:
        {more}
        sys.exit(cli.main(sys.argv[1:]))
    finally:  # the process does other runs, too
        NetworkModel.look, loop.run_rounds, FastForward.round_looks = look, run_rounds, round_looks
"""
ALL_IN_PYTHON = "FastForward.round_looks = lambda self, other_look_ps: None"
RINGS = """\
[topology]
kind = "leaf-spine"
leaves = 2
spines = 1
hosts_per_leaf = 2
[network]
congestion_control = "{law}"
[workload]
kind = "collectives"
[[workload.collective]]
name = "ring"
operation = "all-reduce"
size = "20MB"
[[workload.collective]]
name = "again"
operation = "all-to-all"
size = "3MB"
after = ["ring"]
[wormhole]
mode = "{mode}"
"""


def counts(ask: Callable, n_rank: int, config: Path, out: Path, more: str, **environment: str) -> list[dict]:
    """What each rank has counted in a run, by rank."""
    script = config.with_name("counting.py")
    script.write_text(SCRIPT.format(more=more))
    sets = "--set", "partition.placement=round-robin", "--set", "partition.start=spread"
    done = ask(n_rank, script, config, "--out", out, "--quiet", *sets, **environment)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    assert [each["rank"] for each in found] == list(range(n_rank))
    return found


def same_bytes(one: Path, other: Path) -> bool:
    names = sorted(path.name for path in one.iterdir() if path.suffix == ".parquet" or path.name == "result.json")
    return len(names) > 3 and all((one / name).read_bytes() == (other / name).read_bytes() for name in names)


SLOW = pytest.mark.slow  # another control, by the same code, than the first
MODES = [("exact", "hpcc"), pytest.param("exact", "dcqcn", marks=SLOW), ("auto", "hpcc")]


@pytest.mark.parametrize(("mode", "law"), MODES)
def test_looks_that_find_nothing_stay_in_rounds(
    tmp_path: Path, ask: Callable, mode: str, law: str, pytestconfig: pytest.Config
) -> None:
    """What comes to Python is what does on one rank, on every rank alike, and less than if all of them came. Ranks that
    wait by MPI, in the other mode, are left to the tier `all`."""
    config = tmp_path / "config.toml"
    config.write_text(RINGS.format(mode=mode, law=law))
    alone = counts(ask, 1, config, tmp_path / "alone", "")[0]
    ways = [("in", "", "shared"), ("out", ALL_IN_PYTHON, "shared"), ("in-mpi", "", "mpi")]
    for name, more, wait in ways[: 3 if mode == "exact" or pytestconfig.getoption("tier") == "all" else 2]:
        found = counts(ask, 2, config, tmp_path / name, more, PDES_WAIT=wait)
        assert same_bytes(tmp_path / "alone", tmp_path / name)
        assert [each["looks"] for each in found] == [alone["looks"]] * 2
        assert found[0]["came"] == found[1]["came"]
        if more:
            assert found[0]["came"] >= alone["looks"] and found[0]["came"] > alone["came"]
        else:
            assert found[0]["came"] == alone["came"]
