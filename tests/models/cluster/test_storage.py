"""Storage: checkpoints and input beside closed forms."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.cluster.checkpoint_rule import CheckpointRule, daly_us, mean_us_between, young_us
from models.cluster.distribution import NEVER, Distribution
from models.cluster.failures import Failures, Process
from models.cluster.job import Request
from models.cluster.loop import Cluster
from models.cluster.machine import Machine, Pool
from models.cluster.placement import POLICIES
from models.cluster.rules import NEVER_US, Rules
from models.cluster.schedulers.fcfs import Fcfs
from models.cluster.storage import Storage
from models.compute.layout import Layout
from models.compute.memory import memory_of, stage_parameters
from models.compute.model_shape import ModelShape
from reference.cluster_runs import HOUR, Plain, S

GB = 8 * 10**9
LLAMA = Request(0, "0", 0, 16_384, 54 * 24 * HOUR, kind="llama")


def simulated(job: Request, storage: Storage, pool: Pool, interval: str | int, process: Process | None = None) -> Plain:
    """One job alone."""
    machine = Machine([pool])
    failures, watch = Failures([process] if process else [], machine, 1), Plain(machine)
    checkpoints = CheckpointRule(interval, (0, 0, 0), failures, storage)
    rules = Rules(POLICIES["packed"], lambda *_: pool.speed, checkpoints, NEVER_US, 0.0, storage)
    cluster = Cluster(machine, rules, [job], failures, watch)
    watch.cluster = cluster
    cluster.run(Fcfs(cluster, {}))
    return watch


@pytest.mark.parametrize(
    ("more", "n_server", "seconds"),
    [
        ({"rate_bps": 2000 * GB}, 2048, 2.835),  # 405e9 x 14 bytes at 2 TB/s
        ({"rate_bps": 2000 * GB, "n_writer": 4}, 2048, 11.34),
        ({"rate_bps": 2000 * GB, "server_bps": 5 * GB}, 2048, 2.835),
        ({"rate_bps": 2000 * GB, "server_bps": 5 * GB}, 128, 8.859375),  # 128 x 5 GB/s
        ({"server_bps": 5 * GB, "n_writer": 4}, 128, 8.859375),
    ],
)
def test_a_checkpoint_takes_its_bytes_over_the_narrower_way(more: dict, n_server: int, seconds: float) -> None:
    storage = Storage(parameters={"llama": 405e9}, parameter_bytes=14, **more)
    assert storage.transfer_us(LLAMA, n_server) == round(seconds * S)


def test_a_checkpoint_has_what_the_memory_model_keeps() -> None:
    """Weights and the optimizer's states of all stages, once: 14 bytes of each parameter."""
    shape = ModelShape(layers=8, hidden=1024, heads=16, vocabulary=32_000, sequence=1024)
    layout = Layout(pp=2)
    held = [memory_of(shape, layout, stage) for stage in range(2)]
    n = sum(stage_parameters(shape, layout, stage).dense_parameters for stage in range(2))
    kept = sum(memory.weight_bytes + memory.optimizer_bytes for memory in held)
    storage = Storage(parameters={"x": n}, parameter_bytes=14)
    assert storage.checkpoint_bytes(Request(0, "0", 0, 1, 1, kind="x")) == kept


@pytest.mark.parametrize(("rule", "formula"), [("young", young_us), ("daly", daly_us)])
def test_rules_take_the_time_through_storage(rule: str, formula) -> None:
    """Of each size: larger jobs write through more servers, and are interrupted more often."""
    machine = Machine([Pool("G", 64, 8, 16, 1.0)])
    failures = Failures(
        [Process("gpu", "gpu", Distribution("exponential", 1e4 * HOUR), "server", NEVER, NEVER)], machine, 1
    )
    storage = Storage(None, 2 * GB, per_gpu=1e9, parameter_bytes=14)
    checkpoints = CheckpointRule(rule, (10 * S, 60 * S, 0), failures, storage)
    for n_gpu, n_server in ((8, 1), (64, 8), (512, 64)):
        found = checkpoints(Request(0, "0", 0, n_gpu, 1), n_server)
        write_us = 10 * S + 56 * S  # 8 x 14 GB of each server at 2 GB/s
        assert found.write_us == write_us and found.restart_us == 116 * S
        assert found.interval_us == formula(write_us, mean_us_between(failures, n_gpu, n_server))


def test_a_job_writes_and_reads_through_storage() -> None:
    """By hand: 7 h of work, checkpoints each hour of 800 s, a failure at 6 h 30 min, then a restart of 800 s."""
    storage = Storage(GB, per_gpu=1e9, parameter_bytes=400)
    gap = Distribution("empirical", values_us=(6 * HOUR + HOUR // 2,))
    process = Process("bug", "server", gap, "job", NEVER, NEVER)
    (job,) = simulated(Request(0, "0", 0, 2, 7 * HOUR), storage, Pool("G", 1, 2, 16, 1.0), HOUR, process).done
    saved = 5 * (HOUR + 800 * S)  # the fifth checkpoint is whole by 6 h 7 min
    assert job.end_us == 6 * HOUR + HOUR // 2 + 800 * S + 2 * HOUR + 800 * S
    assert job.lost_gpu_us == 2 * (6 * HOUR + HOUR // 2 - saved) and job.overhead_gpu_us == 2 * 7 * 800 * S


def test_a_job_is_as_fast_as_its_input() -> None:
    """4 servers x 8 GPUs that read 1 GB/s each through 5 GB/s per server: 5/8; what GPUs wait is counted."""
    storage, pool = Storage(None, 5 * GB, input_bps=GB), Pool("G", 4, 8, 16, 1.0)
    watch = simulated(Request(0, "0", 0, 32, 10 * HOUR), storage, pool, "off")
    (job,) = watch.done
    assert job.end_us == 16 * HOUR and job.lost_gpu_us == 32 * 6 * HOUR
    assert watch.cluster.lost_gpu_us == {"input": 32 * 6 * HOUR}
    slow = pool._replace(speed=0.5)  # GPUs that compute half as fast read half as fast: no wait
    (job,) = simulated(Request(0, "0", 0, 32, 10 * HOUR), storage, slow, "off").done
    assert job.end_us == 20 * HOUR and job.lost_gpu_us == 0


@given(
    st.integers(1, 64), st.integers(1, 8), st.one_of(st.none(), st.integers(1, 10**13)),
    st.one_of(st.none(), st.integers(1, 10**12)), st.integers(0, 10**11), st.sampled_from([0.25, 1.0, 3.0]),
)  # fmt: skip
def test_an_iteration_takes_the_longer_of_computing_and_reading(
    n_server: int, per_server: int, rate: int | None, server: int | None, reads: int, speed: float
) -> None:
    """An iteration of a second of computing at speed 1; its input comes by the job's part of the storage's rate."""
    n_gpu = n_server * per_server
    storage = Storage(rate, server, input_bps=reads, n_gpu=512)
    computing_s, n_bit = 1 / speed, reads * n_gpu
    ways = [bps for bps in (rate and rate * n_gpu / 512, server and server * n_server) if bps]
    reading_s = n_bit / min(ways) if ways else 0.0
    iteration_s = computing_s / storage.input_share(n_gpu, n_server, speed)
    assert iteration_s == pytest.approx(max(computing_s, reading_s), rel=1e-9)
