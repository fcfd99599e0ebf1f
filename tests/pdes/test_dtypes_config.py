"""Number formats of tensors: each decides the bytes of its own messages, memory and kernels, and of no other."""

from typing import Any

import pytest

from models.compute.memory import memory_of
from models.workload.compiler.job import Job
from models.workload.compiler.kernels import job_kernels
from pdes.config import Config, config_from_dict
from pdes.errors import ConfigError
from pdes.scenario import build_scenario
from pdes.scenario.topology import build_topology
from pdes.scenario.training import checked_job

MODEL = {"layers": 4, "hidden": 1024, "heads": 8, "vocabulary": 1024, "sequence": 512, "tied_embeddings": False}
EXPERTS = MODEL | {"experts": 16, "top_k": 2}


def config(dtypes: dict[str, str], model: dict[str, Any], parallel: dict[str, int], **workload: Any) -> Config:
    """A job over servers of one GPU each, so that all exchanges are packets."""
    job = {"kind": "training", "model": model, "compute": {"gpu": "h100"}, "dtypes": dtypes}
    parallel = {"tp": 1, "dp": 1, "pp": 1} | parallel
    n_gpu = parallel["tp"] * parallel["dp"] * parallel["pp"]
    topology = {"kind": "roft", "gpus": n_gpu, "gpus_per_server": 1, "nic_rate": "400Gbps", "spine_rate": "400Gbps"}
    return config_from_dict({"topology": topology, "workload": job | {"parallel": parallel} | workload})


def job_of(one: Config) -> Job:
    return checked_job(one, build_topology(one))


def sent_bytes(dtypes: dict[str, str], model: dict[str, Any], parallel: dict[str, int], **workload: Any) -> int:
    """Bytes of all messages of an iteration."""
    return int(build_scenario(config(dtypes, model, parallel, **workload)).plan.pair_bytes.sum())


@pytest.mark.parametrize("zero", [0, 1, 3])
def test_gradients_and_weights_are_sent_in_their_formats(zero: int) -> None:
    """By passes over a ring: an all-reduce two, a reduce-scatter and each all-gather (ZeRO-3: two) one."""

    def sent(**dtypes: str) -> int:
        simple = {"protocol": "Simple"}  # no flags on the wire
        return sent_bytes(dtypes, MODEL, {"dp": 4}, zero=zero, overlap_parameters=False, nccl=simple)

    weights = {0: 0, 1: 1, 3: 2}[zero]
    reduced = 2 if zero == 0 else 1
    unit, left = divmod(sent(), 4 * reduced + 2 * weights)
    assert left == 0 and unit > 10**7
    assert sent(reduce="bf16") == sent(gradients="bf16") == unit * (2 * reduced + 2 * weights)
    assert sent(gradients="bf16", reduce="fp32") == sent(moments="bf16", optimizer="bf16") == sent()
    assert sent(weights="fp8") == unit * (4 * reduced + weights)
    assert sent(weights="fp32") == unit * (4 * reduced + 4 * weights)


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_activations_go_from_stage_to_stage_in_their_format(dtype: str) -> None:
    """Four microbatches, forth and back, between three pairs of stages."""
    sent = sent_bytes({"activations": dtype}, MODEL, {"pp": 4}, microbatches=4)
    assert sent == 4 * 2 * 3 * 512 * 1024 * {"bf16": 2, "fp32": 4}[dtype]


def test_sums_of_tensor_parallelism_are_of_activations() -> None:
    long = MODEL | {"sequence": 8192}
    n_value = 4 * 4 * 8192 * 1024  # four layers, two sums in each direction
    added = sent_bytes({"activations": "fp32"}, long, {"tp": 2}) - sent_bytes({}, long, {"tp": 2})
    ends = 2 * 8192 * 1024  # the embedding's sum, and the head's gradient
    assert added == 2 * (n_value + ends) * 2  # both GPUs send all of it once in the two halves, 2 bytes more each


def test_tokens_go_to_experts_and_back_in_their_formats() -> None:
    """Dispatch is forward to the experts, and backward the gradients of what they made; combine is the way back."""
    long = EXPERTS | {"sequence": 8192}

    def sent(group: str = "ep", **dtypes: str) -> int:
        return sent_bytes(dtypes, long, {"dp": 4, group: 4}, microbatches=2)

    layers, microbatches, n_gpu, top_k = 4, 2, 4, 2
    once = layers * microbatches * n_gpu * top_k * 8192 * 1024 * 3 // 4  # a byte of every value, to the other three
    assert sent() - sent(dispatch="fp8") == sent() - sent(combine="fp8") == 2 * once
    assert sent() - sent(dispatch="fp8", combine="fp8") == 4 * once
    assert sent(dispatch="fp32") - sent() == 2 * 2 * once
    gathered = 4 * once  # each value to the three others that share its expert's matrices, not a quarter to each
    assert sent("etp") - sent("etp", dispatch="fp8") == 2 * gathered


