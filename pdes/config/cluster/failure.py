"""[[cluster.failure]] and [[cluster.maintenance]]: what fails, and what is down by plan."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from pdes.config.cluster.values import Drawn, DrawnFromZero, Long, Numbers, OptionalLong, PositiveLong
from pdes.config.tables.fields import FieldError, Meaning, Table, quantity

KNOWN = {
    "gpu": ("gpu", "server"),
    "hbm": ("gpu", "server"),
    "nic": ("gpu", "network"),
    "host": ("server", "server"),
    "switch": ("rack", "rack"),
    "rail": ("rack", "network"),
    "uplink": ("rack", "uplink"),
    "link": ("gpu", "network"),
    "software": ("server", "job"),
}
"""By component: per, takes."""


class FailureConfig(Table):
    """[[cluster.failure]]: one kind of failure. Components of known names have `per` and `takes` by default."""

    component: str = Field(min_length=1)
    per: Literal["gpu", "server", "rack"] = "server"
    gap: Drawn
    takes: Literal["server", "rack", "job", "speed", "network", "uplink"] = "server"
    leaves: Annotated[float, Field(gt=0, lt=1)] | None = None
    drains: bool = False
    detection: DrawnFromZero = None
    repair: DrawnFromZero = None
    gpu: str | None = None
    MEANING: ClassVar[Meaning] = {
        "component": "its name in results; gpu, hbm, nic, host, switch, rail, uplink, link, software have defaults",
        "per": "what fails so often: each GPU, each server or each rack",
        "gap": "between two failures of one of them",
        "takes": "server, rack: down until repaired; job: only stops the job; speed, network: servers are slow; "
        "uplink: a link above the rack is down, and traffic goes around it",
        "leaves": 'of takes = "speed" or "network": the share that is left',
        "drains": "of these: once it is noticed, jobs leave the servers, which are down for the repair",
        "detection": "how long nobody notices, while the job's GPUs stand still",
        "repair": "from then on",
        "gpu": "only of servers with this GPU",
    }

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, data: Any) -> Any:
        """What is known of a component by its name."""
        known = KNOWN.get(str(data.get("component"))) if isinstance(data, dict) else None
        return data if known is None else {"per": known[0], "takes": known[1]} | data

    @model_validator(mode="after")
    def _check(self) -> "FailureConfig":
        if self.per == "rack" and self.takes == "server":
            raise FieldError('per = "rack" and takes = "server"', 'Accepted of a rack: takes = "rack", or "job"')
        if self.takes == "uplink" and self.per != "rack":
            raise FieldError(f'takes = "uplink", and per = "{self.per}"', 'Accepted: per = "rack", for all its uplinks')
        if self.takes == "job" and self.repair is not None:
            raise FieldError('takes = "job", and a repair', "Accepted: no repair, as nothing is down")
        if (self.takes in ("speed", "network")) != (self.leaves is not None):
            found = f'takes = "{self.takes}", {"without" if self.leaves is None else "and"} leaves'
            raise FieldError(found, 'Accepted: leaves = 0.5, or another share, with takes = "speed" or "network"')
        if self.leaves is None and self.drains:
            raise FieldError(f'takes = "{self.takes}", and drains', 'Accepted with drains: takes = "speed", "network"')
        slows = self.leaves is not None or self.takes == "uplink"
        if slows and self.repair is None and self.detection is None:
            raise FieldError("neither detection nor repair", "Accepted: how long servers are slow, as one of them")
        return self


class MaintenanceConfig(Table):
    """[[cluster.maintenance]]: windows in which servers are down; jobs leave them with a checkpoint before."""

    name: str = Field(default="maintenance", min_length=1)
    from_us: Long = quantity("0s", "from")
    every_us: OptionalLong = quantity(None, "every")
    duration_us: PositiveLong = Field(alias="duration")
    servers: Numbers = None
    racks: Numbers = None
    MEANING: ClassVar[Meaning] = {
        "name": "its name in results",
        "from_us": "when the first window begins",
        "every_us": "from one beginning to the next; without it, there is one window",
        "duration_us": "how long the servers are down",
        "servers": 'by number, over all pools in their order: "0-15, 32"',
        "racks": "instead: all servers of these racks, over all pools",
    }

    @model_validator(mode="after")
    def _check(self) -> "MaintenanceConfig":
        if (self.servers is None) == (self.racks is None):
            found = "neither servers nor racks" if self.racks is None else "both servers and racks"
            raise FieldError(found, 'Accepted: one of them, such as servers = "0-15"')
        if self.every_us is not None and self.every_us <= self.duration_us:
            raise FieldError("every is no longer than duration", "Accepted: windows that end before the next begins")
        return self
