"""What flow mode keeps, to be saved and taken up again: the same on every rank, whichever hosts it has."""

from typing import Any

import numpy as np

from models.network.flow_mode.state import SHARED_AT, FlowMode

OF_RATES = ("flows", "ports", "places", "place_of", "ends", "moved", "ended_back", "contention", "offers", "phases",
            "words")  # fmt: skip
OF_MESSAGES = ("starts", "sent_bytes", "numbers", "words")
OF_HYBRID = ("goes", "n_packet", "is_shadow", "is_counted", "n_pair", "n_shadow", "shared", "is_shared")
OF_RANK = ("data_link", "ack_link")


def save_flow(flow: FlowMode) -> dict[str, Any]:
    """Copies of it, at a round's end."""
    rates, own = flow.max_min, {name: getattr(flow, name) for name in (*OF_MESSAGES, "transfers", "waiting")}
    found = {f"rates.{name}": getattr(rates, name) for name in OF_RATES} | own
    found |= {f"hybrid.{name}": getattr(flow.hybrid, name) for name in OF_HYBRID}
    return {name: np.ascontiguousarray(array).view(np.ndarray).copy() for name, array in found.items()}


def load_flow(flow: FlowMode, saved: dict[str, Any]) -> FlowMode:
    """Take up what was saved in one that was made of the same scenario."""
    for name in OF_RATES:
        getattr(flow.max_min, name)[:] = saved[f"rates.{name}"]
    for name in OF_MESSAGES:
        getattr(flow, name)[:] = saved[name]
    for name in OF_HYBRID:
        getattr(flow.hybrid, name)[:] = saved[f"hybrid.{name}"]
    flow.words[SHARED_AT] = -1  # ports' rates are to be found again
    for name in saved["transfers"].dtype.names:
        if name not in OF_RANK:
            flow.transfers[name] = saved["transfers"][name]
    waiting = np.zeros(len(saved["waiting"]), flow.waiting.dtype)
    waiting[:] = saved["waiting"]
    return flow._replace(waiting=waiting)
