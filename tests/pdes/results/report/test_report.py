"""A report says what the tables say, needs nothing but itself, stays small, and bad folders are refused in one line."""

import json
import re
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.topology import leaf_spine, rail_optimised
from models.topology.graph import LinkKind
from pdes.cli import main
from pdes.errors import ConfigError
from pdes.results.iteration import PART_NAMES, read_breakdown, read_times
from pdes.results.opened import open_results
from pdes.results.report import write_report
from pdes.results.report.figures import log_axis
from pdes.results.report.groups import Group, group_bounds, groups_of
from pdes.results.report.headline import mfu
from pdes.results.tables import COLUMNS, write_table
from reference.plain_pipeline import make_tasks
from reference.result_folders import make_folder, plots_of, rows_of, unpacked

MS, RATE = 10**9, 10**11
STAR = leaf_spine(1, 0, 4, RATE, RATE, 10**6, 10**6)
MOST_BYTES = 5_000_000
TASKS = [
    (gpu, i, kind, 100 * i * MS + begin * MS + gpu, 100 * i * MS + (begin + length) * MS + gpu * length)
    for i in (0, 1)
    for gpu in range(4)
    for kind, begin, length in (
        ("forward", 0, 20 + gpu), ("pp-wait", 30, 10), ("backward", 40, 30), ("dp", 70, 30 - gpu),
    )
]  # fmt: skip
TRAINING = {
    "iteration_time_ps": [100 * MS, 100 * MS], "simulated_time_ps": 200 * MS,
    "workload": {"kind": "training", "layout": "TP1-DP2-PP2", "microbatches": 4,
                 "model_flops_per_iteration": 6 * 10**12, "peak_flops_per_s": 4 * 10**14},
    "config": {"network": {"payload_bytes": 1000, "header_bytes": 48}, "topology": {"gpus_per_server": 2},
               "workload": {"parallel": {"tp": 1, "dp": 2, "pp": 2}}},
}  # fmt: skip
EVIL = "<script>alert('x')</script>&\"$body"
FLOWS = [
    {"src": 0, "dst": 1, "size_bytes": 10**6, "start_ps": 0, "finish_ps": 5 * MS, "ideal_fct_ps": MS, "tag": EVIL},
    {"src": 1, "dst": 2, "size_bytes": 10**3, "start_ps": 0, "finish_ps": 2 * MS, "ideal_fct_ps": MS},
    {"src": 2, "dst": 3, "size_bytes": 10**3, "start_ps": 0, "finish_ps": -1, "ideal_fct_ps": MS},
]


def report(folder: Path) -> str:
    return write_report(folder).read_text(encoding="utf-8")


def read_group_means(folder: Path, result: Mapping[str, Any]) -> list[Group]:
    times = read_times(folder, result)
    assert times is not None
    return groups_of(times, result)


def tile(page: str, name: str) -> str:
    found = re.search(rf"<dt>{name}</dt><dd><b>(.*?)</b>", page)
    assert found is not None, name
    return found[1]


def test_times_of_the_page_are_those_of_the_tables(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, STAR, TRAINING, FLOWS, TASKS)
    page, results = report(folder), open_results(folder)
    assert tile(page, "iteration time") == "100 ms"
    assert tile(page, "MFU") == "15.0 %" and mfu(results.result) == pytest.approx(6e12 / (4e14 * 0.1))
    breakdown = read_breakdown(folder, results.result)
    assert tile(page, "compute") == f"{100 * breakdown['compute_ps'] / breakdown['iteration_time_ps']:.1f} %"
    shares = [float(row[2].removesuffix(" %")) for row in rows_of(page) if len(row) == 3 and row[2].endswith(" %")]
    assert sum(shares[:-1]) == pytest.approx(100, abs=0.5) and shares[-1] == 100  # the table of parts and its total


