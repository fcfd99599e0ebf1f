"""The rail-optimised fat-tree (ROFT) of GPU clusters: GPU r of every server hangs on rail switch r of its unit.

A unit is a set of servers that share their rail switches; spines join the rail switches of all units and rails.
Optionally each server has an NVSwitch whose links are simulated packet by packet like any other.
"""

from collections.abc import Sequence
from fractions import Fraction

from models.topology.attach import Server, Switches, attach
from models.topology.graph import Link, LinkKind, Topology
from pdes.errors import ConfigError


def rail_optimised(
    n_gpu: int,
    gpus_per_server: int,
    servers_per_rail_switch: int,
    nic: LinkKind,
    spine: LinkKind,
    oversubscription: float = 1.0,
    nvlink: LinkKind | None = None,
) -> Topology:
    """Build a ROFT of servers that are alike. Server s has GPUs s * gpus_per_server ..

    nvlink None: no NVSwitches. Ids: GPUs, NVSwitches by server, rail switches by unit and then rail, spines. Raises
    ConfigError that names the key.
    """
    _check_counts(n_gpu, gpus_per_server, servers_per_rail_switch, oversubscription)
    servers = [Server(gpus_per_server, gpus_per_server, nic, nvlink)] * (n_gpu // gpus_per_server)
    return attach(rail_switches(servers, servers_per_rail_switch, spine, oversubscription), servers)


def rail_switches(
    servers: Sequence[Server], servers_per_rail_switch: int, spine: LinkKind, oversubscription: float
) -> Switches:
    """The same without hosts; server s is in unit s // servers_per_rail_switch, and its NIC i hangs on rail i there.

    Spines = ceil(rate of all NICs of the busiest rail switch / oversubscription / spine rate), each with one link to
    every rail switch. Servers with fewer NICs than others are not on the last rails; a unit has rails that it needs.
    """
    rate_bps: list[int] = []
    places: list[int] = []
    for first in range(0, len(servers), servers_per_rail_switch):
        unit, rail_0 = servers[first : first + servers_per_rail_switch], len(rate_bps)
        rate_bps += [0] * max(server.n_nic for server in unit)
        for server in unit:
            for rail in range(server.n_nic):
                places.append(rail_0 + rail)
                rate_bps[rail_0 + rail] += server.nic.rate_bps
    n_spine = uplinks(max(rate_bps), oversubscription, spine.rate_bps)
    links: list[Link] = [
        spine.between(rail, len(rate_bps) + i_spine) for rail in range(len(rate_bps)) for i_spine in range(n_spine)
    ]
    names = [f"rail{x}" for x in range(len(rate_bps))] + [f"spine{x}" for x in range(n_spine)]
    return Switches("rail-optimised, {hosts}", names, links, places)


def planes_of(plane: Switches, n_plane: int) -> Switches:
    """As many fabrics side by side, which nothing joins but NICs: each NIC has a port at its place in every plane.

    The dual-plane fabric of Alibaba's HPN (Qian et al. 2024) has two such planes of rails. Deviations: a queue pair's
    hash chooses its port, and that of its ACKs, once and for all, whatever load or failed links; planes have no cores.
    """
    n_switch = len(plane.names)
    kinds = [name.rstrip("0123456789") for name in plane.names]
    n_of = {kind: kinds.count(kind) for kind in kinds}
    names = [
        f"{kind}{i * n_of[kind] + int(name[len(kind) :])}"
        for i in range(n_plane)
        for kind, name in zip(kinds, plane.names, strict=True)
    ]
    links = [
        (i * n_switch + a, i * n_switch + b, rate_bps, delay_ps)
        for i in range(n_plane)
        for a, b, rate_bps, delay_ps in plane.links
    ]
    places = [i * n_switch + switch for switch in plane.places for i in range(n_plane)]
    return Switches(f"{n_plane} planes, {plane.title}", names, links, places, n_plane)


def uplinks(down_bps: int, oversubscription: float, up_bps: int) -> int:
    """Links up that carry those down; exact, so that 1.1 is eleven tenths."""
    ratio = Fraction(down_bps, up_bps) / Fraction(str(oversubscription))
    return -(-ratio.numerator // ratio.denominator)


def _check_counts(n_gpu: int, gpus_per_server: int, servers_per_rail_switch: int, oversubscription: float) -> None:
    for key, count in (("gpus_per_server", gpus_per_server), ("servers_per_rail_switch", servers_per_rail_switch)):
        if count < 1:
            raise ConfigError(f"topology.{key}", f"{count}", "A whole number from 1 on is accepted")
    if n_gpu < 1 or n_gpu % gpus_per_server:
        accepted = f"A multiple of topology.gpus_per_server = {gpus_per_server} is accepted"
        raise ConfigError("topology.gpus", f"{n_gpu} GPUs", accepted)
    if oversubscription < 1:
        raise ConfigError("topology.oversubscription", f"{oversubscription:g}", "A number from 1 on is accepted")
