"""Where jobs were: the table has all their GPU time, the plots of it are right and do not grow with the run."""

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdes.cli import main
from pdes.cluster.on_servers import (
    DAY_US,
    HOUR_US,
    MOST_BARS,
    MOST_COLUMNS,
    MOST_ROWS,
    Servers,
    gantt,
    heat_map,
    uplinks_map,
)

POOLS = [{"gpu": "A", "servers": 3, "gpus_per_server": 4}, {"gpu": "B", "servers": 2, "gpus_per_server": 8}]
CONFIG = """
[cluster]
scheduler = "srtf"
placement = "spread"
stop = "3d"
[[cluster.pool]]
servers = 6
[cluster.arrivals]
jobs = 400
per_hour = 6
gpus = { 1 = 3, 3 = 2, 12 = 1 }
duration = { distribution = "lognormal", median = "1h", sigma = 1 }
[[cluster.failure]]
component = "server"
gap = { distribution = "exponential", mean = "4d" }
detection = "5min"
repair = "2h"
"""


def places(*rows: tuple[int, float, float, int, int, int]) -> dict[str, np.ndarray]:
    """Rows of job, hours from and to (-1: still there), first server, servers, GPUs on each."""
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    times = [np.where(column < 0, -1, column * HOUR_US).astype(np.int64) for column in columns[1:3]]
    return {
        "job_id": columns[0], "start_us": times[0], "end_us": times[1],
        "server": columns[3], "servers": columns[4], "gpus": columns[5],
    }  # fmt: skip


