"""Where the ranks of a training job are: in order, as listed, or optimised by the closed form of an iteration."""

from typing import Any, NamedTuple

from models.topology.even_ways import EvenWays
from models.topology.graph import Topology
from models.workload.compiler.job import Job
from models.workload.placing.given import check_placement
from models.workload.placing.optimise import Placed, place_ranks
from pdes.config import Config
from pdes.units import format_duration


class Placing(NamedTuple):
    """gpu_of_rank None: rank i is on GPU i. said: of an optimised placement, why it is as it is."""

    gpu_of_rank: list[int] | None
    said: str = ""


def placing_of(config: Config, job: Job, topology: Topology) -> Placing:
    """Of a [workload] with a GPU type. ConfigError: a list is wrong."""
    chosen = config.workload.placement  # pyright: ignore[reportAttributeAccessIssue]
    if chosen == "in-order":
        return Placing(None)
    if chosen == "optimised":
        return by_closed_form(optimised(config, job, topology))
    check_placement(chosen, topology.n_host)
    return Placing(list(chosen))


def optimised(config: Config, job: Job, topology: Topology, ways: EvenWays | None = None) -> Placed:
    """ways: those of the topology, if somebody has them."""
    payload_bytes = config.network.payload_bytes
    packet_bytes = payload_bytes + config.network.header_bytes
    ways = EvenWays(topology, packet_bytes) if ways is None else ways
    return place_ranks(job, ways, packet_bytes / payload_bytes, config.simulation.seed)


def by_closed_form(placed: Placed) -> Placing:
    """The optimised placement where it is faster, else none."""
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


def placed_at(config: Config, gpu_of_rank: list[int] | None) -> Config:
    """The same config with that placement."""
    chosen = "in-order" if gpu_of_rank is None else tuple(gpu_of_rank)
    w: Any = config.workload
    return config.with_workload(w.model_copy(update={"placement": chosen}))
