"""Small tables that have one form only: simulation, partition, wormhole, output. The network's are in `network`."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from pdes.config.fields import AutoDuration, Count, FieldError, OptionalDuration, Size, Table, only, quantity
from pdes.units import shown


class SimulationConfig(Table):
    """[simulation]: what is drawn, how often, and when to stop. stop_time_ps None: when nothing is left to do."""

    seed: int = Field(default=1, ge=0, le=2**63 - 1)
    iterations: Count = 1
    stop_time_ps: OptionalDuration = quantity(None, "stop_time")


class PartitionConfig(Table):
    """[partition]. delay_threshold_ps None: "auto". The placement never changes a result."""

    delay_threshold_ps: AutoDuration = quantity("auto", "delay_threshold")
    placement: Literal["metis", "block", "round-robin"] = "metis"


class WormholeConfig(Table):
    """[wormhole]: fast-forwarding."""

    mode: Annotated[str, only("off")] = "off"


SAMPLE_KINDS = ("ports", "flows")


def _kinds(value: object) -> object:
    """Some of SAMPLE_KINDS, each once."""
    if isinstance(value, list) and value and all(kind in SAMPLE_KINDS for kind in value):
        if len(set(value)) == len(value):
            return value
    choice = ", ".join(shown(kind) for kind in SAMPLE_KINDS)
    raise FieldError(f"found {shown(value)}", f"Accepted: a list of {choice}, each at most once")


class OutputConfig(Table):
    """[output]. dir: relative to the folder in which the program runs. sample_interval_ps None: no time series.

    sample_limit_bytes: of all rows of the time series together, 8 bytes per value.
    """

    dir: str = Field(default="results", min_length=1)
    sample_interval_ps: OptionalDuration = quantity(None, "sample_interval")
    sample: Annotated[list[str], BeforeValidator(_kinds)] = list(SAMPLE_KINDS)
    sample_limit_bytes: Size = quantity("64MB", "sample_limit")
