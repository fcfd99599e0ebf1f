"""What is known of a candidate before anything is run: whether it may be, and fits, what it costs, its estimate."""

from functools import lru_cache
from typing import Any, NamedTuple

from models.compute.checks import check_memory
from models.compute.layout import Layout
from models.compute.memory import Schedule, fullest_stage
from models.compute.model_shape import ModelShape
from models.workload.closed_form.exchanges import Exchanges
from models.workload.closed_form.iteration import iteration_ps
from models.workload.compiler.job import Job
from pdes.config import Config
from pdes.errors import ConfigError
from pdes.scenario.placing import Cluster, placing_of, shared_out
from pdes.scenario.training import checked_job
from pdes.searching.fabric import Fabric
from pdes.searching.load import Search
from pdes.searching.space import Candidate, tables_of
from pdes.sweeps.point import checked
from pdes.units import PS_PER_S


class Screened(NamedTuple):
    """reason: why it is refused, "" if it is not; kind: the same in a word. weight: cost over seconds of an iteration.

    closed_s: the closed form's estimate.
    """

    values: dict[str, Any]
    kind: str = ""
    reason: str = ""
    price: float = 0.0
    power: float = 0.0
    memory_bytes: int = 0
    tokens: int = 0
    weight: float = 1.0
    closed_s: float = float("nan")


@lru_cache(maxsize=1 << 14)
def _needed_bytes(shape: ModelShape, layout: Layout, schedule: Schedule) -> int:
    """Of the fullest GPU; the same on all fabrics."""
    return fullest_stage(shape, layout, schedule)[1].total_bytes


class Screen:
    """Of a search. It keeps what candidates have in common."""

    def __init__(self, search: Search) -> None:
        self.search = search
        self._exchanges: dict[Any, tuple[Exchanges, dict[object, int]]] = {}

    def __call__(self, candidate: Candidate) -> Screened:
        """ConfigError: a key does not exist."""
        if candidate.fabric is None:
            return Screened(candidate.values, "fabric", candidate.reason)
        try:
            return self._accepted(candidate, candidate.fabric)
        except ConfigError as error:
            if error.found in ("unknown key", "unknown table"):
                raise
            where = error.where.removeprefix(str(self.search.source)).removeprefix("--set ").lstrip(":0123456789 ")
            return Screened(candidate.values, where or "several faults", str(error))

    def _accepted(self, candidate: Candidate, fabric: Fabric) -> Screened:
        own = self.search.config
        price, power = (fabric.parts.cost(table) if table else 0.0 for table in (own.price, own.power))
        for name, cost, most in (("price", price, own.max_price), ("power", power, own.max_power)):
            if most is not None and cost > most:
                return Screened(candidate.values, name, f"{name} {cost:,.6g}, more than {most:,.6g}", price, power)
        config = checked(tables_of(self.search, candidate.values), self.search.source, self.search.overridden())
        job = checked_job(config, fabric.topology)
        exchanges, known = self._shared(candidate, fabric, config, job)
        job = shared_out(job, exchanges)
        memory_bytes = _needed_bytes(job.shape, job.layout, job.memory_schedule)
        if memory_bytes > job.least_memory_bytes and config.workload.memory.check == "refuse":
            check_memory(job.shape, job.layout, job.memory_of_stages(exchanges.ranks), job.memory_schedule)
        layout = job.layout
        tokens = layout.n_microbatch_in_all * layout.microbatch * job.shape.sequence
        closed_s = iteration_ps(job, exchanges, known) / PS_PER_S
        weight = {"iteration": 1.0, "throughput": 1 / tokens, "price": price / tokens, "energy": power / tokens}
        return Screened(candidate.values, "", "", price, power, memory_bytes, tokens, weight[own.objective], closed_s)

    def _shared(
        self, candidate: Candidate, fabric: Fabric, config: Config, job: Job
    ) -> tuple[Exchanges, dict[object, int]]:
        """Of all candidates on one fabric whose ranks are at the same places."""
        layout, w = job.layout, config.workload
        sizes = layout.tp, layout.cp, layout.dp, layout.pp, layout.ep, layout.etp
        key = (id(fabric), sizes, str(w.placement))  # pyright: ignore[reportAttributeAccessIssue]
        if key not in self._exchanges:
            placing = placing_of(config, job, Cluster(fabric.topology, fabric.ways, fabric.wire_share))
            own = Exchanges(job, fabric.ways, fabric.server_of_gpu, fabric.wire_share, placing.gpu_of_rank)
            self._exchanges[key] = own, {}
        return self._exchanges[key]
