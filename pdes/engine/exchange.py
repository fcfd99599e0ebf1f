"""The ranks of a run: one reduction and one exchange with the neighbours per round. Alone in importing mpi4py.

MPI starts only when a launcher started this process (`world`); a run on one rank needs no MPI library. Compiled loops
call MPI by address (`pdes.engine.foreign`), so that a round costs no trip through Python. Ranks that are all on one
machine exchange through memory that they share instead (`pdes.engine.meeting`): one meeting is both, and nobody spins.
"""

import contextlib
import ctypes
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pdes.engine import shared_memory
from pdes.engine.foreign import call3, call6, call7, clock_address
from pdes.engine.jit import JIT_DISABLED, loop_kernel
from pdes.engine.meeting import (
    BOXES,
    LINE_WORDS,
    MEETING,
    MORE_EVEN,
    MORE_ODD,
    SPIN_NS,
    attach,
    can_sleep,
    create,
    futex_number,
    meet,
    syscall_address,
)

LAUNCHER_VARIABLES = ("PMI_SIZE", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS", "PMI_RANK", "PALS_RANKID")
ROUND_TAG, WORD_TAG = 7, 8
HEADER_WORDS = 2  # of a message: its length in words, itself included; the sender's least pending time
# Of a rank's boxes in shared memory, at most, and of one at least: what is longer goes in pieces.
BOXES_WORDS, LEAST_BOX_WORDS = 2**18, 2**12
WAIT_VARIABLE = "PDES_WAIT"  # "shared", "mpi": how ranks wait for each other; else as it is best
PATIENCE_S, LONGEST_NAP_S = 200e-6, 2e-3  # in Python: tests at once for so long, then naps
# Where ExchangeState.shared_facts holds what.
IS_SHARED, SPIN, SYSCALL, FUTEX, STRIDE, BOX = range(6)
# Where ExchangeState.mpi holds what.
ALLREDUCE, ISEND, IRECV, WAITALL, COMM, INT64, MIN, REQUEST_BYTES = range(8)


class World:
    """The ranks of this run. Without MPI: one rank, and every collective call is the identity."""

    def __init__(self, mpi: Any = None, comm: Any = None, parent: "World | None" = None) -> None:
        """comm: some of the ranks that MPI knows, all of them by default. parent: of which these are some."""
        self._mpi = mpi
        self.while_waiting: list[Callable[[], None]] = [] if parent is None else parent.while_waiting
        self._sent: list[Any] = []  # requests of `tell`
        self._comm = comm or (mpi.COMM_WORLD if mpi else None)
        self._machines: tuple[World, World] | None = None
        self.rank: int = self._comm.Get_rank() if self._comm else 0
        self.size: int = self._comm.Get_size() if self._comm else 1

    def bcast(self, value: Any) -> Any:
        """Rank 0's value, on every rank."""
        self.barrier()
        received = self._comm.bcast(value) if self._comm else value
        return value if self.rank == 0 else received

    def bcast_once(self, value: Any) -> Any:
        """Rank 0's value on every rank, with its arrays in memory once per machine, see `pdes.engine.shared_memory`."""
        machine, firsts = self._split()
        if machine.rank == 0 and firsts.size > 1:
            value = firsts.bcast(value)
        return machine._bcast_in_memory(value)

    def once_per_machine(self, make: Callable[[], Any]) -> Any:
        """A value that every rank would make alike: made by one of each machine, its arrays in memory once."""
        machine, _ = self._split()
        return machine._bcast_in_memory(make() if machine.rank == 0 else None)

    def _split(self) -> "tuple[World, World]":
        """(the ranks of this machine, the first ranks of all machines: of use to these)."""
        if self._comm is None or self.size == 1:
            return self, self
        if self._machines is None:
            inside = World(self._mpi, self._comm.Split_type(self._mpi.COMM_TYPE_SHARED), self)
            self._machines = inside, World(self._mpi, self._comm.Split(min(inside.rank, 1)), self)
        return self._machines

    def _bcast_in_memory(self, value: Any) -> Any:
        """`bcast_once` among ranks that are all on one machine; `bcast` if that has no room for it."""
        if self.size == 1:
            return value
        packed = shared_memory.pack(value) if self.rank == 0 else None
        with self._file_in_memory() as own:
            is_stored = False
            if packed is not None:
                with contextlib.suppress(OSError):
                    shared_memory.store(own, packed)
                    is_stored = True
            facts = None if packed is None else (own if is_stored else None, packed.n_byte, packed.head, packed.places)
            path, n_byte, head, places = self.bcast(facts)
            memory = None
            if path is not None:
                with contextlib.suppress(OSError):
                    memory = shared_memory.attach(path, n_byte, is_private=True)
            is_everywhere = all(self.allgather(memory is not None))
        if memory is None or not is_everywhere:
            return self.bcast(value)
        return shared_memory.unpack(head, places, memory)

    @contextlib.contextmanager
    def _file_in_memory(self) -> Iterator[Path]:
        """A name for one that rank 0 may make, which is gone at the end, however that comes."""
        path = shared_memory.new_path()
        try:
            yield path
        finally:
            if self.rank == 0:
                path.unlink(missing_ok=True)

    def gather(self, value: Any) -> list[Any] | None:
        """Every rank's value in rank order on rank 0, None elsewhere."""
        self.barrier()
        return self._comm.gather(value) if self._comm else [value]

    def allgather(self, value: Any) -> list[Any]:
        """Every rank's value in rank order."""
        self.barrier()
        return self._comm.allgather(value) if self._comm else [value]

    def alltoall(self, values: list[Any]) -> list[Any]:
        """values[i] goes to rank i; what the ranks have for this one, in rank order."""
        return self._comm.alltoall(values) if self._comm else values

    def barrier(self) -> None:
        """Wait until every rank is here; who waits for long naps, so that others can use the core."""
        if self._comm is None:
            return
        request, begin_s = self._comm.Ibarrier(), time.perf_counter()
        while not request.Test():
            waited_s = time.perf_counter() - begin_s
            if waited_s > PATIENCE_S:
                for look in self.while_waiting:
                    look()
                time.sleep(min(waited_s / 10, LONGEST_NAP_S))
            else:
                os.sched_yield()

    def tell(self, word: int, ranks: list[int]) -> None:
        """A word to some ranks, which hear it when they ask (`told`); waits for nobody."""
        if self._comm is not None:
            self._sent += [self._comm.isend(word, rank, WORD_TAG) for rank in ranks]

    def told(self) -> int | None:
        """A word that some rank has told this one."""
        if self._comm is None or not self._comm.iprobe(tag=WORD_TAG):
            return None
        return self._comm.recv(tag=WORD_TAG)

    def may_share(self) -> bool:
        """Whether all ranks are on one machine that lets them sleep; the same on every rank."""
        if self._comm is None or self.size == 1 or JIT_DISABLED:
            return False
        wanted = os.environ.get(WAIT_VARIABLE) != "mpi" and can_sleep()
        is_here = self.n_rank_here() == self.size
        return all(self.allgather(wanted and is_here))

    def n_rank_here(self) -> int:
        """How many of the ranks are on this machine; every rank must ask."""
        return self._split()[0].size

    def cores_here(self) -> set[int]:
        """What ranks on this machine may run on, all of them together; every rank must ask."""
        return set().union(*self._split()[0].allgather(os.sched_getaffinity(0)))

    def share(self, n_word: int) -> np.ndarray | None:
        """Memory of `pdes.engine.meeting` for all ranks; None, on all of them, if there can be none."""
        path, words = None, None
        with self._file_in_memory() as own:
            if self.rank == 0:
                with contextlib.suppress(OSError):
                    create(own, n_word)
                    path = own
            path = self.bcast(path)
            if path is not None:
                with contextlib.suppress(OSError):
                    words = attach(path, n_word)
            is_everywhere = all(self.allgather(words is not None))
        return words if is_everywhere else None

    def spin_ns(self) -> int:
        """How long to spin before sleeping, where all ranks are on one machine: not at all if they share cores."""
        cores = self.allgather(os.sched_getaffinity(0))
        return SPIN_NS if len(set().union(*cores)) >= self.size else 0

    def abort(self, status: int) -> None:
        """End all ranks at once."""
        sys.stdout.flush()
        sys.stderr.flush()
        if self._comm and self.size > 1:
            shared_memory.remove_mapped("mpich_shm_")  # which MPICH leaves if it is not told to end as usual
            self._comm.Abort(status)

    def library(self) -> str:
        """Name and version of the MPI library, for messages and `run.json`."""
        return self._mpi.Get_library_version().splitlines()[0].strip("\0 ") if self._mpi else "none"

    def addresses(self) -> np.ndarray:
        """int64[8]: functions and handles that compiled code needs (ALLREDUCE .. REQUEST_BYTES); zeros without MPI."""
        out = np.zeros(8, np.int64)
        if not self._mpi or self.size == 1:
            return out
        library = ctypes.CDLL(self._mpi.__file__)
        names = ("MPI_Allreduce", "MPI_Isend", "MPI_Irecv", "MPI_Waitall")
        for i, name in enumerate(names):
            out[i] = ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
        for i, handle in ((COMM, self._comm), (INT64, self._mpi.INT64_T), (MIN, self._mpi.MIN)):
            width = self._mpi._sizeof(type(handle))  # an int in MPICH, a pointer in Open MPI
            kind = ctypes.c_int32 if width == 4 else ctypes.c_int64
            out[i] = kind.from_address(self._mpi._addressof(handle)).value
        out[REQUEST_BYTES] = self._mpi._sizeof(self._mpi.Request)
        return out


def world() -> World:
    """The world that the launcher made: MPI if one started this process, else a single rank."""
    if not any(name in os.environ for name in LAUNCHER_VARIABLES):
        return World()
    from mpi4py import MPI

    return World(MPI)


class ExchangeState(NamedTuple):
    """Buffers of one rank's rounds. A model writes records into outbox and n_out, and reads inbox and n_in.

    Row i belongs to neighbour peer[i]; records begin behind HEADER_WORDS.
    """

    n_rank: np.ndarray  # int64[1]
    is_complete: np.ndarray  # int64[1]  1 if `swap` says the least of all ranks
    peer: np.ndarray  # int64[n_peer]  neighbour ranks, ascending
    outbox: np.ndarray  # int64[n_peer, n_word]
    inbox: np.ndarray  # int64[n_peer, n_word]
    n_out: np.ndarray  # int64[n_peer]  words written behind the header
    n_in: np.ndarray  # int64[n_peer]  words received behind the header
    reduced: np.ndarray  # int64[2, 1]  what goes into the reduction, what comes out
    mpi: np.ndarray  # int64[8]
    requests: np.ndarray  # int64[2 * n_peer], big enough for either library's handles
    statuses: np.ndarray  # int64[2 * n_peer, 8]
    clock: np.ndarray  # int64[3]  address of clock_gettime, and its buffer
    shared_facts: np.ndarray  # int64[6]  IS_SHARED .. BOX
    shared: np.ndarray  # int64[n]  `pdes.engine.meeting`'s words, with boxes for records behind them; empty without
    box_out: np.ndarray  # int64[n_peer]  this rank's box for each neighbour; STRIDE words on lies that of odd meetings
    box_in: np.ndarray  # int64[n_peer]  each neighbour's for this rank


def make_exchange(world: World, peers: list[int], n_word: int) -> ExchangeState:
    """Buffers for messages of at most n_word int64 to each neighbour in a round; every rank must call it."""
    n_peer = len(peers) if world.size > 1 else 0
    peers = sorted(peers)[:n_peer]
    is_complete = min(world.allgather(n_peer)) == world.size - 1
    facts, shared, box_out, box_in = _make_shared(world, peers, n_word + HEADER_WORDS)
    return ExchangeState(
        n_rank=np.array([world.size], np.int64),
        is_complete=np.array([is_complete or facts[IS_SHARED]], np.int64),
        peer=np.array(peers, np.int64),
        outbox=np.zeros((n_peer, n_word + HEADER_WORDS), np.int64),
        inbox=np.zeros((n_peer, n_word + HEADER_WORDS), np.int64),
        n_out=np.zeros(n_peer, np.int64),
        n_in=np.zeros(n_peer, np.int64),
        reduced=np.zeros((2, 1), np.int64),
        mpi=world.addresses(),
        requests=np.zeros(2 * n_peer, np.int64),
        statuses=np.zeros((2 * n_peer, 8), np.int64),
        clock=np.array([clock_address(), 0, 0], np.int64),
        shared_facts=facts,
        shared=shared,
        box_out=box_out,
        box_in=box_in,
    )


def most_box_words(n_rank: int) -> int:
    """Words of a box at most: they share a rank's room, so that it does not grow with the square of the ranks."""
    return max(LEAST_BOX_WORDS, BOXES_WORDS // max(n_rank - 1, 1) // LINE_WORDS * LINE_WORDS)


def _make_shared(world: World, peers: list[int], box_words: int) -> tuple[np.ndarray, ...]:
    """shared_facts, shared, box_out and box_in, where all ranks are on one machine and may share memory."""
    facts, nothing = np.zeros(6, np.int64), np.zeros(0, np.int64)
    most = most_box_words(world.size)
    box_words = min(box_words + -box_words % LINE_WORDS, most)
    boxes = world.allgather((peers, box_words)) if world.may_share() else []
    if not boxes:
        return facts, nothing, nothing, nothing
    n_half = sum(len(theirs) * words for theirs, words in boxes)
    shared = world.share(BOXES + 2 * n_half)
    if shared is None:
        return facts, nothing, nothing, nothing
    place, at = {}, BOXES
    for rank, (theirs, words) in enumerate(boxes):
        for peer in theirs:
            place[rank, peer] = at
            at += words
    facts[:] = 1, world.spin_ns(), syscall_address(), futex_number(), n_half, most
    ways = [(world.rank, peer) for peer in peers]
    box_out = np.array([place[way] for way in ways], np.int64)
    box_in = np.array([place[there, here] for here, there in ways], np.int64)
    return facts, shared, box_out, box_in


@loop_kernel
def reduce_min(ex: ExchangeState, value):
    """The least value over all ranks (int64)."""
    if ex.n_rank[0] == 1:
        return value
    if ex.shared_facts[IS_SHARED]:
        return meet(ex.shared, ex.n_rank[0], value, ex.shared_facts[SPIN], ex.shared_facts[SYSCALL:STRIDE], ex.clock)
    ex.reduced[0, 0] = value
    address = ex.reduced.ctypes.data
    mpi = ex.mpi
    call6(mpi[ALLREDUCE], address, address + 8, 1, mpi[INT64], mpi[MIN], mpi[COMM])
    return ex.reduced[1, 0]


@loop_kernel
def swap(ex: ExchangeState, least_ps):
    """Send every outbox to its neighbour and receive every inbox; outboxes are empty afterwards.

    least_ps: least time of what is pending here or in the outboxes. Returns the least one of this rank and its
    neighbours; of all ranks, if is_complete.
    """
    if ex.shared_facts[IS_SHARED]:
        return _swap_in_memory(ex, least_ps)
    n_peer, mpi = ex.peer.size, ex.mpi
    n_word = ex.outbox.shape[1] if n_peer else 0
    request_bytes = mpi[REQUEST_BYTES]
    requests = ex.requests.ctypes.data
    for i in range(n_peer):
        target = ex.inbox.ctypes.data + 8 * i * n_word
        call7(mpi[IRECV], target, n_word, mpi[INT64], ex.peer[i], ROUND_TAG, mpi[COMM], requests + i * request_bytes)
    for i in range(n_peer):
        ex.outbox[i, 0], ex.outbox[i, 1] = ex.n_out[i] + HEADER_WORDS, least_ps
        source, request = ex.outbox.ctypes.data + 8 * i * n_word, requests + (n_peer + i) * request_bytes
        call7(mpi[ISEND], source, ex.outbox[i, 0], mpi[INT64], ex.peer[i], ROUND_TAG, mpi[COMM], request)
    if n_peer:
        call3(mpi[WAITALL], 2 * n_peer, requests, ex.statuses.ctypes.data)
    for i in range(n_peer):
        ex.n_in[i] = ex.inbox[i, 0] - HEADER_WORDS
        ex.n_out[i] = 0
        least_ps = min(least_ps, ex.inbox[i, 1])
    return least_ps


@loop_kernel
def _swap_in_memory(ex: ExchangeState, least_ps):
    """The same through the boxes, piece by piece, and for the least of all ranks."""
    shared, facts, begin, is_over = ex.shared, ex.shared_facts, np.int64(HEADER_WORDS), False
    piece = facts[BOX] - HEADER_WORDS
    while not is_over:
        is_odd = shared[MEETING] & 1
        at, more = facts[STRIDE] if is_odd else 0, MORE_ODD if is_odd else MORE_EVEN
        for i in range(ex.peer.size):
            box, n_word = ex.box_out[i] + at, ex.n_out[i] + HEADER_WORDS
            end = min(n_word, begin + piece)
            shared[box] = n_word
            for k in range(begin, end):
                shared[box + HEADER_WORDS + k - begin] = ex.outbox[i, k]
            if end < n_word:
                shared[more] = 1
        least_ps = meet(shared, ex.n_rank[0], least_ps, facts[SPIN], facts[SYSCALL:STRIDE], ex.clock)
        is_over = shared[more] == 0
        for i in range(ex.peer.size):
            box = ex.box_in[i] + at
            n_word = shared[box]
            for k in range(begin, min(n_word, begin + piece)):
                ex.inbox[i, k] = shared[box + HEADER_WORDS + k - begin]
            ex.n_in[i] = n_word - HEADER_WORDS
        begin += piece
    ex.n_out[:] = 0
    return least_ps
