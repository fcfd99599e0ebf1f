"""The [[job]] tables of a config: where each job is, its own plan there, and all of them together."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from models.topology.graph import Topology
from models.workload.importers.formats import n_rank
from models.workload.jobs.join import join_plans
from models.workload.jobs.place import choose_gpus
from models.workload.jobs.placed import PlacedJob
from models.workload.plan import WorkloadPlan
from models.workload.traffic.flows import NO_PRIORITY
from pdes.config import Config
from pdes.config.tables.jobs import InputConfig, JobConfig, JobsConfig
from pdes.config.tables.trace import TraceConfig
from pdes.errors import ConfigError
from pdes.random_plain import PURPOSE_JOB_SEED, random_bits_plain
from pdes.scenario.traces import trace_source

Planner = Callable[[Config, Topology, np.ndarray], WorkloadPlan]


def build_jobs(config: Config, topology: Topology, plan_workload: Planner) -> WorkloadPlan:
    """The plan of all jobs. plan_workload: that of one workload, over all hosts of what it is given.

    A job's lists of flows call its GPUs 0, 1 and so on.
    """
    jobs: Any = config.workload
    number, placed = {job.name: i for i, job in enumerate(jobs.job)}, []
    hosts = gpus_of_jobs(config, topology)
    for i, job in enumerate(jobs.job):
        n_iteration = job.iterations or config.simulation.iterations
        if isinstance(job.workload, InputConfig | TraceConfig):
            n_iteration = job.iterations or 1
        own = config.of_job(job.workload, n_iteration, _seed(config, job.name))
        with _said_of_job(i):
            plan = plan_workload(own, replace(topology, host=topology.host[hosts[i]]), np.arange(len(hosts[i])))
        priority = NO_PRIORITY if job.priority is None else job.priority
        after = tuple(number[name] for name in job.after)
        placed.append(PlacedJob(job.name, plan, hosts[i], job.start_ps, after, job.delay_ps, priority))
    return join_plans(placed)


def gpus_of_jobs(config: Config, topology: Topology) -> list[np.ndarray]:
    """Host numbers of every job's GPUs, int64[]. Those that name theirs come first, the others in the file's order.

    A GPU has one job at a time: ConfigError if too few are left. Storage hosts have none; an input's GPUs are these,
    and behind them the GPUs that it serves.
    """
    jobs = config.workload
    assert isinstance(jobs, JobsConfig)
    found: dict[int, np.ndarray] = {}
    before = [jobs.others_before(i) for i in range(len(jobs.job))]
    inputs = {i: job.workload for i, job in enumerate(jobs.job) if isinstance(job.workload, InputConfig)}
    storage = {host for own in inputs.values() for host in own.hosts}
    order = sorted(range(len(jobs.job)), key=lambda i: (i in inputs, not isinstance(jobs.job[i].gpus, tuple)))
    for i in order:
        job = jobs.job[i]
        if i in inputs:
            found[i] = _served(jobs, i, inputs[i], found)
            continue
        taken = {int(gpu) for k, gpus in found.items() if k not in before[i] and i not in before[k] for gpu in gpus}
        taken |= storage
        where = f"[[job]] {i + 1}: gpus"
        if isinstance(job.gpus, tuple):
            if max(job.gpus) >= topology.n_host:
                raise ConfigError(where, f"names GPU {max(job.gpus)}", f"Accepted: 0 to {topology.n_host - 1}")
            both = sorted(taken & set(job.gpus))
            if both:
                raise ConfigError(where, f"GPU {both[0]} has another job", 'Accepted: other GPUs, or "after" that job')
            found[i] = np.array(job.gpus, np.int64)
            continue
        free = [gpu for gpu in range(topology.n_host) if gpu not in taken]
        n_traced = _n_traced(config, job, topology.n_host)
        n = job.n_gpu or n_traced or topology.n_host
        if n > len(free):
            text = f"{n} of {topology.n_host} GPUs, and {len(free)} are left by jobs that may run at the same time"
            raise ConfigError(where, text, 'Accepted: fewer, or "after" some of those jobs')
        policy = "packed" if job.is_least_contended else job.placement  # until runs have said more
        found[i] = choose_gpus(topology, free, n, policy, _seed(config, job.name))
    return [found[i] for i in range(len(jobs.job))]


def _n_traced(config: Config, job: JobConfig, n_host: int) -> int | None:
    """GPUs of a job that does not say how many it has: as many as its trace has ranks; None: nobody says."""
    if not isinstance(job.workload, TraceConfig) or "gpus" in job.model_fields_set:
        return None
    source = trace_source(config, job.workload)
    n = n_rank(source)
    if n is not None and n > n_host:
        raise ConfigError(str(source.path), f"{n} ranks", f"at most {n_host}, the topology's hosts")
    return n


def _served(jobs: JobsConfig, i: int, own: InputConfig, found: dict[int, np.ndarray]) -> np.ndarray:
    """Of an input: its storage hosts, then the GPUs of the job that it is for; both given where it runs alone."""
    gpus = jobs.job[i].gpus
    if isinstance(gpus, tuple):
        return np.array(gpus, np.int64)
    (k,) = (k for k, job in enumerate(jobs.job) if job.name == own.to)
    return np.concatenate([np.array(own.hosts, np.int64), found[k]])


def _seed(config: Config, name: str) -> int:
    """A job's own seed: the same whatever other jobs there are, and its draws are not another one's."""
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
    return random_bits_plain(config.simulation.seed, number, PURPOSE_JOB_SEED, 0) >> 2


@contextmanager
def _said_of_job(i: int) -> Iterator[None]:
    """Messages about [workload] name the job that has it."""
    try:
        yield
    except ConfigError as error:
        if error.where == "[simulation] iterations":
            raise ConfigError(f"[[job]] {i + 1}: iterations", error.found, error.accepted) from error
        if not error.where.startswith(("[workload", "[[workload", "workload")):
            raise
        key = error.where.replace("[", "").replace("] ", ".").replace("]", "").replace(" ", ".").replace(":", "")
        raise ConfigError(f"[[job]] {i + 1}: {key}", error.found, error.accepted) from error
