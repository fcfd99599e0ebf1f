"""A communicator: groups of GPUs that do the same collectives side by side, and the operations of each collective.

Members in one server: a timed operation. Members in several: what `estimate.choose` takes, as packets between servers
on their rails, with timed parts inside the servers. Where all members do the same, `operations` gives it; trees and
broadcasts differ by member: `operations_of`. Without a GPU type nothing is charged that packets do not show, as in
`models.workload.collectives`.
"""

from collections.abc import Sequence

import numpy as np

from models.workload.collectives import RING_STEPS, chunk_bytes
from models.workload.nccl.calibration import GpuType
from models.workload.nccl.estimate import Choice, Shape, choose, exchange_lead_ps, on_wire
from models.workload.nccl.in_server import in_server_ps
from models.workload.nccl.layout import make_layout
from models.workload.nccl.options import KINDS, CollectiveOptions
from models.workload.nccl.roles import broadcast_operations, tree_operations
from models.workload.nccl.wiring import peer_orders, remote_offsets, wire
from models.workload.operations import Operation, Repeat
from models.workload.plan import PlanBuilder, Slot
from models.workload.program import OP_EXCHANGE, OP_GROUP, OP_RECEIVE, OP_RING, OP_SEND
from models.workload.slots import SlotNames
from pdes.errors import SimError
from pdes.units import PS_PER_NS

Operations = list[Operation | Repeat]


