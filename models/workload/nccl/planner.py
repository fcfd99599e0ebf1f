"""The collectives of a config as NCCL plans them: for each one, streams of every GPU, one per channel it has there."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from models.workload.collectives import Collective, Part, packet_parts
from models.workload.nccl.calibration import GpuType, calibration_of
from models.workload.nccl.communicator import Communicator
from models.workload.nccl.estimate import message_lead_ps, on_wire
from models.workload.nccl.in_server import in_server_ps
from models.workload.nccl.layout import make_layout
from models.workload.nccl.msccl import read_msccl
from models.workload.nccl.msccl_check import check_algorithm
from models.workload.nccl.msccl_plan import MscclPlan
from models.workload.nccl.options import KINDS, CollectiveOptions
from models.workload.plan import SLOT_GROUP, Operation, PlanBuilder, Slot
from models.workload.program import OP_GROUP
from models.workload.slots import SlotNames

NCCL_OPERATIONS = (*(kind for kind in KINDS if kind != "ring"), "point-to-point")


@dataclass(frozen=True)
class Planned:
    """What a config says about one collective. channels 0: one for each NIC. msccl: a file with an algorithm."""

    options: CollectiveOptions
    channels: int = 0
    msccl: Path | None = None


class NcclPlanner:
    """Plans collectives for GPUs of one type; choices: by the name of the collective."""

    def __init__(self, gpu_type: GpuType, server_of_gpu: np.ndarray, choices: dict[str, Planned]) -> None:
        calibration_of(gpu_type)  # refuses a type that is not known
        self.gpu_type, self.server_of_gpu, self.choices = gpu_type, server_of_gpu, choices

    def parts(self, builder: PlanBuilder, job: Collective) -> list[Part]:
        """Streams of a collective."""
        planned = self.choices[job.name]
        if planned.msccl is not None:
            algorithm = read_msccl(planned.msccl)
            check_algorithm(algorithm, planned.msccl)
            in_server, path = planned.options.in_server, planned.msccl
            plan = MscclPlan(builder, job, algorithm, self.server_of_gpu, self.gpu_type, in_server, path)
            return plan.parts()
        if job.operation == "point-to-point":
            return self._point_to_point(builder, job, planned.options)
        layout = make_layout([job.gpus], self.server_of_gpu)
        n_part = layout.n_part(planned.channels, planned.options.in_server)
        found: list[Part] = []
        for i in range(n_part):
            options = replace(planned.options, share=n_part)
            name = job.name if i == 0 else f"{job.name}/{i}"
            communicator = Communicator(name, [job.gpus], self.server_of_gpu, self.gpu_type, options)
            found += _channel(builder, job, communicator)
        return found

    def _point_to_point(self, builder: PlanBuilder, job: Collective, options: CollectiveOptions) -> list[Part]:
        """Timed if both share a server; else a message behind what it is charged before it."""
        first, second = (int(self.server_of_gpu[gpu]) for gpu in job.gpus)
        if options.in_server == "packets":
            return packet_parts(builder, job)
        if first != second or first < 0:
            lead_ps, wire_ppm = message_lead_ps(self.gpu_type, job.size_bytes, options)
            sender, receiver = packet_parts(builder, replace(job, size_bytes=on_wire(job.size_bytes, wire_ppm)))
            lead = Operation(OP_GROUP, 1, time_ps=lead_ps, task="collective")
            slots: list[Slot] = [*sender.slots, (SLOT_GROUP, builder.group())]
            return [sender._replace(operations=[lead, *sender.operations], slots=slots), receiver]
        time_ps = in_server_ps(self.gpu_type, "send-receive", job.size_bytes, 2)
        op = Operation(OP_GROUP, 0, time_ps=time_ps, task="collective", task_bytes=job.size_bytes)
        group = builder.group()
        return [Part(gpu, job.name, [op], [(SLOT_GROUP, group)]) for gpu in job.gpus]


def _channel(builder: PlanBuilder, job: Collective, communicator: Communicator) -> list[Part]:
    """A stream on each GPU for the part of the collective that a communicator carries."""
    is_same = communicator.same_for_all(job.operation, job.size_bytes)
    shared = SlotNames()
    what = (job.operation, job.size_bytes, "collective", job.name)
    same = communicator.operations(shared, *what) if is_same else []
    programs = []
    for gpu in job.gpus:
        names = shared if is_same else SlotNames()
        programs.append((gpu, names, same if is_same else communicator.operations_of(gpu, names, *what)))
    table = communicator.connect(builder)
    return [Part(gpu, communicator.name, ops, names.resolve(table[gpu])) for gpu, names, ops in programs]
