"""[workload.devices.NAME]: GPU types of one's own, like a known one or by their data sheet. Keys only."""

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from pdes.config.tables.fields import (
    AutoBool,
    AutoSize,
    Duration,
    Fault,
    FieldError,
    Flops,
    Meaning,
    OptionalRate,
    PositiveDuration,
    Rate,
    Size,
    Table,
    quantity,
)
from pdes.config.tables.transports import TransportName
from pdes.errors import suggestion
from pdes.units import shown

GPUS = (
    "a100-40g", "a100-80g", "a800", "h100", "h100-500w", "h200", "h800", "h20", "gh200", "b200", "gb200", "b300",
    "gb300", "mi300x", "mi325x",
)  # fmt: skip
Gamma = Annotated[float, Field(ge=1, le=1000)]
MOST_MARGIN = 100


def _margin(value: object) -> float:
    """0, or a number of times."""
    if isinstance(value, int | float) and not isinstance(value, bool) and (value == 0 or 1 <= value <= MOST_MARGIN):
        return float(value)
    raise FieldError(f"found {shown(value)}", f"Accepted: 0, or a number from 1 to {MOST_MARGIN}")


Gpu = Annotated[str, Field(min_length=1)]
"""Of GPUS, or of [workload.devices]."""


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
    gemm_loss_frac: float | None = Field(default=None, ge=0, lt=1, alias="gemm_loss")
    attention_loss_frac: float | None = Field(default=None, ge=0, lt=1, alias="attention_loss")
    memory_loss_frac: float | None = Field(default=None, ge=0, lt=1, alias="memory_loss")
    MEANING: ClassVar[Meaning] = {
        "gemm_gamma": "how much longer than the roofline matrix products take",
        "fp8_gamma": "the same of products in fp8",
        "attention_gamma": "the same of attention",
        "memory_gamma": "the same of what memory bounds",
        "launch_ps": "of one kernel",
        "dispatch_ps": "of the CPU, for one kernel",
        "overlap_loss_frac": "share by which computing slows down beside a collective",
        "gemm_loss_frac": "the same of matrix products alone",
        "attention_loss_frac": "the same of attention alone",
        "memory_loss_frac": "the same of what memory bounds",
    }


class RegimeConfig(Table):
    """[[workload.devices.NAME.nccl.regimes]]: a protocol of an algorithm, `models.workload.nccl.calibration.Regime`."""

    algorithm: Literal["ring", "tree", "nvls"]
    protocol: Literal["LL", "LL128", "Simple"]
    latency_ps: PositiveDuration = Field(alias="latency")
    bandwidth_bps: Rate = Field(alias="bandwidth")
    up_to_bytes: AutoSize = quantity(None, "up_to")
    MEANING: ClassVar[Meaning] = {
        "algorithm": "that NCCL has",
        "protocol": "that it has",
        "latency_ps": "of an all-reduce of eight GPUs, launch included; other collectives by their steps",
        "bandwidth_bps": "of a GPU, one direction, over the bytes that the algorithm moves",
        "up_to_bytes": "the largest size; from where the one before of its algorithm ends. Without it: all above",
    }


class NcclConstantsConfig(Table):
    """[workload.devices.NAME.nccl]: of collectives inside a server, in place of those of the type that it is like.

    regimes: of each algorithm by size, the last one without an end; one is a ring.
    """

    launch_ps: PositiveDuration | None = Field(default=None, alias="launch")
    pair_bandwidth_bps: OptionalRate = quantity(None, "pair_bandwidth")
    regimes: list[RegimeConfig] = []
    MEANING: ClassVar[Meaning] = {
        "launch_ps": "part of every latency that no step of an algorithm causes; default: as like",
        "pair_bandwidth_bps": "of a GPU that sends to others without reducing; default: as like",
        "regimes": "what collectives take, by algorithm, protocol and size",
    }


