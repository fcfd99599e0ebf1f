"""What ranks gather in compiled code, through memory that they share or by MPI, is what each of them has."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = """\
import json, random, sys, time
import numpy as np
from pdes.engine.exchange import world
from pdes.engine.gathering import IS_SHARED, n_offered, offer, take, take_in_order

N_TURN = 200

def own(rank, turn, n_column):
    draw = np.random.default_rng((rank, turn))
    n_row = int(draw.choice([0, 0, 1, 5, 70, 400]))
    return draw.integers(-2**62, 2**62, (n_row, n_column))

ranks = world()
everyone, draw, faults = range(ranks.size), random.Random(ranks.rank), []

def expect(name, turn, found, expected):
    if found.dtype != expected.dtype or found.shape != expected.shape or not np.array_equal(found, expected):
        faults.append((name, turn))

for turn in range(N_TURN):
    if draw.random() < 0.02:
        time.sleep(0.003)  # longer than anyone spins
    n_column = 1 + turn % 4
    parts = [own(rank, turn, n_column) for rank in everyone]
    expect("rows", turn, ranks.gather_rows(parts[ranks.rank]), np.concatenate(parts))
    for rank, part in zip(everyone, ranks.gather_parts(parts[ranks.rank][:, 0]), strict=True):
        expect("parts", turn, part, parts[rank][:, 0])
    floats = [part.ravel() / 3 for part in parts]
    expect("floats", turn, ranks.gather_rows(floats[ranks.rank]), np.concatenate(floats))
    sums = [np.full((2, n_column), 7 * rank + turn) for rank in everyone]
    expect("sum", turn, ranks.gather_sum(sums[ranks.rank]), np.sum(sums, axis=0))
    values = [{"rank": rank, "text": "x" * (turn % 9), "rows": parts[rank]} for rank in everyone]
    for value, found in zip(values, ranks.gather_values(values[ranks.rank]), strict=True):
        expect("values", turn, found.pop("rows"), value.pop("rows"))
        if found != value:
            faults.append(("values", turn))
    if ranks.is_any(ranks.rank == turn % (ranks.size + 1)) != (turn % (ranks.size + 1) < ranks.size):
        faults.append(("any", turn))

def in_order(turn, n_row):
    # every rank's rows, each first word in one or more rows of one rank; and all of these
    draw = np.random.default_rng(turn)
    firsts, owner = np.sort(draw.choice(9 * n_row + 1, n_row, False)), draw.integers(0, ranks.size, n_row)
    n_each = draw.integers(1, 4, n_row)
    firsts, owner = np.repeat(firsts, n_each), np.repeat(owner, n_each)
    rows = np.column_stack([firsts, draw.integers(-2**62, 2**62, (len(firsts), 2))])
    return [rows[owner == rank] for rank in everyone], rows

for turn, n_row in enumerate((0, 1, 2, 7, 300, 9_000, 7)):
    parts, rows = in_order(turn, n_row)
    mine, out = parts[ranks.rank].ravel(), np.full((len(rows) + 2, 3), -1)
    offer(ranks.gathering, mine, len(mine), 0)
    n_row = take_in_order(ranks.gathering, mine, len(mine), np.zeros(rows.size, np.int64), out)
    expect("in order", turn, out[:n_row], rows)

large = [np.arange(60_000 * (rank + turn), dtype=np.int64) + rank for rank in everyone for turn in (0, 1)]
for turn in (0, 1, 0):
    parts = [large[2 * rank + turn] for rank in everyone]
    expect("large", turn, ranks.gather_rows(parts[ranks.rank]), np.concatenate(parts))
frozen = np.arange(4) + ranks.rank
frozen.flags.writeable = False
expect("read-only", 0, ranks.gather_rows(frozen[::2]), np.concatenate([np.arange(4)[::2] + rank for rank in everyone]))

g, mine, out = ranks.gathering, np.full(3, ranks.rank), np.zeros(3 * ranks.size, np.int64)
found = [int(offer(g, mine, ranks.rank % 2, -5 - turn * ranks.rank)) for turn in range(3)]  # which nobody takes
if found != [-5 - turn * (ranks.size - 1) for turn in range(3)] or n_offered(g) != ranks.size // 2:
    faults.append(("offered", 0))
offer(g, mine, 3, 0)
take(g, mine, 3, out)
expect("taken", 0, out, np.repeat(everyone, 3))

told = ranks.allgather((ranks.rank, bool(g.facts[IS_SHARED]), faults))
if ranks.rank == 0:
    print(json.dumps(told))
"""
LOST = """\
import signal, sys, time
import numpy as np
from pdes import cli, simulation
from pdes.engine.exchange import World

if __name__ == "__main__":
    sound, asked = World.gather_rows, []
    def gather_rows(self, rows):
        asked.append(1)
        if self.rank == 1 and len(asked) == 5:
            time.sleep(0.3)  # by now the other rank sleeps
            {what}
        return sound(self, rows)
    World.gather_rows = gather_rows
    sys.exit(cli.main(sys.argv[1:]))
"""
CONFIG = """\
[topology]
kind = "leaf-spine"
leaves = 2
spines = 1
hosts_per_leaf = 2
[workload]
kind = "collectives"
[[workload.collective]]
name = "ring"
operation = "all-reduce"
size = "20MB"
[wormhole]
mode = "exact"
[partition]
start = "spread"
"""
SLOW = pytest.mark.slow  # three ranks by memory, and two in either way, are not
WAYS = [
    (2, "shared"),
    (2, "mpi"),
    (3, "shared"),
    *(pytest.param(*way, marks=SLOW) for way in ((3, "mpi"), (5, "shared"), (5, "mpi"))),
]


@pytest.mark.parametrize(("n_rank", "wait"), WAYS)
def test_every_rank_gets_what_all_have_in_rank_order(tmp_path: Path, start: Callable, n_rank: int, wait: str) -> None:
    (tmp_path / "gathers.py").write_text(SCRIPT)
    done = start(n_rank, tmp_path / "gathers.py", PDES_WAIT=wait)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[rank, wait == "shared", []] for rank in range(n_rank)]


FAILS = ("raise RuntimeError('lost')", 1, "internal error on rank 1 of 2")
INTERRUPTED = ("signal.raise_signal(signal.SIGINT)", 130, "interrupted")
SLOW_END = pytest.mark.slow  # either end and either way of waiting are in the other two


@pytest.mark.parametrize(
    ("what", "status", "text", "wait"),
    [
        (*FAILS, "shared"),
        (*INTERRUPTED, "mpi"),
        pytest.param(*FAILS, "mpi", marks=SLOW_END),
        pytest.param(*INTERRUPTED, "shared", marks=SLOW_END),
    ],
)
def test_what_ends_one_rank_ends_those_that_wait_for_it_in_a_gather(
    tmp_path: Path, start: Callable, what: str, status: int, text: str, wait: str
) -> None:
    """A hang is a timeout."""
    (tmp_path / "config.toml").write_text(CONFIG)
    (tmp_path / "lost.py").write_text(LOST.format(what=what))
    out = tmp_path / "out"
    done = start(2, tmp_path / "lost.py", tmp_path / "config.toml", "--out", out, "--quiet", PDES_WAIT=wait)
    assert done.returncode == status and text in done.stderr, done.stderr
    assert not (out / "result.json").exists()