def test_groups_add_up_to_the_whole(tmp_path: Path) -> None:
    """Each part of each group, times its GPUs, but for the rounding down of each mean; in the plot as well."""
    folder = make_folder(tmp_path, STAR, TRAINING, FLOWS, TASKS)
    result = open_results(folder).result
    whole = read_breakdown(folder, result)
    groups = read_group_means(folder, result)
    assert [(group.name, group.n_gpu) for group in groups] == [("stage 0, GPUs 0 to 1", 2), ("stage 1, GPUs 2 to 3", 2)]
    for part in PART_NAMES:
        assert abs(sum(group.parts[part] * group.n_gpu for group in groups) - 4 * whole[part]) <= 4 * len(PART_NAMES)
    bars = plots_of(report(folder))["groups"]["data"]
    for i in range(2):
        assert sum(bar["x"][i] for bar in bars) == pytest.approx(whole["iteration_time_ps"] / MS)


def test_table_chart_and_headline_have_the_same_exposed_communication(tmp_path: Path) -> None:
    """Two stages, two microbatches: of 3 ms on the way, stage 0 waits 6 beyond the bubble and stage 1 waits 3."""
    tasks = make_tasks([(20 * MS, 40 * MS)] * 2, 2, 3 * MS)
    keys = {"workload": {"parallel": {"pp": 2}}, "network": TRAINING["config"]["network"], "topology": {}}
    facts = TRAINING["workload"] | {"microbatches": 2}
    result = TRAINING | {"iteration_time_ps": [186 * MS], "config": keys, "workload": facts}
    page = report(make_folder(tmp_path, STAR, result, FLOWS, tasks))
    rows = {row[0]: row[1] for row in rows_of(page) if len(row) == 3}
    bars = {bar["name"]: bar["x"] for bar in plots_of(page)["groups"]["data"]}
    assert bars["PP exposed"] == [6, 3] and rows["PP exposed"] == "4.5 ms" and tile(page, "PP exposed") == "2.4 %"
    assert bars["pipeline bubble"] == [60, 60] and rows["pipeline bubble"] == "60 ms"
    assert bars["idle"] == [0, 3] and rows["idle"] == "1.5 ms"


def test_groups_of_a_run_without_tasks_add_up_to_the_whole(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, STAR, TRAINING, FLOWS, [])
    (folder / "tasks.parquet").unlink()
    rows = {name: np.zeros(8, np.int64) for name in COLUMNS["breakdown"]} | {
        "row_id": np.arange(8), "gpu": np.tile(np.arange(4), 2), "iteration": np.repeat([0, 1], 4),
        "span_ps": np.full(8, 100), "compute_ps": np.arange(8) * 10, "idle_ps": 100 - np.arange(8) * 10,
    }  # fmt: skip
    write_table(folder / "breakdown.parquet", "breakdown", [rows])
    result = open_results(folder).result
    whole = read_breakdown(folder, result)
    groups = read_group_means(folder, result)
    assert [group.parts["compute_ps"] for group in groups] == [45, 65] and whole["compute_ps"] == 55
    assert "By group of GPUs" in report(folder)


def test_groups_cover_every_gpu_once() -> None:
    """Whatever the layout; stages only where ranks lie in order."""
    for n_gpu, pp, placement in ((1, 1, "in-order"), (16384, 1, "in-order"), (96, 8, "in-order"), (96, 8, "optimised")):
        workload = {"parallel": {"pp": pp}, "placement": placement}
        bounds = group_bounds({"config": {"workload": workload, "topology": {"gpus_per_server": 8}}}, n_gpu)
        assert [first for _, first, _ in bounds] == [0, *(end for _, _, end in bounds[:-1])]
        assert bounds[-1][2] == n_gpu and len(bounds) <= 32
        assert bounds[0][0].startswith("stage") == (pp > 1 and placement == "in-order")


