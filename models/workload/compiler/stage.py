"""The streams of a pipeline stage's GPUs: passes as the schedule orders them, their exchanges, and what runs beside.

main computes; it waits for tensor-, context- and expert-parallel exchanges and for its neighbours in the pipeline.
Activations and their gradients are posted and not waited for. What runs beside it is tied to it by gates: parameters of
the next layer are gathered while one is computed, gradients of a bucket are reduced while the next is computed, and
both have to be done before the optimizer's step.
"""

from collections.abc import Callable
from dataclasses import replace

from models.compute.devices import Device
from models.compute.kernel_time import left_frac
from models.compute.lower import SLOWED_1024, Segment, segments
from models.workload.collectives import chunk_bytes
from models.workload.compiler.emission import Emission, shared_streams, side_stream
from models.workload.compiler.gates import DONE, GO, TURNS
from models.workload.compiler.groups import StageGroups
from models.workload.compiler.job import Job
from models.workload.compiler.loops import find_loops
from models.workload.compiler.measured import measured_ps, update_ps
from models.workload.compiler.neighbours import Neighbours
from models.workload.compiler.parts import buckets, chunk_parts, gathered, summed
from models.workload.compiler.schedules.dual_pipe import BOTH
from models.workload.compiler.tokens import EXCHANGE, NONE, Token, beside_passes, stage_tokens, summed_last
from models.workload.compiler.unequal import GroupsOfGpu
from models.workload.operations import Operation
from models.workload.program import OP_COMPUTE, OP_OPEN, OP_PASS
from models.workload.slots import SlotNames

Groups = StageGroups | GroupsOfGpu


