"""Packet-hops per second of one core for each congestion control and each feature of the switch.

    python bench/congestion_speed.py [--quick] [--repeats N]

The k=8 fat-tree permutation of `packet_hops.py` (ns-3's case h), 4 MB flows. All cases run in turn, several times over,
so that a machine that others use too slows all of them alike; the ratio is the median over the turns of the case's rate
by that of "dctcp" in the same turn. Time is the process's own on its core. Set-up and compiling are not counted; every
run asserts its packet-hops, so that none is fast because it is wrong.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cases import fat_tree_permutation, make_model, print_last
from models.congestion import dctcp
from models.network.state.records import PACKET_HOPS
from pdes.engine.exchange import World
from pdes.engine.round import run_rounds
from pdes.scenario import Scenario

MY_CC = Path(__file__).resolve().parent.parent / "examples" / "my_cc.py"
# The lowest of 8 strict classes waits for more than the 1 ms after which a sender gives its packets up for lost.
BUFFER = {"buffer": {"size": "auto"}, "transport": {"timeout": "64ms"}}
NO_PFC = {"pfc": {"enabled": False}}
TARGET = "hpcc, PFC, 8 classes, INT"
TARGET_RATE = 15e6  # issue 3


@dataclass(frozen=True)
class Case:
    """name; [network]; classes in use; change: what to do to the scenario that a config cannot say."""

    name: str
    network: dict[str, Any]
    n_priority: int = 1
    change: Callable[[Scenario], Scenario] = lambda scenario: scenario


def managed(scenario: Scenario) -> Scenario:
    """The same with a queue that no packet uses: enough for the switch that knows buffers, pauses and classes."""
    return replace(scenario, parameters=replace(scenario.parameters, n_queue=3))


def cases(folder: Path) -> list[Case]:
    """All cases; "dctcp" is the first."""
    copy = folder / "copy_of_dctcp.py"
    copy.write_text(Path(dctcp.__file__).read_text())
    other = ("dcqcn", "hpcc", "hpcc-pint", "timely", "swift", "nscc", "fixed-window", "none")
    return [
        Case("dctcp", {}),
        *(Case(name, {"congestion_control": name}) for name in other),
        Case("dctcp as a user's file", {"congestion_control": f"{copy}:Dctcp"}),
        Case("examples/my_cc.py", {"congestion_control": f"{MY_CC}:Aimd"}),
        Case("dctcp, managed switch", {}, 1, managed),
        Case("dctcp, buffer", BUFFER | NO_PFC),
        Case("dctcp, buffer, PFC", BUFFER),
        Case("dctcp, buffer, PFC, 8 classes", BUFFER, 8),
        Case("hpcc, PFC", BUFFER | {"congestion_control": "hpcc"}),
        Case(TARGET, BUFFER | {"congestion_control": "hpcc"}, 8),
    ]


def run(scenario: Scenario) -> float:
    """Packet-hops per second of one run."""
    model, loop = make_model(scenario, World())
    begin_s = time.process_time()  # of this process alone: others may want the core too
    run_rounds(model, loop, model.exchange)
    elapsed_s = time.process_time() - begin_s
    state = model.state
    hops, n_pause = int(state.fabric.counters[PACKET_HOPS]), int(state.buffers.egress["n_pause"].sum())
    expected = int(scenario.port_hops.sum())
    assert hops == expected, f"{hops} packet-hops, expected {expected}"
    assert state.buffers.drops.sum() == 0 and n_pause == 0, "the case is meant to have neither drops nor pauses"
    return hops / elapsed_s


def main() -> None:
    """Run all cases in turn; print a table and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="1 MB flows, two turns")
    parser.add_argument("--repeats", type=int, help="turns (default 5)")
    arguments = parser.parse_args()
    size_bytes = 1_000_000 if arguments.quick else 4_000_000
    n_turn = arguments.repeats or (2 if arguments.quick else 5)
    rates: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        made = {}
        for case in cases(Path(folder)):
            for size in (10_000, size_bytes):  # the first one compiles
                tables = {"network": case.network}
                made[case.name] = case.change(fat_tree_permutation(8, size, None, case.n_priority, **tables))
                if size < size_bytes:
                    run(made[case.name])
        for _ in range(n_turn):
            for name, scenario in made.items():
                rates.setdefault(name, []).append(run(scenario))
    hops = {name: int(scenario.port_hops.sum()) for name, scenario in made.items()}
    print(f"k=8, 128 hosts, {size_bytes:,} bytes a flow, {n_turn} turns\n")
    print(f"{'case':<32} {'M packet-hops/s':>16} {'best':>7} {'ns/hop':>7} {'of dctcp':>9} {'hops':>12}")
    ratio = {}
    for name, found in rates.items():
        ratio[name] = statistics.median(a / b for a, b in zip(found, rates["dctcp"], strict=True))
        middle = statistics.median(found)
        print(
            f"{name:<32} {middle / 1e6:>16.1f} {max(found) / 1e6:>7.1f} {1e9 / middle:>7.1f} {ratio[name]:>9.2f} "
            f"{hops[name]:>12,}"
        )
    own = "dctcp as a user's file"
    print(f"\na user's file runs at {ratio[own]:.2f} of the same control built in")
    verdict = "holds" if max(rates[TARGET]) >= TARGET_RATE else "DOES NOT HOLD"
    print(f"{TARGET}: at least {TARGET_RATE / 1e6:.0f} M packet-hops/s: {verdict}")
    print_last({
        "packet_hops_per_second": {name: statistics.median(found) for name, found in rates.items()},
        "of_dctcp": ratio, "user_to_built_in": ratio[own], "target": statistics.median(rates[TARGET]),
    })  # fmt: skip


if __name__ == "__main__":
    main()
