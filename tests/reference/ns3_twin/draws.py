"""Where random numbers come from: ns-3's streams, which depend on the order of events, or the engine's counters."""

from typing import TYPE_CHECKING, Protocol

from pdes.random_plain import PURPOSE_ECN, PURPOSE_LOSS, uniform_plain
from reference.ns3_twin.case import Ns3Case
from reference.ns3_twin.random_stream import LOG2_STREAM, State, jump, step, stream_state

if TYPE_CHECKING:
    from reference.ns3_twin.wire import Port

STREAMS_PER_NODE = 6  # that ns-3's IP stack has taken before the run
STREAMS_PER_ERROR_MODEL = 2  # of every link with losses, and of one that nobody uses
LOSS_STREAM = 2**63 + 50


class Draws(Protocol):
    """Uniform numbers in [0, 1) for the two things that are random."""

    def for_mark(self, port: "Port") -> float:
        """Whether a packet that leaves `port` is marked, its queue being between the thresholds."""
        ...

    def for_loss(self, sender: "Port", n_before: int) -> float:
        """Whether a packet from `sender` is lost, after n_before have arrived on that link."""
        ...

    def note_pfc_frame(self) -> None:
        """A pause or resume is made."""
        ...


class Ns3Draws:
    """MRG32k3a as ns-3 uses it: every mark is the first number of a stream of its own, and so is every PFC frame's id.

    Both directions of a lossy link share a generator, and all lossy links have the same stream.
    """

    def __init__(self, case: Ns3Case, run: int) -> None:
        lossy = [i for i, link in enumerate(case.links) if link.error_rate > 0]
        n_used = STREAMS_PER_NODE * case.n_node + STREAMS_PER_ERROR_MODEL * (1 + len(lossy))
        self._next_stream = stream_state(n_used, run)
        self._loss: dict[int, State] = {i: stream_state(LOSS_STREAM, run) for i in lossy}

    def for_mark(self, port: "Port") -> float:
        number, _ = step(self._next_stream)
        self.note_pfc_frame()
        return number

    def for_loss(self, sender: "Port", n_before: int) -> float:
        number, self._loss[sender.i_link] = step(self._loss[sender.i_link])
        return number

    def note_pfc_frame(self) -> None:
        self._next_stream = jump(self._next_stream, 1 << LOG2_STREAM)


class EngineDraws:
    """Counter-based numbers, design R3: they do not know the order of events at other ports."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def for_mark(self, port: "Port") -> float:
        return uniform_plain(self._seed, port.port_id, PURPOSE_ECN, port.n_draw)

    def for_loss(self, sender: "Port", n_before: int) -> float:
        return uniform_plain(self._seed, sender.port_id, PURPOSE_LOSS, n_before)

    def note_pfc_frame(self) -> None:
        pass
