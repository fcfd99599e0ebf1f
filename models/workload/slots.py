"""Slots of a program by name: programs are shared, so what writes one numbers keys, and each GPU fills in its own."""

from collections.abc import Mapping, Sequence

from models.workload.plan import SLOT_UNUSED, Slot


class SlotNames:
    """Numbers of a program's slots: each key has n in a row, in order of first use."""

    def __init__(self) -> None:
        self._first: dict[str, tuple[int, int]] = {}
        self._n_slot = 0

    def __call__(self, key: str, n: int = 1) -> int:
        """First slot of a key; n is the same in every call for it."""
        first, n_known = self._first.setdefault(key, (self._n_slot, n))
        if n_known != n:
            raise ValueError(f'slots "{key}": {n}, but {n_known} before')
        if first == self._n_slot:
            self._n_slot += n
        return first

    def keys(self) -> list[str]:
        """All keys so far, in order."""
        return list(self._first)

    def resolve(self, table: Mapping[str, Sequence[Slot]]) -> list[Slot]:
        """Slots of a GPU in the program's order; SLOT_UNUSED where the GPU has none of that key."""
        slots: list[Slot] = []
        for key, (_, n) in self._first.items():
            own = list(table.get(key, ()))
            if len(own) > n:
                raise ValueError(f'slots "{key}": {len(own)} for {n}')
            slots += own + [(SLOT_UNUSED, 0)] * (n - len(own))
        return slots