def test_ports_and_queues_of_the_plots_are_those_of_the_tables(tmp_path: Path) -> None:
    values = {name: np.arange(STAR.n_port) * 1000 for name in ("max_queue_bytes", "paused_ps", "busy_ps")}
    samples = [(10 * MS, 3, 500, 0), (20 * MS, 3, 700, 8), (20 * MS, 5, 1, 0), (90 * MS, 0, 0, 0)]
    folder = make_folder(tmp_path, STAR, None, FLOWS, ports=values, samples=samples)
    page = report(folder)
    plots = plots_of(page)
    assert tile(page, "largest queue") == "7 kB"
    fabric = plots["fabric"]
    assert [choice["label"] for choice in fabric["choices"]] == ["busy", "largest queue", "paused"]
    cells = {
        name: value
        for names, values in zip(fabric["data"][-1]["text"], fabric["choices"][1]["updates"][1][0]["z"][0], strict=True)
        for name, value in zip(names, values, strict=True) if name
    }  # fmt: skip
    ends = [(STAR.node_name[a], STAR.node_name[b]) for a, b in zip(STAR.port_src, STAR.port_dst, strict=True)]
    for node in STAR.node_name:
        own = [i for i, (src, dst) in enumerate(ends) if node == src or (node == dst and node.startswith("host"))]
        assert cells[node] == 1000 * max(own)
    series = plots["series"]
    z = np.array(series["choices"][0]["updates"][0][0]["z"][0], float)
    assert np.nanmax(z, axis=1).max() == 700 and series["data"][0]["y"][0] == " -> ".join(ends[7])
    paused = np.array(series["choices"][1]["updates"][0][0]["z"][0], float)
    assert np.nanmax(paused) == 33.33  # at one of three instants
    assert [choice["label"] for choice in series["choices"]] == ["largest queue", "paused", "sent"]


