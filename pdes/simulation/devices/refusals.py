"""What the window engine does not simulate, said before anything runs."""

from collections.abc import Iterator

import numpy as np

from models.congestion.law import BUILT_IN
from models.workload.program import OP_START
from pdes.engine.jit import JIT_DISABLED
from pdes.errors import ConfigError
from pdes.scenario import Scenario
from pdes.simulation.devices import DEVICES, Device

LAWS = ("dctcp", "dcqcn", "hpcc", "fixed-window", "none")
ON_CPU = "Accepted: --device cpu, or a config without that"


def check_device(device: Device, s: Scenario, n_rank: int = 1, looks_into: bool = False) -> None:
    """Raise ConfigError for what a device cannot do, or for a device that is not here. looks_into: there is debugging.

    n_rank: of the run.
    """
    where = f"--device {device}"
    if device not in DEVICES:
        raise ConfigError(where, "unknown device", f"one of {', '.join(DEVICES)}")
    if device == "cpu":
        return
    if n_rank > 1:
        raise ConfigError(where, f"{n_rank} ranks", "one process: a GPU is one machine's")
    if looks_into:
        raise ConfigError(where, "options that look into a run (docs/debugging.md)", "--device cpu for these")
    for what in (*_of_config(s), *_of_network(s), *_of_work(s)):
        raise ConfigError(f"{s.config.source}: {where}", what, ON_CPU)
    if device == "cuda":
        check_cuda(where)


def check_cuda(where: str) -> None:
    """Raise ConfigError if there is no GPU, or nothing to run on one with."""
    advice = "an NVIDIA GPU with its driver, and pip install 'pdes-sim[cuda]'; --device cpu runs anywhere"
    try:
        from models.network.windows import cuda
    except ImportError as error:
        raise ConfigError(where, f"Numba's support of GPUs is missing ({error})", advice) from error
    if cuda.IS_SIMULATED and not JIT_DISABLED:
        raise ConfigError(
            where, "NUMBA_ENABLE_CUDASIM=1 alone", "NUMBA_DISABLE_JIT=1 besides, as the simulator is Python"
        )
    if why := cuda.why_not():
        raise ConfigError(where, why, advice)


def _of_config(s: Scenario) -> Iterator[str]:
    config = s.config
    if s.stop_ps is not None:
        yield "[simulation] stop_time"
    if config.output.sample_interval_ps is not None:
        yield "[output] sample_interval"
    if config.output.partitions or config.wormhole.mode != "off":
        yield "fast-forwarding ([wormhole] mode)"
    if config.checkpoint.every_ps is not None:
        yield "[checkpoint] every"


def _of_network(s: Scenario) -> Iterator[str]:
    p = s.parameters
    found = {
        '[network] compatibility = "ns3-hpcc"': p.ns3 is not None,
        "[network.pfc]: pauses": p.buffer is not None and p.buffer.pfc,
        "[network.buffer]: shared buffers of a size": p.buffer is not None,
        "[network.loss]: packets that are lost": p.loss_probability is not None,
        "[[network.link_event]]: links that change": bool(p.link_changes),
        "[network.routing]: packets that choose their ways (ECMP by flow has fixed ones)": p.routing is not None,
        "[network.transport]: resends and timeouts": p.transport is not None,
        "several data queues": p.n_queue > 2,
        "[output] rtt_of_flow": p.rtt_flow >= 0,
        "flows without packets": p.flow is not None or p.has_fluid or p.may_skip,
    }
    yield from (what for what, is_there in found.items() if is_there)
    if p.law.name not in LAWS or p.law.name not in BUILT_IN or p.law.source.path:
        yield f'[network] congestion_control = "{p.law.name}" (there are {", ".join(LAWS)})'


def _of_work(s: Scenario) -> Iterator[str]:
    plan = s.plan
    starts = plan.operations["kind"] == OP_START
    is_list = bool(starts.all()) and plan.n_part == 1 and plan.n_iteration == 1 and plan.graph is None
    is_list = is_list and not plan.jobs and not plan.tasks_per_iteration and bool((plan.pair_stream < 0).all())
    if not is_list or len(np.unique(plan.streams["gpu"])) < len(plan.streams):
        yield '[workload]: anything but independent flows (kind = "flows", "poisson")'