class StageWriter:
    """Writes the programs of one stage's GPUs of one type."""

    def __init__(
        self, job: Job, stage: int, device: Device, slowness: float, groups: Groups, embedding: Groups,
        place: int = 0, gpu: int = 0,
    ) -> None:  # fmt: skip
        self.job, self.stage, self.device, self.slowness, self.gpu = job, stage, device, slowness, gpu
        self.groups, self.embedding = groups, embedding
        self.place, self.loads = place, job.expert_loads()
        self.layout = job.expert_layouts()[place]
        self.names: dict[str, SlotNames] = {}
        own, pieces = job.layout.without_layers, job.pieces  # gradients are summed piece by piece
        self._summed = own if pieces is None else replace(own, tp=pieces.gradients)
        self.beside = beside_passes(job)
        self.shared = shared_streams(device.copy_engines)
        self.tells_losses_apart = any(one.fit.tells_losses_apart for one in job.devices)
        self._neighbours = Neighbours(job, stage, self._slot)

    def _slot(self, stream: str, key: str, n: int = 1) -> int:
        return self.names.setdefault(stream, SlotNames())(key, n)

    def _on(self, stream: str) -> str:
        """The stream that has what is meant for one, which may share a copy engine."""
        return self.shared.get(stream, stream)

    def _gate(self, emission: Emission, stream: str, kind: int, gate: str, task: str = "") -> None:
        emission.add(self._on(stream), Operation(kind, self._slot(self._on(stream), gate), task=task))

    def _exchange(self, emission: Emission, stream: str, group: str, kind: str, size_bytes: int, task: str) -> None:
        self._collective(emission, self.groups, self._on(stream), group, kind, size_bytes, task)

    def _collective(
        self, emission: Emission, groups: Groups, stream: str, group: str, kind: str, size_bytes: int, task: str
    ) -> None:
        """A collective on a stream; parts of it besides the first are on streams of their own beside it."""
        parts = groups.parts(stream, group, kind) if size_bytes else []
        sides = [side_stream(stream, i) for i in range(1, len(parts))]
        for side in sides:
            self._gate(emission, stream, OP_OPEN, GO + side)
            self._gate(emission, side, OP_PASS, GO + side)
        for part, on in zip(parts, (stream, *sides), strict=False):
            names = self.names.setdefault(on, SlotNames())
            emission.add(on, *groups.operations(part, self.gpu, names, kind, size_bytes, task, group))
        for side in sides:
            self._gate(emission, side, OP_OPEN, DONE + side)
            self._gate(emission, stream, OP_PASS, DONE + side, task)

    # One pass.

    def _compute(self, time_ps: int, task: str, slowed_1024: int = 0) -> Operation:
        """slowed_1024: 0: as kernels in general. All of a job's are the same unless a type tells kinds apart."""
        if self.tells_losses_apart and not slowed_1024:
            slowed_1024 = round(SLOWED_1024 / left_frac(self.device.fit.overlap_loss_frac))
        own_ps = round(time_ps * self.slowness) if self.slowness != 1 else time_ps
        slowed_1024 = slowed_1024 if self.tells_losses_apart else 0
        return Operation(OP_COMPUTE, time_ps=own_ps, task=task, slowed_1024=slowed_1024)

    def _part(self, part: str, which: str) -> Emission:
        """One pass over one part: its segments in order."""
        task = "forward" if which == "forward" else "backward"
        emission, beside = Emission(), ""
        measured = measured_ps(self.job, self.layout, self.device, self.stage, part, which)
        if measured is not None:
            if measured or part in ("dense", "moe"):
                emission.add("main", self._compute(measured, task))
            return emission

        def join() -> None:
            if beside:
                self._gate(emission, "main", OP_PASS, "joined", beside)

        to_experts = False
        for segment in segments(self.job.shape, self.layout, self.device, part, which):
            if segment.kind == "compute":
                emission.add("main", self._compute(segment.time_ps, task, segment.slowed_1024))
            join()
            beside = ""
            if segment.overlapped and self.groups.size(segment.group) > 1:
                beside = segment.label
                self._gate(emission, "main", OP_OPEN, "beside")
                self._gate(emission, "beside", OP_PASS, "beside")
                self._segment_exchange(emission, "beside", segment)
                self._gate(emission, "beside", OP_OPEN, "joined")
            elif segment.kind == "all-to-all" and self.job.routing_skew and self.layout.ep > 1:
                to_experts = not to_experts  # and back, in the backward pass too
                self._skewed_exchange(emission, segment.size_bytes, to_experts)
            elif segment.kind != "compute":
                self._segment_exchange(emission, "main", segment)
        join()
        return emission

    def _skewed_exchange(self, emission: Emission, size_bytes: int, to_experts: bool) -> None:
        """An all-to-all of a group whose experts are not all as popular: messages to or from them go by their loads."""
        names = self.names.setdefault("main", SlotNames())
        one = self.groups.parts("main", "ep", "all-to-all")[0]
        emission.add("main", *one.uneven(names, self.place, size_bytes, self.loads, to_experts, "ep"))

    def _segment_exchange(self, emission: Emission, stream: str, segment: Segment) -> None:
        self._exchange(emission, stream, segment.group, segment.kind, segment.size_bytes, segment.label)

    def _one_pass(self, token: Token) -> Emission:
        """A pass over a chunk: receive, all parts, send."""
        emission = Emission()
        if token.which == EXCHANGE:
            self._neighbours.exchange(emission, token)
            return emission
        if token.which == BOTH:
            return self._two_passes(token.chunk)
        is_forward = token.which == "forward"
        if token.starts != NONE:
            self._gate(emission, "main", OP_OPEN, "credit")
            self._gate(emission, "gather", OP_PASS, "credit")
            self._by_buckets(emission, token.starts, self._gather_bucket)
        self._neighbours.receive(emission, token)
        if token.late and not is_forward:
            self._neighbours.send(emission, token._replace(which="forward"))
        parts = chunk_parts(self.job, self.stage, token.chunk)
        waiting: list[tuple[str, int]] = []  # a bucket whose sum comes behind the next one's parameters
        for part, n in parts if is_forward else reversed(parts):
            for times, each in buckets(self.job, self._summed, part, n):
                own = [(part, each)] if token.reduces and self._sums_behind(token) else []
                if own:
                    emission.extend(self._bucket(token, part, each, waiting))
                    emission.extend(self._bucket(token, part, each, own), times - 1)
                else:
                    emission.extend(self._bucket(token, part, each, []), times)
                waiting = own
        for bucket in waiting:
            self._sum_bucket(emission, *bucket)
        if token.which != "backward-weight" and not (token.late and is_forward):
            self._neighbours.send(emission, token)
        if token.sums != NONE:
            self._sum_chunk(emission, token.sums)
        return emission

    def _sums_behind(self, token: Token) -> bool:
        """Whether a bucket's gradients wait for the next one's parameters: if both are gathered and summed one by one,
        as FSDP does, which gathers ahead (backward_prefetch).
        """
        return token.gathers and self._on("gather") == self._on("reduce")

    def _bucket(self, token: Token, part: str, n_layer: int, before: list[tuple[str, int]]) -> Emission:
        """A pass over a bucket, with its exchanges. before: of which gradients are summed in it, if not its own."""
        bucket = Emission()
        if token.gathers and self.beside.gathers_together:
            self._gate(bucket, "main", OP_PASS, "parameters", "dp")
        elif token.gathers:
            self._gather(bucket, part, n_layer)
        for one in before:
            self._sum_bucket(bucket, *one)
        bucket.extend(self._part(part, token.which), n_layer)
        if token.reduces:
            self._gate(bucket, "main", OP_OPEN, "gradients")
            if not self._sums_behind(token):
                self._sum_bucket(bucket, part, n_layer)
        return bucket

    def _sum_bucket(self, emission: Emission, part: str, n_layer: int) -> None:
        self._gate(emission, "reduce", OP_PASS, "gradients")
        self._sum_gradients(emission, part, n_layer)

    def _two_passes(self, chunk: int) -> Emission:
        """A forward pass over a chunk and a backward pass over the other, in turns: while an exchange of one is under
        way the other computes (DeepSeek-V3, section 3.2.1)."""
        emission = Emission()
        forward, backward = Token("forward", chunk, False, False), Token("backward", 1 - chunk, False, False)
        for token in (forward, backward):
            self._neighbours.receive(emission, token)
        if self.job.pass_times_ps is not None:
            for token in (forward, backward):
                for part, n in chunk_parts(self.job, self.stage, token.chunk):
                    emission.extend(self._part(part, token.which), n)
        else:
            self._in_turns(emission, self._segments(forward), self._segments(backward))
        for token in (forward, backward):
            self._neighbours.send(emission, token)
        return emission

    def _segments(self, token: Token) -> list[Segment]:
        """All segments of a pass over a chunk."""
        parts = chunk_parts(self.job, self.stage, token.chunk)
        found = [
            segments(self.job.shape, self.layout, self.device, part, token.which) * n
            for part, n in (parts if token.which == "forward" else reversed(parts))
        ]
        return [segment for one in found for segment in one]

    def _in_turns(self, emission: Emission, *runs: list[Segment]) -> None:
        """A forward and a backward run: each computes until it exchanges, then the other one goes on."""
        left, under_way, turn = [run[::-1] for run in runs], ["", ""], 0
        while left[0] or left[1]:
            turn = turn if left[turn] else 1 - turn
            stream, joined = TURNS[turn]
            if under_way[turn]:
                self._gate(emission, "main", OP_PASS, joined, under_way[turn])
                under_way[turn] = ""
            while left[turn] and not under_way[turn]:
                segment = left[turn].pop()
                if segment.kind == "compute":
                    task = ("forward", "backward")[turn]
                    emission.add("main", self._compute(segment.time_ps, task, segment.slowed_1024))
                elif self.groups.size(segment.group) > 1:
                    under_way[turn] = segment.label
                    self._gate(emission, "main", OP_OPEN, stream)
                    self._gate(emission, stream, OP_PASS, stream)
                    self._segment_exchange(emission, stream, segment)
                    self._gate(emission, stream, OP_OPEN, joined)
            turn = 1 - turn
        for (_, joined), label in zip(TURNS, under_way, strict=True):
            if label:
                self._gate(emission, "main", OP_PASS, joined, label)

    def _gather(self, emission: Emission, part: str, n_layer: int) -> None:
        self._gate(emission, "main", OP_PASS, "parameters", "dp")
        self._gate(emission, "main", OP_OPEN, "credit")
        self._gather_bucket(emission, part, n_layer)
        self._gate(emission, "gather", OP_PASS, "credit")

    def _gather_bucket(self, emission: Emission, part: str, n_layer: int) -> None:
        self._gather_on(emission, part, n_layer, "gather")
        self._gate(emission, "gather", OP_OPEN, "parameters")

    def _gather_on(self, emission: Emission, part: str, n_layer: int, stream: str) -> None:
        for group, kind, size_bytes in gathered(self.job, self._summed, part, n_layer):
            self._exchange(emission, stream, group, kind, size_bytes, "dp")

    def _by_buckets(self, emission: Emission, chunk: int, write: Callable[[Emission, str, int], None]) -> None:
        for part, n in chunk_parts(self.job, self.stage, chunk):
            for times, each in buckets(self.job, self._summed, part, n):
                bucket = Emission()
                write(bucket, part, each)
                emission.extend(bucket, times)

    def _sum_chunk(self, emission: Emission, chunk: int) -> None:
        self._gate(emission, "main", OP_OPEN, "gradients")
        self._gate(emission, "reduce", OP_PASS, "gradients")
        self._by_buckets(emission, chunk, self._sum_gradients)

    def _sum_gradients(self, emission: Emission, part: str, n_layer: int, stream: str = "reduce") -> None:
        for group, kind, size_bytes in summed(self.job, self._summed, part, n_layer):
            self._exchange(emission, stream, group, kind, size_bytes, "dp")

    # A whole iteration.

    def write(self) -> Emission:
        """All streams of one iteration."""
        emission = Emission()
        if self.beside.gathers:
            self._gate(emission, "main", OP_OPEN, "updated")
            self._gate(emission, "gather", OP_PASS, "updated")
            for chunk in range(2) if self.beside.gathers_together else ():
                self._by_buckets(emission, chunk, self._gather_bucket)
        elif self.job.layout.zero:
            self._all_parts(emission, self._gather_in_line)
        passes = stage_tokens(self.job, self.stage, self.beside)
        for times, tokens in find_loops(passes):
            part = Emission()
            for token in tokens:
                part.extend(self._one_pass(token))
            emission.extend(part, times)
        for chunk in summed_last(passes) if self.beside.sums_together else ():
            self._sum_chunk(emission, chunk)
        if self.beside.sums:
            self._gate(emission, "reduce", OP_OPEN, "reduced")
            self._gate(emission, "main", OP_PASS, "reduced", "dp")
        else:
            self._all_parts(emission, self._reduce_in_line)
        self._tied_embeddings(emission)
        self._optimizer(emission)
        return emission

    def _all_parts(self, emission: Emission, write: Callable[[Emission, str, int], None]) -> None:
        for chunk in range(self.job.layout.n_chunk):
            for part, n in chunk_parts(self.job, self.stage, chunk):
                write(emission, part, n)

    def _gather_in_line(self, emission: Emission, part: str, n_layer: int) -> None:
        self._gather_on(emission, part, n_layer, "main")

    def _reduce_in_line(self, emission: Emission, part: str, n_layer: int) -> None:
        self._sum_gradients(emission, part, n_layer, "main")

    def _tied_embeddings(self, emission: Emission) -> None:
        """Where input and output embeddings are one matrix on two stages, their gradients are summed."""
        shape, layout = self.job.shape, self.job.layout
        if shape.tied_embeddings and layout.pp > 1 and not layout.dual and self.stage in (0, layout.pp - 1):
            n = layout.tp if self.job.pieces is None else self.job.pieces.embedding
            size_bytes = chunk_bytes(shape.vocabulary * shape.hidden, n) * layout.reduce_bytes
            self._collective(emission, self.embedding, "main", "embedding", "all-reduce", size_bytes, "dp")

    def _optimizer(self, emission: Emission) -> None:
        slowed_1024 = round(SLOWED_1024 / left_frac(self.device.fit.loss_frac("memory")))
        emission.add("main", self._compute(update_ps(self.job, self.stage, self.device), "optimizer", slowed_1024))
        if self.job.iteration_overhead_ps:
            emission.add("main", self._compute(self.job.iteration_overhead_ps, "optimizer"))
