"""A trace keeps the rules of the Trace Event Format, says what the tables say, and is as small as it is told to be."""

import gzip
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.topology import leaf_spine
from pdes.cli import main
from pdes.errors import ConfigError
from pdes.results.timeline.events import FABRIC_PID, FIRST_GPU_PID
from pdes.results.timeline.parser import parse_list
from reference.result_folders import make_folder

MS, US, RATE = 10**9, 10**6, 10**11
STAR = leaf_spine(1, 0, 4, RATE, RATE, US, US)
TASKS = [
    (gpu, i, kind, (100 * i + begin) * US + 7 * gpu, (100 * i + begin + 10) * US + 7 * gpu + 333)
    for i in range(3)
    for gpu in range(4)
    for kind, begin in (("forward", 0), ("backward", 10), ("dp", 15), ("dp", 20), ("pp-wait", 40))
]
FLOWS = [
    {"src": i % 4, "dst": (i + 1) % 4, "size_bytes": 1000 * i, "start_ps": 5 * i * US + 1,
     "delivered_ps": 5 * i * US + 9 * US, "finish_ps": 5 * i * US + 11 * US, "ideal_fct_ps": 5 * US, "tag": "dp"}
    for i in range(20)
]  # fmt: skip
SAMPLES = [(10 * US, 3, 500, 0), (20 * US, 3, 500, 0), (20 * US, 1, 40, 0), (30 * US, 1, 60, 0), (40 * US, 3, 0, 0)]
RESULT = {"iteration_time_ps": [90 * US] * 3, "simulated_time_ps": 400 * US, "workload": {"kind": "training"}}
QUEUES = {"max_queue_bytes": [0, 60, 0, 500, 0, 0, 0, 0]}


def folder_of(tmp_path: Path) -> Path:
    ports = {name: np.array(values) for name, values in QUEUES.items()}
    return make_folder(tmp_path / "run", STAR, RESULT, FLOWS, TASKS, ports=ports, samples=SAMPLES)


def trace(folder: Path, *arguments: str) -> dict[str, Any]:
    assert main(["timeline", str(folder), *arguments]) == 0
    return json.loads(gzip.decompress((folder / "trace.json.gz").read_bytes()))