class DeviceConfig(Table):
    """One type. like: the known type that has what is not given, and whose times bound this one's; margin: times that.
    Under the name of a known type: that type, with what is given changed, and no bound.

    nvlink_bps: of one GPU, one direction. nvlink_latency_ps: of a step of a collective inside a server.
    nvls: reductions in the NVSwitch. kernels, layer_times: files of measured times,
    relative to the config's folder.
    """

    like: str | None = Field(default=None, min_length=1)
    flops: FlopsConfig = FlopsConfig()
    memory_bytes: Size | None = Field(default=None, alias="memory")
    memory_bandwidth_bps: Rate | None = Field(default=None, alias="memory_bandwidth")
    nvlink_bps: Rate | None = Field(default=None, alias="nvlink")
    nvlink_latency_ps: PositiveDuration | None = Field(default=None, alias="nvlink_latency")
    nvls: AutoBool = None
    margin: Annotated[float, BeforeValidator(_margin)] = 1.0
    nccl: NcclConstantsConfig | None = None
    kernels: str | None = Field(default=None, min_length=1)
    layer_times: str | None = Field(default=None, min_length=1)
    copy_engines: Annotated[int, Field(ge=1)] | None = None
    constants: ConstantsConfig = ConstantsConfig()
    MEANING: ClassVar[Meaning] = {
        "like": "the known type that has what is not given, and whose times bound this one's",
        "flops": "peaks by number format",
        "memory_bytes": "of one GPU",
        "memory_bandwidth_bps": "of one GPU",
        "nvlink_bps": "of one GPU, one direction",
        "nvlink_latency_ps": "of a step of a collective inside a server",
        "nvls": "reductions in the NVSwitch; auto: as like, without it no",
        "margin": (
            "with like: no kernel takes less than so many times the known type's time, scaled by the data sheets; "
            "0: no such bound"
        ),
        "nccl": "of collectives inside a server, as `pdes-sim calibrate` measures them",
        "kernels": "a file of measured kernel times, relative to the config",
        "layer_times": "a file of measured times of layers, relative to the config, not by kernels",
        "copy_engines": "exchanges under way beside computing: 1, one by one; 2, tensors' beside data's; default: any",
        "constants": "of the model of kernel times",
    }


class GpusConfig(Table):
    """One [[workload.gpus]]: servers, by number, whose GPUs are of another type, or slower by a factor."""

    servers: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
    gpu: Gpu | None = None
    transport: TransportName | None = None
    slowness: float = Field(default=1.0, ge=1, le=1000)
    MEANING: ClassVar[Meaning] = {
        "servers": "numbers of the servers that are not like the others",
        "gpu": "their GPU type; without it, as all",
        "transport": "the network of their NICs; of a group on unlike ones, the one that takes longest counts",
        "slowness": "they compute for so many times as long",
    }


def device_faults(devices: Mapping[str, DeviceConfig]) -> Iterator[Fault]:
    """Faults of all [workload.devices.NAME]."""
    known = ", ".join(map(shown, GPUS))
    for name, device in devices.items():
        path = ("workload", "devices", name)
        if not name:
            yield Fault(path, "has no name", "Accepted: another name")
        yield from _regime_faults(path, device.nccl)
        if name in GPUS:
            for key in ("like", "margin"):
                if key in device.model_fields_set:
                    found = f"is there, and {name} is a known type, which this changes"
                    yield Fault((*path, key), found, f"Accepted: no {key}, or another name")
            continue
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


def _regime_faults(path: tuple[str | int, ...], nccl: NcclConstantsConfig | None) -> Iterator[Fault]:
    """Of each algorithm sizes go up, and the last one has no end; of several without one the first is NCCL's choice."""
    if nccl is None or not nccl.regimes:
        return
    ends: dict[str, int] = {}
    for i, regime in enumerate(nccl.regimes):
        before, end = ends.get(regime.algorithm, 0), regime.up_to_bytes or 2**62
        if end < before or (end == before and regime.up_to_bytes is not None):
            found = f"no larger than that of the {regime.algorithm} before it"
            yield Fault((*path, "nccl", "regimes", i, "up_to"), found, "Accepted: sizes that go up")
        ends[regime.algorithm] = end
        if nccl.launch_ps is not None and regime.latency_ps < nccl.launch_ps:
            found = "is less than launch, which is part of it"
            yield Fault((*path, "nccl", "regimes", i, "latency"), found, "Accepted: at least launch")
    for name, end in ({"ring": 0} | ends).items():
        if end < 2**62:
            found = f"has no {name} for all sizes above" if name in ends else f"has no {name}"
            yield Fault((*path, "nccl", "regimes"), found, f"Accepted: of {name}, the last one without up_to")


def gpu_fault(path: tuple[str | int, ...], gpu: str | None, devices: Mapping[str, DeviceConfig]) -> Iterator[Fault]:
    """A GPU type that is neither known nor one's own."""
    if gpu is not None and gpu not in GPUS and gpu not in devices:
        names = ", ".join(map(shown, dict.fromkeys((*GPUS, *devices))))
        own = "" if devices else ", or a [workload.devices.NAME]"
        yield Fault(path, f"found {shown(gpu)}", f"Accepted: {names}{own}{suggestion(gpu, (*GPUS, *devices))}")
