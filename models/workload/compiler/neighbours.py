"""What a pipeline stage's GPU sends to its neighbours and receives from them: activations and their gradients.

Messages are posted and not waited for, unless the job says otherwise (`overlap_pipeline`). A stage that waits for a
message to be received is told so by one of a byte.
"""

from collections.abc import Callable

from models.workload.collectives import chunk_bytes
from models.workload.compiler.emission import Emission
from models.workload.compiler.job import Job
from models.workload.compiler.parts import is_first, is_last
from models.workload.compiler.tokens import Token, exchanges_at_once
from models.workload.operations import Operation
from models.workload.program import OP_RECEIVE, OP_SEND

FORTH, BACK = ("from-previous", "to-previous", False), ("from-next", "to-next", True)  # where from, where to, is next
Way = tuple[str, str, bool]


class Neighbours:
    """Writes the messages of one stage's GPU. slot: of a stream, a queue pair's name and how many there are of it."""

    def __init__(self, job: Job, stage: int, slot: Callable[[str, str, int], int]) -> None:
        self.job, self.stage, self._stream_slot = job, stage, slot
        self.at_once = exchanges_at_once(job)

    def receive(self, emission: Emission, token: Token) -> None:
        """What a pass needs; a stage that waits says that it has it."""
        way = self._source(token.which, token.chunk)
        if way is not None and not self.at_once:
            self._take(emission, way, token.chunk, says_so=not self.job.overlap_pipeline)

    def send(self, emission: Emission, token: Token) -> None:
        """What comes out of a pass; a stage that waits does so until it is received."""
        way = self._target(token.which, token.chunk)
        if way is not None and not self.at_once:
            self._give(emission, way, token.chunk)
            if not self.job.overlap_pipeline:
                self._hear(emission, way, token.chunk)

    def exchange(self, emission: Emission, token: Token) -> None:
        """With both neighbours at once: all is posted before anything is waited for."""
        gives = [(way, chunk) for which, chunk in token.gives if (way := self._target(which, chunk)) is not None]
        takes = [(way, chunk) for which, chunk in token.takes if (way := self._source(which, chunk)) is not None]
        for way, chunk in gives:
            self._give(emission, way, chunk)
        for way, chunk in takes:
            self._take(emission, way, chunk, says_so=True)
        for way, chunk in gives:
            self._hear(emission, way, chunk)

    def _source(self, which: str, chunk: int) -> Way | None:
        """Whence a pass has its input; None if it is not from another stage."""
        if which == "forward" and not is_first(self.job, self.stage, chunk):
            return FORTH
        if which in ("backward", "backward-input") and not is_last(self.job, self.stage, chunk):
            return BACK
        return None

    def _target(self, which: str, chunk: int) -> Way | None:
        """Where what comes out of a pass goes; None if to no other stage."""
        if which == "forward":
            return None if is_last(self.job, self.stage, chunk) else BACK
        return None if which == "backward-weight" or is_first(self.job, self.stage, chunk) else FORTH

    def _boundary(self, is_next: bool) -> tuple[int, int]:
        """(messages, bytes of each) of a microbatch to or from a neighbour: activations, split over cp and tp.

        Where the neighbour's tp is another, a message for each piece that this GPU has, see `unequal`.
        """
        layout, shape, pieces = self.job.layout, self.job.shape, self.job.pieces
        whole = layout.microbatch * shape.sequence * shape.hidden * layout.activation_bytes
        if pieces is None:
            return 1, chunk_bytes(whole, layout.cp * layout.tp)
        n = pieces.following if is_next else pieces.previous
        return n // layout.tp, chunk_bytes(whole, n)

    def _slot(self, name: str, chunk: int, n: int) -> int:
        """The first of n slots of messages to or from a neighbour; of a dual pipeline each chunk has its own."""
        return self._stream_slot("main", f"{name}-{chunk}" if self.job.layout.dual else name, n)

    def _take(self, emission: Emission, way: Way, chunk: int, says_so: bool) -> None:
        n, size_bytes = self._boundary(way[2])
        slot = self._slot(way[0], chunk, n)
        for i in range(n):
            emission.add("main", Operation(OP_RECEIVE, slot + i, task="pp-wait", task_bytes=size_bytes))
        if says_so:
            slot = self._slot(way[1], chunk, n)
            emission.add("main", *(Operation(OP_SEND, slot + i, size_bytes=1, tag="pp") for i in range(n)))

    def _give(self, emission: Emission, way: Way, chunk: int) -> None:
        n, size_bytes = self._boundary(way[2])
        slot = self._slot(way[1], chunk, n)
        emission.add("main", *(Operation(OP_SEND, slot + i, size_bytes=size_bytes, tag="pp") for i in range(n)))

    def _hear(self, emission: Emission, way: Way, chunk: int) -> None:
        """Until what was given is received."""
        n, _ = self._boundary(way[2])
        slot = self._slot(way[0], chunk, n)
        received = (Operation(OP_RECEIVE, slot + i, task="pp-wait", task_bytes=1) for i in range(n))
        emission.add("main", *received)
