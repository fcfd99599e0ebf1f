"""Streams of an MSCCL algorithm: one for each threadblock, one more where it sends to a GPU of its own server.

Between servers a send is a message, which does not wait. Inside a server it is timed: sender and receiver meet, then
it takes a step's latency and the bytes over the GPU's bandwidth, shared by its threadblocks that send there. As a send
does not hold its threadblock up, it has a stream of its own, behind a gate that the threadblock opens.
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from models.workload.collectives import Collective, Part
from models.workload.nccl.calibration import GpuType, calibration_of
from models.workload.nccl.in_server import REFERENCE_STEPS
from models.workload.nccl.msccl import RECEIVES, SENDS, Algorithm, Step, Threadblock
from models.workload.plan import SLOT_GATE, SLOT_GROUP, SLOT_PAIR, Operation, PlanBuilder, Slot
from models.workload.program import OP_GROUP, OP_OPEN, OP_PASS, OP_RECEIVE, OP_SEND
from pdes.errors import ConfigError
from pdes.units import PS_PER_US

Wire = tuple[int, int, int]
"""Sender, receiver (numbers in the algorithm), channel."""


@dataclass
class _Program:
    """A stream's operations and slots as they grow."""

    gpu: int
    name: str
    operations: list[Operation] = field(default_factory=list)
    slots: list[Slot] = field(default_factory=list)
    passes: list[int] = field(default_factory=list)

    def slot(self, kind: int, number: int) -> int:
        """The number of a slot in this program."""
        if (kind, number) not in self.slots:
            self.slots.append((kind, number))
        return self.slots.index((kind, number))


