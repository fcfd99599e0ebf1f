"""What is kept of an assembly when its run is saved, or when LPs change ranks and another one is made."""

from typing import Any

import numpy as np

from models.network.checkpoint.saved_fast_forward import save_alike
from models.network.flow_mode.audit_state import load_audit, save_audit
from models.network.flow_mode.saved import load_flow, save_flow
from models.network.model import NetworkModel
from models.network.state.owners import Owners
from pdes.simulation.assemble import Assembly


def hidden_head(model: NetworkModel) -> np.ndarray | None:
    """Where the first packets of frozen ports' links are, if anything can be frozen."""
    return None if model.fast_forward is None else model.fast_forward.link_head


def save_observers(assembly: Assembly) -> dict[str, Any]:
    """What this rank has seen and will go on from."""
    parts, sampler, watch = assembly.parts, assembly.sampler, assembly.watch
    return {
        "parts": None if parts is None else parts.save(),
        "sampler": None if sampler is None else sampler.save(),
        "watch": None if watch is None else watch.save(assembly.model.state),
    }


def save_alike_of(assembly: Assembly) -> dict[str, Any]:
    """What all ranks have alike."""
    fast = assembly.model.fast_forward
    return {
        "iterations": None if assembly.iterations is None else assembly.iterations.save(),
        "repeats": None if assembly.repeats is None else assembly.repeats.save(),
        "stall": None if assembly.stall is None else assembly.stall.save(),
        "fast": None if fast is None else save_alike(fast),
        "flow": None if assembly.model.flow is None else save_flow(assembly.model.flow),
        "audit": None if assembly.model.audit is None else save_audit(assembly.model.audit),
    }


def load_observers(
    assembly: Assembly, owns: list[dict[str, Any]], alike: dict[str, Any], messages: tuple[np.ndarray, np.ndarray],
    is_here: np.ndarray,
) -> None:  # fmt: skip
    """Go on from what all ranks' `save_observers` have. messages: of all ranks, see `pairs_of_messages`."""
    model = assembly.model
    owners = Owners.of(assembly.scenario.topology, model.state)
    if assembly.parts is not None:
        flows, pairs = messages
        receivers = dict(zip(flows.tolist(), owners.pair_receives[pairs].tolist(), strict=True))
        assembly.parts.load([own["parts"] for own in owns], is_here, receivers)
    if assembly.sampler is not None:
        sends_here = is_here[owners.pair_sends][model.pairs.row_of_pair]
        assembly.sampler.load([own["sampler"] for own in owns], sends_here)
    if assembly.watch is not None:
        assembly.watch.load([own["watch"] for own in owns], model.state)
    if assembly.iterations is not None:
        assembly.iterations.load(alike["iterations"])
    if assembly.repeats is not None:
        assembly.repeats.load(alike["repeats"])
    if assembly.stall is not None:
        assembly.stall.load(alike["stall"])
    if model.flow is not None:
        model.flow = load_flow(model.flow, alike["flow"])
    if model.audit is not None:
        model.audit = load_audit(model.audit, alike["audit"])
