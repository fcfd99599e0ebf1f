"""[[cluster.elastic]]: what elastic jobs' speeds follow from."""

from models.cluster.goodput import Amdahl, Curves, Goodput, Measured, Model, Pollux
from pdes.cluster.speeds import Speeds
from pdes.config.cluster.elastic import ElasticConfig
from pdes.config.cluster.load import Loaded
from pdes.units import PS_PER_S, shown


def read_curves(loaded: Loaded, speeds: Speeds) -> Curves | None:
    """None: no job is elastic. ConfigError: a kind has no speeds, or two tables."""
    models: dict[str, Model] = {}
    for i, config in enumerate(loaded.run.cluster.elastic):
        key = f"[[cluster.elastic]] {i + 1}"
        if config.kind in models:
            raise loaded.fault(key, f"a second table of kind {shown(config.kind)}", "Accepted: one of each kind")
        models[config.kind] = _model(loaded, config, speeds, key)
    return Curves(speeds.pools, models) if models else None


def _model(loaded: Loaded, config: ElasticConfig, speeds: Speeds, key: str) -> Model:
    usual: Goodput
    if config.serial is not None:
        usual = Amdahl(config.serial)
    elif config.batch is not None:
        usual = _of_iterations(config)
    else:
        on_type = _measured(config.kind, speeds)
        if not on_type:
            found = f"kind {shown(config.kind)} has neither serial nor batch, and no steps_per_s in [cluster] speeds"
            raise loaded.fault(
                key, found, "Accepted: Amdahl's law, a model of iterations, or measured steps per second"
            )
        return Model(_fastest(on_type), config.least_gpus, config.most_gpus, dict(on_type))
    return Model(usual, config.least_gpus, config.most_gpus)


def _of_iterations(config: ElasticConfig) -> Pollux:
    assert config.batch is not None
    return Pollux(
        config.gradient_ps / PS_PER_S, config.gradient_sample_ps / PS_PER_S,
        (config.sync_ps / PS_PER_S, config.sync_more_ps / PS_PER_S),
        (config.sync_servers_ps / PS_PER_S, config.sync_servers_more_ps / PS_PER_S),
        config.overlap, config.noise_scale, config.batch, config.most_batch or config.batch,
    )  # fmt: skip


def _measured(kind: str, speeds: Speeds) -> dict[str, Measured]:
    """By type of GPU."""
    found: dict[str, dict[int, float]] = {}
    for (own, n_gpu, gpu), speed in speeds.table.items():
        if own == kind and (own, n_gpu) in speeds.step_s:
            found.setdefault(gpu, {})[n_gpu] = speed / speeds.step_s[own, n_gpu]
    return {gpu: Measured(tuple(sorted(of)), tuple(of[n] for n in sorted(of))) for gpu, of in found.items()}


def _fastest(on_type: dict[str, Measured]) -> Measured:
    counts = sorted({n for measured in on_type.values() for n in measured.counts})
    return Measured(tuple(counts), tuple(max(of(n, 1, 1.0) for of in on_type.values()) for n in counts))
