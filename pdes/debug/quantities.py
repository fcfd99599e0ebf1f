"""What a condition asks for, from the state of the ranks at a round's end: whole numbers, the same on every rank."""

from collections.abc import Sequence

import numpy as np

from models.network.build.arrays import NetworkState, is_managed
from models.network.state.records import HAS_BUFFER
from pdes.debug.conditions import QUANTITIES, WHERE, Quantity
from pdes.debug.entities import Entities
from pdes.debug.flows import FlowFinder, FlowState
from pdes.engine.exchange import World
from pdes.errors import ConfigError
from pdes.scenario import Scenario

_FLOW_FIELDS = {
    "flow.size": "size_bytes", "flow.sent": "sent_bytes", "flow.acked": "acked_bytes", "flow.in_flight":
    "in_flight_bytes", "flow.rate": "rate_bps", "flow.window": "window_bytes", "flow.started": "is_started",
    "flow.finished": "is_finished",
}  # fmt: skip


def resolve(scenario: Scenario, quantities: Sequence[Quantity]) -> dict[Quantity, int]:
    """The ids of what they are about, 0 if of nothing. Raises ConfigError."""
    entities, found = Entities(scenario.topology, scenario.plan.n_flow), {}
    find = {"port": entities.port, "switch": entities.switch, "flow": entities.flow}
    for quantity in quantities:
        kind = QUANTITIES[quantity.name][0]
        found[quantity] = find[kind](quantity.entity, f"{WHERE} {quantity}") if kind else 0
        if quantity.name == "buffer" and not scenario.config.network.buffer.is_limited:
            raise ConfigError(f"{WHERE} {quantity}", "the buffer is unlimited", "Accepted: with [network.buffer] size")
    return found


class Meter:
    """One rank's part: what it has of each quantity; ranks add up."""

    def __init__(self, scenario: Scenario, rank_of_node: np.ndarray, world: World, ids: dict[Quantity, int]) -> None:
        self._topology, self._world, self._ids = scenario.topology, world, ids
        self._here, self._is_managed = rank_of_node == world.rank, is_managed(scenario.parameters)
        flows = {number for quantity, number in ids.items() if QUANTITIES[quantity.name][0] == "flow"}
        self._finders = {number: FlowFinder(number) for number in sorted(flows)}

    def read(self, state: NetworkState, horizon_ps: int) -> dict[Quantity, int]:
        """All of them, on every rank; collective."""
        flows = {number: finder.look(state) for number, finder in self._finders.items()}
        own = [self._own(quantity, number, state, flows) for quantity, number in self._ids.items()]
        total = np.sum(np.array(self._world.allgather(own), dtype=object), axis=0).tolist()
        found = dict(zip(self._ids, total, strict=True))
        return found | {quantity: horizon_ps for quantity in found if quantity.name == "time"}

    def _own(self, quantity: Quantity, number: int, state: NetworkState, flows: dict[int, FlowState]) -> int:
        if quantity.name in _FLOW_FIELDS:
            return int(getattr(flows[number], _FLOW_FIELDS[quantity.name]))
        if quantity.name == "flows":
            pairs = state.nic.queue_pairs
            return int((pairs["acked_byte"] < pairs["posted_end"]).sum())
        if quantity.name == "drops":  # a lost packet counts at the rank of its receiver
            return int(state.buffers.drops[number].sum())
        if quantity.name == "buffer":
            is_here = self._here[number] and state.fabric.constants[HAS_BUFFER]
            return int(state.buffers.switches["shared_bytes"][number]) if is_here else 0
        return self._of_port(quantity.name, number, state) if self._here[self._topology.port_src[number]] else 0

    def _of_port(self, name: str, port: int, state: NetworkState) -> int:
        record, egress = state.fabric.ports[port], state.buffers.egress
        if name == "queue":
            return int(record["queued_bytes"])
        if name == "max_queue":
            return max(int(record["max_queued_bytes"]), int(egress["earlier_max_bytes"][port]))
        if name == "tx":
            return int(record["tx_bytes"])
        is_at_switch = bool(self._topology.is_switch[self._topology.port_src[port]])
        return paused_bits(state, is_at_switch, self._is_managed, port).bit_count()


def paused_bits(state: NetworkState, is_at_switch: bool, has_queues: bool, port: int) -> int:
    """Bit q: PFC has paused queue q of a port. has_queues: the switches are managed ones."""
    if is_at_switch:
        return int(state.buffers.managed["paused"][port]) if has_queues else 0
    return int(state.nic.nic_ports["paused"][port])
