"""Times of a job's exchanges: what its planner would run, each message at the rate that an even network leaves it.

The operations are the planner's own (`models.workload.nccl.communicator`), so that algorithms, protocols and what is
timed inside servers are those of a run. Left out: exchanges of different kinds that meet on a port.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from models.topology.even_ways import EvenWays, Pair, Way
from models.workload.compiler.job import Job
from models.workload.compiler.ranks import Groups, Ranks
from models.workload.nccl.communicator import Communicator
from models.workload.nccl.estimate import Shape, choose
from models.workload.nccl.layout import make_layout
from models.workload.nccl.wiring import wire
from models.workload.operations import Operation, Repeat
from models.workload.plan import PlanBuilder
from models.workload.program import OP_EXCHANGE, OP_GROUP, OP_RING
from models.workload.slots import SlotNames
from pdes.units import BITS_PER_BYTE, PS_PER_S

OUTWARDS = ("-next", "-out")  # how keys of queue pairs end that one sends on


class Message(NamedTuple):
    """How long it takes its port, and how much later it is there."""

    busy_ps: int
    latency_ps: int
    port: int


class Exchanges:
    """Of jobs that differ in what does not move their ranks: microbatch, chunks, recompute, ZeRO.

    wire_share: bytes on the wire per byte of a message. gpu_of_rank: placement; None: rank i is on GPU i.
    """

    def __init__(
        self, job: Job, ways: EvenWays, server_of_gpu: np.ndarray, wire_share: float, gpu_of_rank: list[int] | None
    ) -> None:
        self.job, self.ways, self.server_of_gpu, self.wire_share = job, ways, server_of_gpu, wire_share
        self.ranks = Ranks(job.layout, gpu_of_rank)
        self._times: dict[tuple[str, int, str, int], int] = {}
        self._ways: dict[tuple[str, str], Way] = {}
        self._planners: dict[str, list[tuple[Communicator, list[int]]]] = {}
        self._sizes: dict[str, int] = {}
        self._alike: dict[int, tuple[int, ...]] = {}

    def size(self, group: str) -> int:
        """GPUs of a group."""
        if group == "embedding":
            return 2 if self.job.layout.pp > 1 and not self.job.layout.dual else 1
        if group not in self._sizes:
            self._sizes[group] = len(self._members(group, 0)[0])
        return self._sizes[group]

    def time_ps(self, group: str, kind: str, size_bytes: int, stage: int = -1) -> int:
        """One exchange in all groups of a kind at once; 0 if a group is one GPU. kind: as in `lower.Segment`.

        stage: in which; -1: in the one that takes longest.
        """
        if not size_bytes or self.size(group) == 1:
            return 0
        found = 0
        for i, (_, stages) in enumerate(self._planned(group)):
            if stage < 0 or stage in stages:
                key = (group, i, kind, size_bytes)
                if key not in self._times:
                    self._times[key] = self._of_planner_ps(*key)
                found = max(found, self._times[key])
        return found

    def alike(self, stage: int) -> tuple[int, ...]:
        """The same for stages in which layers' own exchanges take as long."""
        if stage not in self._alike:
            groups = [self._planned(group) for group in ("tp", "cp", "ep", "etp") if self.size(group) > 1]
            self._alike[stage] = tuple(
                next(i for i, (_, stages) in enumerate(planned) if stage in stages) for planned in groups
            )
        return self._alike[stage]

    def message(self, stage: int, size_bytes: int, is_back: bool = False) -> Message:
        """From every GPU of a stage to its peer in the next one, of the last in the first; back: in the one before."""
        key = ("back" if is_back else "forth", str(stage))
        if key not in self._ways:
            peer = (stage + (-1 if is_back else 1)) % self.job.layout.pp
            self._ways[key] = self.ways.way(zip(self.ranks.stage(stage), self.ranks.stage(peer), strict=True))
        way = self._ways[key]
        return Message(self._transfer_ps(way, size_bytes) - way.latency_ps, way.latency_ps, way.port)

    def is_between_servers(self, group: str) -> bool:
        """Whether a group has GPUs in several servers."""
        return any(planner.layout.n_server > 1 for planner, _ in self._planned(group))

    def _transfer_ps(self, way: Way, size_bytes: int) -> int:
        return way.latency_ps + round(size_bytes * self.wire_share * BITS_PER_BYTE * PS_PER_S / way.rate_bps)

    def _members(self, group: str, stage: int) -> Groups:
        ranks, pp = self.ranks, self.job.layout.pp
        if group == "embedding":
            return list(zip(ranks.stage(0), ranks.stage(pp - 1), strict=True))
        find = {
            "tp": ranks.tensor, "cp": ranks.context, "dp": ranks.sharers, "ep": ranks.experts,
            "etp": ranks.expert_shares, "edp": ranks.expert_sharers, "shard": ranks.shards, "copies": ranks.copies,
        }  # fmt: skip
        return find[group](stage)

    def _planned(self, group: str) -> list[tuple[Communicator, list[int]]]:
        """Planners of a group, each with the stages whose groups are alike: on as many servers in the same way."""
        if group not in self._planners:
            job, found = self.job, {}
            for stage in range(1 if group == "embedding" else job.layout.n_program):
                members = self._members(group, stage)
                in_server = job.in_server(gpu for one in members for gpu in one)
                transports = job.transports(gpu for one in members for gpu in one)
                options = job.tuning.options(group, transports, job.nic_goodput_bps)
                options = replace(options, cross_rail_rings=job.cross_rail_rings)
                one = Communicator(group, members, self.server_of_gpu, in_server, options)
                shape = in_server, transports, one.layout.n_server, one.layout.per_server, one.layout.is_apart
                found.setdefault(shape, (one, []))[1].append(stage)
            self._planners[group] = list(found.values())
        return self._planners[group]

    def _of_planner_ps(self, group: str, i: int, kind: str, size_bytes: int) -> int:
        planner, _ = self._planned(group)[i]
        if kind == "all-reduce" and not planner.same_for_all(kind, size_bytes):  # a tree
            shape = Shape(planner.gpu_type, planner.layout.n_server, planner.layout.per_server)
            return choose(kind, size_bytes, shape, planner.options, False).total_ps
        names = SlotNames()
        operations = planner.operations(names, kind, size_bytes, group, group)
        ways = [key for key in (name.rpartition(":")[2] for name in names.keys()) if key.endswith(OUTWARDS)]
        n_peer = sum(one.n_step for one in operations if isinstance(one, Operation) and one.kind == OP_EXCHANGE)
        return sum(self._operation_ps(group, i, ways, n_peer, operation) for operation in operations)

    def _operation_ps(self, group: str, i: int, ways: list[str], n_peer: int, operation: Operation | Repeat) -> int:
        """Part of an exchange. ways: the one key of its queue pairs, if it has messages. n_peer: of an all-to-all."""
        assert isinstance(operation, Operation)
        if operation.kind == OP_GROUP:
            return operation.time_ps
        way = self._way(group, i, ways[0])
        if operation.kind == OP_RING:
            return operation.n_step * self._transfer_ps(way, operation.size_bytes)
        assert operation.kind == OP_EXCHANGE  # with all peers at once, or with some after the others
        alone_ps = self._transfer_ps(way, operation.size_bytes) - way.latency_ps
        return way.latency_ps + alone_ps * operation.n_step // n_peer

    def _way(self, group: str, i: int, key: str) -> Way:
        """Of all messages that are under way at once, in all stages."""
        place = (f"{group} {i}", key)
        if place not in self._ways:
            pairs = _Ends(len(self.server_of_gpu))
            for stage in self._planned(group)[i][1]:
                wire(pairs, make_layout(self._members(group, stage), self.server_of_gpu), "", {key})
            self._ways[place] = self.ways.way(pairs.ends)
        return self._ways[place]


class _Ends(PlanBuilder):
    """Of queue pairs, as they are asked for."""

    def __init__(self, n_host: int) -> None:
        super().__init__("exchanges", n_host)
        self.ends: list[Pair] = []

    def pair(self, src: int, dst: int) -> int:
        """Keep the two hosts."""
        self.ends.append((src, dst))
        return len(self.ends) - 1
