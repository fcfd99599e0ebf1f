"""Checkpoints beside fast-forwarding: of frozen partitions, followers, waves with their markers, audits, the memo."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mpi import test_criteria_on_ranks as criteria
from mpi import test_fluid_on_ranks as fluid
from mpi import test_iterations_on_ranks as iterations
from mpi import test_repeats_on_ranks as repeats
from mpi import test_reroutes_on_ranks as reroutes
from mpi import test_restoration_on_ranks as restoration
from mpi import test_room_on_ranks as room
from mpi import test_waves_on_ranks as waves
from reference.checkpointed import (
    EVERY_ROUND,
    asked_every,
    asked_while_frozen,
    checkpoints_of,
    different,
    resume,
    rounds_of,
    saved,
    simulate,
)

RINGS = """\
[topology]
kind = "roft"
gpus = 32
[network]
congestion_control = "{control}"
[workload]
kind = "collectives"
[[workload.collective]]
name = "first"
operation = "all-reduce"
size = "12MB"
gpus = [0, 8, 16, 24]
[[workload.collective]]
name = "second"
operation = "all-reduce"
size = "12MB"
gpus = [1, 9, 17, 25]
[[workload.collective]]
name = "comer"
operation = "point-to-point"
size = "100KB"
gpus = [8, 0]
start = "300.123us"
[wormhole]
mode = "exact"
paper.forecasts = {forecasts}
[output]
partitions = true
"""


OLD = RINGS.format(control="dctcp", forecasts="").replace('mode = "exact"\npaper.forecasts = ', 'mode = "full"')


def rings(control: str, *forecasts: str, **wormhole: object) -> Callable[[Path], str]:
    """Two equal rings on two rails, and a message that comes to one of them in its middle."""
    keys = "".join(f"{key} = {json.dumps(value)}\n" for key, value in wormhole.items())
    text = RINGS.format(control=control, forecasts=json.dumps(forecasts))
    return lambda _: text.replace("[wormhole]\n", f"[wormhole]\n{keys}")


def flows(module: object, text: str, **wormhole: str) -> Callable[[Path], str]:
    """A flow list of another test."""

    def make(folder: Path) -> str:
        lines = ["src,dst,size_bytes,start_ps", *(",".join(map(str, row)) for row in module.FLOWS)]
        (folder / "flows.csv").write_text("\n".join(lines) + "\n")
        keys = "".join(f'paper.{key} = "{value}"\n' for key, value in wormhole.items())
        return text.replace("[wormhole]\n", f"[wormhole]\n{keys}")

    return make


MAKERS: dict[str, Callable[[Path], str]] = {
    "rings, hpcc": rings("hpcc", "periodic", "replay"),
    "rings, hpcc-pint": rings("hpcc-pint", "periodic", "replay"),
    "rings, dcqcn": rings("dcqcn", "periodic", "replay"),
    "rings, swift, steady": rings("swift", "periodic"),
    "rings, memo alone": rings("hpcc", "replay"),
    "rings, audited": rings("dctcp", "periodic", audit=0.5),
    "rings, old keys": lambda _: OLD,
    "waves": lambda _: waves.CONFIG,
    "passes": lambda _: repeats.CONFIG,
    "room": flows(room, room.CONFIG.format(host_delay="800ns")),
    "emptied": flows(restoration, restoration.CONFIG.format(control="fixed-window"), restoration="none"),
    "rerouted": flows(reroutes, reroutes.CONFIG),
    "paper": flows(criteria, criteria.CONFIG, criterion="paper", metric="Q"),
    "hygra": flows(criteria, criteria.CONFIG, criterion="hygra"),
}


# Of looks and rounds with something frozen.
EVERY = {"waves": 300, "rerouted": 200, "room": 1, "emptied": 1, "paper": 1, "hygra": 1}


# With a cheaper sibling: waves by what comes back with its markers, the others by the first of the rings.
SLOW = ("waves", "rings, hpcc-pint", "rings, memo alone", "rings, old keys")


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in MAKERS])
def test_a_run_goes_on_from_any_checkpoint_to_the_same_bytes(name: str, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(MAKERS[name](tmp_path))
    simulate(config, tmp_path / "whole")
    taken = tmp_path / "taken"
    for place, asked in (
        (tmp_path / "rounds", asked_every(max(1, rounds_of(tmp_path / "whole") // 5))),
        (taken, asked_while_frozen(EVERY.get(name, 100))),
    ):
        with asked:
            simulate(config, place, *EVERY_ROUND)
        assert different(tmp_path / "whole", place) == []
    found, frozen = checkpoints_of(tmp_path / "rounds"), checkpoints_of(taken)
    assert len(found) > 2 and frozen
    assert all(saved(path, "rank0")["network"]["n_frozen_port"][0] for path in frozen)
    for i, path in enumerate([found[len(found) // 2], frozen[0], frozen[len(frozen) // 2], frozen[-1]]):
        resume(path, tmp_path / str(i))
        assert different(tmp_path / "whole", tmp_path / str(i)) == []


def test_a_wave_that_is_replayed_comes_back_with_its_markers(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(waves.CONFIG)
    simulate(tmp_path / "config.toml", tmp_path / "whole")
    with asked_every(rounds_of(tmp_path / "whole") // 40):
        simulate(tmp_path / "config.toml", tmp_path / "taken", *EVERY_ROUND)
    found = checkpoints_of(tmp_path / "taken")
    replayed = [path for path in found if saved(path, "alike")["fast"]["fast"]["waves"].replayed]
    assert replayed
    resume(replayed[len(replayed) // 2], tmp_path / "again")
    assert different(tmp_path / "whole", tmp_path / "again") == []


def test_messages_at_flow_level_come_back_with_their_markers_and_those_that_are_compared(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(fluid.AUDITED)
    simulate(tmp_path / "config.toml", tmp_path / "whole")
    with asked_every(rounds_of(tmp_path / "whole") // 15):
        simulate(tmp_path / "config.toml", tmp_path / "taken", *EVERY_ROUND)
    found = [path for path in checkpoints_of(tmp_path / "taken") if saved(path, "rank0")["network"]["n_fluid"][0]]
    predicted = [path for path in found if saved(path, "rank0")["network"]["fluid"]["n_withdrawn"].any()]
    predicted = [path for path in predicted if len(saved(path, "alike")["fast"]["fluid"].audit.running)]
    assert predicted
    resume(predicted[len(predicted) // 2], tmp_path / "again")
    assert different(tmp_path / "whole", tmp_path / "again") == []


@pytest.mark.parametrize("make", [fluid.at_flow_level, fluid.over_stages])
def test_messages_at_flow_level_come_back_with_what_has_left_of_them(
    make: Callable[[Path], str], tmp_path: Path
) -> None:  # fmt: skip
    """Also where how they end has been said, and before somebody comes to whom they are broken up."""
    (tmp_path / "config.toml").write_text(make(tmp_path))
    simulate(tmp_path / "config.toml", tmp_path / "whole")
    with asked_every(rounds_of(tmp_path / "whole") // 80):
        simulate(tmp_path / "config.toml", tmp_path / "taken", *EVERY_ROUND)
    assert different(tmp_path / "whole", tmp_path / "taken") == []
    levels = {path: saved(path, "alike")["fast"]["fluid"].level for path in checkpoints_of(tmp_path / "taken")}
    found = [path for path, level in levels.items() if level.n_flow]
    said = [path for path in found if levels[path].table.is_predicted[levels[path].table.n_message > 0].any()]
    assert len(found) > 3 and (said or make is fluid.over_stages)  # there hardly anything happens until all end
    for i, path in enumerate([found[0], found[len(found) // 2], found[-1], *said[:1], *said[-1:]]):
        resume(path, tmp_path / str(i))
        assert different(tmp_path / "whole", tmp_path / str(i)) == []


@pytest.mark.parametrize("sets", [(), pytest.param((iterations.ALTERNATING,), marks=pytest.mark.slow)])
def test_iterations_that_repeat_are_taken_for_the_same_number(sets: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(iterations.CONFIG)
    simulate(tmp_path / "config.toml", tmp_path / "whole", *sets)
    with asked_every(rounds_of(tmp_path / "whole") // 6):
        simulate(tmp_path / "config.toml", tmp_path / "taken", *EVERY_ROUND, *sets)
    for i, path in enumerate(checkpoints_of(tmp_path / "taken")):
        resume(path, tmp_path / str(i))
        assert different(tmp_path / "whole", tmp_path / str(i)) == []


def test_what_was_read_of_a_memo_stays_what_it_was(tmp_path: Path) -> None:
    """The file may have grown by the time that the run goes on; it still gets what the run has found."""
    (tmp_path / "config.toml").write_text(rings("hpcc", "periodic", "replay")(tmp_path))
    memo = f'wormhole.memo="{tmp_path / "memo.bin"}"'
    simulate(tmp_path / "config.toml", tmp_path / "first", memo, "wormhole.audit=0.0")
    known = (tmp_path / "memo.bin").read_bytes()
    simulate(tmp_path / "config.toml", tmp_path / "whole", memo)
    (tmp_path / "memo.bin").write_bytes(known)
    with asked_every(max(1, rounds_of(tmp_path / "whole") // 4)):
        simulate(tmp_path / "config.toml", tmp_path / "taken", *EVERY_ROUND, memo)
    (tmp_path / "memo.bin").unlink()
    resume(checkpoints_of(tmp_path / "taken")[1], tmp_path / "again")
    assert different(tmp_path / "whole", tmp_path / "again") == []
