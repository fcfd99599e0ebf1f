"""Stages and replicas whose tensor-parallel sizes differ: which piece of a tensor a GPU has, and who has the same one.

A tensor that a group of t GPUs splits is looked at in n pieces, n the least number that all groups in question divide:
of t GPUs each has n / t in a row. So a piece has one GPU in every group, whatever the group's size.

Between stages every GPU sends its pieces of the activations to the GPUs that have these pieces in the next stage, so
that all of them cross once; what gathers them inside the next stage's group is not modelled, as with equal sizes. Plans
of Sailor (SOSP'25) and Metis (ATC'24) have such stages. Gradients of a piece are summed over the GPUs of all replicas
that hold it: a GPU is in as many groups as it has pieces, which exchange beside each other. What each GPU of a group
holds whole, norms and some biases, counts in each piece.
"""

from collections.abc import Sequence
from functools import partial
from math import lcm
from typing import NamedTuple

from models.compute.layout import Layout
from models.workload.compiler.groups import MakeCommunicators, StageGroups
from models.workload.compiler.ranks import Groups, Ranks
from models.workload.nccl.communicator import Communicator
from models.workload.operations import Operation, Repeat
from models.workload.plan import PlanBuilder, Slot
from models.workload.slots import SlotNames


class Pieces(NamedTuple):
    """Of a stage of a replica: in how many pieces tensors are seen.

    previous, following: activations, with the stage before it and behind it. gradients: with the other replicas.
    embedding: tied ones, with the other end of the pipeline.
    """

    previous: int
    following: int
    gradients: int
    embedding: int


def pieces_of(layout: Layout, stage: int, replica: int) -> Pieces | None:
    """Of one stage of one replica; None: all sizes are equal."""
    sizes = layout.stage_tp
    if not sizes:
        return None
    column = [of_stage[replica] for of_stage in sizes]
    previous, following = column[max(stage - 1, 0)], column[min(stage + 1, len(column) - 1)]
    own = column[stage]
    return Pieces(lcm(own, previous), lcm(own, following), lcm(*sizes[stage]), lcm(column[0], column[-1]))


def pairs_of(one: Sequence[int], other: Sequence[int]) -> list[tuple[int, int]]:
    """Who has each piece in two groups, in the order of the pieces."""
    n = lcm(len(one), len(other))
    return [(one[i * len(one) // n], other[i * len(other) // n]) for i in range(n)]


def slices_of(groups: Sequence[Sequence[int]]) -> list[Groups]:
    """The GPUs of each piece, one of every group; in slices, in each of which a GPU has one piece at most."""
    n = lcm(*map(len, groups))
    slices: list[Groups] = [[] for _ in range(n // min(map(len, groups)))]
    for i in range(n):
        slices[i % len(slices)].append(tuple(group[i * len(group) // n] for group in groups))
    return slices


def _make_slice(
    make: MakeCommunicators, i: int, group: str, stream: str, members: Groups, kind: str
) -> list[Communicator]:
    return make(group, f"{stream}#{i}", members, kind)


class UnequalGroups:
    """The groups of a stage, or of the ends of a pipeline, as each of its GPUs sees them."""

    def __init__(self, tensor: Groups, name: str, slices: Sequence[Groups], make: MakeCommunicators) -> None:
        sizes = sorted({len(group) for group in tensor})
        self._tensor = {n: StageGroups({"tp": [one for one in tensor if len(one) == n]}, make) for n in sizes}
        self._size = {gpu: len(group) for group in tensor for gpu in group}
        self._slices = [StageGroups({name: groups}, partial(_make_slice, make, i)) for i, groups in enumerate(slices)]
        self._slices_of: dict[int, list[int]] = {}
        for i, groups in enumerate(slices):
            for gpu in (gpu for group in groups for gpu in group):
                self._slices_of.setdefault(gpu, []).append(i)

    def of(self, gpu: int) -> "GroupsOfGpu":
        """As a GPU sees them."""
        own = [self._tensor[self._size[gpu]]] if gpu in self._size else []
        i_slices = tuple(self._slices_of.get(gpu, ()))
        return GroupsOfGpu(own + [self._slices[i] for i in i_slices], i_slices)

    def connect(self, builder: PlanBuilder, table: dict[int, dict[str, list[Slot]]]) -> None:
        """As `StageGroups.connect`."""
        for one in (*self._tensor.values(), *self._slices):
            one.connect(builder, table)


class GroupsOfGpu:
    """What `StageGroups` is to a stage's GPUs, to one GPU: a collective has a part for each piece that it holds."""

    def __init__(self, groups: Sequence[StageGroups], slices: tuple[int, ...]) -> None:
        self._groups, self._slices = groups, slices

    def size(self, group: str) -> int:
        """GPUs of a group."""
        return max((one.size(group) for one in self._groups), default=1)

    def parts(self, stream: str, group: str, kind: str) -> list[Communicator]:
        """Those that carry a collective of a group on a stream, beside each other."""
        return [part for one in self._groups if one.size(group) > 1 for part in one.parts(stream, group, kind)]

    def operations(
        self, communicator: Communicator, gpu: int, names: SlotNames, kind: str, size_bytes: int, task: str, group: str
    ) -> list[Operation | Repeat]:
        """What the GPU does of a collective."""
        owner = next(one for one in self._groups if one.has(communicator))
        return owner.operations(communicator, gpu, names, kind, size_bytes, task, group)

    def places(self, gpu: int) -> tuple[int, ...]:
        """What the GPU's programs depend on: the slices that it is in, and its places, so far."""
        return (len(self._slices), *self._slices, *(place for one in self._groups for place in one.places(gpu)))


def stage_groups(ranks: Ranks, stage: int, make: MakeCommunicators) -> UnequalGroups:
    """Of a stage."""
    tensor = ranks.tensor(stage)
    return UnequalGroups(tensor, "dp", slices_of(tensor), make)


def embedding_groups(ranks: Ranks, make: MakeCommunicators) -> UnequalGroups:
    """GPUs of the first and the last stage that hold the same piece of an embedding, replica by replica."""
    slices: list[Groups] = []
    last = ranks.layout.pp - 1
    for ends in zip(ranks.tensor(0), ranks.tensor(last), strict=True) if last else ():
        for i, groups in enumerate(slices_of(ends)):
            slices += [[]] if i == len(slices) else []
            slices[i] += groups
    return UnequalGroups([], "embedding", slices, make)
