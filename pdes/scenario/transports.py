"""Networks between servers of a config: known ones, and those of [workload.transports]."""

from collections.abc import Mapping

from models.workload.nccl.calibration import ALL_SIZES
from models.workload.nccl.transports import PPM, TRANSPORTS, Protocol, Transport
from pdes.config.tables.transports import TransportConfig


def own_transports(tables: Mapping[str, TransportConfig]) -> dict[str, Transport]:
    """Known ones, and the user's, by name. Of the user's the size alone says which bucket holds."""
    return TRANSPORTS | {name: _own(name, table) for name, table in tables.items()}


def _own(name: str, table: TransportConfig) -> Transport:
    buckets = tuple(
        Protocol(
            one.protocol, one.latency_ps, one.hop_latency_ps, max(1, round(one.line_frac * PPM)),
            one.up_to_bytes or ALL_SIZES,
        )
        for one in table.buckets
    )  # fmt: skip
    return Transport(name, buckets, "given by the user", ordered=True)
