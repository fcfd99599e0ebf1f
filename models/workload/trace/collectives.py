"""Collectives of a trace as operations of a stream: phases over the dimensions of a communicator, each by an algorithm.

Algorithms, named as in ASTRA-sim's system files: ring; direct (an exchange with every peer at once); halvingDoubling
(pairs at distances n/2, n/4, ... 1, for a power of two of members, else a ring); doubleBinaryTree (half of the data up
and down each of two trees, one the mirror of the other; of an all-reduce only, else a ring). An all-to-all is direct,
unless a system file says ring: then each share goes round it, step by step, n (n - 1) / 2 steps in all.
With several dimensions an all-reduce is a reduce-scatter over each but the last, an all-reduce over that, all-gathers
back; the others go over the dimensions one by one. Broadcast and reduce go from member to member along the ring, gather
and scatter straight between the root and each; a barrier is an all-reduce of 8 bytes.
"""

from dataclasses import dataclass

from models.workload.collectives import chunk_bytes, ring_operation
from models.workload.operations import Operation
from models.workload.plan import SLOT_PAIR, PlanBuilder, Slot
from models.workload.program import OP_EXCHANGE, OP_RECEIVE, OP_RING, OP_SEND
from models.workload.trace.graph import COLLECTIVES

RING, DIRECT, HALVING, TREES = ALGORITHMS = ("ring", "direct", "halvingDoubling", "doubleBinaryTree")
BARRIER_BYTES = 8


@dataclass(frozen=True)
class CollectiveRules:
    """How collectives are done. algorithm: by operation and dimension; missing ones are rings."""

    dimensions: tuple[int, ...] = ()  # sizes; communicators of as many ranks in all go over them, others over one
    algorithm: tuple[tuple[str, tuple[str, ...]], ...] = ()
    n_chunk: int = 1  # parts of a collective, one after the other

    def names(self, operation: str) -> bool:
        """Whether a system file says how an operation is done."""
        return operation in dict(self.algorithm)

    def of(self, operation: str, dimension: int) -> str:
        """The algorithm of an operation on a dimension."""
        named = dict(self.algorithm).get(operation, ())
        return named[min(dimension, len(named) - 1)] if named else RING


