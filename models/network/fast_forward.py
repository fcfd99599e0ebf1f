"""Fast-forwarding of the packet network: what is asked of it, and what happens to it, at decision instants.

Every rank gathers what its active queue pairs have got done, all ranks decide alike (`pdes.wormhole`), and each freezes
and thaws its own part (`freeze`).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from models.network.build import NetworkState, QueuePairs, is_managed
from models.network.freeze import Hidden, hide, show
from models.network.parameters import NetworkParameters
from models.network.progress import N_COLUMN, sample_pairs
from models.network.state import ACK_BYTES, HEADER_BYTES, N_INTERRUPT, PAYLOAD_BYTES
from models.topology.graph import Topology
from pdes.engine.exchange import World
from pdes.engine.time_index import NEVER
from pdes.wormhole.controller import Controller, Counters, Freeze, compile_partitions
from pdes.wormhole.steady import Settings

if TYPE_CHECKING:
    from models.network.model import NetworkModel


@dataclass
class Skipped:
    """What this rank's hosts and ports were spared."""

    packet_hops: int
    flow_ps: int  # time of all queue pairs together
    port_bytes: np.ndarray  # int64[n_port]


class FastForward:
    """One rank's part: an object that looks at decision instants, and may change the state there."""

    def __init__(
        self, topology: Topology, pairs: QueuePairs, controller: Controller, world: World, here: np.ndarray,
        moving_words: tuple[list[int], list[int]], control_words: list[int], is_managed: bool,
    ) -> None:  # fmt: skip
        self._controller, self._world, self._pairs = controller, world, pairs
        n_pair = len(pairs.pair_of_row)
        self._rows = np.zeros((n_pair, N_COLUMN + len(control_words)), np.int64)
        self._control_word = np.array(control_words, np.int64)
        self._hidden = Hidden(
            link_head=np.full(topology.n_port, -1, np.int32),
            port_src=topology.port_src.astype(np.int64),
            is_managed=np.array([is_managed], np.int64),
            here=here.astype(np.uint8),
            time_word=np.array(moving_words[0], np.int64),
            byte_word=np.array(moving_words[1], np.int64),
            advance_bytes=np.zeros(n_pair, np.int64),
        )
        self._sends_here = here[topology.port_src]
        self.skipped = Skipped(0, 0, np.zeros(topology.n_port, np.int64))
        self.limit_ps = NEVER

    @property
    def counters(self) -> Counters:
        """What was decided, the same on every rank."""
        return self._controller.counters

    @property
    def link_head(self) -> np.ndarray:
        """int32[n_port]: the first packet on each frozen port's link, for `verify_network`."""
        return self._hidden.link_head

    def compile(self, state: NetworkState) -> None:
        """Compile what a look needs, or load it from the cache. Nothing is active yet."""
        none = np.zeros(0, np.int64)
        hide(state.fabric, state.buffers, state.nic, self._hidden, none, none)
        show(state.fabric, state.buffers, state.nic, self._hidden, none, none, 0)
        sample_pairs(state.fabric, state.nic, self._hidden.here, self._control_word, self._rows)
        compile_partitions()

    def look(self, state: NetworkState, horizon_ps: int) -> int:
        """Thaw what has to be thawed, freeze what is steady; the instant of the next look."""
        interrupts = self._take_interrupts(state)
        for freeze, at_ps in self._controller.ends(horizon_ps, interrupts):
            self._thaw(state, freeze, at_ps)
        if horizon_ps >= self._controller.next_look_ps:
            self._decide(state, horizon_ps)
        self.limit_ps = self._controller.first_end_ps
        return min(self._controller.next_look_ps, self.limit_ps)

    def _decide(self, state: NetworkState, horizon_ps: int) -> None:
        n_row = sample_pairs(state.fabric, state.nic, self._hidden.here, self._control_word, self._rows)
        rows = np.concatenate(self._world.allgather(self._rows[:n_row]))
        if self._world.size > 1:
            rows = rows[np.argsort(rows[:, 0], kind="stable")]
        for freeze in self._controller.decide(horizon_ps, rows):
            self._freeze(state, freeze)

    @property
    def next_look_ps(self) -> int:
        """When it wants to look."""
        return min(self._controller.next_look_ps, self._controller.first_end_ps)

    def _take_interrupts(self, state: NetworkState) -> dict[int, int]:
        """Queue pairs of all ranks that met frozen ports, with the instants; nobody is stopped any more."""
        nic, counters = state.nic, state.fabric.counters
        rows = nic.interrupted[: counters[N_INTERRUPT]].astype(np.int64)
        own = dict(zip(rows.tolist(), nic.interrupt_ps[rows].tolist(), strict=True))
        nic.interrupt_ps[rows] = NEVER
        counters[N_INTERRUPT] = 0
        state.fabric.is_stopped[:] = 0
        return {pair: at_ps for part in self._world.allgather(own) for pair, at_ps in part.items()}

    def _freeze(self, state: NetworkState, freeze: Freeze) -> None:
        hide(state.fabric, state.buffers, state.nic, self._hidden, freeze.pairs, freeze.ports)

    def _thaw(self, state: NetworkState, freeze: Freeze, at_ps: int) -> None:
        """Let a frozen partition go on as if it had run on from the freeze, by whole periods up to at_ps."""
        fabric, nic = state.fabric, state.nic
        shift_ps, packets, marked = freeze.progress(at_ps)
        payload = int(fabric.constants[PAYLOAD_BYTES])
        self._hidden.advance_bytes[freeze.pairs] = packets * payload
        show(fabric, state.buffers, nic, self._hidden, freeze.pairs, freeze.ports, shift_ps)
        nic.queue_pairs["n_marked"][freeze.pairs] += marked.astype(np.int32)
        self._count(state, freeze.pairs, packets)
        self.skipped.flow_ps += shift_ps * int(self._hidden.here[nic.queue_pairs["node"][freeze.pairs]].sum())

    def _count(self, state: NetworkState, pairs: np.ndarray, packets: np.ndarray) -> None:
        """Hops and bytes that the skipped packets would have made on this rank's ports."""
        constants, path = state.fabric.constants, state.fabric.path_port
        sizes = (int(constants[PAYLOAD_BYTES] + constants[HEADER_BYTES]), int(constants[ACK_BYTES]))
        for pair, n_packet in zip(pairs.tolist(), packets.tolist(), strict=True):
            record = state.nic.queue_pairs[pair]
            for first, size_bytes in zip((record["data_path"], record["ack_path"]), sizes, strict=True):
                ports = path_ports(path, int(first))
                ports = ports[self._sends_here[ports]]
                self.skipped.packet_hops += n_packet * len(ports)
                self.skipped.port_bytes[ports] += n_packet * size_bytes


