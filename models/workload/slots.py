"""Slots of a program by name, so that GPUs that do the same share one program with one numbering."""

from models.workload.plan import SLOT_UNUSED, Slot


class SlotNames:
    """Numbers slots in the order in which a program first names them; a name can stand for several in a row."""

    def __init__(self) -> None:
        self._first: dict[str, int] = {}
        self._count: dict[str, int] = {}
        self._n = 0

    def __call__(self, key: str, n: int = 1) -> int:
        """The first of the n slots called `key`."""
        if key not in self._first:
            self._first[key], self._count[key] = self._n, n
            self._n += n
        assert self._count[key] == n, f"slots {key}: {self._count[key]} and {n}"
        return self._first[key]

    def keys(self) -> list[str]:
        """All names so far."""
        return list(self._first)

    def resolve(self, table: dict[str, list[Slot]]) -> list[Slot]:
        """A GPU's slots in this order, from its slots by name; unused where it has none."""
        slots: list[Slot] = []
        for key, n in self._count.items():
            slots += table.get(key, [(SLOT_UNUSED, 0)] * n)
        return slots
