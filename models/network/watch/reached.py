"""How far a run is that skips: packet-hops that are done by an instant, with those of skips that have not ended."""

import numpy as np

from models.network.model import NetworkModel
from models.network.state.records import ACK_EVERY, N_FROZEN_PORT, PACKET_HOPS, PAYLOAD_BYTES
from pdes.skipping import history as h
from pdes.skipping.frozen import Freeze
from pdes.skipping.replay.memo import Replay
from pdes.skipping.similar.wave_entries import WaveReplay


class Reached:
    """Of a model on one rank, with fast-forwarding."""

    def __init__(self, model: NetworkModel) -> None:
        self._model = model
        pairs, constants = model.pairs, model.state.fabric.constants
        data, acks = (np.diff(pairs.path_start)[way::2][pairs.pair_of_row] - 1 for way in (0, 1))
        self._hops = data + acks / max(1, int(constants[ACK_EVERY]))  # of a packet and its acknowledgement
        self._payload = int(constants[PAYLOAD_BYTES])

    @property
    def is_skipping(self) -> bool:
        """Whether anything is skipped right now."""
        state = self._model.state
        return bool(state.fabric.counters[N_FROZEN_PORT]) or bool(state.nic.fluid["n_withdrawn"].any())

    def hops(self, now_ps: int) -> float:
        """Packet-hops by an instant: a round's end, or a little later."""
        model, fast = self._model, self._model.fast_forward
        found = float(model.state.fabric.counters[PACKET_HOPS])
        if fast is None:
            return found
        found += fast.hops_so_far(model.state)
        found += sum(self._of(frozen, now_ps) for frozen in fast.frozen())
        found += sum(self._of_wave(replay, now_ps) for replay in (fast.waves.replayed if fast.waves else []))
        if fast.fluid is not None:  # whose messages count as a whole from the beginning on
            level = fast.fluid.fluid.level
            there = level.there
            found -= float((level.left_bytes(there, now_ps) / self._payload) @ self._hops[there])
        return found

    def _of(self, frozen: Freeze | Replay, now_ps: int) -> float:
        """Of what is frozen, since it is."""
        if isinstance(frozen, Freeze):
            return float(frozen.progress(now_ps)[1] @ self._hops[frozen.pairs])
        if frozen.entry is None:
            return 0.0
        share = (now_ps - frozen.begin_ps) / max(frozen.entry.duration_ps, 1)
        packets = np.tile(frozen.entry.done_bytes, frozen.n_member) / self._payload
        return share * float(packets @ self._hops[frozen.pairs])

    def _of_wave(self, replay: WaveReplay, now_ps: int) -> float:
        """Of a wave that is not simulated, since it is not."""
        base, _ = replay.state_at(now_ps, now_ps, self._payload)
        return float(((base - replay.of.rows[:, h.DONE]) / self._payload) @ self._hops[replay.pairs])
