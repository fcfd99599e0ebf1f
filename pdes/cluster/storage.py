"""From [cluster.storage] to what checkpoints and input take; sizes of checkpoints by the models that jobs train."""

from typing import Any

from models.cluster.machine import Machine
from models.cluster.storage import Storage
from pdes.cluster.iterations.run import share_of, tables_of
from pdes.cluster.iterations.shape import packed
from pdes.cluster.iterations.speeds import RunSpeeds
from pdes.config.cluster.load import Loaded
from pdes.errors import suggestion
from pdes.units import shown


def storage_of(loaded: Loaded, machine: Machine, runs: RunSpeeds | None) -> Storage | None:
    """None without the table. Raises ConfigError."""
    config = loaded.run.cluster.storage
    if config is None:
        return None
    storage = Storage(
        config.rate_bps, config.server_rate_bps, config.writers, _parameters(loaded, config.parameters),
        config.parameters_per_gpu, config.parameter_bytes, config.input_per_gpu_bps or 0,
        sum(pool.n_server * pool.n_gpu for pool in machine.pools),
        {} if runs is None else _of_runs(machine, runs, set(config.parameters)),
    )  # fmt: skip
    if not storage.has_checkpoints and config.input_per_gpu_bps is None:
        accepted = "Accepted: parameters, parameters_per_gpu or input_per_gpu, or models in [cluster.runs]"
        raise loaded.fault("[cluster.storage]", "nothing that goes through it", accepted)
    return storage


def _parameters(loaded: Loaded, given: dict[str, float | str]) -> dict[str, float]:
    """How many, by kind; names are those of presets."""
    if not any(isinstance(value, str) for value in given.values()):
        return {kind: float(value) for kind, value in given.items()}
    from models.compute.presets import PRESETS

    for kind, value in given.items():
        if isinstance(value, str) and value not in PRESETS:
            accepted = f"Accepted: a number, or one of {', '.join(PRESETS)}{suggestion(value, PRESETS)}"
            raise loaded.fault(f"[cluster.storage.parameters] {kind}", f"found {shown(value)}", accepted)
    return {kind: float(PRESETS[v].parameters() if isinstance(v, str) else v) for kind, v in given.items()}


def _of_runs(machine: Machine, runs: RunSpeeds, but: set[str]) -> dict[str, float]:
    """Bytes of a checkpoint by kind, of all kinds whose model is run."""
    from pdes.config.values import make_config
    from pdes.scenario.training import checkpoint_bytes

    bench, found = runs.benches[0], {}
    for kind, workload in bench.kinds.items():
        if kind not in but:
            tables = tables_of(bench, packed(machine, 0, kind, share_of(workload)), {})
            jobs: Any = make_config(tables, folder=bench.folder).workload
            found[kind] = float(checkpoint_bytes(jobs.job[0].workload))
    return found
