"""Ranks in a line, by MPI: most rounds begin without a reduction, and no byte depends on it."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from pdes.engine.round import LONGEST_RUN
from reference.checkpointed import checkpoints_of, different

N_SWITCH = 8
SIGNALLED = Path(__file__).with_name("signalled.py")
CONFIG = """\
[topology]
kind = "file"
file = "topology.txt"
[network]
congestion_control = "dctcp"
ecn_kmin = "20kB"
ecn_kmax = "80kB"
ecn_pmax = 0.5
[workload]
kind = "flows"
file = "flows.csv"
[partition]
delay_threshold = "500ns"
placement = "block"
"""
PFC = '[network.buffer]\nsize = "300kB"\nalpha = 0.1\n'
CASES = {
    "nobody looks": "",
    "PFC, a look every 300 us": PFC + '[network.pfc]\ndeadlock_check = "300us"\n',
    "samples every 250 us": '[output]\nsample_interval = "250us"\n',
    "losses": '[network.loss]\nprobability = 0.001\n[network.transport]\ntimeout = "50us"\nmax_timeout = "1ms"\n',
}
CLOSE = '[output]\nsample_interval = "1us"\n'


def write_line(folder: Path, more: str) -> Path:
    """Switches in a line, a host at each, which are one logical process; busy times and idle ones."""
    links = [f"{i} {N_SWITCH + i} 100Gbps 10ns 0\n" for i in range(N_SWITCH)]
    links += [f"{N_SWITCH + i} {N_SWITCH + i + 1} 100Gbps 1us 0\n" for i in range(N_SWITCH - 1)]
    switches = " ".join(str(N_SWITCH + i) for i in range(N_SWITCH))
    text = f"{2 * N_SWITCH} {N_SWITCH} {len(links)}\n{switches}\n{''.join(links)}"
    (folder / "topology.txt").write_text(text)
    rng, lines = random.Random(5), ["src,dst,size_bytes,start_ps"]
    for start_us in (0, 3, 40, 400, 430, 1000):
        for _ in range(12):
            src, dst = rng.sample(range(N_SWITCH), 2)
            lines.append(f"{src},{dst},{rng.randrange(1, 400_000)},{start_us * 10**6 + rng.randrange(10**7)}")
    (folder / "flows.csv").write_text("\n".join(lines) + "\n")
    (folder / "config.toml").write_text(CONFIG + more)
    return folder / "config.toml"


def run_facts(out: Path) -> dict:
    return json.loads((out / "run.json").read_text())


SLOW = pytest.mark.slow  # by one case on three ranks it is seen in every tier


@pytest.mark.parametrize("name", [name if name == "nobody looks" else pytest.param(name, marks=SLOW) for name in CASES])
def test_the_same_bytes_on_any_number_of_ranks_with_few_reductions(
    name: str, tmp_path: Path, simulate: Callable, pytestconfig: pytest.Config
) -> None:
    config = write_line(tmp_path, CASES[name])
    simulate(1, config, tmp_path / "1")
    assert run_facts(tmp_path / "1")["reductions"] == 0
    for n_rank in (3, 4) if pytestconfig.getoption("tier") == "all" else (3,):
        out = tmp_path / str(n_rank)
        simulate(n_rank, config, out, PDES_WAIT="mpi")
        assert different(tmp_path / "1", out) == []
        facts = run_facts(out)
        assert facts["ranks"] == n_rank and len(set(facts["rank_of_lp"])) == n_rank
        assert facts["rounds"] / LONGEST_RUN < facts["reductions"] < facts["rounds"] / 3


@pytest.mark.slow  # beside the first of the above
def test_close_looks_leave_every_round_its_reduction(tmp_path: Path, simulate: Callable) -> None:
    config = write_line(tmp_path, CLOSE)
    simulate(1, config, tmp_path / "1")
    simulate(3, config, tmp_path / "3", PDES_WAIT="mpi")
    facts = run_facts(tmp_path / "3")
    assert facts["reductions"] > 0.9 * facts["rounds"]  # none is left out but where a stretch ends
    assert different(tmp_path / "1", tmp_path / "3") == []


@pytest.mark.slow  # signals on two ranks: test_failures_on_ranks; rests: test_checkpoint_on_ranks
def test_what_waits_for_a_rest_gets_it_within_the_longest_run(
    tmp_path: Path, simulate: Callable, start: Callable
) -> None:
    """A signal to one rank ends all in the same round; what goes on from there has the same bytes."""
    config, at = write_line(tmp_path, CASES["samples every 250 us"]), 500
    simulate(1, config, tmp_path / "whole")
    done = start(4, SIGNALLED, at, config, "--out", tmp_path / "cut", "--quiet", PDES_WAIT="mpi")
    assert "stopped by a signal at round" in done.stderr and not (tmp_path / "cut" / "result.json").exists()
    (only,) = checkpoints_of(tmp_path / "cut")
    n_round = json.loads((only / "manifest.json").read_text())["round"]
    assert at <= n_round <= at + LONGEST_RUN + 1
    for n_rank in (1, 3):
        out = tmp_path / f"on{n_rank}"
        done = start(n_rank, "-m", "pdes", "--resume", only, "--out", out, "--quiet", PDES_WAIT="mpi")
        assert done.returncode == 0, done.stderr
        assert run_facts(out)["resumed_from_round"] == n_round and different(tmp_path / "whole", out) == []


@pytest.mark.slow  # test_checkpoint_on_ranks has them on two ranks
def test_checkpoints_on_the_way_change_nothing(tmp_path: Path, simulate: Callable, start: Callable) -> None:
    config = write_line(tmp_path, CASES["PFC, a look every 300 us"])
    simulate(1, config, tmp_path / "whole")
    sets = ("checkpoint.every=10ms", "checkpoint.keep=9999")
    simulate(4, config, tmp_path / "taken", *sets, PDES_WAIT="mpi")
    found = checkpoints_of(tmp_path / "taken")
    assert len(found) > 1 and different(tmp_path / "whole", tmp_path / "taken") == []
    for n_rank, checkpoint in ((1, found[len(found) // 3]), (3, found[2 * len(found) // 3])):
        out = tmp_path / f"on{n_rank}"
        done = start(n_rank, "-m", "pdes", "--resume", checkpoint, "--out", out, "--quiet", PDES_WAIT="mpi")
        assert done.returncode == 0, done.stderr
        assert different(tmp_path / "whole", out) == []
