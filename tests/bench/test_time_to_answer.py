"""What `bench/time_to_answer.py` runs: the same job on every number of GPUs, with more replicas."""

import pytest
from time_to_answer import EXAMPLE, LEAST_GPUS, overrides

from pdes.config import load_config


@pytest.mark.parametrize("n_gpu", [64, 512, 2048])
def test_replicas_follow_from_the_gpus_and_nothing_else_does(n_gpu: int) -> None:
    config = load_config(EXAMPLE, overrides(n_gpu, "auto"))
    workload, least = config.workload, load_config(EXAMPLE).workload
    p = workload.parallel
    assert config.topology.gpus == n_gpu == p.tp * p.cp * p.pp * p.dp
    assert (p.tp, p.cp, p.pp, p.vpp) == (4, 2, 4, 5) and p.dp * LEAST_GPUS == least.parallel.dp * n_gpu
    assert workload.global_batch // p.dp == least.global_batch // least.parallel.dp
