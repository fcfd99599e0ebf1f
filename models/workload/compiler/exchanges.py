"""Collectives of the groups of a layout, as operations of a stream; see `Communicator`."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from models.workload.collectives import RING_STEPS, chunk_bytes
from models.workload.operations import Operation, Repeat
from models.workload.plan import SLOT_GROUP, SLOT_PAIR, PlanBuilder, Slot
from models.workload.program import OP_EXCHANGE, OP_GROUP, OP_RING
from models.workload.slots import SlotNames

PS_PER_S = 10**12


class Communicator:
    """Groups of GPUs, all of one size, that do the same collectives side by side."""

    def __init__(
        self, name: str, groups: Sequence[tuple[int, ...]], server_of_gpu: np.ndarray, alpha_ps: int, bandwidth_bps: int
    ) -> None:
        self.name, self.groups = name, list(groups)
        self._alpha_ps, self._bandwidth_bps = alpha_ps, bandwidth_bps
        self.n = len(self.groups[0])
        servers = [server_of_gpu[list(group)] for group in self.groups]
        counts = {tuple(np.unique(row, return_counts=True)[1].tolist()) for row in servers}
        each = counts.pop() if len(counts) == 1 else (1,) * self.n
        self.k = each[0] if len(set(each)) == 1 else 1  # members in each server
        self._server = server_of_gpu
        self._used: set[str] = set()

    def _timed(self, names: SlotNames, time_ps: int, size_bytes: int, task: str) -> Operation:
        self._used.add("group")
        return Operation(OP_GROUP, names(f"{self.name}.group"), time_ps=time_ps, task=task, task_bytes=size_bytes)

    def _in_server_ps(self, kind: str, size_bytes: int, n: int) -> int:
        factor = {"all-reduce": Fraction(2 * (n - 1), n), "ring": Fraction(n - 1)}.get(kind, Fraction(n - 1, n))
        moved = factor * size_bytes * 8 * PS_PER_S
        return self._alpha_ps + -(-moved.numerator // (moved.denominator * self._bandwidth_bps))

    def operations(self, names: SlotNames, kind: str, size_bytes: int, task: str, tag: str) -> list[Operation | Repeat]:
        """What every member runs for one collective."""
        if self.n == 1 or size_bytes == 0:
            return []
        if self.k == self.n:
            return [self._timed(names, self._in_server_ps(kind, size_bytes, self.n), size_bytes, task)]
        m = self.n // self.k
        if kind == "all-to-all":
            self._used.add("peers")
            n_far = self.n - self.k
            out, back = names(f"{self.name}.to", n_far), names(f"{self.name}.from", n_far)
            size = chunk_bytes(size_bytes, self.n)
            return [Operation(OP_EXCHANGE, out, back, n_far, size, task=task, task_bytes=size_bytes, tag=tag)]
        self._used.add("ring")
        to, back = names(f"{self.name}.next"), names(f"{self.name}.previous")
        if kind == "ring":
            return [Operation(OP_RING, to, back, self.n - 1, size_bytes, task=task, task_bytes=size_bytes, tag=tag)]
        share = chunk_bytes(size_bytes, self.k)
        n_step, size = RING_STEPS[kind] * (m - 1), chunk_bytes(share, m)
        ring = Operation(OP_RING, to, back, n_step, size, task=task, task_bytes=size_bytes, tag=tag)
        if self.k == 1:
            return [ring]
        half = self._timed(names, self._in_server_ps("all-gather", size_bytes, self.k), size_bytes, task)
        before, behind = kind in ("all-reduce", "reduce-scatter"), kind in ("all-reduce", "all-gather")
        return [*([half] if before else []), ring, *([half] if behind else [])]

    def connect(self, builder: PlanBuilder) -> dict[int, dict[str, list[Slot]]]:
        """Queue pairs and groups that `operations` has asked for, for every GPU by the names of their slots."""
        table: dict[int, dict[str, list[Slot]]] = {gpu: {} for group in self.groups for gpu in group}
        for group in self.groups:
            self._connect_group(builder, group, table)
        return table

    def _connect_group(self, builder: PlanBuilder, group: tuple[int, ...], table: dict) -> None:
        by_server: dict[int, list[int]] = {}
        for gpu in group:
            by_server.setdefault(int(self._server[gpu]) if self.k > 1 else gpu, []).append(gpu)
        servers = list(by_server.values())
        if "group" in self._used:
            for members in servers:
                number = builder.group()
                for gpu in members:
                    table[gpu][f"{self.name}.group"] = [(SLOT_GROUP, number)]
        if "ring" in self._used:
            for i in range(self.k):
                ring = [members[i] for members in servers]
                pairs = [builder.pair(gpu, ring[(j + 1) % len(ring)]) for j, gpu in enumerate(ring)]
                for j, gpu in enumerate(ring):
                    table[gpu][f"{self.name}.next"] = [(SLOT_PAIR, pairs[j])]
                    table[gpu][f"{self.name}.previous"] = [(SLOT_PAIR, pairs[j - 1])]
        if "peers" in self._used:
            n = len(servers)
            at = {gpu: (s, i) for s, members in enumerate(servers) for i, gpu in enumerate(members)}

            def far(gpu: int, sign: int) -> list[int]:
                s, i = at[gpu]
                return [
                    servers[(s + sign * d) % n][(i + sign * j) % self.k] for d in range(1, n) for j in range(self.k)
                ]

            pair = {(a, b): builder.pair(a, b) for a in group for b in far(a, 1)}
            for gpu in group:
                table[gpu][f"{self.name}.to"] = [(SLOT_PAIR, pair[gpu, b]) for b in far(gpu, 1)]
                table[gpu][f"{self.name}.from"] = [(SLOT_PAIR, pair[a, gpu]) for a in far(gpu, -1)]
