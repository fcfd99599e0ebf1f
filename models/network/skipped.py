"""What hosts and ports were spared, by what spared them it; a rank's own part."""

from dataclasses import dataclass

import numpy as np

from models.network.build import NetworkState
from models.network.state import ACK_BYTES, HEADER_BYTES, PAYLOAD_BYTES

CAUSES: tuple[str, ...] = ("steady", "memo", "memo_file", "follower")
"""Why something was skipped: it had settled; an entry of this run said what it comes to; one of an earlier run did; it
followed another network partition that was simulated at the same time."""
BITS_PER_BYTE, PS_PER_S = 8, 10**12


@dataclass
class Skipped:
    """What this rank's hosts and ports were spared."""

    hops_by_cause: dict[str, int]  # packet-hops
    flow_ps_by_cause: dict[str, int]  # time of all queue pairs together
    port_bytes: np.ndarray  # int64[n_port]
    port_ps: np.ndarray  # int64[n_port]  that they would have been busy, at the rates of the run's end

    @property
    def packet_hops(self) -> int:
        """Of all causes."""
        return sum(self.hops_by_cause.values())


class Tally:
    """Counts what queue pairs have got done without being simulated."""

    def __init__(self, n_pair: int, node_is_here: np.ndarray, sends_here: np.ndarray) -> None:
        """node_is_here: uint8[n_node]. sends_here: bool[n_port], ports of this rank's nodes."""
        self._packets = np.zeros((len(CAUSES), n_pair), np.int64)
        self._flow_ps = [0] * len(CAUSES)
        self._here, self._sends_here = node_is_here, sends_here

    def add(self, cause: str, pairs: np.ndarray, packets: np.ndarray, source: np.ndarray, time_ps: int) -> None:
        """Count packets of each queue pair, in a time. source: their nodes."""
        i = CAUSES.index(cause)
        self._packets[i, pairs] += packets
        self._flow_ps[i] += time_ps * int(self._here[source].sum())

    def skipped(self, state: NetworkState) -> Skipped:
        """What it comes to on the ways of the queue pairs."""
        constants, path, packets = state.fabric.constants, state.fabric.path_port, self._packets.sum(axis=0)
        sizes = (int(constants[PAYLOAD_BYTES] + constants[HEADER_BYTES]), int(constants[ACK_BYTES]))
        rate_bps, hops = state.fabric.port_info["rate_bps"], np.zeros(len(CAUSES), np.int64)
        port_bytes, port_ps = (np.zeros(len(rate_bps), np.int64) for _ in range(2))
        for pair in np.flatnonzero(packets).tolist():
            record = state.nic.queue_pairs[pair]
            for first, size_bytes in zip((record["data_path"], record["ack_path"]), sizes, strict=True):
                ports = path_ports(path, int(first))
                ports = ports[self._sends_here[ports]]
                hops += self._packets[:, pair] * len(ports)
                port_bytes[ports] += int(packets[pair]) * size_bytes
                port_ps[ports] -= int(packets[pair]) * (-size_bytes * BITS_PER_BYTE * PS_PER_S // rate_bps[ports])
        by_cause = dict(zip(CAUSES, hops.tolist(), strict=True))
        return Skipped(by_cause, dict(zip(CAUSES, self._flow_ps, strict=True)), port_bytes, port_ps)


def path_ports(path_port: np.ndarray, first: int) -> np.ndarray:
    """The ports of the path that begins at a row of path_port."""
    end = first
    while path_port[end] >= 0:
        end += 1
    return path_port[first:end].astype(np.int64)