def test_places_have_all_the_gpu_time_and_no_gpu_twice(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    assert main([str(tmp_path / "config.toml"), "--out", str(tmp_path / "out"), "--quiet"]) == 0
    jobs, found = (pq.read_table(tmp_path / "out" / f"{name}.parquet").to_pydict() for name in ("jobs", "places"))
    assert sum(jobs["preemptions"]) > 0 and sum(jobs["failures"]) > 0 and None in found["end_us"]
    ends = [3 * DAY_US if end is None else end for end in found["end_us"]]
    held: Counter[int] = Counter()
    steps: dict[int, list[tuple[int, int]]] = {}
    for job, start, end, first, n_server, n_gpu in zip(
        found["job_id"], found["start_us"], ends, found["server"], found["servers"], found["gpus"], strict=True
    ):
        held[job] += (end - start) * n_server * n_gpu
        for server in range(first, first + n_server):
            steps.setdefault(server, []).extend([(start, n_gpu), (end, -n_gpu)])
    assert [held[job] for job in jobs["job_id"]] == jobs["gpu_us"]
    for own in steps.values():
        assert max(np.cumsum([n for _, n in sorted(own)])) <= 8
    assert main(["report", str(tmp_path / "out")]) == 0
    assert 'id="servers"' in (tmp_path / "out" / "report.html").read_text()


def test_without_events_there_are_no_places(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    words = ["--quiet", "--set", "output.events=false", "--set", "cluster.first=20"]
    assert main([str(tmp_path / "config.toml"), "--out", str(tmp_path / "out"), *words]) == 0
    assert not (tmp_path / "out" / "places.parquet").exists()
    assert main(["report", str(tmp_path / "out")]) == 0
    assert 'id="servers"' not in (tmp_path / "out" / "report.html").read_text()


def test_a_bar_is_where_its_job_was() -> None:
    """a on two whole servers, b and c on half a server each beside one another, d on a server of 8 until the end."""
    rows = places((0, 0, 5, 0, 2, 4), (1, 1, 4, 2, 1, 2), (2, 2, 3, 2, 1, 2), (3, 6, -1, 4, 1, 4))
    plot, text = gantt(rows, list("abcd"), Servers(POOLS), 10 * 3_600_000_000)
    bars = plot["data"][0]
    assert bars["base"] == [0, 1, 2, 6] and bars["x"] == [5, 3, 1, 4]
    assert bars["width"] == [2, 0.5, 0.5, 0.5] and bars["y"] == [0.5, 1.75, 2.25, 3.75]
    assert bars["customdata"][0].startswith("a: 8 GPUs") and text == "Servers by number: 0 to 2 A, 3 to 4 B."


def test_a_cell_is_the_mean_of_its_servers_over_its_time() -> None:
    rows = places((0, 0, 5, 0, 2, 4), (1, 1, 4, 2, 1, 2), (3, 6, -1, 4, 1, 4))
    plot, _ = heat_map(rows, Servers(POOLS), 10 * 3_600_000_000)
    z = np.array(plot["data"][0]["z"])
    assert z.shape == (5, MOST_COLUMNS) and plot["data"][0]["y"] == ["0", "1", "2", "3", "4"]
    per_hour = MOST_COLUMNS // 10
    assert (z[:2, : 5 * per_hour] == 100).all() and (z[:2, 5 * per_hour :] == 0).all() and (z[3] == 0).all()
    assert (z[2, per_hour : 4 * per_hour] == 50).all() and z[2].sum() == pytest.approx(150 * per_hour)
    assert (z[4, 6 * per_hour :] == 50).all()


@given(st.integers(0, 2**31), st.integers(1, 300))
def test_cells_have_all_the_gpu_time(seed: int, n_server: int) -> None:
    rng, end_us = np.random.default_rng(seed), 7 * 3_600_000_000 + 1
    first = rng.integers(0, n_server, 50)
    start = rng.integers(0, end_us, 50)
    rows = {
        "job_id": np.arange(50), "start_us": start, "end_us": start + rng.integers(0, end_us - start + 1),
        "server": first, "servers": rng.integers(1, n_server - first + 1), "gpus": np.ones(50, int),
    }  # fmt: skip
    servers = Servers([{"gpu": "A", "servers": n_server, "gpus_per_server": 50}])
    plot, _ = heat_map(rows, servers, end_us)
    z, labels = np.array(plot["data"][0]["z"]), plot["data"][0]["y"]
    size = [int(text.split(" to ")[-1]) - int(text.split(" to ")[0]) + 1 for text in labels]
    found = (z / 100 * np.array(size)[:, None] * 50).sum() * end_us / MOST_COLUMNS
    assert sum(size) == n_server and len(size) <= MOST_ROWS
    assert found == pytest.approx(((rows["end_us"] - start) * rows["servers"]).sum(), rel=1e-3)


RACKS = [{"gpu": "A", "servers": 4, "gpus_per_server": 4, "servers_per_rack": 2}]


def test_uplinks_are_used_by_jobs_in_several_racks() -> None:
    """a in one rack; b in both, as two stretches; c first in both, later in one."""
    rows = places((0, 0, 10, 0, 2, 2), (1, 0, 5, 1, 1, 1), (1, 0, 5, 3, 1, 1), (2, 5, 8, 1, 2, 1), (2, 8, 10, 2, 2, 1))
    found = uplinks_map(rows, Servers(RACKS), 10 * 3_600_000_000)
    assert found is not None
    z, per_hour = np.array(found[0]["data"][0]["z"]), MOST_COLUMNS // 10
    assert found[0]["data"][0]["y"] == ["0", "1"] and z.shape == (2, MOST_COLUMNS)
    assert (z[:, : 8 * per_hour] == 12.5).all() and (z[:, 8 * per_hour :] == 0).all()
    assert uplinks_map(rows, Servers([RACKS[0] | {"servers_per_rack": 4}]), 10 * 3_600_000_000) is None


@given(st.integers(0, 2**31), st.integers(1, 40), st.integers(1, 9))
def test_cells_of_racks_have_all_the_gpu_time_of_jobs_in_several(seed: int, n_server: int, per_rack: int) -> None:
    rng, end_us = np.random.default_rng(seed), 5 * 3_600_000_000 + 1
    n = 30
    job = rng.integers(0, 20, n)
    start, length = rng.integers(0, end_us, 20)[job], rng.integers(0, end_us, 20)[job]
    first = rng.integers(0, n_server, n)
    rows = {
        "job_id": job, "start_us": start, "end_us": np.minimum(start + length, end_us),
        "server": first, "servers": rng.integers(1, n_server - first + 1), "gpus": np.ones(n, int),
    }  # fmt: skip
    pools = [{"gpu": "A", "servers": n_server, "gpus_per_server": n, "servers_per_rack": per_rack}]
    racks: dict[int, set[int]] = {}
    for k in range(n):
        racks.setdefault(job[k], set()).update(s // per_rack for s in range(first[k], first[k] + rows["servers"][k]))
    whole = sum(int(rows["end_us"][k] - start[k]) * int(rows["servers"][k]) for k in range(n) if len(racks[job[k]]) > 1)
    found = uplinks_map(rows, Servers(pools), end_us)
    assert (found is None) == (n_server <= per_rack)
    if found is not None:
        z = np.array(found[0]["data"][0]["z"])
        size = np.minimum(per_rack, n_server - per_rack * np.arange(len(z)))
        assert (z / 100 * size[:, None] * n).sum() * end_us / MOST_COLUMNS == pytest.approx(whole, rel=1e-3)


def test_plots_of_a_large_run_are_as_small() -> None:
    rng, n = np.random.default_rng(1), 100_000
    start = rng.integers(0, 10**12, n)
    rows = {
        "job_id": np.arange(n), "start_us": start, "end_us": start + rng.integers(1, 10**10, n),
        "server": rng.integers(0, 3900, n), "servers": rng.choice([1, 1, 1, 8, 64], n), "gpus": np.full(n, 8),
    }  # fmt: skip
    servers = Servers([{"gpu": "A", "servers": 4096, "gpus_per_server": 8}])
    plot, text = gantt(rows, ["x"] * n, servers, 11 * 10**11)
    assert len(plot["data"][0]["x"]) == MOST_BARS and f"The {MOST_BARS:,} bars with the most GPU time" in text
    drawn = sum(w * x for w, x in zip(plot["data"][0]["width"], plot["data"][0]["x"], strict=True)) * DAY_US
    whole = ((rows["end_us"] - start) * rows["servers"]).sum()
    assert f": {100 * drawn / whole:.1f} % of it" in text
    plot, _ = heat_map(rows, servers, 11 * 10**11)
    assert np.array(plot["data"][0]["z"]).shape == (MOST_ROWS, MOST_COLUMNS)
