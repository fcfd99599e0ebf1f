"""From a job to the plan of all GPUs: groups, programs of each stage, queue pairs, gates."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from models.compute.checks import check_layout
from models.compute.devices import Device
from models.compute.memory import stage_parameters
from models.compute.model_flops import model_flops
from models.workload.compiler.emission import ONE_BY_ONE
from models.workload.compiler.gates import GATES, passer_of
from models.workload.compiler.groups import StageGroups
from models.workload.compiler.job import Job
from models.workload.compiler.kernels import measured_text
from models.workload.compiler.measured import check_layer_times
from models.workload.compiler.ranks import Groups, Ranks
from models.workload.compiler.stage import StageWriter
from models.workload.compiler.tokens import exchanges_at_once
from models.workload.compiler.unequal import UnequalGroups, embedding_groups, pairs_of, pieces_of, stage_groups
from models.workload.nccl.communicator import Communicator
from models.workload.nccl.layout import make_layout
from models.workload.plan import SLOT_GATE, SLOT_PAIR, PlanBuilder, Slot, StoredProgram, WorkloadPlan
from models.workload.slots import SlotNames
from pdes.errors import ConfigError

Table = dict[int, dict[str, list[Slot]]]
Programs = list[tuple[str, StoredProgram, SlotNames]]


def plan_job(
    job: Job, n_gpu: int, server_of_gpu: np.ndarray, n_iteration: int = 1, gpu_of_rank: Sequence[int] | None = None
) -> WorkloadPlan:
    """The plan of a training job over all GPUs. gpu_of_rank: placement, else rank i is on GPU i.

    ConfigError if the layout does not fit the model or the cluster.
    """
    check_job(job, n_gpu)
    return _JobBuilder(job, n_gpu, server_of_gpu, n_iteration, gpu_of_rank).build()


def check_job(job: Job, n_gpu: int) -> None:
    """Raise ConfigError if the layout does not fit the model or the cluster."""
    layout, where = job.layout, "[workload.parallel]"
    if layout.stage_tp:
        check_layout(job.shape, layout)  # before their sum is compared
        if job.is_split:
            found = f"is there with schedule {job.schedule}, which is for stages that take as long as each other"
            raise ConfigError(f"{where} stage_tp", found, 'schedule "1f1b" or "gpipe"')
    if layout.n_gpu != n_gpu:
        sizes = f"tp {layout.tp} x cp {layout.cp} x dp {layout.dp} x pp {layout.pp}"
        found = f"{sizes} = {layout.n_gpu} GPUs, and the topology has {n_gpu}"
        raise ConfigError(where, found, "sizes whose product is the number of GPUs")
    if job.routing_skew and layout.dual:
        raise ConfigError("[workload] routing_skew", f"{job.routing_skew} with schedule {job.schedule}", "0")
    if layout.vpp > 1 and job.schedule != "1f1b":
        raise ConfigError(f"{where} vpp", f"{layout.vpp} with schedule {job.schedule}", 'schedule "1f1b"')
    if not job.overlap_pipeline and (job.is_split or layout.dual):
        found = f"false with schedule {job.schedule}"
        raise ConfigError("[workload] overlap_pipeline", found, 'true, or schedule "1f1b" or "gpipe"')
    if exchanges_at_once(job) and layout.n_microbatch % layout.pp:
        found = f"false with {layout.n_microbatch} microbatches, vpp {layout.vpp} and pp {layout.pp}"
        raise ConfigError("[workload] overlap_pipeline", found, "true, or microbatches that are a multiple of pp")
    if job.routing_skew and layout.ep == 1:
        raise ConfigError("[workload] routing_skew", f"{job.routing_skew} with ep {layout.ep}", "0, or ep of 2 or more")
    check_layout(job.shape, layout)
    check_layer_times(job)


def _gates_of(programs: Programs) -> list[tuple[str, str]]:
    """Gates of a GPU with these programs, in order, each with the stream that passes it."""
    used = {key for _, _, names in programs for key in names.keys()}
    gates = [*(gate for gate in GATES if gate in used), *sorted(key for key in used - set(GATES) if passer_of(key))]
    streams = {stream for stream, _, _ in programs}
    return [(gate, passer if (passer := passer_of(gate)) in streams else ONE_BY_ONE) for gate in gates]


class _JobBuilder:
    """Collects the plan of one job."""

    def __init__(
        self, job: Job, n_gpu: int, server_of_gpu: np.ndarray, n_iteration: int, gpu_of_rank: Sequence[int] | None
    ) -> None:
        self.job, self.server_of_gpu = job, server_of_gpu
        self.ranks = Ranks(job.layout, gpu_of_rank)
        self.builder = PlanBuilder("training", n_gpu, n_iteration)
        self.table: Table = {gpu: {} for gpu in self.ranks.gpu_of_rank}

    def _make(self, group: str, stream: str, members: Groups, kind: str) -> list[Communicator]:
        """Communicators of a group on a stream, one for each part of a collective."""
        job, name = self.job, f"{group}.{stream}"
        transports = job.transports(gpu for one in members for gpu in one)
        options = job.tuning.options(group, transports, job.nic_goodput_bps)
        layout = make_layout(members, self.server_of_gpu)
        n_part = layout.n_part(job.tuning.n_channel(group, kind), options.in_server)
        names = [name] if n_part == 1 else [f"{name}.{i + 1}/{n_part}" for i in range(n_part)]
        options = replace(options, share=n_part, cross_rail_rings=job.cross_rail_rings)
        in_server = job.in_server(gpu for one in members for gpu in one)
        return [Communicator(name, members, self.server_of_gpu, in_server, options) for name in names]

    def _stage_groups(self, stage: int) -> StageGroups | UnequalGroups:
        ranks, shape = self.ranks, self.job.shape
        if self.job.layout.stage_tp:
            return stage_groups(ranks, stage, self._make)
        members: dict[str, Groups] = {"tp": ranks.tensor(stage), "cp": ranks.context(stage), "dp": ranks.sharers(stage)}
        if self.job.layout.has_shard_copies:
            members |= {"shard": ranks.shards(stage), "copies": ranks.copies(stage)}
        if not shape.is_dense:
            members |= {"ep": ranks.experts(stage), "edp": ranks.expert_sharers(stage)}
            members |= {"etp": ranks.expert_shares(stage)} if self.job.layout.etp > 1 else {}
        return StageGroups(members, self._make)

    def _embedding_groups(self) -> StageGroups | UnequalGroups:
        """First and last stage's GPUs of the same rank, whose embeddings are one matrix."""
        pp = self.job.layout.pp
        if self.job.layout.stage_tp:
            return embedding_groups(self.ranks, self._make)
        pairs = list(zip(self.ranks.stage(0), self.ranks.stage(pp - 1), strict=True))
        return StageGroups({"embedding": pairs} if pp > 1 and not self.job.layout.dual else {}, self._make)

    def build(self) -> WorkloadPlan:
        """The plan. A program is written once for all GPUs of a stage that are of one type."""
        n_program, embedding = self.job.layout.n_program, self._embedding_groups()
        all_groups, program_of_gpu = [embedding], {}
        for stage in range(n_program):
            groups, programs = self._stage_groups(stage), {}
            all_groups.append(groups)
            for i, gpu in enumerate(self.ranks.alike(stage)):
                kind = self._kind(stage, i, gpu)
                own, ends = (one.of(gpu) if isinstance(one, UnequalGroups) else one for one in (groups, embedding))
                apart = () if isinstance(ends, StageGroups) else ends.places(gpu)
                if (kind, own.places(gpu), apart) not in programs:
                    layout, pieces = self.job.layout, pieces_of(self.job.layout, stage, kind[4])
                    job = replace(self.job, layout=layout.of_group(stage, kind[4]), pieces=pieces)
                    writer = StageWriter(job, *kind[:3], own, ends, kind[3], gpu)
                    stored = self._store(writer)  # from the first one on it is known on which places programs depend
                    apart = () if isinstance(ends, StageGroups) else ends.places(gpu)
                    programs[kind, own.places(gpu), apart] = stored
                program_of_gpu[gpu] = programs[kind, own.places(gpu), apart]
        for groups in all_groups:
            groups.connect(self.builder, self.table)
        if self.job.layout.dual:
            self._connect_both_ways()
        else:
            self._connect_stages()
        gates: dict[int, list[tuple[str, str]]] = {}  # by program: thousands of GPUs have the same
        for gpu, stored in program_of_gpu.items():
            if id(stored) not in gates:
                gates[id(stored)] = _gates_of(stored)
            self._add_streams(gpu, stored, gates[id(stored)])
        return self.builder.finish(self._facts())

    def _kind(self, stage: int, i: int, gpu: int) -> tuple[int, Device, float, int, int]:
        """What a GPU's programs depend on: stage, type, slowness; where they matter, its place among the experts, and
        the first replica that has as many microbatches, and stages of the same sizes."""
        layout = self.job.layout
        place = i // layout.etp % layout.ep if self.job.routing_skew else 0
        many = layout.replica_microbatches
        if layout.stage_tp:
            replica = self._first_like(next(r for r, gpus in enumerate(self.ranks.replicas(stage)) if gpu in gpus))
        else:
            replica = many.index(many[i // (layout.tp * layout.cp)]) if many else 0
        return stage, self.job.device(gpu), self.job.slowness.get(gpu, 1.0), place, replica

    def _first_like(self, replica: int) -> int:
        layout = self.job.layout
        sorts = [(layout.microbatches_of(r), *(sizes[r] for sizes in layout.stage_tp)) for r in range(layout.dp)]
        return sorts.index(sorts[replica])

    def _store(self, writer: StageWriter) -> Programs:
        operations = writer.write().ops
        return [
            (stream, self.builder.store(operations[stream]), writer.names.get(stream, SlotNames()))
            for stream in operations
            if operations[stream]
        ]

    def _connect_stages(self) -> None:
        """Queue pairs to the next and to the previous stage; in a circle if stages have several chunks."""
        pp, vpp = self.job.layout.pp, self.job.layout.vpp
        if self.job.layout.stage_tp:
            self._connect_pieces()
            return
        for stage in range(pp if vpp > 1 else pp - 1):
            following = self.ranks.stage((stage + 1) % pp)
            for gpu, peer in zip(self.ranks.stage(stage), following, strict=True):
                forth, back = self.builder.pair(gpu, peer), self.builder.pair(peer, gpu)
                self.table[gpu] |= {"to-next": [(SLOT_PAIR, forth)], "from-next": [(SLOT_PAIR, back)]}
                self.table[peer] |= {"from-previous": [(SLOT_PAIR, forth)], "to-previous": [(SLOT_PAIR, back)]}

    def _connect_pieces(self) -> None:
        """The same where stages have unequal sizes: a queue pair for each piece, both ways, in their order."""
        for stage in range(self.job.layout.pp - 1):
            for one, other in zip(self.ranks.replicas(stage), self.ranks.replicas(stage + 1), strict=True):
                for gpu, peer in pairs_of(one, other):
                    forth, back = self.builder.pair(gpu, peer), self.builder.pair(peer, gpu)
                    for at, name, pair in (
                        (gpu, "to-next", forth), (gpu, "from-next", back),
                        (peer, "from-previous", forth), (peer, "to-previous", back),
                    ):  # fmt: skip
                        self.table[at].setdefault(name, []).append((SLOT_PAIR, pair))

    def _connect_both_ways(self) -> None:
        """Queue pairs of microbatches from either end and of their gradients; chunks as `dual_pipe` has them."""
        pp = self.job.layout.pp
        for stage in range(pp - 1):
            for gpu, peer in zip(self.ranks.stage(stage), self.ranks.stage(stage + 1), strict=True):
                for up, down, chunk_of in ((gpu, peer, (0, 1)), (peer, gpu, (1, 0))):
                    forth, back = [(SLOT_PAIR, self.builder.pair(up, down))], [(SLOT_PAIR, self.builder.pair(down, up))]
                    here, there = (stage, stage + 1) if up == gpu else (stage + 1, stage)
                    chunks = [chunk_of[2 * at >= pp] for at in (here, there)]
                    self.table[up] |= {f"to-next-{chunks[0]}": forth, f"from-next-{chunks[0]}": back}
                    self.table[down] |= {f"from-previous-{chunks[1]}": forth, f"to-previous-{chunks[1]}": back}

    def _add_streams(self, gpu: int, programs: Programs, gates: list[tuple[str, str]]) -> None:
        """gates: see `_gates_of`."""
        table = self.table[gpu]
        table |= {gate: [(SLOT_GATE, self.builder.gate())] for gate, _ in gates}
        for stream, stored, names in programs:
            passes = tuple(table[gate][0][1] for gate, passer in gates if passer == stream)
            self.builder.stream(gpu, stream, stored, names.resolve(table), passes)

    def _facts(self) -> dict[str, object]:
        """What the summary says about a job."""
        layout, shape = self.job.layout, self.job.shape
        sizes: dict[str, Any] = {
            "TP": layout.tp,
            "CP": layout.cp,
            "EP": layout.ep,
            "ETP": layout.etp,
            "DP": layout.dp,
            "SHARD": layout.n_shard if layout.has_shard_copies else 1,
            "PP": layout.pp,
            "VPP": layout.vpp,
        }
        if layout.stage_tp:
            sizes["TP"] = "+".join("/".join(map(str, dict.fromkeys(of_stage))) for of_stage in layout.stage_tp)
        name = "-".join(f"{key}{n}" for key, n in sizes.items() if key in ("TP", "DP", "PP") or n > 1)
        held = [stage_parameters(shape, layout, stage) for stage in range(layout.pp)]
        measured = sorted({device for device in self.job.devices if device.table is not None}, key=lambda d: d.name)
        texts = [f"{device.name} {measured_text(self.job, device)}" for device in measured]
        facts: dict[str, object] = {
            "parameters": shape.parameters(),
            "layout": name,
            "schedule": self.job.schedule if layout.vpp == 1 else f"interleaved {self.job.schedule}",
            "microbatches": layout.n_microbatch,
            "model_flops_per_iteration": model_flops(shape, layout.n_microbatch_in_all * layout.microbatch),
            "peak_flops_per_s": sum(self.job.device(gpu).peak(layout.precision) for gpu in range(layout.n_gpu)),
            "parameters_per_gpu": [own.dense_parameters + own.expert_parameters for own in held],
        }
        if layout.stage_layers:
            facts["layers_per_stage"] = list(layout.stage_layers)
        if layout.replica_microbatches:
            facts["microbatches_per_replica"] = list(layout.replica_microbatches)
        return facts | ({"measured_kernels": "; ".join(texts)} if texts else {})
