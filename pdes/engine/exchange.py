"""The ranks of a run, and what they say to each other in Python. Alone in importing mpi4py.

MPI starts only when a launcher started this process (`world`); a run on one rank needs no MPI library. What ranks
exchange in every round, in compiled code, is `pdes.engine.round_exchange`'s.
"""

import contextlib
import ctypes
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdes.engine import shared_memory
from pdes.engine.gathering import Gathering, agree_on_least, gather_words, make_gathering, shared_words, take
from pdes.engine.jit import JIT_DISABLED
from pdes.engine.meeting import SPIN_NS, attach, can_sleep, create

LAUNCHER_VARIABLES = ("PMI_SIZE", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS", "PMI_RANK", "PALS_RANKID")
WORD_TAG = 8
WAIT_VARIABLE = "PDES_WAIT"  # "shared", "mpi": how ranks wait for each other; else as it is best
PATIENCE_S, LONGEST_NAP_S = 200e-6, 2e-3  # in Python: tests at once for so long, then naps
# Where World.addresses and ExchangeState.mpi hold what.
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
        self._gathering: Gathering | None = None
        self._gathered = np.zeros(4096, np.int64)  # where gathers put what there is
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

    # Between rounds, of numbers: in compiled code, see `pdes.engine.gathering`.

    @property
    def gathering(self) -> Gathering:
        """What compiled code gathers by. The first time all ranks have to ask."""
        if self._gathering is None:
            shared, spin_ns = None, 0
            if self.may_share():
                shared, spin_ns = self.share(shared_words(self.size)), self.spin_ns()
            mpi = np.zeros(3, np.int64)
            if self._mpi and self.size > 1:
                mpi[:] = _addresses(self._mpi, ("MPI_Allgather",), (self._comm, self._mpi.INT64_T))
            self._gathering = make_gathering(self.size, self.rank, mpi, shared, spin_ns)
        return self._gathering

    def gather_rows(self, rows: np.ndarray) -> np.ndarray:
        """The rows of all ranks one behind the other. rows: int64 or float64, [n, ...], equally wide on all ranks."""
        if self.size == 1:
            return rows
        return self._gather_words(rows).view(rows.dtype).reshape(-1, *rows.shape[1:])

    def gather_parts(self, rows: np.ndarray) -> list[np.ndarray]:
        """The same, each rank's rows by themselves."""
        if self.size == 1:
            return [rows]
        words, ends = self._gather_words(rows).view(rows.dtype), np.cumsum(self.gathering.n_word)[:-1]
        return [part.reshape(-1, *rows.shape[1:]) for part in np.split(words, ends)]

    def gather_sum(self, numbers: np.ndarray) -> np.ndarray:
        """Numbers of all ranks, added up. numbers: int64[...], of one shape on all ranks."""
        if self.size == 1:
            return numbers
        return self._gather_words(numbers).reshape(self.size, *numbers.shape).sum(axis=0)

    def gather_values(self, value: Any) -> list[Any]:
        """`allgather` of whatever can be pickled, where no rank is far behind."""
        if self.size == 1:
            return [value]
        data = pickle.dumps(value, protocol=5)
        words = np.zeros(1 + -(-len(data) // 8), np.int64)
        words[0] = len(data)
        words[1:].view(np.uint8)[: len(data)] = np.frombuffer(data, np.uint8)
        return [pickle.loads(part[1:].tobytes()[: int(part[0])]) for part in self.gather_parts(words)]

    def is_any(self, fact: bool) -> bool:
        """Whether it is so on some rank."""
        return fact if self.size == 1 else agree_on_least(self.gathering, 0 if fact else 1) == 0

    def _gather_words(self, numbers: np.ndarray) -> np.ndarray:
        """int64[]: what all ranks have, as it lies in memory."""
        assert numbers.dtype.itemsize == 8, f"{numbers.dtype} has no words of 8 bytes"
        own = np.ascontiguousarray(numbers).reshape(-1).view(np.int64)
        own = own if own.flags.writeable else own.copy()  # else numba compiles anew
        n_word = gather_words(self.gathering, own, self._gathered)
        if n_word > len(self._gathered):
            self._gathered = np.zeros(2 * n_word, np.int64)
            take(self.gathering, own, len(own), self._gathered)
        return self._gathered[:n_word].copy()

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
        if self._mpi and self.size > 1:
            names = ("MPI_Allreduce", "MPI_Isend", "MPI_Irecv", "MPI_Waitall")
            out[:REQUEST_BYTES] = _addresses(self._mpi, names, (self._comm, self._mpi.INT64_T, self._mpi.MIN))
            out[REQUEST_BYTES] = self._mpi._sizeof(self._mpi.Request)
        return out


def _addresses(mpi: Any, names: Sequence[str], handles: Sequence[Any]) -> list[int]:
    """Of functions, and handles as they are in C."""
    library, out = ctypes.CDLL(mpi.__file__), []
    for name in names:
        out.append(ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0)
    for handle in handles:
        width = mpi._sizeof(type(handle))  # an int in MPICH, a pointer in Open MPI
        kind = ctypes.c_int32 if width == 4 else ctypes.c_int64
        out.append(kind.from_address(mpi._addressof(handle)).value)
    return out


def world() -> World:
    """The world that the launcher made: MPI if one started this process, else a single rank."""
    if not any(name in os.environ for name in LAUNCHER_VARIABLES):
        return World()
    from mpi4py import MPI

    return World(MPI)


@contextlib.contextmanager
def other_ranks_work() -> Iterator[Callable[[Callable[[Any], Any], Sequence[Any]], Any] | None]:
    """All ranks but the first work for it, by `mpi4py.futures`: there as `map`, on the others None when all is done.

    None of them has any other part in the run.
    """
    from mpi4py import MPI
    from mpi4py.futures import MPICommExecutor

    with MPICommExecutor(MPI.COMM_WORLD, root=0) as executor:
        pool: Any = executor  # None on the others
        yield None if pool is None else pool.map
