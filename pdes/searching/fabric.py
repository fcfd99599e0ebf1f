"""The clusters that a search chooses among: their topology, what they are made of, and what that costs."""

from typing import Any, NamedTuple

import numpy as np

from models.compute.model_shape import ModelShape
from models.topology.even_ways import EvenWays
from models.topology.graph import Topology
from pdes.config.search import CostTable
from pdes.scenario.topology import build_topology
from pdes.scenario.training import model_shape
from pdes.searching.load import Search
from pdes.sweeps.point import checked

GBPS = 10**9


class Parts(NamedTuple):
    """What a cluster has. Rates in Gbps: of all NICs, of all ports of switches, of all links of the fabric."""

    gpus: int
    servers: int
    switches: int
    links: int
    nic_gbps: float
    switch_gbps: float
    link_gbps: float

    def cost(self, table: CostTable) -> float:
        """By a table."""
        return (
            table.gpu * self.gpus + table.server * self.servers + table.switch * self.switches
            + table.link * self.links + table.nic_per_gbps * self.nic_gbps
            + table.switch_per_gbps * self.switch_gbps + table.link_per_gbps * self.link_gbps
        )  # fmt: skip


class Fabric(NamedTuple):
    """One choice of all axes. values: key -> value. batch: sequences of an iteration; None: as microbatches say."""

    values: dict[str, Any]
    topology: Topology
    ways: EvenWays
    wire_share: float
    parts: Parts
    per_server: int
    shape: ModelShape
    batch: int | None
    schedule: str
    is_flash: bool

    @property
    def server_of_gpu(self) -> np.ndarray:
        """int64[n_gpu]"""
        return self.topology.server[self.topology.host]


def make_fabric(search: Search, tables: dict[str, Any], values: dict[str, Any]) -> Fabric:
    """tables: of the config with these values. ConfigError: they cannot be, whatever the layout."""
    config = checked(_with_any_layout(tables), search.source, search.overridden())
    topology, network, w = build_topology(config), config.network, config.workload
    payload, packet = network.payload_bytes, network.payload_bytes + network.header_bytes
    server = topology.server[topology.host]
    per_server = int((server == server[0]).sum()) if server[0] >= 0 else 1
    ways = EvenWays(topology, packet)
    return Fabric(
        values, topology, ways, packet / payload, parts_of(topology), per_server, model_shape(w), w.global_batch,
        w.schedule, w.flash_attention,
    )  # fmt: skip


def _with_any_layout(tables: dict[str, Any]) -> dict[str, Any]:
    """One that every number of GPUs has: as many stages."""
    from pdes.config.tables.topology import topology_table

    topology, workload = tables.get("topology"), dict(tables["workload"])
    parallel = dict(workload.get("parallel") or {})
    kind = topology_table(topology) if isinstance(topology, dict) else None
    try:
        n_host = kind.model_validate(topology).n_host if kind is not None else None  # pyright: ignore[reportAttributeAccessIssue]
    except ValueError:
        n_host = None  # the check of the config says why
    if isinstance(workload.get("dtypes"), dict):  # of tokens to experts, which not every layout has
        workload["dtypes"] = {key: one for key, one in workload["dtypes"].items() if key not in ("dispatch", "combine")}
    sizes = [parallel.get(name, 1) for name in ("tp", "dp", "pp", "cp")]
    if n_host is not None and all(type(size) is int for size in sizes) and np.prod(sizes) != n_host:
        workload["parallel"] = parallel | {"tp": 1, "dp": 1, "cp": 1, "pp": n_host}
        workload["microbatch"] = 1
        workload["placement"] = "in-order"
    return tables | {"workload": workload}


def parts_of(topology: Topology) -> Parts:
    """Links inside servers, and NVSwitches, are the server's."""
    server = topology.server
    src, dst = topology.port_src, topology.port_dst
    is_inside = (server[src] >= 0) & (server[src] == server[dst])
    rate = np.where(is_inside, 0, topology.port_rate_bps) / GBPS
    is_switch = topology.is_switch & (server < 0)
    hosts = server[topology.host]
    n_server = len(np.unique(hosts[hosts >= 0])) + int((hosts < 0).sum())
    return Parts(
        topology.n_host, n_server, int(is_switch.sum()), int((~is_inside).sum()) // 2,
        float(rate[server[src] >= 0].sum()), float(rate[is_switch[src]].sum()), float(rate.sum()) / 2,
    )  # fmt: skip
