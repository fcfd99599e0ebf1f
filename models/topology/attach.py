"""Hosts on a fabric: what hangs on its places for NICs, and what joins the GPUs of a server.

A server's GPUs follow each other. With NVLink each has a link to the server's NVSwitch, simulated packet by packet like
any other. Where GPUs share a NIC, it is a switch of the server: its GPUs have PCIe links to it, and it has one link to
the fabric. Deviation: a real NIC shares its line among queue pairs; here GPUs' packets queue in it as in a switch.
"""

from collections.abc import Sequence
from typing import NamedTuple

from models.topology.graph import Link, LinkKind, Topology, make_topology
from pdes.errors import ConfigError


class Switches(NamedTuple):
    """A fabric without hosts. title: with {hosts} where they are named; links: of numbers of switches.

    places: the switch of each place for a port of a NIC, in the order in which servers take them; n_port: of a NIC.
    """

    title: str
    names: list[str]
    links: list[Link]
    places: list[int]
    n_port: int = 1

    @property
    def n_place(self) -> int:
        """Places for NICs."""
        return len(self.places) // self.n_port


class Server(NamedTuple):
    """n_nic: a divisor of n_gpu. nic: each link to the fabric. pcie: from each GPU to a NIC that others have, too."""

    n_gpu: int
    n_nic: int
    nic: LinkKind
    nvlink: LinkKind | None = None
    pcie: LinkKind = LinkKind(512 * 10**9, 50_000)

    @property
    def shares_nics(self) -> bool:
        """Whether its NICs are nodes of their own."""
        return self.n_nic < self.n_gpu


def hosts(fabric: Switches, link: LinkKind) -> Topology:
    """A host on every place, each a server of its own. Ids: hosts, switches."""
    return attach(fabric, [Server(1, 1, link)] * fabric.n_place, "host")


def attach(fabric: Switches, servers: Sequence[Server], kind: str = "gpu") -> Topology:
    """Servers on the first places, in order; places that are left stay empty.

    Ids: GPUs, what is inside servers (by server: the NVSwitch, then shared NICs), the fabric's switches. kind: what
    GPUs are called. Raises ConfigError for more NICs than places, and for NICs that GPUs cannot share evenly.
    """
    check_servers(servers, fabric.n_place)
    n_gpu = sum(server.n_gpu for server in servers)
    n_inside = sum((s.nvlink is not None) + s.n_nic * s.shares_nics for s in servers)
    switch_0 = n_gpu + n_inside
    node_name = [f"{kind}{x}" for x in range(n_gpu)]
    server_of = [i for i, server in enumerate(servers) for _ in range(server.n_gpu)]
    links: list[Link] = []
    gpu, place = 0, 0
    for i, server in enumerate(servers):
        if server.nvlink is not None:
            links += [server.nvlink.between(gpu + x, len(node_name)) for x in range(server.n_gpu)]
            node_name.append(f"nvswitch{i}")
        for x in range(server.n_nic):
            port = gpu + x
            if server.shares_nics:
                port, each = len(node_name), server.n_gpu // server.n_nic
                links += [server.pcie.between(gpu + x * each + y, port) for y in range(each)]
                node_name.append(f"nic{place + x}")
            first = (place + x) * fabric.n_port
            links += [
                server.nic.between(port, switch_0 + switch) for switch in fabric.places[first : first + fabric.n_port]
            ]
        server_of += [i] * (len(node_name) - len(server_of))
        gpu, place = gpu + server.n_gpu, place + server.n_nic
    links += [(switch_0 + a, switch_0 + b, rate_bps, delay_ps) for a, b, rate_bps, delay_ps in fabric.links]
    node_name += fabric.names
    server_of += [-1] * len(fabric.names)
    text = f"{n_gpu} hosts" if kind == "host" else f"{n_gpu} GPUs in {len(servers)} servers"
    is_switch = [False] * n_gpu + [True] * (len(node_name) - n_gpu)
    return make_topology(fabric.title.format(hosts=text), node_name, is_switch, server_of, links)


def check_servers(servers: Sequence[Server], n_place: int) -> None:
    """Raises ConfigError for what `attach` says."""
    for server in servers:
        if min(server.n_gpu, server.n_nic) < 1 or server.n_gpu % server.n_nic:
            found = f"{server.n_nic} NICs for {server.n_gpu} GPUs"
            raise ConfigError("topology.nics_per_server", found, "A divisor of the server's GPUs is accepted")
    n_nic = sum(server.n_nic for server in servers)
    if n_nic > n_place:
        raise ConfigError("topology", f"servers with {n_nic} NICs", f"The switches have {n_place} places for NICs")
