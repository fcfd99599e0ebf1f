"""What fails, when, and what it takes with it: renewal processes of components, each with random numbers of its own.

A draw depends on the seed, the process, the component and how often that has failed (design R3), so that two
schedulers see the same failures.
"""

from collections.abc import Sequence
from typing import NamedTuple

from models.cluster.distribution import Distribution
from models.cluster.machine import Machine
from pdes.random_plain import PURPOSE_DETECTION, PURPOSE_FAILURE, PURPOSE_REPAIR, PURPOSE_VICTIM, uniform_plain

SERVER, RACK, JOB, SPEED, NETWORK, UPLINK = "server", "rack", "job", "speed", "network", "uplink"
SLOWS = (SPEED, NETWORK, UPLINK)


class Process(NamedTuple):
    """One kind of failure.

    per: "gpu", "server" or "rack": what has such a process each. gap: between its failures. takes: "server" or "rack",
    which are down for detection and repair; "job": it only interrupts the job that it hits; "speed", "network":
    nothing is down, servers keep the share `leaves` of it for detection and repair; "uplink": a link above the rack is
    down for as long, and its jobs go at what the run with that link down says (`Rules.rerouted`). drains: these servers
    are down for the repair instead, once it is noticed, and jobs leave them with a checkpoint. gpu: only where these
    are, "" for everywhere.
    """

    component: str
    per: str
    gap: Distribution
    takes: str
    detection: Distribution
    repair: Distribution
    gpu: str = ""
    leaves: float = 1.0
    drains: bool = False


class Window(NamedTuple):
    """Planned maintenance: servers are down for so long, from an instant on. every_us: 0 for once."""

    name: str
    servers: tuple[int, ...]
    from_us: int
    every_us: int
    duration_us: int


class Component(NamedTuple):
    """One thing that fails. number: in its process. first: its server, or rack. n_gpu: how many GPUs it stands for."""

    process: int
    number: int
    first: int
    n_gpu: int


class Failures:
    """The components of all processes, and their draws. A server's GPUs are one if their failures are memoryless."""

    def __init__(
        self, processes: list[Process], machine: Machine, seed: int, windows: Sequence[Window] = ()
    ) -> None:  # fmt: skip
        self.processes, self.machine, self.seed, self.windows = processes, machine, seed, windows
        self.components: list[Component] = []
        for i, process in enumerate(processes):
            number = 0
            for first, n_gpu, n_part in self._parts(process):
                for _ in range(n_part):
                    self.components.append(Component(i, number, first, n_gpu))
                    number += 1
        self.counts = [0] * len(self.components)
        self.reach_jobs = bool(self.components or windows)

    def _parts(self, process: Process) -> list[tuple[int, int, int]]:
        """(server or rack, GPUs that one component stands for, components there)."""
        machine, found = self.machine, []
        for i, pool in enumerate(machine.pools):
            if process.gpu not in ("", pool.gpu):
                continue
            if process.per == RACK:
                found += [(rack, 0, 1) for rack in machine.racks_of[i]]
                continue
            servers = range(machine.first[i], machine.first[i] + pool.n_server)
            if process.per == SERVER:
                found += [(server, 0, 1) for server in servers]
            elif process.gap.is_memoryless():
                found += [(server, pool.n_gpu, 1) for server in servers]
            else:
                found += [(server, 1, pool.n_gpu) for server in servers]
        return found

    def next_us(self, component: int, since_us: int) -> int:
        """When it fails next, at least a microsecond after since_us. Counts the draw."""
        part = self.components[component]
        gap = self.processes[part.process].gap
        if part.n_gpu > 1:
            gap = gap._replace(scale_us=gap.scale_us / part.n_gpu)
        u = self._uniform(component, PURPOSE_FAILURE)
        self.counts[component] += 1
        return since_us + max(gap.quantile_us(u), 1)

    def detection_us(self, component: int) -> int:
        """Until somebody notices the failure that `next_us` gave last."""
        process = self.processes[self.components[component].process]
        return process.detection.quantile_us(self._uniform(component, PURPOSE_DETECTION))

    def repair_us(self, component: int) -> int:
        """From then on."""
        process = self.processes[self.components[component].process]
        return process.repair.quantile_us(self._uniform(component, PURPOSE_REPAIR))

    def victim(self, component: int, n: int) -> int:
        """One of n, all as likely."""
        return int(self._uniform(component, PURPOSE_VICTIM) * n)

    def servers(self, component: int) -> range:
        """That it takes or, if it takes jobs only, whose jobs it may hit."""
        part = self.components[component]
        process = self.processes[part.process]
        if process.per == RACK:
            return self.machine.servers_of_rack(part.first)
        if process.takes == RACK:
            return self.machine.servers_of_rack(self.machine.rack_of[part.first])
        return range(part.first, part.first + 1)

    def _uniform(self, component: int, purpose: int) -> float:
        part = self.components[component]
        return uniform_plain(self.seed, (part.process << 32) + part.number, purpose, self.counts[component])
