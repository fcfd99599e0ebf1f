"""[workload.nccl] of a training job: what it asks for is what the job does."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.workload.compiler.tuning import KindTuning, Tuning
from models.workload.plan import WorkloadPlan
from models.workload.program import OP_COMPUTE, OP_GROUP
from pdes.config import Config, config_from_dict
from pdes.errors import ConfigError
from pdes.scenario import build_scenario
from pdes.scenario.topology import build_topology
from pdes.scenario.training import checked_job

MODEL = {"layers": 2, "hidden": 1024, "heads": 8, "vocabulary": 1024, "sequence": 512}


def config(nccl: dict[str, Any], **workload: Any) -> Config:
    """Four servers of two, data parallelism over all."""
    job = {"kind": "training", "model": MODEL, "compute": {"gpu": "h100"}, "parallel": {"tp": 1, "dp": 8, "pp": 1}}
    topology = {"kind": "roft", "gpus": 8, "gpus_per_server": 2, "nic_rate": "400Gbps", "spine_rate": "400Gbps"}
    return config_from_dict({"topology": topology, "workload": job | workload | {"nccl": nccl}}, Path("job.toml"))


def plan_of(nccl: dict[str, Any], **workload: Any) -> WorkloadPlan:
    return build_scenario(config(nccl, **workload)).plan


def test_every_key_reaches_the_planner() -> None:
    nccl = {
        "protocol": "LL128", "channels": 4, "nvls": False,
        "all-reduce": {"algorithm": "tree", "protocol": "Simple", "channels": 8, "groups": ["dp"]},
        "all-gather": {"algorithm": "hierarchical"},
    }  # fmt: skip
    one = config(nccl)
    of_kind = {
        "all-reduce": KindTuning("tree", "Simple", 8, ("dp",)),
        "all-gather": KindTuning("hierarchical", groups=("tp", "dp", "ep")),
    }
    assert checked_job(one, build_topology(one)).tuning == Tuning("LL128", 4, False, of_kind)


def test_gradients_go_along_trees() -> None:
    """On each rail of four servers two trees of three edges, each a pair up and one down."""
    ring, tree = (plan_of({"all-reduce": {"algorithm": name, "protocol": "Simple"}}) for name in ("ring", "tree"))
    assert (len(ring.pair_src), len(tree.pair_src)) == (8, 2 * 2 * 3 * 2)
    n = 1024 * 1024 + 2 * (12 * 1024**2 + 13 * 1024) + 512 * 1024 + 2 * 1024  # words, layers, positions, last norm
    sent = [int(plan.pair_bytes.sum()) for plan in (tree, ring)]
    assert sent[0] == pytest.approx(2 * 3 * 4 * n, rel=1e-3)  # every edge has it up and down, of both rails together
    assert sent[1] == pytest.approx(4 * 2 * 7 / 8 * 4 * n, rel=1e-3)  # four borders, 7 / 8 in each of two halves


def test_channels_are_queue_pairs_with_paths_of_their_own() -> None:
    """Eight channels are four on each of two rails; fewer than there are rails are one on each."""
    pairs = [plan_of({"channels": n, "all-reduce": {"algorithm": "ring"}}) for n in (1, 2, 8)]
    assert [len(plan.pair_src) for plan in pairs] == [8, 8, 32]
    assert len(set(zip(*(np.array(c).tolist() for c in (pairs[2].pair_src, pairs[2].pair_sport)), strict=True))) == 32


def test_without_reductions_in_the_switch_tensor_parallelism_takes_longer() -> None:
    """On the eight GPUs of a server; what computes is as before."""
    job = {"kind": "training", "compute": {"gpu": "h100"}, "parallel": {"tp": 8, "dp": 1, "pp": 1}}
    job["model"] = MODEL | {"sequence": 8192, "hidden": 8192, "heads": 64}
    topology = {"kind": "roft", "gpus": 8}
    rows = [
        build_scenario(config_from_dict({"topology": topology, "workload": job | {"nccl": nccl}})).plan.operations
        for nccl in ({}, {"nvls": False})
    ]
    (usual, off), (computing, as_before) = (
        [int(one["time_ps"][one["kind"] == kind].sum()) for one in rows] for kind in (OP_GROUP, OP_COMPUTE)
    )
    assert off > usual and computing == as_before


@pytest.mark.parametrize(
    ("nccl", "workload", "text"),
    [
        ({"allreduce": {}}, {}, r'\[workload.nccl\] allreduce: unknown key\. Did you mean "all-reduce"'),
        (
            {"all-reduce": {"algorithm": "pxn"}},
            {},
            r'all-reduce\] algorithm: found "pxn"\. Accepted: "auto", "ring", "tree"',
        ),
        (
            {"all-gather": {"algorithm": "tree"}},
            {},
            r'all-gather\] algorithm: found "tree"\. Accepted: "auto", "ring" or',
        ),
        (
            {"all-to-all": {"algorithm": "ring"}},
            {},
            r'all-to-all\] algorithm: found "ring"\. Accepted: "auto", "direct"',
        ),
        ({"protocol": "ll"}, {}, r'protocol: found "ll"\. Accepted: "auto", "LL"'),
        ({"channels": 0}, {}, r"channels: found 0\. Accepted: at least 1"),
        ({"all-reduce": {"groups": ["pp"]}}, {}, r'groups: found \[\'pp\'\]\. Accepted: a list of "tp", "dp", "ep"'),
        ({"protocol": "LL"}, {"compute": {}}, r"nccl: is there, but \[workload.compute\] gpu is not"),
        (
            {"all-to-all": {"algorithm": "direct"}},
            {"routing_skew": 0.5, "model": MODEL | {"experts": 8}, "parallel": {"tp": 1, "dp": 8, "pp": 1, "ep": 8}},
            r"all-to-all: is there, and so is routing_skew",
        ),
    ],
)
def test_a_fault_names_its_key(nccl: dict[str, Any], workload: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        config(nccl, **workload)
