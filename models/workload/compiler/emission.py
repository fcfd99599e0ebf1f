"""Operations for several streams of a GPU at once, so that a loop of one is a loop of all that take part in it."""

from dataclasses import dataclass, field

from models.workload.operations import Operation, Repeat

STREAMS = ("main", "beside", "gather", "reduce", "beside-backward")
"""main: computes, and exchanges what it has to wait for. beside: exchanges that run beside the next computation.
gather, reduce: parameters and gradients over data parallelism. beside-backward: exchanges of a backward pass that runs
in turns with a forward pass, whose exchanges are beside."""
ONE_BY_ONE = "exchanges"
"""A stream of exchanges that a GPU has under way one by one, in place of those that share a copy engine."""


def shared_streams(n_copy_engine: int) -> dict[str, str]:
    """Streams that are one, where a GPU has so many copy engines; 0: as many as it needs.

    HeteroSim's equation 1: what needs the same engine does not overlap. Which one that is goes by the kind of exchange
    and not by who comes first, so that all members of a group have theirs in the same order and none waits for ever.
    """
    shared = ("gather", "reduce") if n_copy_engine == 2 else ("gather", "reduce", "beside", "beside-backward")
    return dict.fromkeys(shared, ONE_BY_ONE) if 0 < n_copy_engine < 3 else {}


def side_stream(stream: str, i: int) -> str:
    """The stream of the i-th part of collectives on a stream, beside its own part, from 1."""
    return f"{stream}/{i}"


@dataclass
class Emission:
    """What each stream does next."""

    ops: dict[str, list[Operation | Repeat]] = field(default_factory=lambda: {name: [] for name in STREAMS})

    def add(self, stream: str, *operations: Operation | Repeat) -> None:
        """Append operations to a stream."""
        self.ops.setdefault(stream, []).extend(operations)

    def extend(self, other: "Emission", n: int = 1) -> None:
        """Append what another one does, n times."""
        for stream, operations in other.ops.items():
            if operations and n == 1:
                self.add(stream, *operations)
            elif operations and n > 1:
                self.add(stream, Repeat(n, tuple(operations)))