@pytest.mark.parametrize(
    ("dtypes", "weights", "gradients", "states"),
    [
        ({}, 2, 4, 12),
        ({"moments": "bf16"}, 2, 4, 8),  # DeepSeek-V3 (section 3.3.2): 32-bit master weights and gradients
        ({"moments": "fp8", "optimizer": "fp32"}, 2, 4, 6),
        ({"weights": "fp32"}, 4, 4, 8),  # no master weights beside
        ({"weights": "fp8", "gradients": "bf16", "reduce": "fp32"}, 1, 2, 12),
    ],
)
def test_memory_goes_by_the_formats(dtypes: dict[str, str], weights: int, gradients: int, states: int) -> None:
    job = job_of(config(dtypes, MODEL, {}))
    memory, n = memory_of(job.shape, job.layout), job.shape.parameters()
    found = memory.weight_bytes, memory.gradient_bytes, memory.optimizer_bytes
    assert found == (weights * n, gradients * n, states * n)


def test_products_read_weights_in_their_format() -> None:
    """m x k of activations, k x n of weights, m x n of results; the third product has no weights."""
    m, k, n = 512, 4096, 1024  # the second matrix of the feed-forward network
    for dtype, size in (("bf16", 2), ("fp32", 4)):
        kernels = job_kernels(job_of(config({"weights": dtype}, MODEL, {})))
        found = {(x.m, x.k, x.n): x.hbm_bytes for x in kernels if x.kind == "gemm"}
        assert found[m, k, n] == 2 * m * k + size * k * n + 2 * m * n
        assert found[k, m, n] == 2 * (m * k + m * n) + 8 * k * n  # gradients, read and written


def test_the_optimizer_moves_its_states_in_their_formats() -> None:
    def moved(**dtypes: str) -> int:
        job = job_of(config(dtypes, MODEL, {}))
        (kernel,) = (kernel for kernel in job_kernels(job) if kernel.kind == "optimizer")
        return kernel.hbm_bytes // job.shape.parameters()

    assert moved() == 3 * 4 + 2 * (4 + 2 * 4) + 2
    assert moved(moments="bf16") == 3 * 4 + 2 * (4 + 2 * 2) + 2
    assert moved(gradients="bf16", weights="fp8") == 3 * 2 + 2 * (4 + 2 * 4) + 1


def test_the_usual_formats_change_nothing() -> None:
    usual = {
        "weights": "bf16", "gradients": "fp32", "reduce": "fp32", "optimizer": "fp32", "moments": "fp32",
        "activations": "bf16", "dispatch": "bf16", "combine": "bf16",
    }  # fmt: skip
    for precision in ("bf16", "fp8"):
        plans = [
            build_scenario(config(dtypes, EXPERTS, {"dp": 4, "ep": 4}, precision=precision, zero=1)).plan
            for dtypes in ({}, usual)
        ]
        assert plans[0].operations.tobytes() == plans[1].operations.tobytes()


@pytest.mark.parametrize(
    ("dtypes", "workload", "text"),
    [
        (
            {"weights": "int8"},
            {},
            r'\[workload.dtypes\] weights: found "int8"\. Accepted: "bf16", "fp16", "fp32" or "fp8"',
        ),
        ({"activations": "fp8"}, {}, r'activations: found "fp8"\. Accepted: "bf16", "fp16" or "fp32"'),
        ({"weigths": "bf16"}, {}, r'weigths: unknown key\. Did you mean "weights"'),
        ({"dispatch": "fp8"}, {}, r"dispatch: is there, but \[workload.parallel\] ep and etp are 1"),
        ({"gradients": "bf16"}, {"gradients": "fp32"}, r"gradients: is there, and so is \[workload.dtypes\] gradients"),
        ({"weights": "fp8"}, {"compute": {}}, r"dtypes: is there, but \[workload.compute\] gpu is not"),
    ],
)
def test_a_fault_names_its_key(dtypes: dict[str, str], workload: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        config(dtypes, MODEL, {}, **workload)
