"""How ranks wait for each other, through memory that they share or by MPI, changes nothing that they get."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = """\
import json, random, sys, time
from pdes.engine.exchange import world
from pdes.engine.round_exchange import HEADER_WORDS, IS_SHARED, make_exchange, reduce_min, swap

N_WORD, N_ROUND = 40, 300

def words(source, target, i_round):
    draw = random.Random(source * 1_000_003 + target * 1009 + i_round)
    return [draw.randrange(-2**62, 2**62) for _ in range(draw.choice((0, 0, 1, 7, N_WORD)))]

ranks = world()
# A ring, with another number of neighbours for rank 0 from four ranks on.
far = [2] if ranks.size > 3 and ranks.rank == 0 else [0] if ranks.size > 3 and ranks.rank == 2 else []
peers = sorted({(ranks.rank - 1) % ranks.size, (ranks.rank + 1) % ranks.size, *far} - {ranks.rank})
ex = make_exchange(ranks, peers, N_WORD + 3 * ranks.rank)
draw, faults = random.Random(ranks.rank), []
for i_round in range(N_ROUND):
    if draw.random() < 0.02:
        time.sleep(0.003)  # longer than anyone spins
    if i_round % 3 == 0:
        least = reduce_min(ex, 1000 * i_round + (ranks.rank + i_round) % ranks.size)
        if least != 1000 * i_round:
            faults.append(("reduced", i_round, int(least)))
    for i, peer in enumerate(peers):
        out = words(ranks.rank, peer, i_round)
        ex.outbox[i, HEADER_WORDS : HEADER_WORDS + len(out)] = out
        ex.n_out[i] = len(out)
    least = swap(ex, 10 * i_round + ranks.rank)
    known = range(ranks.size) if ex.is_complete[0] else [ranks.rank, *peers]
    if least != 10 * i_round + min(known) or ex.n_out.any():
        faults.append(("least", i_round, int(least)))
    for i, peer in enumerate(peers):
        got = ex.inbox[i, HEADER_WORDS : HEADER_WORDS + ex.n_in[i]].tolist()
        if got != words(peer, ranks.rank, i_round):
            faults.append(("records", i_round, peer))
found = ranks.allgather((ranks.rank, bool(ex.shared_facts[IS_SHARED]), faults))
if ranks.rank == 0:
    print(json.dumps(found))
"""
CONFIG = """\
[topology]
kind = "roft"
gpus = 16
gpus_per_server = 2
[workload]
kind = "collectives"
[[workload.collective]]
name = "everyone"
operation = "all-to-all"
size = "100kB"
"""
FILES = ("result.json", "flows.parquet", "ports.parquet", "tasks.parquet")
SLOW = pytest.mark.slow  # three ranks by memory, and two in either way, are not
WAYS = [
    (2, "shared"),
    (2, "mpi"),
    (3, "shared"),
    *(pytest.param(*way, marks=SLOW) for way in ((3, "mpi"), (5, "shared"), (5, "mpi"))),
]


@pytest.mark.parametrize(("n_rank", "wait"), WAYS)
def test_every_neighbour_gets_its_records_and_all_the_least_value(
    tmp_path: Path, start: Callable, n_rank: int, wait: str
) -> None:
    """Five ranks are more than the cores of most machines that this runs on: they sleep."""
    (tmp_path / "rounds.py").write_text(SCRIPT)
    done = start(n_rank, tmp_path / "rounds.py", PDES_WAIT=wait)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[rank, wait == "shared", []] for rank in range(n_rank)]


def test_results_are_the_same_bytes_however_ranks_wait(
    tmp_path: Path, simulate: Callable, rank_counts: Callable
) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    outs = [tmp_path / name for name in ("alone", "shared", "mpi")]
    simulate(1, tmp_path / "config.toml", outs[0])
    n_rank = max(rank_counts(2, 4))
    for out in outs[1:]:
        simulate(n_rank, tmp_path / "config.toml", out, PDES_WAIT=out.name)
    assert json.loads((outs[1] / "run.json").read_text())["ranks"] == n_rank
    bytes_of = [[(out / name).read_bytes() for name in FILES] for out in outs]
    assert bytes_of[0] == bytes_of[1] == bytes_of[2]


def test_nothing_is_left_in_memory(tmp_path: Path, start: Callable) -> None:
    before = set(Path("/dev/shm").glob("pdes-*"))
    (tmp_path / "rounds.py").write_text(SCRIPT)
    assert start(2, tmp_path / "rounds.py").returncode == 0
    assert set(Path("/dev/shm").glob("pdes-*")) <= before
