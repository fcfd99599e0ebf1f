"""[workload] of kind "trace": what another tool has written, node by node."""

from typing import ClassVar, Literal

from pydantic import Field

from pdes.config.tables.fields import Count, Flops, Meaning, Rate, Table, quantity


class DeviceConfig(Table):
    """[workload.device]: how fast a compute node is that says what it does, but not how long that takes."""

    flops: Flops = quantity("312Tflops", "flops")
    memory_bandwidth_bps: Rate = quantity("2039GBps", "memory_bandwidth")
    MEANING: ClassVar[Meaning] = {
        "flops": "of a compute node that names its operations, not its time",
        "memory_bandwidth_bps": "of a compute node that names its bytes, not its time",
    }


class TraceConfig(Table):
    """kind = "trace". file: for Chakra the common part of the ranks' files, or their folder; relative to the config."""

    kind: Literal["trace"]
    format: Literal["chakra", "goal", "simai", "astra-sim-text", "htsim", "profile"]
    file: str = Field(min_length=1)
    communicators: str | None = Field(default=None, min_length=1)
    system: str | None = Field(default=None, min_length=1)
    dimensions: list[Count] = []
    gpus: Count | None = None
    tolerant: bool = False
    device: DeviceConfig = DeviceConfig()
    MEANING: ClassVar[Meaning] = {
        "kind": "what another tool has written",
        "format": "whose",
        "file": "for Chakra the common part of the ranks' files, or their folder; relative to the config",
        "communicators": "Chakra: a JSON file of the groups of GPUs, relative to the config",
        "system": "ASTRA-sim's system file: algorithms of collectives, relative to the config",
        "dimensions": "GPUs in each dimension of the network, if the algorithms are by dimension",
        "gpus": "how many there are, if the file does not say",
        "tolerant": "leave out what some tools write wrong, and warn",
        "device": "how fast compute nodes are that do not say how long they take",
    }
