"""What the guard of speed says of made-up rates, what it keeps of them, and one short run of its own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import speed_guard

ROOT = Path(__file__).resolve().parents[2]


def test_bounds_of_a_median_are_those_of_the_sign_test() -> None:
    """Ranks from the binomial table: 5 of 5 even where that is 94 %, 2 to 8 of 9 (96 %), 4 to 12 of 15 (96 %)."""
    for n, low, high in ((1, 1, 1), (2, 1, 2), (5, 1, 5), (6, 1, 6), (9, 2, 8), (12, 3, 10), (15, 4, 12)):
        assert speed_guard.median_bounds(range(n, 0, -1)) == (low, high)


def runs(*sets: list[float]) -> list[list[speed_guard.Run]]:
    """Of 1000 packet-hops, at rates by set and pair."""
    return [[(1000, 1000 / rate) for rate in pairs] for pairs in sets]


@given(st.lists(st.lists(st.floats(0.1, 10), min_size=3, max_size=3), min_size=1, max_size=20))
def test_the_ratio_is_between_its_bounds(rates: list[list[float]]) -> None:
    found = speed_guard.compare(runs(*rates), runs(*[[1.0] * 3] * len(rates)))
    assert found["least"] <= found["low"] <= found["ratio"] <= found["high"] <= found["largest"]


def test_ratios_are_of_pairs_whatever_the_hour() -> None:
    found = speed_guard.compare(runs([10e6, 40e6, 22e6]), runs([20e6, 80e6, 40e6]))  # four times as fast for a while
    assert [found[name] for name in speed_guard.SPREAD] == [0.5, 0.5, 0.5, 0.5, 0.55]
    assert (found["this_per_s"], found["older_per_s"], found["pairs"]) == (22e6, 40e6, 3)


def test_processes_that_differ_make_the_bounds_wide_however_steady_each_is() -> None:
    found = speed_guard.compare(runs(*([rate] * 3 for rate in (1.0, 1.04, 1.1))), runs(*[[1.0] * 3] * 3))
    assert [found[name] for name in speed_guard.SPREAD] == [1.04, 1, 1, 1.1, 1.1]
    assert (found["sets"], found["pairs"]) == (3, 9)


@pytest.mark.parametrize(("high", "lost"), [(1.0, False), (0.94, False), (0.9312, False), (0.93, True)])
def test_a_loss_is_more_than_2_percent_beyond_both_spreads(high: float, lost: bool) -> None:
    assert speed_guard.has_lost({"high": high, "ratio": 0.9}, {"low": 0.95, "ratio": 1.0}) == lost


class MadeUp:
    """A version with given rates by case, that knows no HPCC if it is not this one."""

    def __init__(self, name: str, tree: Path, folder: Path, n_rank: int = 1) -> None:
        self.name, self.n_rank, self.is_this = name, n_rank, name == "working tree"
        self.asked: list[tuple[str, int | None]] = []
        MADE.append(self)

    def ask(self, config: str, overrides: Sequence[str], stop_ps: int | None) -> dict[str, Any]:
        self.asked.append((config, stop_ps))
        TURNS.append((self.name, config))
        if not self.is_this and ("hpcc" in config or "hpcc" in str(overrides)):
            return {"cannot": f"{config}: 2 faults\n  {config}: hpcc is unknown\n  and more"}
        hops = 1000 if self.is_this or "k16" not in config else 999
        return {"hops": hops, "seconds": 1e-3 / (SPEED if self.is_this else 1)}

    def end(self) -> None:
        ENDED.append(self.name)


SPEED = 1.0
MADE: list[MadeUp] = []
TURNS: list[tuple[str, str]] = []
ENDED: list[str] = []


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable:
    """Call the program on made-up versions of which this one is `speed` times as fast: (status, printed, JSON)."""
    for made in (MADE, TURNS, ENDED):
        made.clear()
    monkeypatch.setattr(speed_guard, "Version", MadeUp)
    monkeypatch.setattr(speed_guard, "ROOT", tmp_path)
    monkeypatch.setattr(speed_guard, "ACCEPTED", tmp_path / "accepted.json")
    monkeypatch.setattr(speed_guard, "git", lambda *_: b"1234567\n")

    def program(speed: float, *words: str) -> tuple[int, str, dict[str, Any]]:
        monkeypatch.setattr(sys.modules[__name__], "SPEED", speed)
        monkeypatch.setattr("sys.argv", ["speed_guard.py", *words])
        status = speed_guard.main()
        text = capsys.readouterr().out
        return status, text, json.loads(text.splitlines()[-1])

    return program


def kept_here(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "accepted.json").read_text())[speed_guard.place_of(speed_guard.machine())]


def test_what_was_accepted_is_what_later_runs_are_held_to(call: Callable, tmp_path: Path) -> None:
    status, _, figures = call(1.25, "--against", "this", "--accept")
    assert status == 0 and figures["accepted"]
    kept = kept_here(tmp_path)["this"]["1"]
    assert sorted(kept) == ["gpt7b-dctcp", "k16", "k8"]  # those that the older version can run
    assert kept["k8"]["ratio"] == 1.25 and kept["k8"]["version"] == "1234567" and kept["k8"]["cores"] >= 1
    status, text, figures = call(1.23, "--against", "this")
    assert status == 0 and figures["lost"] == [] and "LOST" not in text
    status, text, figures = call(1.22, "--against", "this")
    assert status == 1 and figures["lost"] == [f"{name} against this" for name in ("k8", "k16", "gpt7b-dctcp")]
    assert text.count("LOST") == 3 and "1234567, " in text and "nothing on" not in text


def test_accepting_some_cases_keeps_the_others(call: Callable, tmp_path: Path) -> None:
    call(2.0, "--against", "this", "--accept")
    assert call(1.0, "--against", "this", "--cases", "k8", "--accept")[0] == 0
    kept = kept_here(tmp_path)["this"]["1"]
    assert (kept["k8"]["ratio"], kept["gpt7b-dctcp"]["ratio"]) == (1, 2)


def test_a_ratio_of_another_machine_is_named_and_nothing_is_held_to_it(call: Callable, tmp_path: Path) -> None:
    call(2.0, "--against", "this", "--accept")
    file = tmp_path / "accepted.json"
    file.write_text(json.dumps({"another, 64 cores": kept_here(tmp_path)}))
    status, text, figures = call(1.0, "--against", "this")
    assert status == 0 and figures["lost"] == [] and "; there are ratios of another, 64 cores" in text
    call(1.0, "--against", "this", "--accept")
    assert set(json.loads(file.read_text())) == {"another, 64 cores", speed_guard.place_of(speed_guard.machine())}


def test_other_work_and_what_cannot_be_run_are_said_and_no_error(call: Callable) -> None:
    status, text, figures = call(1.5, "--against", "this", "--sets", "4")
    assert status == 0
    rows = figures["against"]["this"]
    assert rows["k8-hpcc"] == {"cannot": "k8-hpcc: hpcc is unknown"} and "cannot run it: k8-hpcc: hpcc is unk" in text
    assert rows["k8"]["same_work"] is True and rows["k16"]["same_work"] is False and text.count("other work") == 1
    assert rows["k16"]["ratio"] == pytest.approx(1.5 * 1000 / 999, abs=1e-4) and rows["k16"]["pairs"] == 12
    assert ENDED == ["this", "working tree"] * 4  # new processes for each set


def test_versions_take_turns_and_training_stops_early(call: Callable) -> None:
    call(1.0, "--against", "this", "--sets", "1")
    warm_up, stop = speed_guard.WARM_UP_PS, speed_guard.STOP_PS
    assert [name for name, config in TURNS if config.endswith("k8/config.toml")] == [
        *("working tree", "this"), *("working tree", "this"), *("this", "working tree"),
        *("working tree", "this"),
    ]  # fmt: skip
    for made in MADE:
        assert [until for config, until in made.asked if config.endswith("k8/config.toml")] == [warm_up, *[None] * 3]
        gpt = [until for config, until in made.asked if config == speed_guard.GPT]
        # of HPCC, which the older one does not know, the first alone, and for the older one again: why
        assert gpt == [warm_up] * (2 if made.is_this else 3) + [stop] * 3


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--ranks", "1000"], "--ranks: found 1000. Accepted: 1 to "),
        (["--sets", "0"], "--sets: found 0. Accepted: 1 or more"),
        (["--quick", "--accept"], "--accept: not with --quick"),
    ],
)
def test_what_cannot_be_asked_for_is_said(words: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        speed_guard.parse(words)
    assert ended.value.code == 2 and expected in capsys.readouterr().err


def test_unknown_cases_are_said(call: Callable) -> None:
    with pytest.raises(SystemExit, match="--cases: found k32, x. Accepted: k8, k16, "):
        call(1.0, "--against", "this", "--cases", "k8,k32,x")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_leaves_nothing(number: int, status: int, tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "bench" / "speed_guard.py"), "--quick"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell ignores in the background
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    signal.signal(signal.SIGINT, before)
    assert process.stdout is not None
    while not process.stdout.readline().startswith("set 1"):  # both versions have been started
        assert process.poll() is None
    workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(workers) == 2 and len(list(tmp_path.iterdir())) == 1
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == status and list(tmp_path.iterdir()) == []
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)


@pytest.mark.slow
@pytest.mark.parametrize("n_rank", [1, 2])
def test_a_quick_run_compares_this_version_with_itself(n_rank: int) -> None:
    if n_rank > len(os.sched_getaffinity(0)):
        pytest.skip("two ranks take turns on one core, and the guard refuses that")
    command = [sys.executable, str(ROOT / "bench" / "speed_guard.py"), "--quick", "--ranks", str(n_rank)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    rows = figures["against"]["this"]
    assert len(rows) == 6 and all(row["same_work"] and row["hops"] > 1000 for row in rows.values())
    assert ("wall time of 2 ranks" in done.stdout) == (n_rank == 2)
