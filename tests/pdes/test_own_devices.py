"""GPU types of one's own: like another one they are that one, and what is changed changes what it should."""

from pathlib import Path
from typing import Any

import pytest

from models.compute.devices import DEVICES, Device, Fit
from models.compute.kernel_time import kernel_ps
from models.compute.operators import Kernel, elementwise, gemm
from models.workload.nccl.calibration import calibration_of
from models.workload.nccl.in_server import in_server_ps
from models.workload.nccl.own_type import in_server_type
from models.workload.plan import WorkloadPlan
from pdes.config import config_from_dict
from pdes.errors import ConfigError
from pdes.scenario import build_scenario
from pdes.scenario.devices import own_devices
from pdes.units import PS_PER_US

SHEET = {"flops": {"bf16": "100Tflops"}, "memory": "80GB", "memory_bandwidth": "1TBps", "nvlink": "100GBps"}
PRODUCT = gemm(1000, 1000, 1000, "bf16", 2, 2)  # 2e9 FLOPs, 6e6 bytes


def tables(gpu: str = "mine", devices: dict[str, Any] | None = None, **workload: Any) -> dict[str, Any]:
    """Two servers, and a small model over them."""
    model = {"layers": 4, "hidden": 1024, "heads": 8, "vocabulary": 1024, "sequence": 512}
    parallel = {"tp": 8, "dp": 2, "pp": 1}
    job = {"kind": "training", "model": model, "parallel": parallel, "compute": {"gpu": gpu}}
    return {
        "topology": {"kind": "roft", "gpus": 16, "nic_rate": "400Gbps", "spine_rate": "400Gbps"},
        "workload": job | ({"devices": devices} if devices else {}) | workload,
    }


def plan_of(data: dict[str, Any]) -> WorkloadPlan:
    return build_scenario(config_from_dict(data)).plan


def device(**keys: Any) -> Device:
    workload: Any = config_from_dict(tables(devices={"mine": keys})).workload
    return own_devices(workload.devices)["mine"]


@pytest.mark.parametrize("gpu", ["h100", "a100-40g", "mi300x"])
def test_a_type_like_another_is_that_one(gpu: str) -> None:
    own, known = plan_of(tables(devices={"mine": {"like": gpu}})), plan_of(tables(gpu))
    assert own.operations.tobytes() == known.operations.tobytes()


def test_a_type_by_its_data_sheet_has_ordinary_constants() -> None:
    mine, fit = device(**SHEET), Fit()
    expected_us = 1e6 * (fit.gemm_gamma * 2e9 / 100e12 + fit.memory_gamma * 6e6 / 1e12) + fit.launch_ps / 1e6
    assert kernel_ps(PRODUCT, mine) / 1e6 == pytest.approx(expected_us, rel=1e-6)
    assert mine.hbm_bytes == 80 * 10**9 and mine.nvlink_bps == 800 * 10**9 and mine.reference is None


def test_constants_are_those_given() -> None:
    constants = {
        "gemm_gamma": 2.0, "memory_gamma": 1.5, "attention_gamma": 4.0, "launch": "1us", "dispatch": "0s",
        "overlap_loss": 0.0,
    }  # fmt: skip
    mine = device(**SHEET, constants=constants)
    assert kernel_ps(PRODUCT, mine) == pytest.approx(50_000_000, abs=2)  # 40 us, 9 us and 1 us
    assert mine.fit.attention_gamma == 4 and mine.fit.dispatch_ps == 0 and mine.fit.overlap_loss_frac == 0


@pytest.mark.parametrize("kernel", [PRODUCT, elementwise(10**8, 4)])
def test_twice_the_peaks_are_at_most_twice_as_fast(kernel: Kernel) -> None:
    """And a margin of 3 is 1.5 times slower than the type that it is like."""
    twice = {"flops": {"bf16": "1978.8Tflops", "fp8": "4000Tflops"}, "memory_bandwidth": "6.7TBps"}
    known_ps = kernel_ps(kernel, DEVICES["h100"])
    boast = {key: 1.0 for key in ("gemm_gamma", "memory_gamma", "attention_gamma")} | {"launch": "0s"}
    assert kernel_ps(kernel, device(like="h100", constants=boast, **twice)) == pytest.approx(known_ps / 2, abs=2)
    assert known_ps / 2 - 2 <= kernel_ps(kernel, device(like="h100", **twice)) <= known_ps
    assert kernel_ps(kernel, device(like="h100", margin=3.0, **twice)) == pytest.approx(1.5 * known_ps, abs=2)


def test_collectives_inside_a_server_go_by_the_rate_of_the_links() -> None:
    """A ring's halves of 1 GiB on 8 GPUs: what is over the latency takes three times as long at a third of the rate."""
    known, mine = calibration_of("h100"), in_server_type(device(like="h100", nvlink="150GBps"))
    latency_ps = known.launch_ps + (max(r.latency_ps for r in known.regimes[:3]) - known.launch_ps) // 2
    whole_ps, own_ps = (in_server_ps(gpu, "all-gather", 2**30, 8) for gpu in (known, mine))
    assert (own_ps - latency_ps) / (whole_ps - latency_ps) == pytest.approx(3, rel=1e-3)


