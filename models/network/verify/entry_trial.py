"""A trial of the memo's entries that an earlier run has found, each when a network partition first wants it.

Who has written a file cannot be known, and the kernels trust what they load: so each entry is compared with the laws of
`verify_entry` and with what the network partition has now, which is what its key stands for. One that fails is
forgotten, and the partition is simulated as without it. All ranks do the same, as they have the same words.
"""

from collections.abc import Callable

import numpy as np

from models.network.build.arrays import NetworkState
from models.network.skip.memo_states import Found, Member, MemoStates
from models.network.state.parameters import NetworkParameters
from models.network.state.records import MARKER_COLUMN, N_EXTRA, N_QUEUE, TELEMETRY, TELEMETRY_PINT, TELLS_RTT
from models.network.state.ways import path_ports
from models.network.verify.carried import law_words
from models.network.verify.entry import Known, verify_entry
from models.network.verify.entry_words import Shape, read_words
from models.topology.graph import Topology
from pdes.skipping.history import DONE
from pdes.skipping.replay.memo import Fresh, Keys, Memo

Tell = Callable[[bytes, str], None]  # an entry's key, what is wrong with it


class EntryTrial:
    """One rank's; every rank has the same entries, and comes to the same."""

    def __init__(self, memo: Memo, states: MemoStates, topology: Topology, parameters: NetworkParameters, tell: Tell):
        self._memo, self._states, self._topology, self._parameters = memo, states, topology, parameters
        self._tell = tell

    def __call__(self, state: NetworkState, fresh: Fresh, keys: Keys, now_ps: int) -> None:
        """Try the entries of these keys that were not tried yet, on the first network partition of each."""
        first: dict[bytes, int] = {}
        for i, key in enumerate(keys.key):
            if self._memo.is_untried(key):
                first.setdefault(key, i)
        members = [_member(fresh, i) for i in first.values()]
        found = self._states.states(state, members, now_ps)
        for key, member, now in zip(first, members, found, strict=True):
            try:
                verify_entry(self._memo.entries[key], self._known(state, member, now))
            except AssertionError as error:
                self._memo.refuse(key)
                self._tell(key, str(error))
            else:
                self._memo.trust(key)

    def _known(self, state: NetworkState, member: Member, now: Found) -> Known:
        fabric, (pairs, ports, acked_byte) = state.fabric, member
        words, _, sent_bytes = now
        facts, constants = state.nic.facts, fabric.constants
        ways = []
        for pair in pairs.tolist():
            rows = (int(facts[name][pair]) for name in ("data_path", "ack_path"))
            data, acks = (np.searchsorted(ports, path_ports(fabric.path_port, row)).tolist() for row in rows)
            ways.append((data, acks))
        shape = Shape(
            ways, self._topology.is_switch[self._topology.port_src[ports]].tolist(), state.nic.control.shape[1],
            int(constants[N_EXTRA]), int(constants[N_QUEUE]), self._states.is_managed,
            int(constants[TELEMETRY]) == TELEMETRY_PINT,
        )  # fmt: skip
        is_timed = bool(constants[TELLS_RTT]) or constants[MARKER_COLUMN] != 0
        kind, hop = self._states.law_words
        law = law_words(kind, hop, self._parameters.law.float_words, constants, is_timed)
        return Known(
            shape, law, constants, fabric.port_info["rate_bps"][ports].tolist(),
            fabric.ports["delay_ps"][ports].tolist(), sent_bytes.tolist(), acked_byte.tolist(),
            int(state.buffers.weight_bytes.max(initial=0)), read_words(words, shape),
        )  # fmt: skip


def _member(fresh: Fresh, i: int) -> Member:
    (flow, end_flow), (port, end_port) = fresh.ends[:, i : i + 2].tolist()
    return fresh.pairs[flow:end_flow], fresh.ports[port:end_port], fresh.rows[flow:end_flow, DONE].copy()
