"""`pdes-sim plan` of a config of the cluster level: what there is, what is asked of it, how often it fails."""

import math

from models.cluster.checkpoint_rule import CheckpointRule, mean_us_between
from models.cluster.job import Request
from models.cluster.rules import NEVER_US
from models.cluster.schedulers.rounds.elastic import ElasticRounds
from pdes.cluster.build import Built, build
from pdes.cluster.scheduling import short_turns
from pdes.config.cluster.load import Loaded
from pdes.units import format_long_duration, format_size

# Of a core, by bench/cluster.py --case speed: 100,000 jobs on 32,768 GPUs at load 0.9, allox with 10,000.
US_PER_JOB = {
    "fcfs": 240, "backfill": 380, "sjf": 230, "srtf": 270, "priority": 220, "las": 520, "gang": 880, "quota": 360,
    "mast": 400, "fifo-rounds": 270, "fifo-perf": 410, "max-min": 340, "max-min-perf": 450,
    "finish-time-fair": 460, "allox": 1000,
}  # fmt: skip
US_PER_JOB_OF_OWN = 240
MANY = 10  # jobs, from which on a load says something


def plan_cluster(loaded: Loaded) -> str:
    """The lines. Reads or draws all jobs; raises ConfigError as a run does."""
    built = build(loaded)
    jobs = list(built.requests)
    n_gpu = sum(pool.n_server * pool.n_gpu for pool in built.machine.pools)
    lines = [
        f"{pool.n_server:,} servers x {pool.n_gpu} {pool.gpu}, {pool.servers_per_rack} in a rack"
        for pool in built.machine.pools
    ]
    span_us = jobs[-1].submit_us - jobs[0].submit_us
    asked = sum(job.work_us * job.n_gpu for job in jobs)
    largest = max(job.n_gpu for job in jobs)
    between = f" in {format_long_duration(span_us)}" if span_us else ""
    lines.append(f"{len(jobs):,} jobs{between}, up to {largest:,} GPUs each; {asked / 3.6e9:,.0f} GPU-hours of work")
    n_elastic = sum(job.max_gpu > 0 for job in jobs)
    if n_elastic:
        least, most = min(j.min_gpu for j in jobs if j.max_gpu), max(job.max_gpu for job in jobs)
        lines.append(f"elastic    {n_elastic:,} of them, {least:,} to {most:,} GPUs; work is as on what they ask for")
    if len(jobs) >= MANY and span_us:
        share = f"{100 * asked / span_us / n_gpu:.3g} % of {n_gpu:,} GPUs"
        lines.append(f"load       {share}, over the time of submission")
    lines += _failure_lines(built, jobs, largest)
    if built.rules.stop_us >= NEVER_US and len(jobs) >= MANY and asked > span_us * n_gpu:
        lines.append("More is asked than there is: the waiting line grows as long as jobs come")
    if issubclass(built.scheduler, ElasticRounds):
        name = loaded.run.cluster.scheduler
        lines.append(f"{name} chooses anew in rounds: in 0.04 s with 100 jobs at a time, in 0.7 s with 1,000")
    else:
        lines.append(_time_line(loaded, built, len(jobs)))
    return "\n".join(lines)


def _time_line(loaded: Loaded, built: Built, n_job: int) -> str:
    """How long a run takes, or why that cannot be said."""
    text = short_turns(loaded, built.scheduler)
    if text:
        return f"Warning: {text}. How long a run takes cannot be said"
    per_job_us = US_PER_JOB.get(loaded.run.cluster.scheduler, US_PER_JOB_OF_OWN)
    more = ", longer the more often jobs take turns" if built.scheduler.turn else ""
    took = format_long_duration(per_job_us * n_job, 2)
    return f"A run takes about {took} on one core, {per_job_us:,} us a job as measured{more}"


def _failure_lines(built: Built, jobs: list[Request], largest: int) -> list[str]:
    failures, machine = built.failures, built.machine
    found = []
    for window in failures.windows:
        every = f" every {format_long_duration(window.every_us)}" if window.every_us else ""
        lasts = f"{len(window.servers):,} servers for {format_long_duration(window.duration_us)}{every}"
        found.append(f"closed     {lasts}, from {format_long_duration(window.from_us)} on ({window.name})")
    if not failures.processes:
        return [*found, "failures   none"]
    per_day = sum(
        (part.n_gpu or 1) / failures.processes[part.process].gap.mean_us * 86400e6 for part in failures.components
    )
    n_server = -(-largest // max(pool.n_gpu for pool in machine.pools))
    between_us = mean_us_between(failures, largest, n_server)
    often = (
        "is never interrupted" if math.isinf(between_us) else f"is interrupted every {format_long_duration(between_us)}"
    )
    found.append(f"failures   {per_day:.3g} a day; a job of {largest:,} GPUs {often}")
    assert isinstance(built.rules.checkpoints, CheckpointRule)
    job, storage = next(job for job in jobs if job.n_gpu == largest), built.rules.storage
    rule = built.rules.checkpoints(job, n_server)
    if rule.interval_us:
        size = "" if storage is None else f" of {format_size(int(storage.checkpoint_bytes(job)))}"
        took = f", which takes {format_long_duration(rule.write_us)}"
        found.append(f"           and writes a checkpoint{size} every {format_long_duration(rule.interval_us)}{took}")
    return found
