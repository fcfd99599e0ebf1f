"""What results say of PFC: queues that wait for each other in a circle, and ports that were paused for too long."""

from collections.abc import Mapping, Sequence
from typing import Any

from pdes.results.active import active_time_ps
from pdes.results.tables import Columns
from pdes.units import format_duration

STORM_SHARE = 0.5
STORM_PS = 10**9
SHOWN = 5


def deadlock_text(deadlock: Mapping[str, Any]) -> str:
    """A deadlock in words. deadlock: {"time_ps", "circle": [{"port", "priority", "queue_bytes"}]}."""
    queues = [f"{queue['port']} priority {queue['priority']}" for queue in deadlock["circle"]]
    circle = ", which waits for ".join([*queues[1:], queues[0]])
    return f"PFC deadlock at {format_duration(deadlock['time_ps'], 4)}: {queues[0]} waits for {circle}"


def find_storms(ports: Columns, active_ps: int, names: Sequence[str]) -> list[dict[str, Any]]:
    """Ports that were paused for more than half of the time in which something happened and at least 1 ms, by id.

    ports: columns port_id, node, peer, paused_ps of the ports table, node and peer as indices into names. active_ps:
    that time.
    """
    least_ps = max(STORM_PS, int(active_ps * STORM_SHARE) + 1)
    return [
        {
            "port_id": int(ports["port_id"][row]),
            "port": f"{names[int(ports['node'][row])]}->{names[int(ports['peer'][row])]}",
            "paused_ps": int(ports["paused_ps"][row]),
        }
        for row in (ports["paused_ps"] >= least_ps).nonzero()[0]
    ]


def pause_warnings(result: Mapping[str, Any]) -> list[str]:
    """Lines for the summary from result.json, [] if all is well."""
    lines = [f"Warning: {deadlock_text(deadlock)}" for deadlock in result.get("pfc_deadlock", [])[:SHOWN]]
    storms = sorted(result.get("pfc_storm", []), key=lambda storm: (-storm["paused_ps"], storm["port_id"]))
    if storms:
        total_ps = active_time_ps(result)
        shown = [f"{storm['port']} {100 * storm['paused_ps'] / total_ps:.0f} %" for storm in storms[:SHOWN]]
        more = f", and {len(storms) - SHOWN} more" if len(storms) > SHOWN else ""
        lines.append(f"Warning: PFC storm: paused for more than half of the time: {', '.join(shown)}{more}")
    return lines
