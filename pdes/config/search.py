"""[search]: the config, what is free in it, what it costs, and how much may be simulated."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from pdes.config.sweep import AxisConfig, Name
from pdes.config.tables.fields import FieldError, Meaning, Table
from pdes.units import shown

Objective = Literal["iteration", "throughput", "price", "energy"]
LAYOUT_TABLE = {  # key of [search.layout] -> key of the config
    **{name: f"workload.parallel.{name}" for name in ("tp", "pp", "cp", "dp", "ep", "etp", "vpp")},
    **{name: f"workload.{name}" for name in ("microbatch", "recompute", "zero", "placement")},
}
WORDS = {"recompute": ("none", "selective", "full"), "placement": ("in-order", "optimised")}
MOST_CANDIDATES = 100_000


def _sizes(value: object) -> object:
    if value == "auto" or (isinstance(value, list) and value and all(type(one) is int and one >= 1 for one in value)):
        return value
    raise FieldError(f"found {shown(value)}", 'Accepted: "auto", or a list of whole numbers from 1')


def _stages(value: object) -> object:
    if value == "auto" or (
        isinstance(value, list) and value and all(type(one) is int and 0 <= one <= 3 for one in value)
    ):
        return value
    raise FieldError(f"found {shown(value)}", 'Accepted: "auto", or a list of whole numbers from 0 to 3')


def _words(name: str) -> BeforeValidator:
    def check(value: object) -> object:
        known = WORDS[name]
        if value == "auto" or (isinstance(value, list) and value and all(one in known for one in value)):
            return value
        raise FieldError(f"found {shown(value)}", f'Accepted: "auto", or a list of {", ".join(map(shown, known))}')

    return BeforeValidator(check)


Sizes = Annotated[Literal["auto"] | list[int] | None, BeforeValidator(lambda v: None if v is None else _sizes(v))]
Stages = Annotated[Literal["auto"] | list[int] | None, BeforeValidator(lambda v: None if v is None else _stages(v))]
Recomputes = Annotated[Literal["auto"] | list[str] | None, _words("recompute")]
Placements = Annotated[Literal["auto"] | list[str] | None, _words("placement")]
Cost = Annotated[float, Field(ge=0, le=1e15)]


class FreeLayout(Table):
    """[search.layout]: what is free. None: as in the config; dp follows from the GPUs if tp, pp or cp is free."""

    tp: Sizes = None
    pp: Sizes = None
    cp: Sizes = None
    dp: Sizes = None
    ep: Sizes = None
    etp: Sizes = None
    vpp: Sizes = None
    microbatch: Sizes = None
    recompute: Recomputes = Field(default=None, validate_default=False)
    zero: Stages = None
    placement: Placements = Field(default=None, validate_default=False)
    MEANING: ClassVar[Meaning] = {
        "tp": "tensor parallelism; auto: divisors of a server's GPUs",
        "pp": "pipeline stages; auto: divisors of the GPUs, up to the layers",
        "cp": "context parallelism; auto: divisors of a server's GPUs",
        "dp": "replicas; auto: what the others leave of the GPUs",
        "ep": "GPUs that share a layer's experts; auto: divisors of the experts and of a stage's GPUs over etp",
        "etp": "GPUs that share each expert; auto: divisors of a server's and a stage's GPUs and of an expert's width",
        "vpp": "chunks of a stage; auto: divisors of a stage's layers",
        "microbatch": "sequences of a microbatch; auto: powers of two that divide a replica's batch",
        "recompute": 'auto: "none", "selective" and "full"',
        "zero": "what replicas split; auto: 0 to 3",
        "placement": 'of ranks on GPUs; auto: "in-order" and "optimised"',
    }

    def free(self) -> dict[str, Any]:
        """Of what is free: "auto", or what it takes."""
        return {name: value for name, value in self if value is not None}


class CostTable(Table):
    """[search.price], in any currency, or [search.power], in watts: of the parts of a cluster."""

    gpu: Cost = 0.0
    server: Cost = 0.0
    switch: Cost = 0.0
    link: Cost = 0.0
    nic_per_gbps: Cost = 0.0
    switch_per_gbps: Cost = 0.0
    link_per_gbps: Cost = 0.0
    MEANING: ClassVar[Meaning] = {
        "gpu": "of each GPU",
        "server": "of each server",
        "switch": "of each switch of the fabric",
        "link": "of each link of the fabric, with its optics",
        "nic_per_gbps": "of NICs, for each Gbps",
        "switch_per_gbps": "of switches, for each Gbps of all their ports",
        "link_per_gbps": "of links, for each Gbps",
    }


class BudgetConfig(Table):
    """[search] budget."""

    flow_runs: Annotated[int, Field(ge=1, le=100_000)] = 64
    packet_runs: Annotated[int, Field(ge=1, le=100_000)] = 4
    MEANING: ClassVar[Meaning] = {
        "flow_runs": "candidates that flow mode runs, at most",
        "packet_runs": "candidates that are run with packets, at most",
    }


class SearchConfig(Table):
    """[search]."""

    config: Name
    objective: Objective = "iteration"
    layout: FreeLayout = FreeLayout()
    axis: Annotated[list[AxisConfig], Field(max_length=32)] = []
    where: list[Name] = []
    set: dict[str, Any] = {}
    price: CostTable | None = None
    power: CostTable | None = None
    max_price: Annotated[float, Field(gt=0)] | None = None
    max_power: Annotated[float, Field(gt=0)] | None = None
    eta: Annotated[int, Field(ge=2, le=1000)] = 4
    final: Annotated[int, Field(ge=1, le=1000)] = 2
    probes: Annotated[int, Field(ge=0, le=1000)] = 4
    budget: BudgetConfig = BudgetConfig()
    dir: Name | None = None
    MEANING: ClassVar[Meaning] = {
        "config": "the file of the config, relative to this one",
        "objective": (
            "what is best: the least time of an iteration, the most tokens per second, the same for its price, or for "
            "its power"
        ),
        "layout": "what is free of the layout",
        "axis": "what else is free, as in a sweep",
        "where": "what must hold of a candidate, as in a sweep",
        "set": "keys of the config that are the same in all candidates, as after --set",
        "price": "of the parts of a cluster, in any currency",
        "power": "of the parts of a cluster, in watts",
        "max_price": "candidates above it are refused",
        "max_power": "candidates above it are refused, in watts",
        "eta": "one candidate in so many goes from the closed form to flow mode, or more if others may be better",
        "final": "candidates that go from flow mode to packets at the least",
        "probes": "candidates from all over the ranking that flow mode runs, too: they show the closed form's errors",
        "budget": "how many runs there may be",
        "dir": "where the store, the tables and the report go; results/ and this file's name if not given",
    }

    @model_validator(mode="after")
    def _costs_are_known(self) -> "SearchConfig":
        for name, table, most in (("price", self.price, self.max_price), ("power", self.power, self.max_power)):
            wants = most is not None or self.objective == {"price": "price", "power": "energy"}[name]
            if wants and table is None:
                key = f"max_{name}" if most is not None else f"objective = {shown(self.objective)}"
                raise FieldError(f"{key} without [search.{name}]", f"Accepted: with [search.{name}]")
        return self


class SearchFile(Table):
    """The whole file."""

    search: SearchConfig
    MEANING: ClassVar[Meaning] = {"search": "a file of its own: what is free in a config, and what is the best of it"}