def check_format(events: list[dict[str, Any]]) -> None:
    """What the format asks of events, and what viewers need to show them as they are meant."""
    names: dict[tuple[str, int, int], str] = {}
    slices: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    arrows: dict[int, dict[str, dict]] = defaultdict(dict)
    counters: dict[str, float] = {}
    for event in events:
        assert isinstance(event["pid"], int) and event["pid"] > 0 and event.get("tid", 1) > 0
        if event["ph"] == "M":
            assert event["name"].removeprefix("process").removeprefix("thread") in ("_name", "_sort_index")
            names[event["name"], event["pid"], event.get("tid", 0)] = event["args"].get("name", "")
            continue
        assert event["ts"] >= 0 and round(event["ts"] * 1000) == pytest.approx(event["ts"] * 1000, abs=1e-6)
        if event["ph"] == "X":
            assert event["dur"] >= 0 and event["name"] and event["cat"]
            slices[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        elif event["ph"] == "C":
            assert event["ts"] > counters.get(event["name"], -1) and event["args"]["bytes"] >= 0
            counters[event["name"]] = event["ts"]
        else:
            assert event["ph"] in "sf" and event["ph"] not in arrows[event["id"]]
            assert event["ph"] == "s" or event["bp"] == "e"
            arrows[event["id"]][event["ph"]] = event
    assert len({tid for _, tid in slices}) == len(slices)  # no row of two processes
    for (pid, tid), own in slices.items():
        assert names["process_name", pid, 0] and names["thread_name", pid, tid]
        own.sort()
        for (_, end), (begin, _) in zip(own, own[1:], strict=False):
            assert end <= begin + 1e-6  # a row holds one thing at a time
    for ends in arrows.values():  # an arrow hangs on the slices around its ends, and time goes on
        assert set(ends) == {"s", "f"} and ends["s"]["ts"] <= ends["f"]["ts"]
        for end in ends.values():
            assert any(a <= end["ts"] < b for a, b in slices[end["pid"], end["tid"]])


def test_a_trace_keeps_the_rules_and_has_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = trace(folder_of(tmp_path))
    events = found["traceEvents"]
    check_format(events)
    kinds = Counter(event["ph"] for event in events)
    assert kinds["s"] == kinds["f"] == len(FLOWS)
    assert kinds["X"] == len(TASKS) + 2 * len(FLOWS) + len(RESULT["iteration_time_ps"])
    assert "GPUs: 4\n" in capsys.readouterr().out and found["displayTimeUnit"] == "ns"
    first = [event for event in events if event["name"] == "thread_name" and event["pid"] == FIRST_GPU_PID]
    in_order = [event["args"]["name"] for event in sorted(first, key=lambda event: event["tid"])]
    assert in_order[:3] == ["compute", "PP", "DP"] and in_order[-1].startswith("from others")
    rows = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert {"compute", "DP", "DP, 2", "PP", "to others: dp", "from others: dp", "iterations"} <= rows


def test_times_of_slices_are_those_of_the_tasks(tmp_path: Path) -> None:
    """To the ns, by GPU and kind of work."""
    expected: Counter[tuple[int, str]] = Counter()
    for gpu, _, kind, start_ps, end_ps in TASKS:
        expected[gpu, {"pp-wait": "PP", "dp": "DP"}.get(kind, "compute")] += end_ps // 1000 - start_ps // 1000
    measured: Counter[tuple[int, str]] = Counter()
    for event in trace(folder_of(tmp_path))["traceEvents"]:
        if event["ph"] == "X" and event["cat"] in ("compute", "DP", "PP"):
            measured[event["pid"] - FIRST_GPU_PID, event["cat"]] += round(1000 * event["dur"])
    assert measured == expected


def test_queues_are_those_of_the_samples_and_zero_between(tmp_path: Path) -> None:
    events = [event for event in trace(folder_of(tmp_path))["traceEvents"] if event["ph"] == "C"]
    points: dict[str, list] = defaultdict(list)
    for event in events:
        assert event["pid"] == FABRIC_PID
        points[event["name"]].append((event["ts"], event["args"]["bytes"]))
    names = [(STAR.node_name[a], STAR.node_name[b]) for a, b in zip(STAR.port_src, STAR.port_dst, strict=True)]
    ends = [f"queue {src} -> {dst}" for src, dst in names]
    assert points == {ends[3]: [(10, 500), (30, 0)], ends[1]: [(10, 0), (20, 40), (30, 60), (40, 0)]}


def test_what_is_chosen_is_what_there_is(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    chosen = ("--gpus", "1-2", "--iterations", "1", "--port", "leaf0->host1", "-o", str(folder / "trace.json.gz"))
    events = trace(folder, *chosen)["traceEvents"]
    check_format(events)
    assert {event["pid"] - FIRST_GPU_PID for event in events if event["pid"] != FABRIC_PID} == {1, 2}
    tasks = [event for event in events if "task" in event.get("args", ())]
    assert len(tasks) == 2 * 5 and {event["args"]["iteration"] for event in tasks} == {1}
    assert {event["name"] for event in events if event["ph"] == "C"} <= {"queue leaf0 -> host1"}
    none = trace(folder, "--no-flows")["traceEvents"]
    assert not [event for event in none if event.get("cat") == "message"]


def test_a_trace_is_as_small_as_asked_for_and_keeps_the_longest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    longest = (0, 0, "optimizer", 50 * US, 99 * US)
    folder = make_folder(tmp_path / "run", STAR, RESULT, FLOWS, [*TASKS, longest])
    events = trace(folder, "--most", "7")["traceEvents"]
    check_format(events)
    tasks = [event for event in events if "task" in event.get("args", ())]
    assert len(tasks) == 7 and len(TASKS) in [event["args"]["task"] for event in tasks]
    assert sum(event["ph"] == "s" for event in events) == 7
    assert f"their tasks, the longest: 7 of {len(TASKS) + 1}\n" in capsys.readouterr().out


def test_the_same_results_give_the_same_bytes(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    trace(folder)
    first = (folder / "trace.json.gz").read_bytes()
    trace(folder)
    assert (folder / "trace.json.gz").read_bytes() == first
    assert main(["timeline", str(folder), "-o", str(tmp_path / "plain.json")]) == 0
    assert (tmp_path / "plain.json").read_bytes() == gzip.decompress(first)


def test_flows_alone_and_nothing_at_all_have_a_trace(tmp_path: Path) -> None:
    alone = make_folder(tmp_path / "flows", STAR, None, FLOWS)
    assert sum(event["ph"] == "s" for event in trace(alone)["traceEvents"]) == len(FLOWS)
    (alone / "flows.parquet").unlink()
    (alone / "tasks.parquet").unlink()
    assert not [event for event in trace(alone)["traceEvents"] if event["ph"] != "M"]


@pytest.mark.parametrize("text, numbers", [("3", {3}), ("0-2, 7", {0, 1, 2, 7}), ("5-5", {5})])
def test_lists_of_numbers(text: str, numbers: set[int]) -> None:
    assert parse_list(text, "--gpus") == numbers


@pytest.mark.parametrize("text", ["", "a", "3-1", "-2", "1,,2", "0-99999999999"])
def test_what_is_no_list_of_numbers_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--gpus: found"):
        parse_list(text, "--gpus")


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--gpus", "4"], "--gpus: found 4. Accepted: 0 to 3"),
        (["--port", "leaf0 -> gpu9"], '--port: no port is called "leaf0 -> gpu9"'),
        (["--most", "0"], "--most: found 0"),
        (["-o", "/nowhere/trace.json"], "/nowhere/trace.json: cannot be written"),
    ],
)
def test_bad_choices_are_one_message_and_status_2(
    tmp_path: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["timeline", str(folder_of(tmp_path)), *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
