"""Each job of a config by itself, on the GPUs that it had among the others: what it takes when nobody is there."""

import re
from pathlib import Path

from pdes.config import Config
from pdes.config.tables.jobs import JobsConfig
from pdes.errors import ConfigError
from pdes.files import read_json
from pdes.results.jobs import ALONE_FILE
from pdes.results.summary import write_json
from pdes.scenario import Scenario

FOLDER = "alone"


def check_alone(config: Config) -> None:
    """ConfigError for a config that has no [[job]]."""
    if not isinstance(config.workload, JobsConfig):
        accepted = "Accepted: a config with [[job]] tables"
        raise ConfigError(f"{config.source}: --alone", "there is one workload, alone already", accepted)


def alone_configs(scenario: Scenario) -> list[tuple[str, Config]]:
    """(name, config) of each job alone; results go below the run's own folder."""
    config, jobs, found = scenario.config, scenario.config.workload, []
    assert isinstance(jobs, JobsConfig)
    for i, (job, part) in enumerate(zip(jobs.job, scenario.plan.jobs, strict=True)):
        changed = {"gpus": part.hosts, "after": [], "start_ps": 0}
        only = jobs.model_copy(update={"job": [job.model_copy(update=changed)]})
        directory = Path(config.output.dir) / FOLDER / f"{i + 1}-{re.sub('[^A-Za-z0-9_.-]', '_', job.name)[:60]}"
        found.append((job.name, config.with_workload(only).written_to(directory)))
    return found


def write_alone(scenario: Scenario) -> None:
    """Put what the jobs took alone beside the run's results. On rank 0, after all of them."""
    found, folder = {}, Path(scenario.config.output.dir)
    for name, config in alone_configs(scenario):
        (job,) = read_json(Path(config.output.dir) / "result.json")["jobs"]
        found[name] = {key: job[key] for key in ("begin_ps", "end_ps", "iteration_time_ps")}
    unfinished = folder / f".{ALONE_FILE}.new"
    write_json(unfinished, found)
    unfinished.replace(folder / ALONE_FILE)
