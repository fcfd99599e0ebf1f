"""Where time went adds up, and what is printed says it; with no training and with no flows too."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdes.errors import ConfigError, SimError
from pdes.results.folder import ResultFolder
from pdes.results.iteration import PART_NAMES, TASK_KINDS, breakdown_of_tasks
from pdes.results.summary import (
    alone_text,
    pick_busiest_ports,
    pick_slowest_flows,
    print_report,
    terminal_summary,
    write_json,
)
from pdes.results.tables import COLUMNS, write_table

MS = 10**9
WRITTEN = ("flows.parquet", "ports.parquet", "tasks.parquet", "run.json", "result.json")
RUN = {"wall_seconds": 12.34, "loop_seconds": 10.0, "ranks": 2, "packet_hops_per_second": 3.12e7, "rounds": 99}
RESULT = {
    "iteration_time_ps": [100 * MS],
    "simulated_time_ps": 100 * MS,
    "packet_hops": 312_000_000,
    "skipped_packet_hops": 0,
    "events": 400_000_000,
    "flows": 2,
    "config": {"workload": {"parallel": {"tp": 1, "dp": 1, "pp": 2}, "microbatches": 4}},
}


def tasks(rows: list[tuple]) -> dict[str, np.ndarray]:
    """rows: (gpu, iteration, kind, start_ps, end_ps)."""
    columns = list(zip(*rows, strict=True)) if rows else [[]] * 5
    names = ("gpu", "iteration", "kind", "start_ps", "end_ps")
    return {n: np.array(c, object if n == "kind" else np.int64) for n, c in zip(names, columns, strict=True)}


PIPELINE = [
    (0, 0, "forward", 0, 30 * MS),
    (0, 0, "pp-wait", 30 * MS, 50 * MS),
    (0, 0, "backward", 50 * MS, 80 * MS),
    (0, 0, "dp", 60 * MS, 90 * MS),
    (0, 0, "optimizer", 90 * MS, 100 * MS),
    (1, 0, "pp-wait", 0, 35 * MS),
    (1, 0, "forward", 35 * MS, 50 * MS),
    (1, 0, "backward", 50 * MS, 65 * MS),
]


def test_overlap_counts_once_and_computing_hides_communication():
    got = breakdown_of_tasks(tasks(PIPELINE), 2, 0, n_stage=2, n_microbatch=4)
    assert got == {
        "iteration": 0,
        "n_gpu": 2,
        "iteration_time_ps": 100 * MS,
        "compute_ps": 45 * MS,
        "optimizer_ps": 5 * MS,
        "tp_ps": 0,
        "cp_ps": 0,
        "ep_ps": 0,
        "pp_wait_ps": (20 + 35) * MS // 2,
        "dp_ps": 5 * MS,
        "collective_ps": 0,
        "idle_ps": 35 * MS // 2,
        # two stages, four microbatches, GPU 1 half as long at each: 90/4 + 3 x 60/4 ms less what each computes
        "bubble_ps": (7.5 + 37.5) * MS // 2,
        # GPU 0 waits 20 ms; GPU 1 35, but 60/4 x half ms of its bubble lie behind its last pass
        "pp_exposed_ps": (12.5 + 5) * MS // 2,
    }


task = st.tuples(
    st.integers(0, 3), st.integers(0, 2), st.sampled_from(TASK_KINDS), st.integers(0, 60), st.integers(0, 30)
)


def plain_breakdown(rows: list[tuple], n_gpu: int, begin: int, end: int) -> dict[str, int]:
    """The same by asking at every ps what each GPU does."""
    kinds = {"forward": "compute_ps", "backward": "compute_ps", "optimizer": "optimizer_ps", "tp": "tp_ps"}
    kinds |= {"cp": "cp_ps", "ep": "ep_ps", "pp-wait": "pp_wait_ps", "dp": "dp_ps", "collective": "collective_ps"}
    total = dict.fromkeys(PART_NAMES, 0)
    for gpu in range(n_gpu):
        for now in range(begin, end):
            running = [TASK_KINDS.index(kind) for g, _, kind, a, b in rows if g == gpu and a <= now < b]
            total[kinds[TASK_KINDS[min(running)]] if running else "idle_ps"] += 1
    return total


@given(rows=st.lists(task, max_size=12), unfinished=st.lists(task, max_size=2))
@settings(deadline=None, max_examples=150)
def test_parts_add_up_and_equal_the_plain_count_in_every_iteration(rows, unfinished):
    rows = [(g, i, k, a, a + length) for g, i, k, a, length in rows]
    table = tasks(rows + [(g, i, k, a, -1) for g, i, k, a, _ in unfinished])
    last_end = [max((b for _, j, _, _, b in rows if j == i), default=None) for i in range(3)]
    for i, end in enumerate(last_end):
        if end is None:
            with pytest.raises(SimError, match=f"no finished task of iteration {i}"):
                breakdown_of_tasks(table, 4, i)
            continue
        begin = (last_end[i - 1] or 0) if i else 0
        if begin > end:
            continue  # iterations of one GPU follow each other, so their last ends do too
        got = breakdown_of_tasks(table, 4, i)
        assert sum(got[name] for name in PART_NAMES) == got["iteration_time_ps"] == end - begin
        expected = plain_breakdown(rows, 4, begin, end)
        assert all(got[name] == expected[name] // 4 for name in PART_NAMES if name != "idle_ps")


def test_kinds_may_be_indices_and_bad_rows_are_named():
    table = tasks(PIPELINE)
    codes = np.array([TASK_KINDS.index(kind) for kind in table["kind"]])
    assert breakdown_of_tasks(table | {"kind": codes}, 2, 0) == breakdown_of_tasks(table, 2, 0)
    with pytest.raises(SimError, match="GPUs 0..1, but the run has 1"):
        breakdown_of_tasks(table, 1, 0)
    with pytest.raises(SimError, match='unknown kind "knit"'):
        breakdown_of_tasks(tasks([(0, 0, "knit", 0, 5)]), 1, 0)


def flow_columns(n: int) -> dict[str, np.ndarray]:
    flow_id = np.arange(n)
    fct_ps = np.where(flow_id % 7 == 0, -1, 10**6 + flow_id * 37 % 5 * 10**5)
    plain = {c: flow_id % 8 for c in ("src", "dst", "start_ps", "hops", "retransmitted_bytes", "ecn_marks")}
    sizes = {"size_bytes": np.full(n, 4 * 10**6), "ideal_fct_ps": np.full(n, 10**6)}
    ends = {"delivered_ps": fct_ps, "finish_ps": np.where(fct_ps < 0, -1, fct_ps + plain["start_ps"])}
    return {"flow_id": flow_id, "fct_ps": fct_ps, "tag": np.zeros(n, np.int64)} | plain | sizes | ends


def port_columns() -> dict[str, np.ndarray]:
    columns = {"port_id": np.arange(4), "node": np.array([0, 1, 2, 0]), "peer": np.array([1, 0, 1, 2])}
    columns |= {"rate_bps": np.full(4, 10**11), "busy_ps": np.array([50, 0, 90, 50]) * MS}
    columns |= {"max_queue_bytes": np.array([1, 2, 1_200_000, 3]), "ecn_marks": np.array([0, 0, 12_345, 0])}
    return columns


NODES = {"node": ["gpu0", "rail0", "spine[0]"], "peer": ["gpu0", "rail0", "spine[0]"]}


@given(cuts=st.lists(st.integers(0, 300), max_size=5))
@settings(deadline=None, max_examples=30)
def test_the_slowest_flows_do_not_depend_on_how_rows_are_grouped(cuts):
    columns = flow_columns(300)
    edges = [0, *sorted(cuts), 300]
    groups = [{c: v[a:b] for c, v in columns.items()} for a, b in zip(edges, edges[1:], strict=False)]
    got = pick_slowest_flows(groups, 6)
    slowdown = {i: f / 10**6 for i, f in enumerate(columns["fct_ps"].tolist()) if f >= 0}
    expected = sorted(slowdown, key=lambda i: (-slowdown[i], i))[:6]
    assert [flow["flow_id"] for flow in got] == expected
    assert [flow["slowdown"] for flow in got] == [slowdown[i] for i in expected]


def test_busiest_ports_come_by_busy_time_then_id_and_silent_ones_are_left_out():
    ports = pick_busiest_ports([port_columns()], 100 * MS, 9, NODES)
    assert [port["port_id"] for port in ports] == [2, 0, 3]
    assert (ports[0]["node"], ports[0]["peer"], ports[0]["busy_frac"]) == ("spine[0]", "rail0", 0.9)


def test_the_summary_says_where_time_went_in_units_that_people_read(capsys):
    breakdown = breakdown_of_tasks(tasks(PIPELINE), 2, 0, 2, 4)
    flows, ports = pick_slowest_flows([flow_columns(20)], 2), pick_busiest_ports([port_columns()], 100 * MS, 2, NODES)
    terminal_summary(RESULT, RUN, breakdown, flows, ports)
    text = capsys.readouterr().out
    lines = [" ".join(line.split()) for line in text.splitlines()]
    for expected in (
        "Iteration time 100 ms",
        "compute 45 ms 45.0 %",
        "PP exposed 8.75 ms 8.8 %",
        "DP exposed 5 ms 5.0 %",
        "pipeline bubble 22.5 ms 22.5 %",
        "idle 13.8 ms 13.8 %",
        "spine[0] -> rail0 100 Gbps 90.0 % 1.2 MB 12,345",
        "2 2 -> 2 4 MB 1.4 us 1.40",
        "Simulated 100 ms: 2 flows, 312 M packet-hops, 400 M events",
        "Run 12.3 s on 2 ranks, 10 s in the event loop: 31.2 M packet-hops/s, 40 M events/s",
    ):
        assert expected in lines, text


def test_a_run_without_training_or_flows_prints_its_totals_only(capsys):
    empty = RESULT | {"iteration_time_ps": [], "flows": 0, "packet_hops": 0, "events": 0, "simulated_time_ps": 0}
    terminal_summary(empty, RUN | {"loop_seconds": 0.0, "packet_hops_per_second": 0.0, "ranks": 1}, {}, [], [])
    first, second = capsys.readouterr().out.splitlines()
    assert first == "Simulated 0 ps: 0 flows, 0 packet-hops, 0 events"
    assert second == "Run 12.3 s on 1 rank, 0 ps in the event loop"


@pytest.mark.parametrize(
    ("spreading", "expected"),
    [
        ({}, ""),
        ({"begins": "rank 0", "changes": []}, "rank 0 alone"),
        ({"begins": "rank 0", "changes": [{"to": "all ranks"}]}, "rank 0 began alone, the others joined it once"),
        (
            {"begins": "rank 0", "changes": [{"to": "all ranks"}, {"to": "rank 0"}, {"to": "all ranks"}]},
            "rank 0 began alone, the others joined it 2 times",
        ),
    ],
)
def test_a_run_says_which_of_its_ranks_simulated(spreading: dict, expected: str) -> None:
    assert alone_text(RUN | {"spreading": spreading}) == expected and alone_text(RUN) == ""


def write_results(folder, result: dict, with_tasks: bool = True) -> None:
    write_table(folder / "flows.parquet", "flows", [flow_columns(20)], {"tag": ["all-reduce"]})
    unused = set(COLUMNS["ports"]) - set(port_columns())
    ports = port_columns() | {name: np.zeros(4, np.int64) for name in unused}
    write_table(folder / "ports.parquet", "ports", [ports], NODES)
    if with_tasks:
        table = tasks(PIPELINE)
        table["kind"] = np.array([TASK_KINDS.index(kind) for kind in table["kind"]])
        table |= {"stream": np.zeros(8, np.int64), "bytes": np.zeros(8, np.int64)}
        write_table(folder / "tasks.parquet", "tasks", [table], {"kind": TASK_KINDS, "stream": ["compute"]})
    write_json(folder / "run.json", RUN)
    write_json(folder / "result.json", result)


def test_a_report_prints_what_the_run_printed(tmp_path, capsys):
    write_results(tmp_path, RESULT)
    print_report(tmp_path)
    report = capsys.readouterr().out
    flows, ports = pick_slowest_flows([flow_columns(20)]), pick_busiest_ports([port_columns()], 100 * MS, names=NODES)
    terminal_summary(RESULT, RUN, breakdown_of_tasks(tasks(PIPELINE), 2, 0, 2, 4), flows, ports)
    assert report == capsys.readouterr().out and "pipeline bubble" in report


def test_a_report_works_without_training(tmp_path, capsys):
    write_results(tmp_path, RESULT | {"iteration_time_ps": []}, with_tasks=False)
    print_report(tmp_path)
    assert "Iteration" not in capsys.readouterr().out


def test_a_run_that_stopped_early_has_a_report(tmp_path, capsys):
    """Rows of tasks that never ended hold nothing but their id."""
    write_results(tmp_path, RESULT | {"flows_finished": 1})
    table = tasks(PIPELINE) | {"stream": np.zeros(8, np.int64), "bytes": np.zeros(8, np.int64)}
    table["kind"] = np.array([TASK_KINDS.index(kind) for kind in table["kind"]])
    table = {name: np.append(column, -1) for name, column in table.items()}
    write_table(tmp_path / "tasks.parquet", "tasks", [table], {"kind": TASK_KINDS, "stream": ["compute"]})
    print_report(tmp_path)
    report = capsys.readouterr().out
    assert "pipeline bubble" in report and "1 of 2 flows" in report


def test_a_folder_without_a_complete_result_is_refused_by_name(tmp_path):
    with pytest.raises(ConfigError, match="nowhere: is not a folder"):
        print_report(tmp_path / "nowhere")
    write_results(tmp_path, RESULT)
    (tmp_path / "result.json").unlink()
    with pytest.raises(ConfigError, match="no complete result here"):
        print_report(tmp_path)
    (tmp_path / "result.json").write_text("{")
    with pytest.raises(ConfigError, match="cannot be read"):
        print_report(tmp_path)


def test_json_has_sorted_keys_and_numpy_numbers_as_plain_ones(tmp_path):
    write_json(tmp_path / "x", {"b": np.int64(2**62), "a": np.arange(2), "c": {"z": 0.5, "y": None}})
    text = (tmp_path / "x").read_text()
    assert text.endswith("}\n") and json.loads(text) == {"a": [0, 1], "b": 2**62, "c": {"y": None, "z": 0.5}}
    assert text.index('"a"') < text.index('"b"') < text.index('"c"') and text.index('"y"') < text.index('"z"')
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(tmp_path / "y", {"a": float("nan")})


def test_a_report_finishes_a_commit_that_was_killed(tmp_path, capsys, monkeypatch):
    results = ResultFolder(tmp_path)
    results.check()
    write_results(results.work, RESULT)
    with monkeypatch.context() as patch:
        patch.setattr("pdes.results.folder._put_in_place", lambda *_: None)
        results.commit(WRITTEN)
    with pytest.raises(ConfigError, match="no complete result here"):
        hold = ResultFolder(tmp_path)
        assert hold._take_lock()  # as long as a run holds the folder, a report keeps off
        try:
            print_report(tmp_path)
        finally:
            hold._release()
    print_report(tmp_path)
    assert "Iteration time 100 ms" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(WRITTEN)
