"""What a run at the cluster level comes to, without a result folder: for whoever needs many."""

from typing import Any

from models.cluster.asked import StuckError
from models.cluster.loop import Cluster
from pdes.cluster.build import build
from pdes.cluster.figures import figures
from pdes.cluster.tables import NONE, Recorder
from pdes.config.cluster.load import Loaded
from pdes.errors import SimError


def outcome(loaded: Loaded) -> dict[str, Any]:
    """result.json as a run would write it. Raises SimError, ConfigError."""
    built, watch = build(loaded), Recorder(False)
    cluster = Cluster(built.machine, built.rules, built.requests, built.failures, watch)
    cluster.spares, cluster.sharing, watch.isolated_us = built.spares, built.sharing, cluster.isolated_us
    try:
        cluster.run(built.scheduler(cluster, built.options))
    except StuckError as error:
        raise SimError(
            f"{loaded.source}: {len(cluster.waiting):,} jobs wait that the scheduler never starts"
        ) from error
    for job in cluster.running.values():
        cluster.settle(job)
        watch.add(job, NONE)
    for job in cluster.waiting.values():
        job.waited_us += cluster.now_us - job.ready_us
        watch.add(job, NONE)
    return figures(loaded, cluster, watch.job_arrays())
