"""Other names that columns of a trace have in copies of it, in artifacts and simulators: by the name as published."""

from collections.abc import Mapping, Sequence

Variants = Mapping[str, Sequence[str]]

_GPUS = ("num_gpus", "num_gpu", "gpu_num", "gpus", "n_gpu", "n_gpus", "gpu_count", "requested_gpus")
_SUBMIT = (
    "submit_time", "submitted_time", "submission_time", "submit_s", "submitted", "submit_timestamp", "arrival_time",
    "arrival", "timestamp", "time",
)  # fmt: skip
_DURATION = ("duration", "duration_s", "duration_sec", "duration_seconds", "run_time", "runtime", "run_time_s")
_ID = ("job_id", "jobid", "id", "job", "job_name", "name")
_VC = ("vc", "virtual_cluster", "cluster")

PHILLY_CSV: Variants = {"timestamp": _SUBMIT, "duration": _DURATION, "num_gpus": _GPUS, "cluster": _VC}
SIA: Variants = {
    "name": _ID, "time": _SUBMIT, "application": ("app", "model", "model_name", "workload"), "duration": _DURATION,
    "num_replicas": ("num_replica", "replicas", "requested_num_replicas", *_GPUS),
}  # fmt: skip
SLURM: Variants = {
    "job_id": _ID, "user": ("user_id", "username", "uid"), "gpu_num": _GPUS, "submit_time": _SUBMIT, "vc": _VC,
    "state": ("status", "job_state", "job_status"), "start_time": ("started_time", "start", "started"),
    "end_time": ("finished_time", "finish_time", "end", "ended", "finished"), "duration": _DURATION,
    "node_num": ("num_nodes", "num_node", "nodes", "n_node"), "type": ("job_type", "kind"),
}  # fmt: skip


def as_published(columns: Sequence[str], variants: Variants) -> tuple[str, ...]:
    """The columns, each one that a name as published lacks by that name; the first that there is of its others.

    A column that has a name as published itself keeps it. Spaces and dashes in names are as good as _.
    """
    if not variants:
        return tuple(columns)
    found = [name.replace(" ", "_").replace("-", "_") for name in columns]
    for name, others in variants.items():
        if name in found:
            continue
        for other in others:
            if other in found and other not in variants:
                found[found.index(other)] = name
                break
    return tuple(found)
