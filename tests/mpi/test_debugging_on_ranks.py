"""Looking into a run on several ranks: the same trace, the same stop, the same words."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mpi.conftest import Start
from reference.debug_runs import command, write_case

FABRIC = {"leaves = 1": "leaves = 3", "spines = 1": "spines = 2", "hosts_per_leaf = 4": "hosts_per_leaf = 2"}
FLOWS = [(1, 0, 30_000, 0), (2, 0, 30_000, 0), (3, 0, 30_000, 1_000_000), (4, 1, 20_000, 0), (0, 5, 10_000, 500_000)]
LOSSY = '[network.loss]\nprobability = 0.02\n[network.buffer]\nsize = "40kB"\nreserve = "1kB"\nheadroom = "2kB"\n'
PLAIN = {"NUMBA_DISABLE_JIT": "1"}  # as --python has it: ranks that stand by are told when they start


def fabric(folder: Path, more: str) -> Path:
    config = write_case(folder, FLOWS, more)
    text = config.read_text()
    for old, new in FABRIC.items():
        text = text.replace(old, new)
    config.write_text(text)
    return config


@pytest.mark.parametrize(
    "more", [pytest.param("", marks=pytest.mark.slow, id="plain"), pytest.param(LOSSY, id="lossy")]
)
def test_a_trace_is_the_same_bytes_on_any_number_of_ranks(
    ask: Start, rank_counts: Callable, tmp_path: Path, more: str
) -> None:
    config, said, counts = fabric(tmp_path, more), {}, rank_counts(1, 2, 4)
    for n_rank in counts:
        for limit in (100_000, 200):
            out = tmp_path / f"{n_rank}-{limit}"
            what = ("--trace", "flow=2,flow=3,port=leaf0->host0,port=spine1->leaf0", "--trace-limit", str(limit))
            done = ask(n_rank, *command(config, out, *what), **PLAIN, PDES_TRACED="1")
            assert done.returncode == 0, done.stderr
            said[n_rank, limit] = done.stderr
    for limit in (100_000, 200):
        one = tmp_path / f"1-{limit}"
        assert len((one / "trace.txt").read_text().splitlines()) > 200
        for n_rank in counts[1:]:
            assert said[n_rank, limit] == said[1, limit] and "trace of flow 2, flow 3" in said[1, limit]
            for name in ("trace.txt", "trace.parquet"):
                assert (tmp_path / f"{n_rank}-{limit}" / name).read_bytes() == (one / name).read_bytes(), name


def test_a_condition_stops_at_the_same_instant_on_any_number_of_ranks(
    ask: Start, rank_counts: Callable, tmp_path: Path
) -> None:
    config, said, counts = fabric(tmp_path, LOSSY), [], rank_counts(1, 2, 3)
    for n_rank in counts:
        what = ("--check", "--break", "max_queue(leaf0:0) > 2kB and flow(2).acked > 8kB")
        done = ask(n_rank, *command(config, tmp_path / str(n_rank), *what), **PLAIN)
        assert done.returncode == 0, done.stderr
        said.append(done.stderr)
    assert len(set(said)) == 1 and "stopped at" in said[0] and "flow 2, host3 -> host0" in said[0]
    for name in ("result.json", "flows.parquet", "ports.parquet"):
        one, *others = (tmp_path / str(n_rank) / name for n_rank in counts)
        assert all(other.read_bytes() == one.read_bytes() for other in others)
