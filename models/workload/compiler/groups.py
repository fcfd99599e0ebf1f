"""The communicators of a pipeline stage: one for each group of a layout, stream that uses it, and channel.

Streams of a GPU run side by side, so each has queue pairs of its own, as communicators of NCCL do.
"""

from collections.abc import Callable

from models.workload.compiler.ranks import Groups
from models.workload.nccl.communicator import Communicator
from models.workload.operations import Operation, Repeat
from models.workload.plan import PlanBuilder, Slot
from models.workload.slots import SlotNames

MakeCommunicators = Callable[[str, str, Groups, str], list[Communicator]]
"""(group, stream, members, kind of collective) -> a communicator for each part that it has."""


class StageGroups:
    """Who communicates with whom in a stage: "tp", "cp", "ep", "etp", "dp", "edp", "embedding"."""

    def __init__(self, members: dict[str, Groups], make: MakeCommunicators) -> None:
        self._members, self._make = members, make
        self._communicators: dict[str, Communicator] = {}
        self._parts: dict[tuple[str, str, str], list[Communicator]] = {}
        self._by_role: dict[str, Communicator] = {}  # whose members do not all do the same

    def size(self, group: str) -> int:
        """GPUs of a group."""
        groups = self._members.get(group)
        return len(groups[0]) if groups else 1

    def parts(self, stream: str, group: str, kind: str) -> list[Communicator]:
        """Those that carry a collective of a group on a stream, beside each other; none if the group is one GPU."""
        key = (stream, group, kind)
        if key not in self._parts:
            found = self._make(group, stream, self._members[group], kind) if self.size(group) > 1 else []
            self._parts[key] = [self._communicators.setdefault(one.name, one) for one in found]
        return self._parts[key]

    def operations(
        self, communicator: Communicator, gpu: int, names: SlotNames, kind: str, size_bytes: int, task: str, group: str
    ) -> list[Operation | Repeat]:
        """What a GPU does of a collective; of rings all members do the same, of trees each has its own part."""
        if kind != "all-reduce" or communicator.same_for_all(kind, size_bytes):
            return communicator.operations(names, kind, size_bytes, task, group)
        self._by_role[communicator.name] = communicator
        return communicator.operations_of(gpu, names, kind, size_bytes, task, group)

    def places(self, gpu: int) -> tuple[int, ...]:
        """What a GPU's programs depend on: its places in collectives, so far, in which not all do the same."""
        return tuple(communicator.place(gpu) for communicator in self._by_role.values())

    def has(self, communicator: Communicator) -> bool:
        """Whether it is one of these."""
        return self._communicators.get(communicator.name) is communicator

    def connect(self, builder: PlanBuilder, table: dict[int, dict[str, list[Slot]]]) -> None:
        """Queue pairs and groups of all communicators, into the GPUs' slots by name."""
        for communicator in self._communicators.values():
            for gpu, slots in communicator.connect(builder).items():
                table[gpu].update(slots)
