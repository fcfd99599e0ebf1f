"""Networks between servers: `transport`, and [workload.transports.NAME] of one's own."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from pdes.config.tables.fields import AutoSize, Duration, Fault, Meaning, Table, quantity
from pdes.errors import suggestion
from pdes.units import shown

TRANSPORTS = ("infiniband", "roce", "efa", "tcpxo")
TransportName = Annotated[str, Field(min_length=1)]
LARGEST = 2**62
Path = tuple[str | int, ...]


class BucketConfig(Table):
    """One of [[workload.transports.NAME.buckets]]: messages of a range of sizes, `transports.Protocol`."""

    up_to_bytes: AutoSize = quantity(None, "up_to")
    latency_ps: Duration = quantity("0s", "latency")
    hop_latency_ps: Duration = quantity("0s", "hop_latency")
    line_frac: float = Field(default=1.0, gt=0, le=1, alias="line")
    protocol: Literal["LL", "LL128", "Simple"] = "Simple"
    MEANING: ClassVar[Meaning] = {
        "up_to_bytes": "the largest size; from where the one before it ends. Without it: all above",
        "latency_ps": "of a collective, once",
        "hop_latency_ps": "of each step from server to server, beyond what the network takes",
        "line_frac": "of the NIC's rate, what data gets",
        "protocol": "NCCL's: LL sends twice as much, LL128 a fifteenth more",
    }


class TransportConfig(Table):
    """[workload.transports.NAME]: a network between servers of one's own, by sizes (HeteroSim, equation 8)."""

    buckets: list[BucketConfig] = Field(min_length=1)
    MEANING: ClassVar[Meaning] = {"buckets": "what it takes, by the size of the collective"}


def transport_faults(transports: Mapping[str, TransportConfig], used: Iterable[tuple[Path, str]]) -> Iterator[Fault]:
    """Of [workload.transports.NAME], and of the names by which they are used."""
    for name, transport in transports.items():
        path = ("workload", "transports", name)
        if name in TRANSPORTS:
            found = f"is the name of a known one; known are {', '.join(TRANSPORTS)}"
            yield Fault(path, found, "Accepted: another name")
        end = 0
        for i, bucket in enumerate(transport.buckets):
            if end == LARGEST:
                yield Fault((*path, "buckets", i), "is behind one without up_to", "Accepted: that one last")
            elif bucket.up_to_bytes is not None and bucket.up_to_bytes <= end:
                found = "is no larger than that of the bucket before it"
                yield Fault((*path, "buckets", i, "up_to"), found, "Accepted: sizes that go up")
            end = bucket.up_to_bytes or LARGEST
        if end < LARGEST:
            yield Fault((*path, "buckets"), "have none for all sizes above", "Accepted: the last one without up_to")
    names = (*TRANSPORTS, *transports)
    for path, name in used:
        if name not in names:
            accepted = f"Accepted: {', '.join(map(shown, names))}{suggestion(name, names)}"
            yield Fault(path, f"found {shown(name)}", accepted)
