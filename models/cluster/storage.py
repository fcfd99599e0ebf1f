"""Storage that all jobs share: how long a checkpoint takes to write and to read, and how fast jobs get their input.

Closed forms of a job and its place, so that no job's start or end changes another's. Assumptions: a job's servers write
equal parts of a checkpoint, once, without copies that data-parallel replicas have; `n_writer` jobs do so at a time and
have equal parts of the storage's rate; input is read ahead while a job computes, and is shared by all GPUs of the
cluster as if all of them read; neither slows the other. The job that computes faster reads faster.
"""

from typing import NamedTuple

from models.cluster.job import Request
from pdes.units import BITS_PER_BYTE, US_PER_S


class Storage(NamedTuple):
    """rate_bps: of all of it; server_bps: between it and one server; None: without limit.

    model_bytes: of a checkpoint by the job's kind, where its model is known; of other kinds, parameters: of a job's
    model by its kind, or per_gpu for each of its GPUs; parameter_bytes: that a checkpoint has of each of them.
    input_bps: that a GPU reads while its job computes at speed 1. n_gpu: of the cluster.
    """

    rate_bps: int | None = None
    server_bps: int | None = None
    n_writer: int = 1
    parameters: dict[str, float] = {}
    per_gpu: float = 0.0
    parameter_bytes: float = 0.0
    input_bps: int = 0
    n_gpu: int = 1
    model_bytes: dict[str, float] = {}

    @property
    def has_checkpoints(self) -> bool:
        """Whether any job's checkpoint is known to go through it."""
        return bool(self.parameters or self.per_gpu or self.model_bytes)

    def checkpoint_bytes(self, request: Request) -> float:
        """Of a job."""
        if request.kind in self.model_bytes:
            return self.model_bytes[request.kind]
        return self.parameters.get(request.kind, self.per_gpu * request.n_gpu) * self.parameter_bytes

    def transfer_us(self, request: Request, n_server: int) -> int:
        """Of a job's checkpoint, to storage or from it, on so many servers: bytes over the narrower of two ways."""
        n_bit = self.checkpoint_bytes(request) * BITS_PER_BYTE
        of_servers = 0.0 if self.server_bps is None else n_bit / (n_server * self.server_bps)
        of_storage = 0.0 if self.rate_bps is None else n_bit * self.n_writer / self.rate_bps
        return int(max(of_servers, of_storage) * US_PER_S + 0.5)

    def input_share(self, n_gpu: int, n_server: int, speed: float) -> float:
        """The share of its speed that a job's input allows: what it gets over what it needs, at most 1."""
        needs_bps = n_gpu * self.input_bps * speed
        gets_bps = needs_bps
        if self.server_bps is not None:
            gets_bps = min(gets_bps, n_server * self.server_bps)
        if self.rate_bps is not None:
            gets_bps = min(gets_bps, self.rate_bps * n_gpu / self.n_gpu)
        return gets_bps / needs_bps if needs_bps else 1.0
