"""Which data meets acknowledgements of others: what flow level leaves out of the network, and what slows it down."""

from typing import NamedTuple

import numpy as np

from pdes.engine.jit import loop_kernel

ROUNDING = 0.998
NEARLY_FULL = 0.92  # of a port: with more on it, acknowledgements of others slow its data down


class Slowdown(NamedTuple):
    """What acknowledgements do to data that shares a port with them, one for each of its packets."""

    share: float  # bytes of an acknowledgement over those of a data packet
    line_ps: np.ndarray  # float64[n_flow], of a byte of payload, alone on the slowest port of its way
    leaves_room: bool = False  # whether a control that has a port to itself leaves a part of it free, as HPCC does

    def times(self, flow: int, size: int, span_ps: int, was_loaded: bool, is_loaded: bool) -> float:
        """By how much longer a flow takes for size bytes that took span_ps if the load was another then.

        Who leaves a port room for acknowledgements is not slowed down. Who fills it shares it by packets, and who
        fills it up to a target, as HPCC, counts them towards that.
        """
        if was_loaded == is_loaded or size * self.line_ps[flow] * (1 + self.share) < NEARLY_FULL * span_ps:
            return 1.0
        return 1 + self.share if is_loaded else 1 / (1 + self.share)

    def may_be_alone(self, flow: int, size: int, span_ps: float) -> bool:
        """Whether a flow may have taken so long for size bytes, had nothing crossed its way: not if that is less than
        the line takes. Then what crossed it, and was left out of its time, was less than one acknowledgement for each
        packet."""
        return span_ps > ROUNDING * size * self.line_ps[flow]


@loop_kernel
def _update(old, new, data_ways, all_ways, is_sending, n_flow, is_changed, changed):
    """Count flows that begin or end to send at the ports of their acknowledgements; how many are written to changed.

    old, new: int64[], flows. data_ways, all_ways: see `AckLoad`. is_sending: uint8[n_flow]. n_flow: int32[n_port], of
    flows whose acknowledgements cross it. is_changed: uint8[n_port], zeros, left as they were. changed: int32[n_port],
    ports where none or the first crosses.
    """
    (data_start, data_port), (all_start, all_port), n_changed = data_ways, all_ways, 0
    for i in range(new.size):
        is_sending[np.uint64(new[i])] += 2
    for k in range(2):
        flows = old if k == 0 else new
        for i in range(flows.size):
            flow = np.uint64(flows[i])
            if is_sending[flow] != 1 + k:  # 1: was, 2: is, 3: both
                continue
            for at in range(all_start[flow], all_start[flow + np.uint64(1)]):
                port = all_port[at]
                is_data = False
                for j in range(data_start[flow], data_start[flow + np.uint64(1)]):
                    is_data |= data_port[j] == port
                if is_data:
                    continue
                before = n_flow[np.uint64(port)]
                n_flow[np.uint64(port)] = before - 1 if k == 0 else before + 1
                if before == 1 - k and is_changed[np.uint64(port)] == 0:
                    is_changed[np.uint64(port)] = 1
                    changed[np.uint64(n_changed)] = port
                    n_changed += 1
    for i in range(old.size):
        is_sending[np.uint64(old[i])] = 0
    for i in range(new.size):
        is_sending[np.uint64(new[i])] = 1
    for i in range(n_changed):
        is_changed[np.uint64(changed[np.uint64(i)])] = 0
    return n_changed


@loop_kernel
def _meets(flows, start, port_of, n_flow, out):
    """Write whether a port of each flow's way has somebody's acknowledgements."""
    for i in range(flows.size):
        found = False
        for at in range(start[flows[i]], start[flows[i] + 1]):
            found |= n_flow[np.uint64(port_of[at])] > 0
        out[i] = found


class AckLoad:
    """Ports that acknowledgements of some flows cross; alike on every rank."""

    def __init__(
        self, data_ways: tuple[np.ndarray, np.ndarray], all_ways: tuple[np.ndarray, np.ndarray], n_port: int
    ) -> None:
        """data_ways: ports of flow f are data_ways[1][data_ways[0][f] : data_ways[0][f + 1]]; all_ways: with those of
        its acknowledgements."""
        self._data, self._all = data_ways, all_ways
        self._flows = np.zeros(0, np.int64)
        self._is_sending = np.zeros(len(data_ways[0]) - 1, np.uint8)
        self.n_flow = np.zeros(n_port, np.int32)
        self._is_changed, self._changed = np.zeros(n_port, np.uint8), np.zeros(n_port, np.int32)

    def compile(self) -> None:
        """Compile what counts, or load it from the cache."""
        self.update(self._flows)
        self.meets(self._flows[:0])

    def update(self, flows: np.ndarray) -> np.ndarray:
        """These flows send now, each named once; int64[], ports that some acknowledgements cross now and none did, or
        the other way round."""
        n = _update(
            self._flows, flows, self._data, self._all, self._is_sending, self.n_flow, self._is_changed, self._changed
        )
        self._flows = flows.copy()
        return self._changed[:n].astype(np.int64)

    def meets(self, flows: np.ndarray) -> np.ndarray:
        """bool[n]: whose data meets acknowledgements."""
        found = np.zeros(len(flows), np.bool_)
        _meets(flows, *self._data, self.n_flow, found)
        return found


class AckLoads:
    """The same of all flows whose packets are in the network; alike on every rank."""

    def __init__(
        self, data_ways: tuple[np.ndarray, np.ndarray], all_ways: tuple[np.ndarray, np.ndarray], n_port: int
    ) -> None:
        """See `AckLoad`."""
        self.simulated, self._frozen = (AckLoad(data_ways, all_ways, n_port) for _ in range(2))

    def compile(self) -> None:
        """Compile what counts, or load it from the cache."""
        self.simulated.compile()

    def update(self, simulated: np.ndarray, frozen: np.ndarray) -> np.ndarray:
        """These flows send now; ports where acknowledgements begin or cease."""
        return np.concatenate([self.simulated.update(simulated), self._frozen.update(frozen)])

    def n_flow(self, ports: np.ndarray) -> np.ndarray:
        """int32[n]: flows whose acknowledgements cross ports."""
        return self.simulated.n_flow[ports] + self._frozen.n_flow[ports]