def make_fast_forward(
    topology: Topology, model: "NetworkModel", parameters: NetworkParameters, world: World, base_rtt_ps: int,
    stop_ps: int | None,
) -> FastForward | None:  # fmt: skip
    """The part of one rank; None where nothing can be skipped, see `why_not`. base_rtt_ps: the longest of any pair."""
    words = parameters.law.moving_words
    if words is None or why_not(parameters):
        return None
    pairs = model.pairs
    start, port_of = _ports_of_pairs(pairs)
    settings = Settings(2 * base_rtt_ps, parameters.payload_bytes)
    floats = parameters.law.float_words
    known_ps = sorted({change.time_ps for change in parameters.link_changes} | ({stop_ps} if stop_ps else set()))
    n_kept = (len(floats), len(words[1]))
    controller = Controller(start, port_of, topology.n_port, settings, n_kept, np.array(known_ps, np.int64))
    here = model.rank_of_node == world.rank
    return FastForward(topology, pairs, controller, world, here, words, floats + words[1], is_managed(parameters))


def _ports_of_pairs(pairs: QueuePairs) -> tuple[np.ndarray, np.ndarray]:
    """(int64[n_pair + 1], int32[]): the ports of each queue pair's way and of its ACKs', by row."""
    begin = pairs.path_start[0:-1:2][pairs.pair_of_row]
    length = pairs.path_start[2::2][pairs.pair_of_row] - begin  # with the end marks of both ways
    slots = np.arange(int(length.sum())) + np.repeat(begin - (np.cumsum(length) - length), length)
    port_of = pairs.path_port[slots]
    start = np.concatenate([[0], np.cumsum(length - 2)])
    return start.astype(np.int64), port_of[port_of >= 0].astype(np.int32)


def why_not(parameters: NetworkParameters) -> str:
    """Why nothing of a network can be skipped, "" if it can."""
    if parameters.law.moving_words is None:
        return f"{parameters.law.name} does not say what of its state are `times` and `sequences`"
    if parameters.ns3 is not None:
        return "ns-3's times and telemetry wrap around"
    return "switches choose the ways of packets" if parameters.routing is not None else ""


def path_ports(path_port: np.ndarray, first: int) -> np.ndarray:
    """The ports of the path that begins at a row of path_port."""
    end = first
    while path_port[end] >= 0:
        end += 1
    return path_port[first:end].astype(np.int64)