def test_what_ports_have_sent_over_time_is_a_share_of_their_rate(tmp_path: Path) -> None:
    """A port that sends at half of its rate for 40 ms, then nothing; in flow mode no queue is shown beside it."""
    rate_bps = 10**9
    values = {name: np.zeros(STAR.n_port, np.int64) for name in ("max_queue_bytes", "paused_ps", "busy_ps")}
    values |= {"rate_bps": np.full(STAR.n_port, rate_bps), "tx_bytes": np.arange(STAR.n_port) % 7 // 6 * 2_500_000}
    samples = [(i * MS, 6, 0, 0, min(i, 40) * 62_500) for i in range(1, 41)]
    instants = [(i * MS, 0, 0, 0, i) for i in range(41, 101)]
    folder = make_folder(tmp_path, STAR, None, FLOWS, ports=values, samples=samples + instants)
    series = plots_of(report(folder))["series"]
    (sent,) = series["choices"]
    z, name = np.array(sent["updates"][0][0]["z"][0], float), series["data"][0]["y"]
    assert sent["label"] == "sent"
    row = name.index(f"{STAR.node_name[STAR.port_src[6]]} -> {STAR.node_name[STAR.port_dst[6]]}")
    at_ms = np.array(series["data"][0]["x"])
    assert np.abs(z[row][at_ms < 36] - 50).max() < 0.1 and z[row][at_ms > 42].max() == 0


def test_a_page_needs_nothing_but_itself_and_shows_no_text_as_html(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "<b>&run", STAR, TRAINING | {"topology": EVIL}, FLOWS, TASKS)
    page = report(folder)
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?!["'#]|data:)""", page)
    assert not re.search(r"@import|url\(|https?:", page)
    assert EVIL not in page and escape(EVIL) in page and "<title>&lt;b&gt;&amp;run</title>" in page
    assert page.count("<script") == 3 and unpacked(page, "library").startswith("/**\n* plotly.js")
    assert not re.search(r"https?:|<script", unpacked(page, "plots"))  # Plotly formats text by the tags in it
    assert escape(EVIL, quote=False) in {trace.get("name") for trace in plots_of(page)["sizes"]["data"]}
    places = re.findall(r'data-plot="(\w+)"', page)
    assert sorted(places) == sorted(plots_of(page)) and len(set(places)) == len(places)
    anchors, links = re.findall(r'<section id="(\w+)"', page), re.findall(r'href="#(\w+)"', page)
    assert anchors == links and "time" in anchors


def test_names_of_what_is_drawn_are_texts_of_the_page(tmp_path: Path) -> None:
    """So that they wrap on a phone: Plotly's own legend is cut there. The script puts them above plots of several."""
    page = report(make_folder(tmp_path, STAR, TRAINING, FLOWS, TASKS))
    plots = plots_of(page)
    assert not [name for name, plot in plots.items() if "legend" in plot["layout"]]
    assert {name for name, plot in plots.items() if plot["layout"].get("showlegend")} == {
        "groups", "slowdown", "sizes", "ranks",
    }  # fmt: skip
    for plot in plots.values():
        assert not plot["layout"].get("showlegend") or all(trace["name"] for trace in plot["data"])


def test_labels_of_a_logarithmic_axis_keep_apart() -> None:
    ticks = [log_axis("bytes", np.array([1e3, most]))["dtick"] for most in (1e3, 1e4, 2e4, 1e6, 2e6)]
    assert ticks == [None, None, "D2", "D2", 1]


def test_a_heat_map_of_zeros_has_a_scale_that_people_read(tmp_path: Path) -> None:
    plots = plots_of(report(make_folder(tmp_path, STAR, None, FLOWS, samples=[(MS, 0, 0, 0), (2 * MS, 0, 0, 0)])))
    scales = [
        plots["series"]["choices"][0]["updates"][0][0]["zmax"],
        plots["fabric"]["choices"][0]["updates"][1][0]["zmax"],
    ]
    assert scales == [1, 1]


def test_every_plot_is_there_before_the_page_has_loaded_for_who_prints_it() -> None:
    """In a browser: bench/report.py. Here what that needs: a frame that is open until the script can draw all plots."""
    script = (files("pdes.results.report") / "template" / "page.js").read_text(encoding="utf-8")
    begins, listens, ends = (
        script.index(text) for text in ("contentDocument.open()", '"beforeprint"', "  release();\n})")
    )
    assert begins < script.index('await unpack("library")') < listens < ends
    assert "places.forEach((place) => draw(place))" in script[listens:ends]


def test_a_page_of_many_gpus_stays_small(tmp_path: Path) -> None:
    """16,384 GPUs with every figure of every port different; 32,768 flows; queues of many ports."""
    topology = rail_optimised(16384, 8, 32, LinkKind(RATE, 10**6), LinkKind(RATE, 10**6))
    draw, n = np.random.default_rng(1), topology.n_port
    names = ("max_queue_bytes", "paused_ps", "busy_ps", "ecn_marks", "drops")
    values = {name: draw.integers(0, 10**8, n) for name in names}
    flows = [
        {"src": i % 16384, "dst": (i + 8) % 16384, "size_bytes": 1000 + i, "finish_ps": 10**6 + i * i,
         "ideal_fct_ps": 10**6}
        for i in range(32768)
    ]  # fmt: skip
    samples = [(10**6 * (1 + i // 100), i % n, 1000 + i, i % 3) for i in range(30_000)]
    keys = {"kind": "roft", "gpus_per_server": 8, "servers_per_rail_switch": 32}
    result = {"config": TRAINING["config"] | {"topology": keys}}
    folder = make_folder(tmp_path, topology, result, flows, ports=values, samples=samples)
    assert write_report(folder).stat().st_size < MOST_BYTES


@pytest.mark.parametrize("flows, tasks", [([], []), (FLOWS[2:], []), (FLOWS, TASKS)])
def test_runs_with_little_in_them_have_a_report(tmp_path: Path, flows: list, tasks: list) -> None:
    page = report(make_folder(tmp_path, STAR, TRAINING if tasks else None, flows, tasks))
    assert ("Where the time went" in page) == bool(tasks)
    assert ("No flow finished." in page) == (flows != FLOWS)


def test_a_run_without_tables_of_flows_and_tasks_has_a_report(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, STAR, None, FLOWS)
    for name in ("flows", "tasks"):
        (folder / f"{name}.parquet").unlink()
    assert "kept no table of flows" in report(folder)


def test_skipping_and_its_error_are_said(tmp_path: Path) -> None:
    audit = {"skips": 8, "skips_audited": 2, "mean_rate_error": 0.001, "max_rate_error": 0.01, "standard_error": None}
    facts = {"skipped_share": 0.75, "criterion": {"name": "default"}, "iterations_simulated": 2, "audit": audit,
             "iterations_extrapolated": 0, "iteration_error_bound": None, "extrapolated_time_ps": 0}  # fmt: skip
    result = TRAINING | {"fast_forward": facts, "skipped_packet_hops": 936_000_000}
    page = report(make_folder(tmp_path, STAR, result, FLOWS, TASKS))
    assert tile(page, "skipped") == "75 %" and ["skipped share", "75 %"] in list(rows_of(page))
    assert "audit, mean error: periodic 0.1 % of rates in 2" in page and "How sure: 75 %" in page
    nothing = make_folder(tmp_path / "no", STAR, TRAINING | {"fast_forward": {"why_not": "spraying"}}, FLOWS, TASKS)
    assert "Nothing was skipped: spraying" in report(nothing)


def test_the_command_prints_the_summary_and_writes_the_page_where_it_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_folder(tmp_path / "run", STAR, TRAINING, FLOWS, TASKS)
    assert main(["report", str(folder), "--out", str(tmp_path / "page.html")]) == 0
    printed = capsys.readouterr().out
    assert "Iteration time 100 ms" in printed and f"report in {tmp_path / 'page.html'}" in printed
    assert main(["report", str(folder)]) == 0
    assert (folder / "report.html").read_bytes() == (tmp_path / "page.html").read_bytes()


def spoiled(folder: Path, how: str) -> None:
    if how == "another version":
        result = json.loads((folder / "result.json").read_text())
        del result["events"]
        (folder / "result.json").write_text(json.dumps(result))
    elif how == "not ours":
        (folder / "result.json").write_text("[1]")
    elif how == "no table":
        (folder / "ports.parquet").unlink()
    elif how == "cut table":
        (folder / "flows.parquet").write_bytes((folder / "flows.parquet").read_bytes()[:100])
    elif how == "other columns":
        write_table(folder / "flows.parquet", "rtt", [{name: np.zeros(1, np.int64) for name in COLUMNS["rtt"]}])
    elif how == "no run.json":
        (folder / "run.json").unlink()


SPOILED = ("another version", "not ours", "no table", "cut table", "other columns", "no run.json")


@pytest.mark.parametrize("how", SPOILED)
@pytest.mark.parametrize("command", ["report", "timeline"])
def test_a_folder_that_cannot_be_read_is_one_message_and_status_2(
    tmp_path: Path, command: str, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_folder(tmp_path / "run", STAR, TRAINING, FLOWS, TASKS)
    spoiled(folder, how)
    assert main([command, str(folder)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"pdes-sim: error: {folder}") and said.count("\n") == 1
    assert not [path.name for path in folder.iterdir() if "report" in path.name or "trace" in path.name]


def test_a_page_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_folder(tmp_path / "run", STAR, None, FLOWS)
    page = write_report(folder, tmp_path / "page.html").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(ConfigError, match=r"page.html: cannot be written: No space left.*--out"):
            write_report(folder, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_bytes() == page
    with pytest.raises(ConfigError, match="cannot be written: No such file"):
        write_report(folder, tmp_path / "nowhere" / "page.html")
    assert {path.name for path in tmp_path.iterdir()} == {"run", "page.html"}
