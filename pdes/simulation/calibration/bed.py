"""What cases run on: one switch with links as fast as a fabric's hosts have, and with its base round trip.

The rest of [network] is the fabric's own: packets, marking, buffers, pauses, the control and its parameters. Ways,
routes and events of links are not: there is one way from host to host.
"""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from models.topology.base_rtt import max_base_rtt
from pdes.config import Config
from pdes.config.tables.network import NetworkConfig
from pdes.config.tables.routing import RoutingConfig
from pdes.config.tables.topology import LeafSpineConfig
from pdes.config.tables.workload import FlowsConfig
from pdes.config.values import make_config
from pdes.engine.exchange import World
from pdes.errors import ConfigError, SimError
from pdes.results.folder import ResultFolder
from pdes.scenario import Scenario, build_scenario
from pdes.scenario.control import Control, find_control
from pdes.scenario.topology import build_topology
from pdes.simulation.calibration.cases import FAR_HOSTS, Layout
from pdes.simulation.compile import compile_kernels
from pdes.simulation.job import Run
from pdes.simulation.loop import run_to_end
from pdes.simulation.preparation.prepared import Prepared
from pdes.skipping.max_min.table import WHOLE, Use

DEFAULT_RATE, DEFAULT_DELAY = "100Gbps", "2us"  # a rail-optimised fat-tree's round trip, of four hops
LEAST_DELAY_PS = 1000
N_LINK = 4  # of a round trip


class Bed(NamedTuple):
    """A star, and the control to look at. config: its topology has two hosts, and no messages."""

    config: Config
    control: Control
    rate_bps: int
    rtt_ps: int


def default_bed(control: str) -> Bed:
    """With everything in [network] as it is by default but the control. ConfigError: there is no such control."""
    return _bed(make_config(_star(2, DEFAULT_RATE, DEFAULT_DELAY), network={"congestion_control": control}))


def far_bed(bed: Bed) -> Bed:
    """The same with two switches, and a third between them that is never full: some hosts are further off."""
    t = bed.config.topology
    assert isinstance(t, LeafSpineConfig)
    spine = {"leaves": 2, "spine_rate_bps": 2 * FAR_HOSTS * t.spine_rate_bps}
    return bed._replace(config=_with_network(
        bed.config.model_copy(update={"topology": t.model_copy(update=spine)}), bed.config.network, bed.config.source
    ))  # fmt: skip


