"""A training job as its user describes it: model, layout, GPUs, schedule, and what overlaps with what."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from models.compute.devices import Device
from models.compute.layout import Layout
from models.compute.memory import Schedule as MemorySchedule
from models.compute.model_shape import ModelShape
from models.workload.compiler.ranks import Ranks
from models.workload.compiler.schedules.schedule import Schedule
from models.workload.compiler.tuning import Tuning
from models.workload.compiler.unequal import Pieces
from models.workload.nccl.calibration import GpuType
from models.workload.nccl.own_type import in_server_type
from models.workload.nccl.transports import INFINIBAND, Transport


@dataclass(frozen=True)
class Job:
    """One training job.

    devices: the GPU type of every GPU, or one for all. slowness: how much longer a GPU computes, by GPU number, for
    stragglers. overlap_gradients: the data-parallel exchange of gradients runs beside the backward pass, bucket by
    bucket; else behind it. overlap_parameters: sharded parameters are gathered beside the forward pass. align_*: all
    stages of an interleaved pipeline begin these at the same moment, see `tokens.Beside`.
    overlap_pipeline: messages between stages are posted and not waited for; else a stage goes on when they are
    received.
    bucket_parameters: layers are put together in a bucket until they have as many. iteration_overhead_ps: what an
    iteration takes besides (data loading, logging, Python). pass_times_ps: measured times of a microbatch's forward
    pass over a stage, its backward pass for inputs and that for weights, instead of kernels and exchanges of layers.
    """

    shape: ModelShape
    layout: Layout
    devices: tuple[Device, ...]
    schedule: Schedule = "1f1b"
    overlap_gradients: bool = True
    overlap_parameters: bool = True
    align_gradients: bool = True
    align_parameters: bool = True
    bucket_parameters: int = 40_000_000
    slowness: dict[int, float] = field(default_factory=dict)
    iteration_overhead_ps: int = 0
    pass_times_ps: tuple[int, int, int] | None = None  # see above
    memory_bytes: int = 0  # of a GPU; 0: as its type says
    routing_skew: float = 0.0  # see `expert_loads`
    transport: Transport = INFINIBAND  # between servers, see `models.workload.nccl.transports`
    transport_of_gpu: dict[int, Transport] = field(default_factory=dict)  # of those whose servers have another
    cross_rail_rings: bool = False  # see `models.workload.nccl.communicator`
    tuning: Tuning = Tuning()
    nic_goodput_bps: int = 0  # payload that a NIC carries at best; 0: not known
    shares_layers: bool = False  # among stages by what their GPUs can do, see `models.workload.placing.layers`
    overlap_pipeline: bool = True  # see above
    pieces: Pieces | None = None  # of one stage of one replica, where tensor-parallel sizes are unequal
    shares_batch: bool = False  # among replicas likewise, see `models.workload.placing.replicas`

    def device(self, gpu: int) -> Device:
        """Type of a GPU."""
        return self.devices[gpu if len(self.devices) > 1 else 0]

    def expert_loads(self) -> tuple[float, ...]:
        """Tokens that reach each GPU of an expert group over a balanced share: as 1 / (i + 1)^skew; mean 1."""
        weights = [(i + 1) ** -self.routing_skew for i in range(self.layout.ep)]
        return tuple(len(weights) * weight / sum(weights) for weight in weights)

    def expert_layouts(self) -> tuple[Layout, ...]:
        """The layout as each GPU of an expert group sees it; one for all if routing is balanced."""
        if not self.routing_skew:
            return (self.layout,)
        return tuple(replace(self.layout, expert_load=load) for load in self.expert_loads())

    @property
    def memory_schedule(self) -> MemorySchedule:
        """The schedule as the memory model calls it."""
        if self.schedule == "zero-bubble-1p":
            return "zb-h1"
        if self.schedule == "zero-bubble-2p":
            return "zb-h2"
        return self.schedule

    @property
    def least_memory_bytes(self) -> int:
        """Memory of the job's smallest GPU, or as given."""
        return self.memory_bytes or min(device.hbm_bytes for device in set(self.devices))

    def in_server(self, gpus: Iterable[int] | None = None) -> GpuType:
        """What collectives inside a server go by: the type with the slowest links of those that take part.

        gpus: who does; None: all of the job.
        """
        devices = set(self.devices) if gpus is None or len(self.devices) == 1 else {self.device(gpu) for gpu in gpus}
        return in_server_type(min(devices, key=lambda device: (device.nvlink_bps, device.name)))

    def transports(self, gpus: Iterable[int]) -> tuple[Transport, ...]:
        """Those of some GPUs' servers, each once."""
        found = {self.transport_of_gpu.get(gpu, self.transport) for gpu in gpus} if self.transport_of_gpu else ()
        return tuple(sorted(found, key=lambda one: one.name)) or (self.transport,)

    def memory_of_stages(self, ranks: Ranks, replica: int | None = None) -> list[int]:
        """Memory of the smallest GPU of each stage, of one replica or of all, or as given."""
        if self.memory_bytes or len(self.devices) == 1:
            return [self.least_memory_bytes] * self.layout.pp
        if replica is None:
            stages = [ranks.alike(stage) for stage in range(self.layout.pp)]
        else:
            stages = [ranks.replicas(stage)[replica] for stage in range(self.layout.pp)]
        return [min(self.device(gpu).hbm_bytes for gpu in gpus) for gpus in stages]

    @property
    def is_split(self) -> bool:
        """Whether backward passes for inputs and for weights are apart."""
        return self.schedule.startswith("zero-bubble")