class Communicator:
    """Groups of GPUs that do the same collectives side by side, such as all data-parallel groups of a stage.

    A communicator's collectives follow each other on one stream of each GPU. gpu_type "": no timed part, all packets.

    A ring leaves a server by the NIC that it came by, if the last GPU in the server reaches that NIC. Before NCCL 2.12,
    in servers whose PCIe switches are on NUMA nodes of their own (DGX A100), a GPU reached at full rate only the NICs
    on its switch; without a second member there, the search (graph/search.cc: "first try crossnic, then decrease
    speed") took a ring from NIC to NIC, so that each border leads from one rail to another, through the spines. Since
    2.12 (PXN) the ring's first GPU hands the data to its NIC. options.cross_rail_rings: as before 2.12.
    """

    def __init__(
        self,
        name: str,
        groups: Sequence[tuple[int, ...]],
        server_of_gpu: np.ndarray,
        gpu_type: GpuType,
        options: CollectiveOptions = CollectiveOptions(),  # noqa: B008  frozen
    ) -> None:
        self.name, self.gpu_type, self.options = name, gpu_type, options
        self.layout = make_layout(groups, server_of_gpu)
        self._keys: set[str] = set()
        self._names = SlotNames()
        self._choices: dict[tuple[str, int, bool], Choice] = {}
        self._places: dict[int, tuple[list[int], int]] = {}

    @property
    def is_timed(self) -> bool:
        """Whether parts inside a server are timed; else all messages are packets."""
        return bool(self.gpu_type) and self.options.in_server == "timed" and self.layout.per_server > 0

    def same_for_all(self, kind: str, size_bytes: int) -> bool:
        """Whether all members run the same operations in the plan that `operations_of` has."""
        if not self.is_timed or self.layout.n_server == 1 or kind not in ("all-reduce", "broadcast", "ring"):
            return True
        if kind == "ring":
            return self.layout.per_server == 1
        return kind == "all-reduce" and self._choice(kind, size_bytes, False).algorithm != "tree"

    def operations(self, names: SlotNames, kind: str, size_bytes: int, task: str, tag: str) -> Operations:
        """One collective, the same for every member: where NCCL's members differ, the fastest way in which they do not.

        A broadcast between servers is a ring all-gather then, which moves as many bytes; a "ring" over servers with
        several members each is packets alone.
        """
        return self._plan(names, kind, size_bytes, task, tag, None)

    def operations_of(self, gpu: int, names: SlotNames, kind: str, size_bytes: int, task: str, tag: str) -> Operations:
        """One collective as a member runs it."""
        return self._plan(names, kind, size_bytes, task, tag, gpu)

    def uneven(
        self, names: SlotNames, place: int, size_bytes: int, loads: Sequence[float], by_receiver: bool, tag: str
    ) -> Operations:
        """What a member at a place in its group does of an all-to-all whose messages differ: that from i to j is
        loads[j if by_receiver else i] times as large as in one of size_bytes that are shared out evenly.

        Members in one server are timed by who sends or takes in most there, while the others' messages are under way.
        """
        self._names, n, share = names, self.layout.n_gpu, chunk_bytes(size_bytes, self.layout.n_gpu)
        k = self.layout.per_server if self.is_timed and self.layout.is_in_order else 1
        first, key = place // k * k, "remote" if k > 1 else "all"

        def message_bytes(i: int, j: int) -> int:
            return max(1, round(share * loads[j if by_receiver else i]))

        here = range(first, first + k)
        sent = [sum(message_bytes(i, j) for j in here if j != i) for i in here]
        taken = [sum(message_bytes(j, i) for j in here if j != i) for i in here]
        inside: Operations = []
        if k > 1:
            even_bytes = max(*sent, *taken) * k // (k - 1)  # of which each keeps one part itself
            inside = [self._timed(in_server_ps(self.gpu_type, "all-to-all", even_bytes, k), tag, taken[place - first])]
        if k == n:
            return inside
        to, sources = peer_orders(remote_offsets(n, k))
        out, into = self._slot(f"{key}-out", len(to[place])), self._slot(f"{key}-in", len(sources[place]))
        sends = (
            Operation(OP_SEND, out + i, size_bytes=message_bytes(place, j), tag=tag) for i, j in enumerate(to[place])
        )
        receives = (
            Operation(OP_RECEIVE, into + i, task=tag, task_bytes=message_bytes(j, place))
            for i, j in enumerate(sources[place])
        )
        return [*sends, *inside, *receives]

    def place(self, gpu: int) -> int:
        """What `operations_of` depends on: the place of a member on its rail."""
        return self._place(gpu)[1]

    def connect(self, builder: PlanBuilder) -> dict[int, dict[str, list[Slot]]]:
        """Per GPU: key -> its slots, for the keys that operations so far have used."""
        return wire(builder, self.layout, f"{self.name}:", self._keys)

    def _plan(self, names: SlotNames, kind: str, size_bytes: int, task: str, tag: str, gpu: int | None) -> Operations:
        if kind not in KINDS:
            raise SimError(f'communicator {self.name}: kind "{kind}"; accepted are {", ".join(KINDS)}')
        if self.layout.n_gpu == 1 or size_bytes == 0:
            return []
        self._names = names
        if self.is_timed and self.layout.n_server == 1:
            return [self._timed(self._one_server_ps(kind, size_bytes), task, size_bytes)]
        if kind == "ring":
            if gpu is not None and self.is_timed and self.layout.per_server > 1:
                return self._neighbour_by_role(gpu, size_bytes, task, tag)
            return self._neighbours(size_bytes, task, tag)
        if kind == "all-to-all":
            return self._all_to_all(size_bytes, task, tag)
        if not self.is_timed:
            return [self._ring_of_all(kind, size_bytes, task, tag)]
        choice = self._choice(kind, size_bytes, gpu is None)
        if gpu is not None and (choice.algorithm == "tree" or kind == "broadcast"):
            return self._by_role(gpu, kind, choice, size_bytes, task, tag)
        way = "turn" if self.options.cross_rail_rings and self.layout.is_apart else "rail"
        ring = Operation(
            OP_RING, self._slot(f"{way}-next"), self._slot(f"{way}-previous"), choice.n_step,
            self._part(choice.message_bytes()), task=task, task_bytes=size_bytes, tag=tag,
        )  # fmt: skip
        met = self._meet(task, tag) if choice.algorithm == "sharp" else []
        return self._framed(choice, [ring, *met], task)

    def _meet(self, task: str, tag: str) -> Operations:
        """Until all members of a rail have sent: nobody has a sum before. A message of a byte to the member that is 1,
        2, 4, ... places further, each once the one before has arrived.
        """
        n_round = (self.layout.n_server - 1).bit_length()
        return [
            Operation(OP_RING, self._slot(f"met-{i}-next"), self._slot(f"met-{i}-previous"), 1, 1, task=task, tag=tag)
            for i in range(n_round)
        ]

    def _choice(self, kind: str, size_bytes: int, is_uniform: bool) -> Choice:
        key = (kind, size_bytes, is_uniform)
        if key not in self._choices:
            self._choices[key] = choose(kind, size_bytes, self._shape(), self.options, is_uniform)
        return self._choices[key]

    def _shape(self) -> Shape:
        return Shape(self.gpu_type, self.layout.n_server, self.layout.per_server)

    def _part(self, n_bytes: int) -> int:
        """What this communicator carries of a message, where others carry the rest beside it."""
        return -(-n_bytes // self.options.share)

    def _slot(self, key: str, n: int = 1) -> int:
        self._keys.add(key)
        return self._names(f"{self.name}:{key}", n)

    def _timed(self, time_ps: int, task: str, task_bytes: int = 0) -> Operation:
        """Members of a server wait for each other, then for a time. A GPU alone in its server only takes the time."""
        key = "server" if self.layout.per_server > 1 else "self"
        return Operation(OP_GROUP, self._slot(key), time_ps=max(PS_PER_NS, time_ps), task=task, task_bytes=task_bytes)

    def _framed(self, choice: Choice, packets: Operations, task: str) -> Operations:
        """What packets do not show around them."""
        after: Operations = [self._timed(choice.tail_ps, task)] if self.layout.per_server > 1 else []
        return [self._timed(choice.lead_ps, task), *packets, *after]

    def _one_server_ps(self, kind: str, size_bytes: int) -> int:
        n, options = self.layout.n_gpu, self.options
        if kind == "ring":
            return (n - 1) * in_server_ps(self.gpu_type, "send-receive", size_bytes, n)
        asked = options.algorithm_of(kind)
        algorithm = asked if asked in ("ring", "tree", "nvls") else "auto"
        return in_server_ps(self.gpu_type, kind, size_bytes, n, algorithm, options.nvls, options.protocol_of(kind))

    def _ring_of_all(self, kind: str, size_bytes: int, task: str, tag: str) -> Operation:
        n, passes = self.layout.n_gpu, RING_STEPS.get(kind, 1)
        return Operation(
            OP_RING, self._slot("ring-next"), self._slot("ring-previous"), passes * (n - 1),
            self._part(chunk_bytes(size_bytes, n)), task=task, task_bytes=size_bytes, tag=tag,
        )  # fmt: skip

    def _neighbours(self, size_bytes: int, task: str, tag: str) -> Operations:
        """n - 1 steps of size_bytes to the next member in the order of the group, over whatever links them."""
        n = self.layout.n_gpu
        ring = Operation(
            OP_RING, self._slot("ring-next"), self._slot("ring-previous"), n - 1, self._part(size_bytes),
            task=task, task_bytes=(n - 1) * size_bytes, tag=tag,
        )  # fmt: skip
        if not self.gpu_type or self.layout.per_server != 1:
            return [ring]
        lead_ps, _ = exchange_lead_ps(size_bytes * n, self._shape(), n - 1, self.options, "ring")
        return [self._timed(lead_ps, task), ring]

    def _all_to_all(self, size_bytes: int, task: str, tag: str) -> Operations:
        n, k, n_server = self.layout.n_gpu, self.layout.per_server, self.layout.n_server
        if not self.is_timed:
            return [self._exchange("all", n - 1, self._part(chunk_bytes(size_bytes, n)), size_bytes, task, tag)]
        asked = self.options.algorithm_of("all-to-all")
        algorithm = ("pxn" if k > 1 else "direct") if asked == "auto" else asked
        is_rail = algorithm == "pxn" or k == 1
        key, n_peer = ("rail", n_server - 1) if is_rail else ("remote", (n_server - 1) * k)
        lead_ps, wire_ppm = exchange_lead_ps(size_bytes, self._shape(), n_peer if algorithm == "pairwise" else 1,
                                             self.options)  # fmt: skip
        message_bytes = self._part(on_wire(chunk_bytes(size_bytes, n) * (k if is_rail else 1), wire_ppm))
        lead = self._timed(lead_ps, task)
        if algorithm != "pairwise":
            return [lead, self._exchange(key, n_peer, message_bytes, size_bytes, task, tag)]
        out, into = self._slot(f"{key}-out", n_peer), self._slot(f"{key}-in", n_peer)
        steps = (
            Operation(OP_EXCHANGE, out + i, into + i, 1, message_bytes, task=task, task_bytes=size_bytes // n, tag=tag)
            for i in range(n_peer)
        )
        return [lead, *steps]

    def _exchange(self, key: str, n_peer: int, message_bytes: int, size_bytes: int, task: str, tag: str) -> Operation:
        return Operation(
            OP_EXCHANGE, self._slot(f"{key}-out", n_peer), self._slot(f"{key}-in", n_peer), n_peer, message_bytes,
            task=task, task_bytes=size_bytes, tag=tag,
        )  # fmt: skip

    def _by_role(self, gpu: int, kind: str, choice: Choice, size_bytes: int, task: str, tag: str) -> Operations:
        rail, place = self._place(gpu)
        make = tree_operations if kind == "all-reduce" else broadcast_operations
        share = self._part(on_wire(chunk_bytes(size_bytes, self.layout.per_server), choice.wire_ppm))
        packets = make(self._slot, len(rail), place, share, task, tag)
        return self._framed(choice, packets, task)

    def _neighbour_by_role(self, gpu: int, size_bytes: int, task: str, tag: str) -> Operations:
        """Steps to the next member where some are in the same server: those are timed, for all of the server at once,
        while the others' messages are on their way.
        """
        n = self.layout.n_gpu
        sends, receives = self.layout.edges[gpu]
        step = (
            [Operation(OP_SEND, self._slot("edge-next"), size_bytes=self._part(size_bytes), tag=tag)] if sends else []
        )
        time_ps = in_server_ps(self.gpu_type, "send-receive", size_bytes, n)
        step.append(self._timed(time_ps, task, size_bytes))
        if receives:
            step.append(Operation(OP_RECEIVE, self._slot("edge-previous"), task=task))
        return [Repeat(n - 1, tuple(step))]

    def _place(self, gpu: int) -> tuple[list[int], int]:
        """The rail of a member and its place there."""
        if not self._places:
            rails = (rail for i in range(len(self.layout.groups)) for rail in self.layout.rails(i))
            self._places = {member: (rail, i) for rail in rails for i, member in enumerate(rail)}
        return self._places[gpu]