def test_a_latency_of_the_links_is_that_of_a_step() -> None:
    """Fourteen steps of an all-reduce over eight GPUs, besides the launch and next to no bytes."""
    slow, slower = (
        in_server_type(device(like="a100-80g", nvlink_latency=f"{latency}us")) for latency in (2, 5)
    )  # fmt: skip
    times_ps = [in_server_ps(gpu, "all-reduce", 1, 8) for gpu in (slow, slower)]
    assert times_ps[0] == pytest.approx(calibration_of("a100").launch_ps + 28 * PS_PER_US, rel=1e-4)
    assert times_ps[1] - times_ps[0] == pytest.approx(14 * 3 * PS_PER_US, rel=1e-4)


def test_reductions_in_the_switch_can_be_switched_off() -> None:
    with_nvls, without = (in_server_type(device(like="h100", nvls=nvls)) for nvls in (True, False))
    asked = [in_server_ps(gpu, "all-reduce", 2**30, 8) for gpu in (with_nvls, without)]
    assert asked[0] == in_server_ps("h100", "all-reduce", 2**30, 8) and asked[1] > asked[0]
    assert in_server_ps(in_server_type(device(**SHEET)), "all-reduce", 2**30, 8) > asked[1]


def test_single_servers_may_have_a_type_of_ones_own() -> None:
    """Eight GPUs compute as before, and eight others by the new type's times."""
    slow = {"like": "h100", "flops": {"bf16": "98.94Tflops", "fp32": "40Tflops"}, "memory_bandwidth": "335GBps"}
    group = {"servers": [1], "gpu": "slow"}
    mixed, plain = plan_of(tables("h100", {"slow": slow}, gpus=[group])), plan_of(tables("h100"))
    assert len(mixed.operations) > len(plain.operations)
    assert mixed.operations["time_ps"].max() > 5 * plain.operations["time_ps"].max()


def test_its_memory_is_what_a_layout_must_fit() -> None:
    with pytest.raises(ConfigError, match=r"have 1\.0 GiB"):
        plan_of(tables(devices={"mine": {"like": "h100", "memory": "1GiB"}}))


def test_collectives_take_a_type_of_ones_own() -> None:
    def of(gpu: str, **devices: Any) -> WorkloadPlan:
        collective = [{"name": "sum", "operation": "all-reduce", "size": "64MiB"}]
        workload = {"kind": "collectives", "gpu": gpu, "collective": collective, "devices": devices}
        return plan_of(tables() | {"workload": workload})

    plans = [of("h100"), of("mine", mine={"like": "h100"}), of("mine", mine={"like": "h100", "nvlink": "50GBps"})]
    with pytest.raises(ConfigError, match=r"devices.mine\] kernels: is there, but collectives have no kernels"):
        of("mine", mine={"like": "h100", "kernels": "k.csv"})
    same, alike, slow = (int(plan.operations["time_ps"].sum()) for plan in plans)
    assert same == alike < slow


@pytest.mark.parametrize(
    ("devices", "gpu", "text"),
    [
        ({"mine": {"like": "h900"}}, "mine", r'\[workload.devices.mine\] like: found "h900"\. Accepted: "a100-40g"'),
        ({"mine": {"like": "h100"}}, "his", r'\[workload.compute\] gpu: found "his"\. Accepted: .*"mine"$'),
        ({}, "his", r'gpu: found "his"\. Accepted: .* or a \[workload.devices.NAME\]'),
        ({"h100": {"like": "h100"}}, "h100", r"h100\] like: is there, and h100 is a known type"),
        ({"mine": SHEET | {"memry": "1GB"}}, "mine", r'\[workload.devices.mine\] memry: .*"memory"'),
        ({"like": {"like": "h100", "flops": {"bf17": "1Tflops"}}}, "like", r'like.flops\] bf17: .*"bf16"'),
        ({"mine": {key: SHEET[key] for key in SHEET if key != "nvlink"}}, "mine", r"nvlink: is missing, and like is"),
        ({"mine": SHEET | {"flops": {"fp8": "1Tflops"}}}, "mine", r"flops: has no bf16, and like is missing"),
        ({"mine": SHEET | {"margin": 2.0}}, "mine", r"margin: is there, but like is not"),
        ({"mine": {"like": "h100", "flops": {"bf16": "2000Tflops"}}}, "mine", r"fp8 has 1978\.9 .* give it"),
        ({"mine": SHEET | {"constants": {"gemm_gamma": 0.5}}}, "mine", r"gemm_gamma: found 0\.5\. Accepted: at least"),
    ],
)
def test_a_fault_names_its_key(devices: dict[str, Any], gpu: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        plan_of(tables(gpu, devices))


def test_they_need_a_use() -> None:
    """Without a GPU type, in a training job or for collectives, they would say nothing."""
    data = tables(devices={"mine": SHEET})
    data["workload"] |= {"compute": {}}
    with pytest.raises(ConfigError, match=r"\[workload\] devices: is there, but \[workload.compute\] gpu is not"):
        config_from_dict(data, Path("config.toml"))
