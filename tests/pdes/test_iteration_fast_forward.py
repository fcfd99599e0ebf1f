"""Claims about `[wormhole] iteration_repeats`: what repeats is extrapolated, what does not is simulated."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import pdes
from pdes.cli import main
from pdes.config import Config, load_config
from pdes.errors import ConfigError

# Contention at the gradients' all-reduces decides how iterations differ: with hidden = 256 they settle within eight,
# with 512 longer and shorter ones take turns, by 1.5 %, and with DCQCN they scatter.
CONFIG = """\
[topology]
kind = "roft"
gpus = 16
[workload]
kind = "training"
[workload.model]
layers = 2
hidden = 256
vocabulary = 1024
sequence = 256
[workload.parallel]
tp = 4
dp = 2
pp = 2
"""
TABLES = ("flows.parquet", "tasks.parquet", "ports.parquet")


@pytest.fixture
def simulate(tmp_path: Path):
    """simulate(name, "table.key=value", ...): run CONFIG into the folder `name`, and return its result.json."""
    (tmp_path / "config.toml").write_text(CONFIG)

    def run(name: str, *sets: str) -> dict[str, Any]:
        out = tmp_path / name
        pdes.simulate(load_config(tmp_path / "config.toml", [*sets, f'output.dir="{out}"']))
        assert not (out / ".work").exists()
        return json.loads((out / "result.json").read_text())

    return run


def iterations(n: int) -> str:
    return f"simulation.iterations={n}"


ON, ALTERNATING = "wormhole.mode=exact", "workload.model.hidden=512"


def same_tables(one: Path, other: Path) -> bool:
    return all((one / name).read_bytes() == (other / name).read_bytes() for name in TABLES)


def test_a_thousand_iterations_cost_what_is_needed_to_see_that_they_repeat(tmp_path: Path, simulate) -> None:
    """The tables are those of a run that was told how many there are; times go on to the thousandth."""
    result = simulate("thousand", iterations(1000), ON)
    facts, times_ps = result["fast_forward"], result["iteration_time_ps"]
    n = facts["iterations_simulated"]
    assert 4 <= n <= 10 and facts["iterations_extrapolated"] == 1000 - n and len(times_ps) == 1000
    assert 0 < facts["iteration_error_bound"] <= 0.001 and facts["iteration_cycle"] == 1
    few = simulate("few", iterations(n))
    assert "fast_forward" not in few
    assert same_tables(tmp_path / "thousand", tmp_path / "few")
    tasks = pq.read_table(tmp_path / "thousand" / "tasks.parquet")
    assert set(tasks["iteration"].to_pylist()) == set(range(n)) and tasks["end_ps"].null_count == 0
    assert times_ps[:n] == few["iteration_time_ps"]
    for name in ("flows", "flows_finished", "tasks", "events", "packet_hops"):
        assert result[name] == few[name]
    (each_ps,) = set(times_ps[n:])
    k = max(3, (n - 1) // 2)  # the last half of those that were done, while one more was under way
    assert times_ps[n - 1 - k : n - 1] != [each_ps] * k
    assert each_ps == sum(times_ps[n - 1 - k : n - 1]) // k
    assert result["simulated_time_ps"] == few["simulated_time_ps"] + (1000 - n) * each_ps
    assert facts["extrapolated_time_ps"] == (1000 - n) * each_ps


def test_the_extrapolated_total_is_the_full_runs_within_the_tolerance(simulate) -> None:
    full, fast = simulate("full", iterations(12)), simulate("fast", iterations(12), ON)
    assert 1 <= fast["fast_forward"]["iterations_extrapolated"] <= 8 and len(fast["iteration_time_ps"]) == 12
    n = fast["fast_forward"]["iterations_simulated"]
    # The one under way at the decision is the last: the others' next iteration no longer competes with it.
    assert fast["iteration_time_ps"][: n - 1] == full["iteration_time_ps"][: n - 1]
    for total in (lambda r: sum(r["iteration_time_ps"]), lambda r: r["simulated_time_ps"]):
        assert total(fast) == pytest.approx(total(full), rel=0.001)


def test_iterations_that_take_turns_are_extrapolated_in_pairs(simulate) -> None:
    full, fast = simulate("full", iterations(24), ALTERNATING), simulate("fast", iterations(24), ALTERNATING, ON)
    times_ps, facts = fast["iteration_time_ps"], fast["fast_forward"]
    assert 6 < facts["iterations_simulated"] < 12 and facts["iteration_cycle"] == 2
    assert 0.01 < times_ps[2] / times_ps[3] - 1 < 0.02  # no mean of three would be one of four
    (each_ps,) = set(times_ps[facts["iterations_simulated"] :])
    rest = full["iteration_time_ps"][facts["iterations_simulated"] :]
    assert 0 < facts["iteration_error_bound"] <= 0.001 and each_ps == pytest.approx(sum(rest) / len(rest), rel=0.001)
    assert sum(times_ps) == pytest.approx(sum(full["iteration_time_ps"]), rel=0.001)


def test_iterations_that_scatter_are_all_simulated(tmp_path: Path, simulate) -> None:
    scatter = ("network.congestion_control=dcqcn", "workload.model.hidden=512")
    full, fast = simulate("full", iterations(12), *scatter), simulate("fast", iterations(12), *scatter, ON)
    assert same_tables(tmp_path / "full", tmp_path / "fast")
    facts = fast.pop("fast_forward")
    expected = {"iterations_simulated": 12, "iterations_extrapolated": 0, "extrapolated_time_ps": 0}
    assert {name: facts[name] for name in expected} == expected and facts["freezes"] == 0
    assert facts["iteration_error_bound"] > 0.001
    assert full.pop("config") != fast.pop("config")
    for name in ("logical_processes", "lookahead_ps"):  # with fast-forwarding servers are whole
        del full[name], fast[name]
    assert full == fast
    loose = simulate("loose", iterations(12), *scatter, ON, "wormhole.iteration_tolerance=0.2")
    assert loose["fast_forward"]["iterations_simulated"] < 12
    assert sum(loose["iteration_time_ps"]) == pytest.approx(sum(full["iteration_time_ps"]), rel=0.2)


@pytest.mark.parametrize(
    "sets", [(), (ON, "wormhole.iteration_repeats=0"), ("wormhole.iteration_repeats=1",), (ON, iterations(3))]
)
def test_it_is_on_only_with_a_mode_and_more_iterations_than_must_agree(sets: tuple[str, ...], simulate) -> None:
    result = simulate("out", iterations(6), *sets)
    n = result["config"]["simulation"]["iterations"]
    assert len(result["iteration_time_ps"]) == n == result["flows"] // 64
    assert result.get("fast_forward", {}).get("iterations_extrapolated", 0) == 0


def test_a_stop_time_ends_what_is_extrapolated_too(tmp_path: Path, simulate) -> None:
    whole = simulate("whole", iterations(1000), ON)
    times_ps, n = whole["iteration_time_ps"], whole["fast_forward"]["iterations_simulated"]
    ends_ps = np.cumsum(times_ps).tolist()

    def stopped(name: str, stop_ps: int) -> dict[str, Any]:
        result = simulate(name, iterations(1000), ON, f"simulation.stop_time={stop_ps}ps")
        assert result["simulated_time_ps"] <= stop_ps
        assert result["iteration_time_ps"] == times_ps[: sum(end_ps <= stop_ps for end_ps in ends_ps)]
        return result

    late = stopped("late", ends_ps[499] + 1)
    assert late["simulated_time_ps"] == ends_ps[499] + 1 and len(late["iteration_time_ps"]) == 500
    assert same_tables(tmp_path / "whole", tmp_path / "late")
    draining = stopped("draining", ends_ps[n - 1] - 1)  # decided, but what has begun does not end any more
    assert draining["fast_forward"]["iterations_extrapolated"] == 0
    assert draining["flows"] == whole["flows"] > draining["flows_finished"]
    early = stopped("early", ends_ps[1] + 1)
    assert early["fast_forward"]["iteration_error_bound"] is None and early["flows"] == 64_000


def test_rows_that_are_left_out_need_neither_disk_nor_memory(tmp_path: Path, simulate, monkeypatch) -> None:
    """A million iterations would need 5.6 GB for the flows alone; the disk has 10 MB."""
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10**7))
    result = simulate("out", iterations(10**6), ON, "wormhole.iteration_tolerance=0.02")
    assert result["flows"] == pq.read_table(tmp_path / "out" / "flows.parquet").num_rows == 5 * 64
    assert result["fast_forward"]["iterations_extrapolated"] == 10**6 - 5


def test_collectives_repeat_as_well(tmp_path: Path) -> None:
    config = (
        '[topology]\nkind = "fat-tree"\nk = 4\n[workload]\nkind = "collectives"\n[[workload.collective]]\nname = "a"\n'
        'operation = "all-reduce"\nsize = "160kB"\n[simulation]\niterations = 500\n'
        '[wormhole]\nmode = "exact"\niteration_repeats = 4\niteration_tolerance = 0.02\n'
    )
    (tmp_path / "config.toml").write_text(config + f'[output]\ndir = "{tmp_path / "out"}"\n')
    pdes.simulate(load_config(tmp_path / "config.toml"))
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    n = result["fast_forward"]["iterations_simulated"]
    assert n < 12 and n + result["fast_forward"]["iterations_extrapolated"] == 500
    assert result["flows"] == n * 16 * 30 and result["iteration_time_ps"] == []
    each_ps = result["fast_forward"]["extrapolated_time_ps"] // (500 - n)
    assert each_ps * 500 == pytest.approx(result["simulated_time_ps"], rel=0.01)


def test_people_are_told(tmp_path: Path, simulate, capsys) -> None:
    simulate("out", iterations(1000), ON)
    n = json.loads((tmp_path / "out" / "result.json").read_text())["fast_forward"]["iterations_simulated"]
    assert main(["report", str(tmp_path / "out")]) == 0
    text = capsys.readouterr().out
    assert (
        f"Iterations: {n} of 1,000 simulated, {1000 - n} extrapolated from the last of them, their mean to about 0.0"
        in text
    )
    assert f"Iteration {n - 1}, mean over 16 GPUs" in text and ", extrapolated to 22" in text
    sets = ["--set", iterations(1000), "--set", ON]
    assert main(["plan", str(tmp_path / "config.toml"), *sets]) == 0
    expected = "1,000 at most: 3 or more that say the mean of the rest to 0.1 % stand for it; below, all count"
    assert expected in capsys.readouterr().out
    assert main(["plan", str(tmp_path / "config.toml"), *sets[:2]]) == 0
    assert "at most" not in capsys.readouterr().out


def wormhole(tmp_path: Path, keys: str) -> Config:
    (tmp_path / "keys.toml").write_text(CONFIG + f"[wormhole]\n{keys}\n")
    return load_config(tmp_path / "keys.toml")


def test_the_keys_have_defaults_and_are_off_with_the_mode(tmp_path: Path) -> None:
    plain = wormhole(tmp_path, "").wormhole
    assert (plain.mode, plain.iteration_repeats, plain.iteration_tolerance, plain.n_repeat) == ("off", 3, 0.001, 0)
    for mode in ("exact", "auto"):
        assert wormhole(tmp_path, f'mode = "{mode}"').wormhole.n_repeat == 3
    assert wormhole(tmp_path, 'mode = "exact"\niteration_repeats = 5\niteration_tolerance = 0').wormhole.n_repeat == 5


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ('mode = "on"', r'\[wormhole\] mode: found "on". Accepted: "off", "exact", "auto" or "flow"'),
        ("iteration_repeats = -1", r"\[wormhole\] iteration_repeats: found -1. Accepted: at least 0"),
        ("iteration_repeats = 2.5", r"\[wormhole\] iteration_repeats: found 2.5. Accepted: a whole number"),
        ("iteration_tolerance = -0.1", r"\[wormhole\] iteration_tolerance: found -0.1. Accepted: at least 0"),
        ("iteration_tolerance = 1.5", r"\[wormhole\] iteration_tolerance: found 1.5. Accepted: at most 1"),
        ("iteration_repeat = 2", r'\[wormhole\] iteration_repeat: unknown key. Did you mean "iteration_repeats"'),
    ],
)
def test_faults_name_the_key_and_what_is_accepted(keys: str, expected: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=expected):
        wormhole(tmp_path, keys)
