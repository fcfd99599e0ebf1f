"""[wormhole.flow]: how long messages take in flow mode, where there are no packets."""

from typing import ClassVar, Literal

from pydantic import Field

from pdes.config.tables.fields import Meaning, Table


class FlowConfig(Table):
    """[wormhole.flow]: of mode "flow" alone.

    efficiency: share of each link's rate that data get, headers included.

    compensation "none": a message takes its bytes at its max-min rate and the links' delays, and is over when it is
    delivered; "forwarding": and one packet's storing and forwarding, and its acknowledgement's way back.
    """

    efficiency: float = Field(default=1.0, gt=0, le=1)
    compensation: Literal["none", "forwarding"] = "forwarding"
    MEANING: ClassVar[Meaning] = {
        "efficiency": "mode flow: share of each link's rate that data get",
        "compensation": (
            "mode flow: what a message takes besides its bytes and the links' delays: nothing, or one packet's "
            "forwarding in switches and the acknowledgement's way back"
        ),
    }
