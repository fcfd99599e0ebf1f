"""What a profiler saw of one rank: kernels on streams, communications among them, and who waited for whom."""

from dataclasses import dataclass, field

SEND, RECEIVE = "send", "receive"


@dataclass(frozen=True)
class Communication:
    """What a kernel communicates. group: ranks; root, peer: ranks of the job."""

    operation: str  # of `models.workload.trace.graph.COLLECTIVES`, or SEND, RECEIVE
    size_bytes: int
    group: tuple[int, ...]
    group_name: str = ""
    root: int | None = None
    peer: int | None = None


@dataclass(frozen=True)
class Kernel:
    """One kernel or copy on a stream. launch_ps: when the CPU called for it, None: not known."""

    name: str
    stream: int
    start_ps: int
    end_ps: int
    launch_ps: int | None = None
    communication: Communication | None = None
    where: str = ""  # in the file, for messages


@dataclass(frozen=True)
class StreamWait:
    """A stream is told to wait for another one's kernels so far. Times are those of the calls."""

    stream: int
    call_ps: int
    on_stream: int
    record_ps: int


@dataclass
class RankProfile:
    """A rank's kernels of one iteration. begin_ps: when the iteration begins for its GPU."""

    rank: int
    n_rank: int
    path: str
    begin_ps: int
    kernels: list[Kernel]
    stream_waits: list[StreamWait] = field(default_factory=list)
    host_waits: list[tuple[int, int]] = field(default_factory=list)  # calls in which the CPU waited: begin, end
    has_stream_waits: bool = False  # such calls were traced, if only in another iteration
    iteration: str = ""  # what was taken, for people
    waits_for_all: bool = False  # without stream waits: for all that ended before, not only for what ended last
