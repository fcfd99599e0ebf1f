"""The forms of [workload], chosen by `kind`. Keys only: what a preset's sizes are is the workload model's knowledge."""

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from pdes.config.tables.devices import DeviceConfig
from pdes.config.tables.fields import (
    AutoBool,
    Count,
    Duration,
    FieldError,
    Meaning,
    OptionalDuration,
    Size,
    Table,
    quantity,
)
from pdes.config.tables.trace import TraceConfig
from pdes.config.tables.training import TrainingTable
from pdes.config.tables.transports import TransportConfig, TransportName
from pdes.units import PS_PER_MS, exact_duration, parse_duration_ps, shown

Operation = Literal["all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast", "point-to-point"]
Algorithm = Literal["auto", "ring", "tree", "nvls", "hierarchical", "sharp", "direct", "pairwise", "pxn"]
Protocol = Literal["auto", "LL", "LL128", "Simple"]
Load = Annotated[float, Field(gt=0, le=1)]  # payload over the rate of the hosts' links
MAX_JITTER_PS = PS_PER_MS
NAMED_SIZES = ("web-search", "fb-hadoop")


def _gpu_list(value: object) -> object:
    """ "all", or a list of distinct GPU numbers as a tuple."""
    if value == "all":
        return value
    gpus = value if isinstance(value, list) else []
    if not gpus or any(type(gpu) is not int or gpu < 0 for gpu in gpus):
        raise FieldError(f"found {shown(value)}", 'Accepted: "all" or a list of GPU numbers from 0, such as [0, 1]')
    if len(set(gpus)) < len(gpus):
        raise FieldError(f"found {shown(value)}", "Accepted: each GPU once")
    return tuple(gpus)


def _jitter(text: object) -> int:
    value = parse_duration_ps(text)
    if value > MAX_JITTER_PS:
        raise FieldError(f"found {shown(text)}", f"Accepted: at most {exact_duration(MAX_JITTER_PS)}")
    return value


class StartsLate(Table):
    """What every kind has. start_jitter_ps: all streams of a GPU, or each flow of a list, start late by a random time
    below it, so that two runs show how far the least difference takes them apart.
    """

    start_jitter_ps: Annotated[int, BeforeValidator(_jitter)] = quantity("0s", "start_jitter")
    MEANING: ClassVar[Meaning] = {
        "start_jitter_ps": "every GPU's streams, or each flow of a list, start late by a random time below this",
    }


class FlowsConfig(StartsLate):
    """kind = "flows": messages from a file, relative to the config's folder."""

    kind: Literal["flows"]
    file: str = Field(min_length=1)
    format: Literal["auto", "ns3", "csv"] = "auto"
    queue_pairs: Literal["per-flow", "per-pair"] = "per-flow"
    MEANING: ClassVar[Meaning] = {
        "kind": "messages from a file",
        "file": (
            "CSV with src,dst,size_bytes,start_ps and optionally priority, tag; or ns-3's flow.txt; "
            "relative to the config"
        ),
        "format": "of the file; auto: CSV if its name ends in .csv, else ns-3's",
        "queue_pairs": "one for each message, or one for each pair of hosts and priority",
    }


class IncastConfig(Table):
    """[workload.incast]: at random times `fan_in` hosts send `size` each to another host."""

    fan_in: Count
    size_bytes: Size = Field(alias="size")
    load: Load
    MEANING: ClassVar[Meaning] = {
        "fan_in": "hosts that send at the same time",
        "size_bytes": "what each of them sends",
        "load": "their share of the hosts' links",
    }


class PoissonConfig(StartsLate):
    """kind = "poisson": messages at random times between random hosts. Exactly one of duration and flows is given."""

    kind: Literal["poisson"]
    sizes: str = Field(min_length=1)
    load: Load
    duration_ps: OptionalDuration = quantity(None, "duration")
    flows: Count | None = None
    queue_pairs: Literal["per-flow", "per-pair"] = "per-flow"
    incast: IncastConfig | None = None
    MEANING: ClassVar[Meaning] = {
        "kind": "messages at random times between random hosts",
        "sizes": '"web-search", "fb-hadoop", or a file with a line "bytes percent" per point, relative to the config',
        "load": "payload over the rate of the hosts' links",
        "duration_ps": "in which messages arrive; or flows",
        "flows": "how many messages; or duration",
        "queue_pairs": "one for each message, or one for each pair of hosts",
        "incast": "at random times many hosts send to one, on top",
    }


class CollectiveConfig(Table):
    """One [[workload.collective]]; it starts at start_ps and not before all of `after` have ended.

    From algorithm on: how NCCL would plan it; with [workload] gpu only. channels None: one for each NIC.
    """

    name: str = Field(min_length=1)
    operation: Operation
    size_bytes: Size = Field(alias="size")
    gpus: Annotated[Literal["all"] | tuple[int, ...], BeforeValidator(_gpu_list)] = "all"
    start_ps: Duration = quantity("0s", "start")
    after: list[str] = []
    algorithm: Algorithm = "auto"
    protocol: Protocol = "auto"
    channels: Annotated[int, Field(ge=1, le=64)] | None = None
    in_server: Literal["timed", "packets"] = "timed"
    nvls: AutoBool = None
    msccl: str | None = Field(default=None, min_length=1)
    MEANING: ClassVar[Meaning] = {
        "name": "by which others wait for it; also its tag in flows.parquet",
        "operation": "what it does",
        "size_bytes": "of the whole buffer of one GPU",
        "gpus": "those that take part, in the order of the ring",
        "start_ps": "not before",
        "after": "names of collectives that must have ended",
        "algorithm": "with a GPU type: how NCCL is to do it; auto: as NCCL would choose",
        "protocol": "with a GPU type: NCCL's; auto: as NCCL would choose",
        "channels": "with a GPU type: NCCL's channels; without it, one for each NIC",
        "in_server": "with a GPU type: inside a server timed by size and type, or as packets",
        "nvls": "with a GPU type: reductions in the NVSwitch; auto: if the type can",
        "msccl": "with a GPU type: an MSCCL algorithm's XML file, relative to the config",
    }


class CollectivesConfig(StartsLate):
    """kind = "collectives". gpu None: packets alone, one ring or exchange for all GPUs; else as NCCL plans them.

    gpu: a type that the planner knows, or one of devices.
    """

    kind: Literal["collectives"]
    gpu: str | None = Field(default=None, min_length=1)
    devices: dict[str, DeviceConfig] = {}
    transport: TransportName = "infiniband"
    transports: dict[str, TransportConfig] = {}
    cross_rail_rings: bool = False
    collective: list[CollectiveConfig] = Field(min_length=1)
    MEANING: ClassVar[Meaning] = {
        "kind": "collectives, each by itself or after others",
        "gpu": "plan them as NCCL does on this GPU type; without it, rings and exchanges of packets",
        "devices": "GPU types of your own, by name",
        "transport": "between servers: what NCCL's protocols leave of the line",
        "transports": "networks of your own, by name",
        "cross_rail_rings": "rings go from rail to rail, as NCCL had them before 2.12",
        "collective": "one of them",
    }


class TrainingConfig(StartsLate, TrainingTable):
    """kind = "training": iterations of one model, see `pdes.config.tables.training`."""


WorkloadConfig = FlowsConfig | PoissonConfig | CollectivesConfig | TrainingConfig | TraceConfig
WORKLOAD_KINDS: dict[str, type[Table]] = {
    "flows": FlowsConfig,
    "poisson": PoissonConfig,
    "collectives": CollectivesConfig,
    "training": TrainingConfig,
    "trace": TraceConfig,
}
