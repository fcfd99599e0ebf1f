"""What is said of pauses: who waits for whom, and who was paused for too long."""

import numpy as np

from pdes.results.pauses import deadlock_text, find_storms, pause_warnings

MS = 10**9
NAMES = ["leaf0", "spine1", "host2"]


def queue(port: str) -> dict:
    return {"port": port, "priority": 3, "queue_bytes": 1}


def test_a_deadlock_names_every_queue_of_the_circle_and_closes_it() -> None:
    deadlock = {"time_ps": 3 * MS, "circle": [queue("leaf0->spine1"), queue("spine1->leaf2"), queue("leaf2->leaf0")]}
    text = (
        "PFC deadlock at 3 ms: leaf0->spine1 priority 3 waits for spine1->leaf2 priority 3, "
        "which waits for leaf2->leaf0 priority 3, which waits for leaf0->spine1 priority 3"
    )
    assert deadlock_text(deadlock) == text
    assert pause_warnings({"pfc_deadlock": [deadlock], "pfc_storm": []}) == [f"Warning: {text}"]


def storms(paused_ps: list[int], simulated_ps: int) -> list[tuple[str, int]]:
    n = len(paused_ps)
    ports = {"port_id": np.arange(n), "node": np.arange(n) % 2, "peer": np.full(n, 2), "paused_ps": np.array(paused_ps)}
    return [(storm["port"], storm["paused_ps"]) for storm in find_storms(ports, simulated_ps, NAMES)]


def test_a_storm_is_more_than_half_of_the_run_and_at_least_a_millisecond() -> None:
    assert storms([2 * MS, 2 * MS + 1, 0], 4 * MS) == [("spine1->host2", 2 * MS + 1)]
    assert storms([MS - 1, MS], MS) == [("spine1->host2", MS)]
    assert storms([], 4 * MS) == []


def test_the_summary_shows_the_longest_storms_first() -> None:
    found = [{"port_id": i, "port": f"a->b{i}", "paused_ps": (6 + i % 4) * MS} for i in range(8)]
    (line,) = pause_warnings({"pfc_storm": found, "simulated_time_ps": 10 * MS})
    shown = "a->b3 90 %, a->b7 90 %, a->b2 80 %, a->b6 80 %, a->b1 70 %, and 3 more"
    assert line == f"Warning: PFC storm: paused for more than half of the time: {shown}"


def test_results_without_pfc_have_nothing_to_warn_of() -> None:
    assert pause_warnings({"simulated_time_ps": 1}) == []
