"""What a run at the cluster level comes to: result.json, and the lines that people read."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from models.cluster.loop import Cluster
from pdes.cluster.tables import NONE
from pdes.config.cluster.load import Loaded
from pdes.units import US_PER_S, format_count, format_long_duration

Arrays = Mapping[str, np.ndarray]
_HOUR_US = 3600.0 * US_PER_S


def figures(loaded: Loaded, cluster: Cluster, jobs: Arrays) -> dict[str, Any]:
    """result.json: what the config determines. Times in seconds, shares of GPU time from 0 to 1.

    Of GPU time that servers had while they were up, or jobs held on servers that were down: productive is work that was
    kept; lost what a failure took, until it was noticed; overhead start-up, restarts and checkpoints; idle the rest.
    """
    done = jobs["end_us"] != NONE
    span_us = max(cluster.now_us, 1)
    up_gpu_us, held_gpu_us = cluster.usage.totals[4], cluster.usage.totals[3]
    lost, overhead = int(jobs["lost_gpu_us"].sum()), int(jobs["overhead_gpu_us"].sum())
    productive = int(jobs["gpu_us"].sum()) - lost - overhead
    there = max(up_gpu_us, held_gpu_us, 1)
    return {
        "level": "cluster",
        "config": loaded.run.model_dump(mode="json", exclude={"output", "checkpoint"}),
        "jobs": len(done),
        "jobs_done": int(done.sum()),
        "end_s": cluster.now_us / US_PER_S,
        "completion_s": _spread((jobs["end_us"] - jobs["submit_us"])[done]),
        "wait_s": _spread(jobs["waited_us"][done]),
        "first_wait_s": _spread((jobs["start_us"] - jobs["submit_us"])[done]),
        "finish_time_fairness": _fairness(jobs, done),
        "mean_waiting_jobs": cluster.usage.totals[0] / span_us,
        "mean_running_jobs": cluster.usage.totals[2] / span_us,
        "gpu_hours": {
            "up": up_gpu_us / _HOUR_US,
            "held": held_gpu_us / _HOUR_US,
            "productive": productive / _HOUR_US,
            "lost": lost / _HOUR_US,
            "overhead": overhead / _HOUR_US,
            "lost_by_component": _hours(cluster.lost_gpu_us),
            "down_by_component": _hours(cluster.incidents.down_gpu_us),
        },
        "held_share": held_gpu_us / there,
        "goodput": productive / there,
        "effective_training_time": productive / max(int(jobs["gpu_us"].sum()), 1),
        "failures": dict(sorted(cluster.n_failure.items())),
        "interruptions": int(jobs["failures"].sum()),
        "preemptions": int(jobs["preemptions"].sum()),
        "moves": int(jobs["moves"].sum()),
        "spares_used": {"hot": cluster.spares.n_used[0], "cold": cluster.spares.n_used[1]},
    }


def _fairness(jobs: Arrays, done: np.ndarray) -> dict[str, float]:
    """Of jobs that are done: how many times as long as in isolation they took, and the share of them above 1."""
    if not done.any():
        return {}
    took_us = np.maximum(jobs["end_us"] - jobs["submit_us"], 1)[done]
    times = took_us / np.maximum(jobs["isolated_us"][done], 1)
    p50, p90, p99 = np.percentile(times, [50, 90, 99])
    found = {"mean": times.mean(), "p50": p50, "p90": p90, "p99": p99, "most": times.max()}
    return {name: float(value) for name, value in found.items()} | {"above_1": float((times > 1).mean())}


def _hours(gpu_us: dict[str, int]) -> dict[str, float]:
    """By cause."""
    return {cause: value / _HOUR_US for cause, value in sorted(gpu_us.items())}


def _spread(values_us: np.ndarray) -> dict[str, float]:
    """Of durations, in seconds."""
    if not len(values_us):
        return {}
    p50, p90, p99 = np.percentile(values_us, [50, 90, 99])
    found = {"mean": values_us.mean(), "p50": p50, "p90": p90, "p99": p99, "most": values_us.max()}
    return {name: float(value) / US_PER_S for name, value in found.items()}


def summary(result: dict[str, Any], n_event: int, wall_s: float, folder: str) -> str:
    """For the terminal."""
    config = result["config"]["cluster"]
    n_gpu = sum(pool["servers"] * pool["gpus_per_server"] for pool in config["pool"])
    servers = sum(pool["servers"] for pool in config["pool"])
    hours, shares = result["gpu_hours"], max(result["gpu_hours"]["up"], result["gpu_hours"]["held"], 1e-9)
    lines = [
        f"{result['jobs_done']:,} of {result['jobs']:,} jobs done in {_time(result['end_s'])}, on {n_gpu:,} GPUs in "
        f"{servers:,} servers, {config['scheduler']}, {config['placement']}",
        f"GPU time   held {_share(hours['held'] / shares)}: productive {_share(hours['productive'] / shares)}, lost to "
        f"failures {_share(hours['lost'] / shares)}, start-up and checkpoints {_share(hours['overhead'] / shares)}; "
        f"idle {_share(1 - hours['held'] / shares)}",
    ]
    for name, text in (("completion_s", "Completion"), ("wait_s", "Wait")):
        if result[name]:
            parts = [f"{key} {_time(value)}" for key, value in result[name].items()]
            lines.append(f"{text:10} {', '.join(parts)}")
    if result["failures"]:
        parts = [f"{n:,} {name}" for name, n in sorted(result["failures"].items(), key=lambda pair: -pair[1])]
        lines.append(f"Failures   {', '.join(parts)}; {result['interruptions']:,} interruptions of jobs")
        causes = sorted(hours["lost_by_component"].items(), key=lambda pair: -pair[1])
        if causes:
            parts = [f"{value:,.0f} by {name}" for name, value in causes]
            lines.append(f"Lost       {hours['lost']:,.0f} GPU-hours: {', '.join(parts)}")
    if hours["down_by_component"]:
        causes = sorted(hours["down_by_component"].items(), key=lambda pair: -pair[1])
        parts = [f"{value:,.0f} by {name}" for name, value in causes]
        lines.append(f"Down       {sum(value for _, value in causes):,.0f} GPU-hours: {', '.join(parts)}")
    if result["moves"]:
        lines.append(f"Moved      {result['moves']:,} times from servers that were drained or maintained")
    if result["preemptions"]:
        why = "for other jobs, or to go on with other GPUs" if config["elastic"] else "for other jobs"
        lines.append(f"Stopped    {result['preemptions']:,} times {why}")
    lines.append(f"{format_count(n_event)} events in {wall_s:.2f} s; results in {folder}")
    return "\n".join(lines)


def _time(seconds: float) -> str:
    return format_long_duration(seconds * US_PER_S)


def _share(value: float) -> str:
    return f"{100 * value:.3g} %"
