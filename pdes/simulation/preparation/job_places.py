"""Places of [[job]] tables that ask for the least contended ones, compared in flow mode before the run.

One such job after the other, in the file's order, tries the places that the policies in TRIED give it, without those of
them that come later and what waits for these. The place with the most work per time of all jobs counts, GPU for GPU, as
at the cluster level (`models.cluster.placement.least_contended`); of equals the first. Which one that is follows from
the config alone.
"""

from dataclasses import replace
from typing import Any

from models.topology.graph import Topology
from pdes.config import Config
from pdes.config.tables.jobs import InputConfig, JobsConfig
from pdes.config.tables.trace import TraceConfig
from pdes.errors import ConfigError
from pdes.results.jobs import mean_ps
from pdes.scenario import Scenario, build_scenario
from pdes.scenario.jobs import gpus_of_jobs
from pdes.simulation.jobs import job_facts
from pdes.simulation.outcome.gather import gather
from pdes.simulation.preparation.trial import MOST_ITERATIONS, in_flow_mode, run_to_its_end
from pdes.units import format_duration

TRIED = ("packed", "rack", "spread")

Place = tuple[tuple[int, ...], ...]  # GPUs of every job


def build_least_contended(config: Config, topology: Topology) -> Scenario:
    """As `build_scenario`, with places found for jobs that ask for the least contended ones. Raises ConfigError."""
    packed = build_scenario(config, lambda _: topology)  # which finds what is wrong with any job
    asking = [i for i, job in enumerate(_jobs(config).job) if job.is_least_contended]
    trials = Trials(config, topology)
    policies, said = dict[int, str](), dict[int, str]()
    for i in asking:
        policies[i], said[i] = trials.best_of(policies, i)
    is_packed = set(policies.values()) == {TRIED[0]}
    scenario = packed if is_packed else build_scenario(_placed(config, policies), lambda _: topology)
    parts = [
        part._replace(facts=part.facts | ({"placement": said[i]} if i in said else {}))
        for i, part in enumerate(scenario.plan.jobs)
    ]
    return replace(scenario, config=config, plan=replace(scenario.plan, jobs=tuple(parts)))


class Trials:
    """What jobs take in flow mode by where they are."""

    def __init__(self, config: Config, topology: Topology) -> None:
        self._config, self._topology = config, topology

    def best_of(self, policies: dict[int, str], i: int) -> tuple[str, str]:
        """(policy, why) for job i. policies: of those before it that ask."""
        tried: dict[Place, str] = {}
        for policy in TRIED:
            tried.setdefault(self._place(policies | {i: policy}), policy)
        names = list(tried.values())
        if len(names) == 1:
            return names[0], "least contended: there is one place for it"
        found = [self._jobs(policies | {i: policy}, i) for policy in names]
        gains = _work_per_time(found)
        best = names[max(range(len(gains)), key=lambda k: (gains[k], -k))]
        own = _jobs(self._config).job[i].name
        times = [f"{policy} {_said(jobs[own])}" for policy, jobs in zip(names, found, strict=True)]
        return best, f"least contended: {best}; in flow mode it takes {', '.join(times)}"

    def _place(self, policies: dict[int, str]) -> Place:
        found = gpus_of_jobs(_placed(self._config, policies), self._topology)
        return tuple(tuple(gpus.tolist()) for gpus in found)

    def _jobs(self, policies: dict[int, str], i: int) -> dict[str, dict[str, Any]]:
        """What `result.json` would say of each job that is there, by name."""
        config = in_flow_mode(_before(_short(_placed(self._config, policies)), i))
        try:
            scenario = build_scenario(config, lambda _: self._topology)
        except ConfigError as error:
            accepted = f'{error.accepted}; or another placement than "least-contended", which asks flow mode'
            raise ConfigError(f"[[job]] {i + 1}: placement: {error.where}", error.found, accepted) from error
        with run_to_its_end(scenario) as ran:
            found = job_facts(scenario.plan, scenario.topology, scenario.paths, gather(ran))
        return {job["name"]: job for job in found}


def _work_per_time(cases: list[dict[str, dict[str, Any]]]) -> list[float]:
    """Of each case: GPUs times speed, added over its jobs. A job's speed is 1 where it is fastest."""
    found = [0.0] * len(cases)
    for name, job in cases[0].items():
        times_ps = [mean_ps(case[name]) for case in cases]
        fastest_ps = min((time_ps for time_ps in times_ps if time_ps), default=0)
        for k, time_ps in enumerate(times_ps):
            if time_ps:
                found[k] += len(job["gpus"]) * fastest_ps / time_ps
    return found


def _said(job: dict[str, Any]) -> str:
    time_ps = mean_ps(job)
    return "for ever" if time_ps is None else format_duration(time_ps, 4)


def _jobs(config: Config) -> JobsConfig:
    jobs = config.workload
    assert isinstance(jobs, JobsConfig)
    return jobs


def _placed(config: Config, policies: dict[int, str]) -> Config:
    """The config with these policies for these jobs."""
    return _changed(config, {i: {"placement": policy} for i, policy in policies.items()})


def _before(config: Config, i: int) -> Config:
    """The config without jobs behind i that ask for a place, what begins after these, and their data."""
    rows = _jobs(config).job
    out = {job.name for job in rows[i + 1 :] if job.is_least_contended}
    n_out = -1
    while n_out < len(out):
        n_out = len(out)
        out |= {job.name for job in rows if out.intersection(job.after)}
        out |= {job.name for job in rows if isinstance(job.workload, InputConfig) and job.workload.to in out}
    kept = [job for job in rows if job.name not in out]
    return config.with_workload(_jobs(config).model_copy(update={"job": kept}))


def _short(config: Config) -> Config:
    """The config with a few iterations of each job that has any."""
    rows = enumerate(_jobs(config).job)
    return _changed(config, {
        i: {"iterations": min(MOST_ITERATIONS, job.iterations or config.simulation.iterations)}
        for i, job in rows if not isinstance(job.workload, InputConfig | TraceConfig)
    })  # fmt: skip


def _changed(config: Config, changes: dict[int, dict[str, Any]]) -> Config:
    rows = [job.model_copy(update=changes.get(i, {})) for i, job in enumerate(_jobs(config).job)]
    return config.with_workload(_jobs(config).model_copy(update={"job": rows}))
