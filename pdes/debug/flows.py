"""Where a flow is in its queue pairs' streams: found at round ends, as messages come and go inside the kernels."""

from typing import NamedTuple

from models.network.build.arrays import NetworkState
from models.network.state.pair_records import NO_WINDOW
from models.network.state.records import N_FLOW_ROW


class Part(NamedTuple):
    """A message of a flow: all of it, or what one of several queue pairs has. pair: row of the queue pair."""

    pair: int
    first_byte: int
    end_byte: int


class FlowState(NamedTuple):
    """What a rank knows of a flow, added up over its parts; zeros where the flow is not sent."""

    size_bytes: int = 0
    sent_bytes: int = 0
    acked_bytes: int = 0
    rate_bps: int = 0
    window_bytes: int = 0
    is_started: int = 0
    is_finished: int = 0

    @property
    def in_flight_bytes(self) -> int:
        return self.sent_bytes - self.acked_bytes


class FlowFinder:
    """One flow on one rank. Only the rank of the flow's source ever finds it."""

    def __init__(self, flow_id: int) -> None:
        self._flow_id = flow_id
        self.parts: dict[int, Part] = {}  # by queue pair
        self._ended_bytes: dict[int, int] = {}  # by queue pair: of parts that came and went within one round

    def look(self, state: NetworkState) -> FlowState:
        """The flow at a round's end. Call it at every one, so that nothing is missed."""
        self._find(state)
        if not self.parts and not self._ended_bytes:
            return FlowState()
        size = sent = acked = rate_bps = window_bytes = 0
        for part in self.parts.values():
            record, part_bytes = state.nic.queue_pairs[part.pair], part.end_byte - part.first_byte
            size += part_bytes
            sent += min(max(int(record["high_byte"]) - part.first_byte, 0), part_bytes)
            acked += min(max(int(record["acked_byte"]) - part.first_byte, 0), part_bytes)
            if record["acked_byte"] < part.end_byte:
                rate_bps += int(record["rate_bps"])
                window_bytes += int(record["window_bytes"]) if record["window_bytes"] < NO_WINDOW else 0
        gone = sum(self._ended_bytes.values())
        return FlowState(size + gone, sent + gone, acked + gone, rate_bps, window_bytes, 1, int(acked == size))

    def _find(self, state: NetworkState) -> None:
        nic = state.nic
        is_it = (nic.messages["flow_id"] == self._flow_id) & (nic.messages["size_bytes"] > 0)
        pairs = nic.sends[: len(nic.sends) if is_it.any() else 0]
        pairs = pairs[nic.queue_pairs["first_message"][pairs] >= 0]
        places = nic.queue_pairs["first_message"][pairs]  # a freed message keeps its flow: only chains tell
        while len(pairs):
            for pair, place in zip(pairs[is_it[places]].tolist(), places[is_it[places]].tolist(), strict=True):
                end, size_bytes = (int(nic.messages[name][place]) for name in ("end_byte", "size_bytes"))
                self.parts[pair] = Part(pair, end - size_bytes, end)
            places = nic.messages["next"][places]
            pairs, places = pairs[places >= 0], places[places >= 0]
        rows = state.rows.flow[: int(state.fabric.counters[N_FLOW_ROW])]
        for row in rows[rows[:, 0] == self._flow_id].tolist():
            if row[1] not in self.parts:
                self._ended_bytes[row[1]] = row[2]