class MscclPlan:
    """Plans one collective by an algorithm; in_server "packets": messages inside servers, too."""

    def __init__(
        self, builder: PlanBuilder, job: Collective, algorithm: Algorithm, server_of_gpu: np.ndarray, gpu_type: GpuType,
        in_server: str, path: Path,
    ) -> None:  # fmt: skip
        if algorithm.operation != job.operation or len(algorithm.gpus) != len(job.gpus):
            found = f"{algorithm.operation} of {len(algorithm.gpus)} GPUs"
            raise ConfigError(str(path), found, f"{job.operation} of {len(job.gpus)} GPUs, as {job.name} is")
        self.builder, self.job, self.algorithm = builder, job, algorithm
        self.server_of_gpu, self.in_server = server_of_gpu, in_server
        self.calibration = calibration_of(gpu_type)
        self.chunk_bytes = -(-job.size_bytes // algorithm.n_chunk)
        self.wires: dict[Wire, int] = {}
        self.gates: dict[tuple[int, ...], int] = {}
        self.waiting: dict[tuple[int, int, int], list[tuple[int, int]]] = {}  # steps of other threadblocks behind one
        for gpu, threadblocks in enumerate(algorithm.gpus):
            for i, threadblock in enumerate(threadblocks):
                for k, step in enumerate(threadblock.steps):
                    if step.after is not None and step.after[0] != i:
                        self.waiting.setdefault((gpu, *step.after), []).append((i, k))
        self._check_wires(path)

    def _check_wires(self, path: Path) -> None:
        """One threadblock at each end of a wire."""
        for key, uses in (("send", SENDS), ("recv", RECEIVES)):
            seen = set()
            for gpu, threadblocks in enumerate(self.algorithm.gpus):
                for i, tb in enumerate(threadblocks):
                    wire = (gpu, getattr(tb, key), tb.channel)
                    if any(step.type in uses for step in tb.steps):
                        if wire in seen:
                            found = f"gpu {gpu}, tb {i} has the {key} = {wire[1]} on channel {wire[2]} of another one"
                            raise ConfigError(str(path), found, "one threadblock for each peer and channel")
                        seen.add(wire)

    def parts(self) -> list[Part]:
        """Streams of all GPUs."""
        found: list[Part] = []
        for gpu, threadblocks in enumerate(self.algorithm.gpus):
            for i, threadblock in enumerate(threadblocks):
                for program in self._threadblock(gpu, i, threadblock):
                    passes = tuple(dict.fromkeys(program.passes))
                    found.append(Part(program.gpu, program.name, program.operations, program.slots, passes))
        return found

    def is_timed(self, src: int, dst: int) -> bool:
        """Whether a send stays inside a server."""
        servers = [int(self.server_of_gpu[self.job.gpus[gpu]]) for gpu in (src, dst)]
        return self.in_server == "timed" and servers[0] == servers[1] >= 0

    def _wire(self, src: int, dst: int, channel: int) -> tuple[int, int]:
        """Kind and number of the slot of a connection."""
        timed = self.is_timed(src, dst)
        if (src, dst, channel) not in self.wires:
            made = self.builder.group() if timed else self.builder.pair(self.job.gpus[src], self.job.gpus[dst])
            self.wires[src, dst, channel] = made
        return SLOT_GROUP if timed else SLOT_PAIR, self.wires[src, dst, channel]

    def _send_ps(self, gpu: int, n_chunk: int) -> int:
        """Time of a send inside a server."""
        n_sender = sum(
            tb.send >= 0 and self.is_timed(gpu, tb.send) and any(step.type in SENDS for step in tb.steps)
            for tb in self.algorithm.gpus[gpu]
        )
        step_ps = (self.calibration.regimes[0].latency_ps - self.calibration.launch_ps) // REFERENCE_STEPS
        bytes_per_us = self.calibration.pair_bytes_per_us
        return step_ps + -(-n_chunk * self.chunk_bytes * n_sender * PS_PER_US // bytes_per_us)

    def _threadblock(self, gpu: int, i: int, threadblock: Threadblock) -> list[_Program]:
        name = self.job.name if i == 0 else f"{self.job.name}/{i}"
        main = _Program(self.job.gpus[gpu], name)
        sender = _Program(self.job.gpus[gpu], f"{name}-send")
        launch = Operation(
            OP_GROUP, main.slot(SLOT_GROUP, self.builder.group()), time_ps=self.calibration.launch_ps,
            task="collective", task_bytes=self.job.size_bytes if i == 0 else 0,
        )  # fmt: skip
        main.operations.append(launch)
        for k, step in enumerate(threadblock.steps):
            if step.after is not None and step.after[0] != i:
                gate = self._gate(gpu, step.after, (i, k))
                main.operations.append(Operation(OP_PASS, main.slot(SLOT_GATE, gate)))
                main.passes.append(gate)
            self._receive(gpu, threadblock, step, main)
            self._send(gpu, threadblock, step, main, sender)
            for behind in self.waiting.get((gpu, i, k), ()):
                gate = self._gate(gpu, (i, k), behind)
                main.operations.append(Operation(OP_OPEN, main.slot(SLOT_GATE, gate)))
        return [main, sender] if sender.operations else [main]

    def _receive(self, gpu: int, threadblock: Threadblock, step: Step, main: _Program) -> None:
        if step.type not in RECEIVES:
            return
        kind, number = self._wire(threadblock.recv, gpu, threadblock.channel)
        time_ps = self._send_ps(threadblock.recv, step.n_chunk) if kind == SLOT_GROUP else 0
        op_kind = OP_GROUP if kind == SLOT_GROUP else OP_RECEIVE
        main.operations.append(Operation(op_kind, main.slot(kind, number), time_ps=time_ps, task="collective"))

    def _send(self, gpu: int, threadblock: Threadblock, step: Step, main: _Program, sender: _Program) -> None:
        if step.type not in SENDS:
            return
        kind, number = self._wire(gpu, threadblock.send, threadblock.channel)
        size_bytes = step.n_chunk * self.chunk_bytes
        if kind == SLOT_PAIR:
            op = Operation(OP_SEND, main.slot(kind, number), size_bytes=size_bytes, tag=self.job.name)
            main.operations.append(op)
            return
        gate = self._gate(gpu, (number,), ())
        main.operations.append(Operation(OP_OPEN, main.slot(SLOT_GATE, gate)))
        sender.operations.append(Operation(OP_PASS, sender.slot(SLOT_GATE, gate)))
        sender.passes.append(gate)
        time_ps = self._send_ps(gpu, step.n_chunk)
        send = Operation(OP_GROUP, sender.slot(kind, number), time_ps=time_ps, task="collective")
        sender.operations.append(send)

    def _gate(self, gpu: int, first: tuple[int, ...], then: tuple[int, ...]) -> int:
        """The gate from a step to one that waits for it, or in front of all sends of a group."""
        key = (gpu, *first, *then)
        if key not in self.gates:
            self.gates[key] = self.builder.gate()
        return self.gates[key]
