"""The communicators of a pipeline stage: one for each group of a layout and stream that uses it.

Streams of a GPU run side by side, so each has queue pairs of its own, as communicators of NCCL do.
"""

from collections.abc import Callable

from models.workload.compiler.ranks import Groups
from models.workload.nccl.communicator import Communicator
from models.workload.operations import Operation, Repeat
from models.workload.plan import PlanBuilder, Slot
from models.workload.slots import SlotNames

MakeCommunicator = Callable[[str, Groups], Communicator]


class StageGroups:
    """Who communicates with whom in a stage: "tp", "cp", "ep", "dp", "edp", "embedding"."""

    def __init__(self, members: dict[str, Groups], make: MakeCommunicator) -> None:
        self._members, self._make = members, make
        self._communicators: dict[str, Communicator] = {}

    def size(self, group: str) -> int:
        """GPUs of a group."""
        groups = self._members.get(group)
        return len(groups[0]) if groups else 1

    def operations(
        self, names: SlotNames, stream: str, group: str, kind: str, size_bytes: int, task: str
    ) -> list[Operation | Repeat]:
        """A collective of a group on a stream; nothing if the group is one GPU."""
        if self.size(group) == 1 or size_bytes == 0:
            return []
        name = f"{group}.{stream}"
        if name not in self._communicators:
            self._communicators[name] = self._make(name, self._members[group])
        return self._communicators[name].operations(names, kind, size_bytes, task, group)

    def connect(self, builder: PlanBuilder, table: dict[int, dict[str, list[Slot]]]) -> None:
        """Queue pairs and groups of all communicators, into the GPUs' slots by name."""
        for communicator in self._communicators.values():
            for gpu, slots in communicator.connect(builder).items():
                table[gpu].update(slots)
