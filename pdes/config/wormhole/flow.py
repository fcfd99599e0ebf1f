"""[wormhole.flow]: how long messages take in flow mode, where there are no packets."""

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from pdes.config.tables.fields import FieldError, Meaning, Table
from pdes.units import shown

CALIBRATED = "calibrated"


def _efficiency(value: object) -> object:
    if value == CALIBRATED:
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1:
        return float(value)
    raise FieldError(f"found {shown(value)}", f"Accepted: {shown(CALIBRATED)}, or a number above 0, at most 1")


class FlowConfig(Table):
    """[wormhole.flow]: of mode "flow" alone.

    efficiency: share of each link's rate that data get, headers included, and then nothing waits in queues;
    "calibrated": what was measured of the congestion control, packet by packet (`pdes-sim calibrate --flow`).

    calibration: a file that this command has written, relative to the config; None: the one that comes with the
    program.

    compensation "none": a message takes its bytes at its max-min rate and the links' delays, and is over when it is
    delivered, whatever was measured; "forwarding": and one packet's storing and forwarding, and its acknowledgement's
    way back.
    """

    efficiency: Annotated[float | str, BeforeValidator(_efficiency)] = CALIBRATED
    calibration: Annotated[str, Field(min_length=1)] | None = None
    compensation: Literal["none", "forwarding"] = "forwarding"
    MEANING: ClassVar[Meaning] = {
        "efficiency": (
            "mode flow: share of each link's rate that data get; or as it was measured of the congestion control"
        ),
        "calibration": (
            "mode flow: file of pdes-sim calibrate --flow, relative to the config; without it, the table that comes "
            "with the program"
        ),
        "compensation": (
            "mode flow: what a message takes besides its bytes and the links' delays: nothing, or one packet's "
            "forwarding in switches and the acknowledgement's way back"
        ),
    }
