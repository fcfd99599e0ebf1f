"""What went wrong in the network, in one line: drops by cause, timeouts, pauses. In `result.json` under "network"."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pdes.units import format_count, format_duration

CAUSES = {"buffer": "full buffers", "loss": "random loss", "link": "links that were down"}


def count_trouble(ports: Mapping[str, np.ndarray], n_timeout: int) -> dict[str, Any]:
    """Totals over the columns of the ports table. n_timeout: retransmission timeouts of all queue pairs."""
    return {
        "drops": {cause: int(ports[f"drops_{cause}"].sum()) for cause in CAUSES},
        "retransmission_timeouts": n_timeout,
        "pause_frames": int(ports["pause_frames"].sum()),
        "paused_ps": int(ports["paused_ps"].sum()),
        "ecn_marks": int(ports["ecn_marks"].sum()),
    }


def trouble_text(result: Mapping[str, Any]) -> str:
    """The line of the summary, "" if nothing was dropped, timed out or paused. result: as in result.json."""
    network = result.get("network", {})
    dropped = {CAUSES[cause]: n for cause, n in network.get("drops", {}).items() if n}
    parts = []
    if dropped:
        causes = ", ".join(f"{format_count(n)} by {cause}" for cause, n in dropped.items())
        parts.append(f"{format_count(sum(dropped.values()))} packets lost ({causes})")
    if network.get("retransmission_timeouts"):
        parts.append(f"{format_count(network['retransmission_timeouts'])} retransmission timeouts")
    if network.get("pause_frames"):
        paused = format_duration(network["paused_ps"], 3)
        parts.append(f"{format_count(network['pause_frames'])} PFC pauses, ports stood {paused} in all")
    return f"Network: {'; '.join(parts)}" if parts else ""
