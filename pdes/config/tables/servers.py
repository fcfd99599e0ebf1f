"""Keys that topologies have for their servers. Keys only: `models.topology.attach` builds them."""

from collections.abc import Iterator
from typing import ClassVar, Literal, NamedTuple

from pydantic import Field

from pdes.config.tables.fields import (
    Count,
    Fault,
    Meaning,
    OptionalDuration,
    OptionalRate,
    PositiveDuration,
    Rate,
    Table,
    quantity,
    same_as,
)

NvLink = Literal["none", "packets"]


class Alike(NamedTuple):
    """Servers that are alike. nic_rate_bps, nic_delay_ps None: as all NICs; nvlink None: no links of their own."""

    n_server: int
    n_gpu: int
    n_nic: int
    nic: tuple[int | None, int | None] = (None, None)
    nvlink: tuple[int, int] | None = None


class ServerConfig(Table):
    """One [[topology.server]]: servers that are alike, in the order of the tables."""

    count: Count
    gpu: str | None = Field(default=None, min_length=1)
    gpus: Count = 8
    nics: Count = same_as("gpus", "nics")
    nic_rate_bps: OptionalRate = quantity(None, "nic_rate")
    nic_delay_ps: OptionalDuration = quantity(None, "nic_delay")
    nvlink: NvLink | None = None
    nvlink_rate_bps: OptionalRate = quantity(None, "nvlink_rate")
    nvlink_delay_ps: OptionalDuration = quantity(None, "nvlink_delay")
    MEANING: ClassVar[Meaning] = {
        "count": "so many of them",
        "gpu": "type of their GPUs, for computing times; default: that of [workload.compute]",
        "gpus": "in each",
        "nics": "in each: a divisor of its gpus",
        "nic_rate_bps": "of one NIC; default: as the topology's",
        "nic_delay_ps": "propagation delay from NIC to switch; default: as the topology's",
        "nvlink": "whether their GPUs have links of their own, as packets; default: as the topology's",
        "nvlink_rate_bps": "of a GPU, one direction; default: as the topology's",
        "nvlink_delay_ps": "propagation delay from GPU to NVSwitch; default: as the topology's",
    }


class NvLinkTable(Table):
    """What all topologies share. nvlink: the links that a server's GPUs have in common."""

    gpus_per_server: Count = 1
    nvlink: NvLink = "none"
    nvlink_rate_bps: Rate = quantity("3.6Tbps", "nvlink_rate")
    nvlink_delay_ps: PositiveDuration = quantity("25ns", "nvlink_delay")
    MEANING: ClassVar[Meaning] = {
        "gpus_per_server": "hosts that follow each other, so many to a server",
        "nvlink": "whether GPUs of a server have links of their own, as packets",
        "nvlink_rate_bps": 'of a GPU, one direction, with nvlink = "packets"',
        "nvlink_delay_ps": 'propagation delay from GPU to NVSwitch, with nvlink = "packets"',
    }


class ServersTable(NvLinkTable):
    """What topologies share whose hosts are put on places for NICs."""

    nics_per_server: Count = same_as("gpus_per_server", "nics_per_server")
    pcie_rate_bps: Rate = quantity("512Gbps", "pcie_rate")
    pcie_delay_ps: PositiveDuration = quantity("50ns", "pcie_delay")
    server: list[ServerConfig] = []
    MEANING: ClassVar[Meaning] = {
        "nics_per_server": "a divisor of gpus_per_server: GPUs that follow each other share a NIC, over PCIe",
        "pcie_rate_bps": "from a GPU to a NIC that it shares, one direction",
        "pcie_delay_ps": "propagation delay from a GPU to a NIC that it shares",
        "server": "servers that are not all alike, in place of gpus_per_server and nics_per_server",
    }

    @property
    def has_servers(self) -> bool:
        """Whether hosts are GPUs of servers, not each a server of its own."""
        return bool(self.server) or self.gpus_per_server > 1 or self.nvlink != "none"

    def servers(self, n_nic: int) -> Iterator[Alike]:
        """Servers in order, for so many NICs if they are alike."""
        for row in self.server:
            kind = self.nvlink if row.nvlink is None else row.nvlink
            link = row.nvlink_rate_bps or self.nvlink_rate_bps, row.nvlink_delay_ps or self.nvlink_delay_ps
            own = row.nic_rate_bps, row.nic_delay_ps
            yield Alike(row.count, row.gpus, row.nics, own, None if kind == "none" else link)
        if not self.server:
            link = None if self.nvlink == "none" else (self.nvlink_rate_bps, self.nvlink_delay_ps)
            sizes = self.gpus_per_server, self.nics_per_server
            yield Alike(n_nic // self.nics_per_server, *sizes, nvlink=link)

    def gpus_on(self, n_nic: int) -> int:
        """GPUs of the servers on so many places for NICs."""
        return sum(one.n_server * one.n_gpu for one in self.servers(n_nic))


def server_faults(table: ServersTable, n_place: int | None) -> Iterator[Fault]:
    """n_place: places for NICs, which servers that are alike fill; None: as many as servers need."""
    here = ("topology",)
    for key in ("gpus_per_server", "nics_per_server"):
        if table.server and key in table.model_fields_set:
            yield Fault((*here, key), "is there, and so are [[topology.server]]", "Accepted: one of the two")
    sizes = [((*here, "server", i, "nics"), row.gpus, row.nics) for i, row in enumerate(table.server)]
    for path, gpus, nics in sizes or [((*here, "nics_per_server"), table.gpus_per_server, table.nics_per_server)]:
        if gpus % nics:
            yield Fault(path, f"found {nics} for {gpus} GPUs", f"Accepted: a divisor of {gpus}")
    for i, row in enumerate(table.server):
        given = {"nvlink_rate": row.nvlink_rate_bps, "nvlink_delay": row.nvlink_delay_ps}
        for key in (key for key, value in given.items() if value is not None):
            if (table.nvlink if row.nvlink is None else row.nvlink) == "none":
                yield Fault((*here, "server", i, key), "is there, and nvlink is not", 'Accepted: with "packets"')
    if n_place is None:
        return
    if table.server:
        n_nic = sum(row.count * row.nics for row in table.server)
        if n_nic > n_place:
            found = f"have {n_nic:,} NICs, and the switches have {n_place:,} places for NICs"
            yield Fault((*here, "server"), found, "Accepted: no more NICs than places")
    elif n_place % table.nics_per_server:
        key = "nics_per_server" if "nics_per_server" in table.model_fields_set else "gpus_per_server"
        found = f"found {getattr(table, key)}, and the switches have {n_place:,} places for NICs"
        yield Fault((*here, key), found, "Accepted: a divisor of them, or [[topology.server]], which may need fewer")