def bed_of(config: Config, control: str | None) -> Bed:
    """With line rate, base round trip and [network] of a config. control: None: the config's. Raises ConfigError."""
    n = config.network
    if n.is_ns3:
        raise ConfigError("[network] compatibility", 'is "ns3-hpcc"', 'Accepted: "none"; flow mode has no packets')
    update = {
        "congestion_control": control or n.congestion_control, "routing": RoutingConfig(), "path": [],
        "link_event": [], "paths_file": None, "next_hops_file": None,
    }  # fmt: skip
    topology = build_topology(config)
    ports = ~topology.is_switch[topology.port_src]
    rate_bps = int(np.median(topology.port_rate_bps[ports]))
    network = n.model_copy(update=update)
    star = make_config(_star(2, f"{rate_bps}bps", DEFAULT_DELAY))
    star = _with_network(star, network, config.source)
    wanted_ps, had_ps = _rtt_ps(config, find_control(star)), _rtt_ps(star, find_control(star))
    t = star.topology
    assert isinstance(t, LeafSpineConfig)
    delay_ps = max(LEAST_DELAY_PS, t.host_delay_ps + (wanted_ps - had_ps) // N_LINK)
    t = t.model_copy(update={"host_delay_ps": delay_ps})
    return _bed(_with_network(star.model_copy(update={"topology": t}), network, config.source))


def _with_network(config: Config, network: NetworkConfig, source: Path) -> Config:
    """A control of one's own is looked for beside the config that names it."""
    made = config.model_copy(update={"network": network})
    made._source = source
    return made


def _rtt_ps(config: Config, control: Control) -> int:
    sizes = control.data_bytes(config.network), control.ack_bytes(config.network)
    return max_base_rtt(build_topology(config), *sizes)[0]


def _bed(config: Config) -> Bed:
    control, t = find_control(config), config.topology
    assert isinstance(t, LeafSpineConfig)
    return Bed(config, control, t.host_rate_bps, _rtt_ps(config, control))


def _star(n_host: int, rate: str, delay: str) -> dict[str, dict[str, object]]:
    return {
        "topology": {
            "kind": "leaf-spine", "leaves": 1, "spines": 1, "hosts_per_leaf": n_host, "host_rate": rate,
            "spine_rate": rate, "host_delay": delay,
        },
        "workload": {"kind": "poisson", "load": 0.1, "sizes": "web-search", "flows": 1},  # `Runs` have others
        "wormhole": {"mode": "off"},
    }  # fmt: skip


class Runs:
    """Runs of all cases together, in a folder."""

    def __init__(self, bed: Bed, layout: Layout, folder: Path) -> None:
        self._bed, self._layout, self._folder = bed, layout, folder
        rows = ["src,dst,size_bytes,start_ps", *(",".join(map(str, row)) for row in layout.messages.tolist())]
        folder.mkdir(exist_ok=True)
        self._file = folder / "messages.csv"
        self._file.write_text("\n".join(rows) + "\n", encoding="utf-8")
        self._flow: Scenario | None = None
        self._compiled: set[str] = set()  # modes

    def as_packets(self) -> np.ndarray:
        """Completion times of the messages, packet by packet; int64[n], ps."""
        return self._run(build_scenario(self._config("off")))

    def in_flow_mode(self, alone: float, shared: float, queue_ps: float, use: Use = WHOLE) -> np.ndarray:
        """The same in flow mode with these numbers."""
        if self._flow is None:
            self._flow = build_scenario(self._config("flow"))
        p = self._flow.parameters
        assert p.flow is not None
        flow = replace(p.flow, fracs=(alone, shared), queue_ps=queue_ps, use=use)
        return self._run(replace(self._flow, parameters=replace(p, flow=flow)))

    def _config(self, mode: str) -> Config:
        config, t = self._bed.config, self._bed.config.topology
        assert isinstance(t, LeafSpineConfig)
        keys = {"mode": mode, "flow": config.wormhole.flow.model_copy(update={"efficiency": 1.0})}
        flows = {"kind": "flows", "file": str(self._file.absolute()), "format": "csv", "queue_pairs": "per-pair"}
        made = config.model_copy(
            update={
                "topology": t.model_copy(update={"hosts_per_leaf": self._layout.n_host // t.leaves}),
                "workload": FlowsConfig.model_validate(flows),
                "wormhole": config.wormhole.model_copy(update=keys),
            }
        )
        made._source = config.source
        return made.written_to(self._folder / "run")

    def _run(self, scenario: Scenario) -> np.ndarray:
        """Without results on disk: these take most of the time of a run of milliseconds."""
        job, mode = Run(Prepared(scenario, ResultFolder(self._folder / "run")), World()), scenario.config.wormhole.mode
        try:
            if mode not in self._compiled:
                compile_kernels(job)
                self._compiled.add(mode)
            run_to_end(job, quiet=True)
            groups = list(job.rows.flows.read_groups())
        finally:
            job.rows.close()
        finish_ps, start_ps = (np.concatenate([rows[name] for rows in groups]) for name in ("finish_ps", "start_ps"))
        if (finish_ps <= start_ps).any():
            found = f"{(finish_ps <= start_ps).sum()} of {len(finish_ps)} messages never end"
            raise SimError(f"{self._bed.control.law.name} cannot be calibrated: {found}")
        return finish_ps - start_ps
