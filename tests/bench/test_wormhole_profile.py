"""The profile of a fast-forwarded loop: every part has its time, and together they are the loop's."""

import subprocess
import sys
from pathlib import Path

import pytest
import wormhole_profile

from pdes.config import load_config
from pdes.engine.exchange import World
from pdes.simulation.job import Run
from pdes.simulation.preparation.prepare import prepare

CONFIG = """\
[topology]
kind = "roft"
gpus = 16
[workload]
kind = "collectives"
[[workload.collective]]
name = "ring"
operation = "all-reduce"
size = "8MB"
gpus = [0, 8]
[wormhole]
mode = "{mode}"
[output]
dir = "{folder}"
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "ring.toml"
    path.write_text(CONFIG.format(mode="exact", folder=tmp_path / "results"))
    return path


@pytest.mark.slow
def test_parts_add_up_to_the_loop_and_each_has_its_share(config: Path, tmp_path: Path) -> None:
    figures = wormhole_profile.measure(wormhole_profile.parse(["--config", str(config), "--pairs", "1"]))
    seconds = figures["seconds"]
    assert sum(seconds.values()) == pytest.approx(figures["timed_loop_seconds"])
    assert all(value >= 0 for value in seconds.values())
    assert 0 < figures["calls"]["sampling"] < figures["looks"]  # the others have found nothing, in compiled code
    assert 0 < figures["bookkeeping_share_of_run"] < figures["bookkeeping_share"]
    assert seconds[wormhole_profile.PACKETS] > 0 < seconds["sampling"]
    packets_s = seconds[wormhole_profile.PACKETS] + seconds[wormhole_profile.EXCHANGE]
    assert figures["timed_bookkeeping_share"] == pytest.approx(1 - packets_s / figures["timed_loop_seconds"])
    assert 0 < figures["bookkeeping_share"] < 1 and len(figures["bookkeeping_share_all"]) == 1


def test_time_is_counted_once_where_parts_call_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([0, 10, 25, 100])  # outer begins, inner begins and ends, outer ends
    monkeypatch.setattr(wormhole_profile, "perf_counter_ns", lambda: next(ticks))
    clocks = wormhole_profile.Clocks()
    inner = clocks.timed("inner", lambda: "found")
    assert clocks.timed("outer", inner)() == "found"
    assert dict(clocks.own_ns) == {"inner": 15, "outer": 85} and dict(clocks.calls) == {"inner": 1, "outer": 1}


def test_everything_is_as_it_was_once_the_clocks_are_gone(config: Path) -> None:
    before = [getattr(owner, name) for functions in wormhole_profile.PARTS.values() for owner, name in functions]
    run = Run(prepare(load_config(config), quiet=True), World())
    with wormhole_profile.clocks_of(run):
        pass
    run.rows.close()
    run.folder.abandon()
    after = [getattr(owner, name) for functions in wormhole_profile.PARTS.values() for owner, name in functions]
    assert before == after


@pytest.mark.parametrize(("argument", "expected"), [("--pairs=0", "Accepted: 1 or more"), ("--set=a=1", "a")])
def test_bad_input_is_one_message(argument: str, expected: str, config: Path) -> None:
    script = [sys.executable, wormhole_profile.__file__, "--config", str(config), argument]
    done = subprocess.run(script, capture_output=True, text=True)
    assert done.returncode == 2 and expected in done.stderr and "Traceback" not in done.stderr
