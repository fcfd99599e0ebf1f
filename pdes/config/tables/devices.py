"""[workload.devices.NAME]: GPU types of one's own, like a known one or by their data sheet. Keys only."""

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from pdes.config.tables.fields import AutoBool, Duration, Fault, Flops, Meaning, PositiveDuration, Rate, Size, Table
from pdes.errors import suggestion
from pdes.units import shown

GPUS = ("a100-40g", "a100-80g", "h100", "h100-500w", "h200", "h800", "h20", "b200", "mi300x")
Gamma = Annotated[float, Field(ge=1, le=1000)]


class FlopsConfig(Table):
    """[workload.devices.NAME] flops: dense peaks of the tensor cores. fp32: of products of fp32 values."""

    bf16: Flops | None = None
    fp16: Flops | None = None
    fp8: Flops | None = None
    fp32: Flops | None = None
    MEANING: ClassVar[Meaning] = {
        "bf16": "dense peak of the tensor cores in bf16",
        "fp16": "in fp16; default: as bf16",
        "fp8": "in fp8; default: as bf16",
        "fp32": "of products of fp32 values; default: half of bf16",
    }


class ConstantsConfig(Table):
    """[workload.devices.NAME.constants]: of the model of kernel times, `models.compute.devices.Fit`."""

    gemm_gamma: Gamma | None = None
    fp8_gamma: Gamma | None = None
    attention_gamma: Gamma | None = None
    memory_gamma: Gamma | None = None
    launch_ps: Duration | None = Field(default=None, alias="launch")
    dispatch_ps: Duration | None = Field(default=None, alias="dispatch")
    overlap_loss_frac: float | None = Field(default=None, ge=0, lt=1, alias="overlap_loss")
    MEANING: ClassVar[Meaning] = {
        "gemm_gamma": "how much longer than the roofline matrix products take",
        "fp8_gamma": "the same of products in fp8",
        "attention_gamma": "the same of attention",
        "memory_gamma": "the same of what memory bounds",
        "launch_ps": "of one kernel",
        "dispatch_ps": "of the CPU, for one kernel",
        "overlap_loss_frac": "share by which computing slows down beside a collective",
    }


class DeviceConfig(Table):
    """One type. like: the known type that has what is not given, and whose times bound this one's; margin: times that.

    nvlink_bps: of one GPU, one direction. nvlink_latency_ps: of a step of a collective inside a server.
    nvls: reductions in the NVSwitch. kernels: a file of measured kernel times, relative to the config's folder.
    """

    like: str | None = Field(default=None, min_length=1)
    flops: FlopsConfig = FlopsConfig()
    memory_bytes: Size | None = Field(default=None, alias="memory")
    memory_bandwidth_bps: Rate | None = Field(default=None, alias="memory_bandwidth")
    nvlink_bps: Rate | None = Field(default=None, alias="nvlink")
    nvlink_latency_ps: PositiveDuration | None = Field(default=None, alias="nvlink_latency")
    nvls: AutoBool = None
    margin: float = Field(default=1.0, ge=1, le=100)
    kernels: str | None = Field(default=None, min_length=1)
    constants: ConstantsConfig = ConstantsConfig()
    MEANING: ClassVar[Meaning] = {
        "like": "the known type that has what is not given, and whose times bound this one's",
        "flops": "peaks by number format",
        "memory_bytes": "of one GPU",
        "memory_bandwidth_bps": "of one GPU",
        "nvlink_bps": "of one GPU, one direction",
        "nvlink_latency_ps": "of a step of a collective inside a server",
        "nvls": "reductions in the NVSwitch; auto: as like, without it no",
        "margin": "with like: no kernel takes less than so many times the known type's time, scaled by the data sheets",
        "kernels": "a file of measured kernel times, relative to the config",
        "constants": "of the model of kernel times",
    }


def device_faults(devices: Mapping[str, DeviceConfig]) -> Iterator[Fault]:
    """Faults of all [workload.devices.NAME]."""
    known = ", ".join(map(shown, GPUS))
    for name, device in devices.items():
        path = ("workload", "devices", name)
        if name in GPUS or not name:
            yield Fault(path, "is the name of a known GPU type" if name else "has no name", "Accepted: another name")
        if device.like is not None:
            if device.like not in GPUS:
                yield Fault(
                    (*path, "like"), f"found {shown(device.like)}", f"Accepted: {known}{suggestion(device.like, GPUS)}"
                )
            continue
        given = {
            "flops": device.flops.bf16, "memory": device.memory_bytes,
            "memory_bandwidth": device.memory_bandwidth_bps, "nvlink": device.nvlink_bps,
        }  # fmt: skip
        for key, value in given.items():
            if value is None:
                found = "has no bf16" if key == "flops" else "is missing"
                yield Fault(
                    (*path, key), f"{found}, and like is missing", f"Accepted: a value, or like = one of {known}"
                )
        if "margin" in device.model_fields_set:
            yield Fault((*path, "margin"), "is there, but like is not", "Accepted: with like")


def gpu_fault(path: tuple[str | int, ...], gpu: str | None, devices: Mapping[str, DeviceConfig]) -> Iterator[Fault]:
    """A GPU type that is neither known nor one's own."""
    if gpu is not None and gpu not in GPUS and gpu not in devices:
        names = ", ".join(map(shown, (*GPUS, *devices)))
        own = "" if devices else ", or a [workload.devices.NAME]"
        yield Fault(path, f"found {shown(gpu)}", f"Accepted: {names}{own}{suggestion(gpu, (*GPUS, *devices))}")
