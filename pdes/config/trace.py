"""[workload] of kind "trace": what another tool has written, node by node."""

from typing import Literal

from pydantic import Field

from pdes.config.fields import Count, Flops, Rate, Table, quantity


class DeviceConfig(Table):
    """[workload.device]: how fast a compute node is that says what it does, but not how long that takes."""

    flops: Flops = quantity("312Tflops", "flops")
    memory_bandwidth_bps: Rate = quantity("2039GBps", "memory_bandwidth")


class TraceConfig(Table):
    """kind = "trace". file: for Chakra the common part of the ranks' files, or their folder; relative to the config."""

    kind: Literal["trace"]
    format: Literal["chakra", "goal", "simai", "astra-sim-text", "htsim"]
    file: str = Field(min_length=1)
    communicators: str | None = Field(default=None, min_length=1)
    system: str | None = Field(default=None, min_length=1)
    dimensions: list[Count] = []
    gpus: Count | None = None
    tolerant: bool = False
    device: DeviceConfig = DeviceConfig()
