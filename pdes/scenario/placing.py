"""Where the ranks of a training job are, and how many layers a stage has where that goes by its GPUs."""

from typing import Any, NamedTuple

from models.topology.even_ways import EvenWays
from models.topology.graph import Topology
from models.workload.closed_form.exchanges import Exchanges
from models.workload.compiler.job import Job
from models.workload.placing.given import check_placement
from models.workload.placing.layers import Layers, with_layers
from models.workload.placing.optimise import Placed, Price, place_ranks
from models.workload.placing.replicas import best_batch, with_batch
from pdes.config import Config
from pdes.config.tables.jobs import JobsConfig
from pdes.units import format_duration


class Placing(NamedTuple):
    """gpu_of_rank None: rank i is on GPU i. said: of an optimised placement, why it is as it is."""

    gpu_of_rank: list[int] | None
    said: str = ""


class Cluster(NamedTuple):
    """What a job is placed on. wire_share: bytes on the wire per byte of a message."""

    topology: Topology
    ways: EvenWays
    wire_share: float


def cluster_of(config: Config, topology: Topology) -> Cluster:
    """That of a config."""
    payload_bytes = config.network.payload_bytes
    packet_bytes = payload_bytes + config.network.header_bytes
    return Cluster(topology, EvenWays(topology, packet_bytes), packet_bytes / payload_bytes)


def placing_of(config: Config, job: Job, cluster: Cluster) -> Placing:
    """Of a [workload] with a GPU type. ConfigError: a list is wrong."""
    chosen = config.workload.placement  # pyright: ignore[reportAttributeAccessIssue]
    if chosen == "in-order":
        return Placing(None)
    if chosen == "optimised":
        return by_closed_form(optimised(config, job, cluster))
    check_placement(chosen, cluster.topology.n_host)
    return Placing(list(chosen))


def optimised(config: Config, job: Job, cluster: Cluster) -> Placed:
    """The best placement by the closed form."""
    return place_ranks(job, cluster.ways, cluster.wire_share, config.simulation.seed)


def shared_out(job: Job, exchanges: Exchanges) -> Job:
    """The job with layers of each stage, and microbatches of each replica, as GPUs can do them, where that is asked."""
    if job.shares_layers:
        job = with_layers(job, Layers(job).best(exchanges))
    if job.shares_batch:
        job = with_batch(job, best_batch(job, exchanges))
    return job


def exchanges_on(cluster: Cluster, job: Job, gpu_of_rank: list[int] | None) -> Exchanges:
    """A job's exchanges, with its ranks there."""
    return Price(job, cluster.ways, cluster.wire_share).exchanges(gpu_of_rank)


def by_closed_form(placed: Placed) -> Placing:
    """The optimised placement where it is faster, or ranks in order do not fit; else none."""
    if not placed.in_order_fits:
        return Placing(placed.gpu_of_rank, "optimised: in order a stage does not fit the memory of its GPUs")
    return chosen_by("the closed form", placed.gpu_of_rank, placed.time_ps, placed.in_order_ps)


def chosen_by(measure: str, gpu_of_rank: list[int], time_ps: int, in_order_ps: int) -> Placing:
    """Times of an iteration: placed, and with ranks in order."""
    in_order = format_duration(in_order_ps)
    if gpu_of_rank == list(range(len(gpu_of_rank))):
        return Placing(None, f"in order: by {measure} nothing is faster than {in_order} an iteration")
    placed = format_duration(time_ps)
    if time_ps >= in_order_ps:
        return Placing(None, f"in order: by {measure} an iteration takes {in_order}, optimised {placed}")
    return Placing(gpu_of_rank, f"optimised: by {measure} an iteration takes {placed}, in order {in_order}")


def is_optimised(config: Config) -> bool:
    """Whether a config asks for one placement of one job to be found."""
    w: Any = config.workload
    return getattr(w, "kind", "") == "training" and w.compute.gpu is not None and w.placement == "optimised"


def is_placed_by_runs(config: Config) -> bool:
    """Whether runs in flow mode are part of building a config's scenario."""
    w = config.workload
    return is_optimised(config) or (isinstance(w, JobsConfig) and any(job.is_least_contended for job in w.job))


def placed_at(config: Config, gpu_of_rank: list[int] | None) -> Config:
    """The same config with that placement."""
    chosen = "in-order" if gpu_of_rank is None else tuple(gpu_of_rank)
    w: Any = config.workload
    return config.with_workload(w.model_copy(update={"placement": chosen}))
