"""The state of flows and ports where a run was stopped, in words: every rank says what it has, rank 0 prints."""

from collections import Counter
from typing import NamedTuple

import numpy as np

from models.network.build.arrays import NetworkState, is_managed
from models.network.state.pair_records import NO_WINDOW
from models.network.state.records import FLAG_ACK, FLAG_FRAME, N_QUEUE
from models.network.verify.fabric import chain
from pdes.debug.entities import Entities
from pdes.debug.quantities import paused_bits
from pdes.engine.exchange import World
from pdes.engine.time_index import NEVER
from pdes.scenario import Scenario
from pdes.units import format_duration, format_rate, format_size

MOST_FLOWS, MOST_PORTS, MOST_PAIRS = 8, 6, 4


class Message(NamedTuple):
    """One that is not acknowledged yet. pair: row of its queue pair."""

    posted_ps: int
    flow_id: int
    pair: int
    first_byte: int
    end_byte: int


class Picture:
    """One rank's view of a state at a round's end."""

    def __init__(self, scenario: Scenario, state: NetworkState, rank_of_node: np.ndarray, world: World,
                 pair_of_row: np.ndarray) -> None:  # fmt: skip
        self._scenario, self._state, self._world, self._pair_of_row = scenario, state, world, pair_of_row
        self._topology, self._has_queues = scenario.topology, is_managed(scenario.parameters)
        self._here = rank_of_node == world.rank
        self._entities = Entities(scenario.topology, scenario.plan.n_flow)
        mine = self._here[self._topology.port_src]
        queued = np.where(mine, state.fabric.ports["queued_bytes"], 0).astype(np.int64)
        paused = np.array([self._paused(port) if mine[port] else 0 for port in range(len(mine))], np.int64)
        self._queued = np.sum(world.allgather(queued), axis=0)
        self._is_paused = np.sum(world.allgather(paused), axis=0) > 0
        self._messages = self._find_messages()

    def lines(self, flows: list[int] | None, ports: list[int] | None) -> list[str]:
        """On rank 0; [] elsewhere. None: those that have waited longest, and those where most waits."""
        everything = [message for part in self._world.allgather(self._messages) for message in part]
        if flows is None:
            flows = list(dict.fromkeys(message.flow_id for message in sorted(everything)))[:MOST_FLOWS]
        if ports is None:
            order = np.lexsort((np.arange(len(self._queued)), -self._queued))[:MOST_PORTS]
            ports = [port for port in order.tolist() if self._queued[port] > 0 or self._is_paused[port]]
        own = {("flow", flow): self._flow(flow) for flow in flows} | {
            ("port", port): self._port(port) for port in ports
        }
        parts = self._world.gather(own)
        if parts is None:
            return []
        found = [f"{len(everything)} messages under way, {int((self._queued > 0).sum())} ports with packets waiting, "
                 f"{int(self._is_paused.sum())} paused"]  # fmt: skip
        for key in own:
            texts = [line for part in parts for line in part[key]]
            found += texts or ([f"flow {key[1]}: not under way"] if key[0] == "flow" else [])
        return found

    def _find_messages(self) -> list[Message]:
        nic, found = self._state.nic, []
        for pair in nic.sends[nic.queue_pairs["first_message"][nic.sends] >= 0].tolist():
            place = int(nic.queue_pairs["first_message"][pair])
            while place >= 0:
                item = nic.messages[place]
                end = int(item["end_byte"])
                found.append(
                    Message(int(item["posted_ps"]), int(item["flow_id"]), pair, end - int(item["size_bytes"]), end)
                )
                place = int(item["next"])
        return found

    def _flow(self, flow: int) -> list[str]:
        """Of the sender's rank: what its messages and queue pairs are at."""
        found = []
        for message in (m for m in self._messages if m.flow_id == flow):
            record, size = self._state.nic.queue_pairs[message.pair], message.end_byte - message.first_byte
            done = {
                name: min(max(int(record[name]) - message.first_byte, 0), size) for name in ("high_byte", "acked_byte")
            }
            window, is_frozen = int(record["window_bytes"]), self._state.nic.is_frozen[message.pair]
            found += [
                f"flow {flow}, {self._ends(message.pair)}: {format_size(size)} posted at "
                f"{format_duration(message.posted_ps, 6)}; sent {format_size(done['high_byte'])}, acknowledged "
                f"{format_size(done['acked_byte'])}",
                f"  rate {format_rate(int(record['rate_bps']))}, "
                f"window {'none' if window >= NO_WINDOW else format_size(window)}, of the queue pair in flight "
                f"{format_size(max(int(record['next_byte'] - record['acked_byte']), 0))}"
                f"{_timeout(int(record['deadline_ps']))}{', frozen' if is_frozen else ''}",
                f"  way {self._way(int(record['data_path']))}",
            ]  # fmt: skip
        return found

    def _way(self, at: int) -> str:
        t, path, words = self._topology, self._state.fabric.path_port, []
        while path[at] >= 0:
            port = int(path[at])
            waiting = f" [{format_size(int(self._queued[port]))} wait]" if self._queued[port] else ""
            words.append(f"{self._entities.port_name(port)}{waiting}{' [paused]' if self._is_paused[port] else ''}")
            last, at = t.node_name[t.port_dst[port]], at + 1
        if path[at] < -1:
            return " ".join([*words, "then as switches choose"])
        return " ".join([*words, last])

    def _ends(self, pair: int) -> str:
        t, plan, number = self._topology, self._scenario.plan, int(self._pair_of_row[pair])
        src, dst = (t.node_name[t.host[ends[number]]] for ends in (plan.pair_src, plan.pair_dst))
        return f"{src} -> {dst}, queue pair {number}"

    def _paused(self, port: int) -> int:
        at_switch = bool(self._topology.is_switch[self._topology.port_src[port]])
        return paused_bits(self._state, at_switch, self._has_queues, port)

    def _port(self, port: int) -> list[str]:
        t, record = self._topology, self._state.fabric.ports[port]
        if not self._here[t.port_src[port]]:
            return []
        chains, packets = self._waiting(port), self._state.fabric.packets
        n_data = sum(1 for place in chains if not packets["bits"][place] & (FLAG_ACK | FLAG_FRAME))
        others = f", {len(chains) - n_data} ACKs and frames wait too" if len(chains) > n_data else ""
        found = [
            f"port {self._entities.port_text(port)}, {format_rate(int(t.port_rate_bps[port]))}: "
            f"{format_size(int(record['queued_bytes']))} wait in {n_data} data packets"
            f"{others}; the most so far {format_size(int(record['max_queued_bytes']))}; "
            f"{'paused' if self._paused(port) else 'not paused'}; sent {format_size(int(record['tx_bytes']))}; "
            f"next idle at {format_duration(int(record['free_at_ps']), 6)}"
        ]  # fmt: skip
        of_pair = Counter(
            int(packets["queue_pair"][place]) for place in chains if not packets["bits"][place] & FLAG_FRAME
        )
        for pair, n_packet in sorted(of_pair.items(), key=lambda item: (-item[1], item[0]))[:MOST_PAIRS]:
            found.append(f"  {n_packet} packets of {self._ends(pair)}")
        if len(of_pair) > MOST_PAIRS:
            found.append(f"  and those of {len(of_pair) - MOST_PAIRS} more queue pairs")
        return found

    def _waiting(self, port: int) -> list[int]:
        """Packets that wait at a switch's port."""
        state, t = self._state, self._topology
        if not t.is_switch[t.port_src[port]]:
            heads = [int(state.fabric.ports["ack_head"][port])]
        elif self._has_queues:
            n_queue = int(state.fabric.constants[N_QUEUE])
            queues = state.buffers.queues["head"][port * n_queue : (port + 1) * n_queue]
            heads = [int(state.buffers.managed["frame_head"][port]), *queues.tolist()]
        else:
            heads = [int(state.fabric.ports[name][port]) for name in ("ack_head", "data_head")]
        following = state.fabric.packets["next"].tolist()
        return [place for head in heads for place in chain(head, following, {}, "a queue")]


def _timeout(deadline_ps: int) -> str:
    return "" if deadline_ps >= NEVER else f", timeout at {format_duration(deadline_ps, 6)}"