class Communicator:
    """The queue pairs of one communicator, made when a collective first needs them, and its members' programs."""

    def __init__(self, builder: PlanBuilder, name: str, ranks: tuple[int, ...], rules: CollectiveRules) -> None:
        self._builder, self._ranks, self._rules, self._tag = builder, ranks, rules, name
        n = len(ranks)
        product = 1
        for size in rules.dimensions:
            product *= size
        self._dimensions = rules.dimensions if product == n else (n,)
        self.slots: list[list[Slot]] = [[] for _ in ranks]  # of each member
        self._place: list[dict[tuple, int]] = [{} for _ in ranks]  # of each member: (to or from, member, use) -> slot

    def operations(self, member: int, kind: int, size_bytes: int, root: int) -> list[Operation]:
        """What a member does in one collective. kind: place in COLLECTIVES; root: rank."""
        operation, n = COLLECTIVES[kind], len(self._ranks)
        if operation == "barrier":
            operation, size_bytes = "all-reduce", BARRIER_BYTES
        if size_bytes == 0:
            return []
        if operation in ("broadcast", "reduce"):
            return self._chain(member, operation, size_bytes, self._member(root))
        if operation in ("gather", "scatter"):
            return self._star(member, operation, size_bytes, self._member(root))
        n_chunk = min(self._rules.n_chunk, max(1, size_bytes // n))
        part_bytes = chunk_bytes(size_bytes, n_chunk)
        one = [op for phase in self._phases(operation, part_bytes) for op in self._phase(member, *phase)]
        return one * n_chunk

    def _member(self, root: int) -> int:
        return self._ranks.index(root) if root in self._ranks else 0

    def _phases(self, operation: str, size_bytes: int) -> list[tuple[str, str, int, int]]:
        """(collective asked for, collective of the phase, dimension, bytes of the phase's buffer)."""
        last = len(self._dimensions) - 1
        if operation == "all-to-all":
            return [(operation, operation, d, size_bytes) for d in range(last + 1)]
        sizes = [size_bytes]
        for d in range(last + 1):
            sizes.append(chunk_bytes(sizes[-1], self._dimensions[d]))
        if operation == "reduce-scatter":
            return [(operation, operation, d, sizes[d]) for d in range(last + 1)]
        if operation == "all-gather":
            return [(operation, operation, d, sizes[d]) for d in reversed(range(last + 1))]
        down = [(operation, "reduce-scatter", d, sizes[d]) for d in range(last)]
        return [*down, (operation, operation, last, sizes[last]), *self._back(operation, sizes, last)]

    @staticmethod
    def _back(operation: str, sizes: list[int], last: int) -> list[tuple[str, str, int, int]]:
        return [(operation, "all-gather", d, sizes[d]) for d in reversed(range(last))]

    def _group(self, member: int, dimension: int) -> tuple[list[int], int]:
        """(members along a dimension through a member, its place among them)."""
        stride = 1
        for d in range(dimension):
            stride *= self._dimensions[d]
        size = self._dimensions[dimension]
        place = member // stride % size
        return [member + (k - place) * stride for k in range(size)], place

    def _phase(self, member: int, asked: str, operation: str, dimension: int, size_bytes: int) -> list[Operation]:
        group, place = self._group(member, dimension)
        n = len(group)
        if n == 1:
            return []
        algorithm = self._rules.of(asked, dimension)
        if operation == "all-to-all" and not (self._rules.names(operation) and algorithm == RING):
            return [self._exchange(member, group, place, dimension, size_bytes)]
        if algorithm == DIRECT:
            one = self._exchange(member, group, place, dimension, size_bytes)
            return [one, one] if operation == "all-reduce" else [one]
        if algorithm == HALVING and n & (n - 1) == 0:
            return self._halving(member, group, place, dimension, operation, size_bytes)
        if algorithm == TREES and operation == "all-reduce":
            return self._trees(member, group, place, dimension, size_bytes)
        following, before = group[(place + 1) % n], group[place - 1]
        slot, slot_in = self._to(member, following, dimension), self._from(member, before, dimension)
        if operation == "all-to-all":
            return [Operation(OP_RING, slot, slot_in, n * (n - 1) // 2, chunk_bytes(size_bytes, n), tag=self._tag)]
        return [ring_operation(operation, size_bytes, n, slot, slot_in, "", self._tag)]

    def _to(self, member: int, other: int, use: int) -> int:
        """The slot of a member's queue pair to another one."""
        key = (0, other, use)
        if key not in self._place[member]:
            pair = self._builder.pair(self._ranks[member], self._ranks[other])
            for owner, name in ((member, key), (other, (1, member, use))):
                self._place[owner][name] = len(self.slots[owner])
                self.slots[owner].append((SLOT_PAIR, pair))
        return self._place[member][key]

    def _from(self, member: int, other: int, use: int) -> int:
        self._to(other, member, use)
        return self._place[member][1, other, use]

    def _exchange(self, member: int, group: list[int], place: int, use: int, size_bytes: int) -> Operation:
        """To every peer a share at once, the next one first; its slots lie side by side."""
        n = len(group)
        key = (2, use)
        if key not in self._place[member]:
            self._make_exchange(group, key)
        slot = self._place[member][key]
        return Operation(OP_EXCHANGE, slot, slot + n - 1, n - 1, chunk_bytes(size_bytes, n), tag=self._tag)

    def _make_exchange(self, group: list[int], key: tuple) -> None:
        n = len(group)
        pair = {
            (i, j): self._builder.pair(self._ranks[group[i]], self._ranks[group[j]])
            for i in range(n)
            for j in range(n)
            if i != j
        }
        for i, owner in enumerate(group):
            self._place[owner][key] = len(self.slots[owner])
            self.slots[owner] += [(SLOT_PAIR, pair[i, (i + k) % n]) for k in range(1, n)]
            self.slots[owner] += [(SLOT_PAIR, pair[(i - k) % n, i]) for k in range(1, n)]

    def _send(self, member: int, other: int, use: int, size_bytes: int) -> Operation:
        return Operation(OP_SEND, self._to(member, other, use), size_bytes=size_bytes, tag=self._tag)

    def _receive(self, member: int, other: int, use: int) -> Operation:
        return Operation(OP_RECEIVE, self._from(member, other, use))

    def _halving(
        self, member: int, group: list[int], place: int, use: int, operation: str, size_bytes: int
    ) -> list[Operation]:
        """Reduce-scatter by halves with partners ever nearer, all-gather by doubles the other way round."""
        n, steps = len(group), []
        part_bytes, distance = size_bytes, n // 2
        while distance > 0:
            part_bytes = chunk_bytes(part_bytes, 2)
            other = group[place ^ distance]
            steps.append([self._send(member, other, use, part_bytes), self._receive(member, other, use)])
            distance //= 2
        forth = [op for step in steps for op in step] if operation != "all-gather" else []
        back = [op for step in reversed(steps) for op in step] if operation != "reduce-scatter" else []
        return forth + back

    def _trees(self, member: int, group: list[int], place: int, use: int, size_bytes: int) -> list[Operation]:
        """Half of the data up and down each tree."""
        n, up, down = len(group), [], []
        for is_mirror in (False, True):
            at = n - 1 - place if is_mirror else place
            parent, children = tree_of(at, n)
            members = {k: group[n - 1 - k if is_mirror else k] for k in ([parent] if parent >= 0 else []) + children}
            half_bytes, way = chunk_bytes(size_bytes, 2), 100 + 2 * use + is_mirror
            up += [self._receive(member, members[k], way) for k in children]
            if parent >= 0:
                up.append(self._send(member, members[parent], way, half_bytes))
                down.append(self._receive(member, members[parent], way))
            down += [self._send(member, members[k], way, half_bytes) for k in children]
        return up + down

    def _chain(self, member: int, operation: str, size_bytes: int, root: int) -> list[Operation]:
        """From the root along the ring, or along it to the root."""
        n = len(self._ranks)
        step = 1 if operation == "broadcast" else -1
        place = (member - root) * step % n  # steps from the root
        to_root, from_root = (member - step) % n, (member + step) % n
        if operation == "broadcast":
            receive = [self._receive(member, to_root, 0)] if place > 0 else []
            return receive + ([self._send(member, from_root, 0, size_bytes)] if place < n - 1 else [])
        receive = [self._receive(member, from_root, 0)] if place < n - 1 else []
        return receive + ([self._send(member, to_root, 0, size_bytes)] if place > 0 else [])

    def _star(self, member: int, operation: str, size_bytes: int, root: int) -> list[Operation]:
        """Each member's share straight to the root, or from it."""
        others, share_bytes = (
            [k for k in range(len(self._ranks)) if k != root],
            chunk_bytes(size_bytes, len(self._ranks)),
        )
        if (member == root) == (operation == "scatter"):
            return [self._send(member, k, 0, share_bytes) for k in (others if member == root else [root])]
        return [self._receive(member, k, 0) for k in (others if member == root else [root])]


def tree_of(place: int, n: int) -> tuple[int, list[int]]:
    """(parent or -1, children) of a place in a balanced search tree over 0..n - 1."""
    low, high, parent = 0, n, -1
    while True:
        middle = (low + high) // 2
        if place == middle:
            children = [(a + b) // 2 for a, b in ((low, middle), (middle + 1, high)) if a < b]
            return parent, children
        parent = middle
        low, high = (low, middle) if place < middle else (middle + 1, high)
