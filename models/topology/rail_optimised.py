"""The rail-optimised fat-tree (ROFT) of GPU clusters: GPU r of every server hangs on rail switch r of its unit.

A unit is a set of servers that share their rail switches; spines join the rail switches of all units and rails.
Optionally each server has an NVSwitch whose links are simulated packet by packet like any other.
"""

from fractions import Fraction

from models.topology.graph import Link, LinkKind, Topology, make_topology
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
    """Build a ROFT. Server s has GPUs s * gpus_per_server ..; its unit is s // servers_per_rail_switch.

    Spines = ceil(servers of the largest unit / oversubscription * nic rate / spine rate), each with one link to every
    rail switch. nvlink None: no NVSwitches. Ids: GPUs, NVSwitches by server, rail switches by unit and then
    rail, spines. Raises ConfigError that names the key.
    """
    _check_counts(n_gpu, gpus_per_server, servers_per_rail_switch, oversubscription)
    n_server = n_gpu // gpus_per_server
    n_nvswitch = 0 if nvlink is None else n_server
    n_rail = -(-n_server // servers_per_rail_switch) * gpus_per_server
    n_spine = _n_spine(min(n_server, servers_per_rail_switch), oversubscription, nic.rate_bps, spine.rate_bps)
    rail_0 = n_gpu + n_nvswitch
    spine_0 = rail_0 + n_rail
    links: list[Link] = []
    for gpu in range(n_gpu):
        server, rail = divmod(gpu, gpus_per_server)
        if nvlink is not None:
            links.append((gpu, n_gpu + server, nvlink.rate_bps, nvlink.delay_ps))
        rail_switch = rail_0 + server // servers_per_rail_switch * gpus_per_server + rail
        links.append((gpu, rail_switch, nic.rate_bps, nic.delay_ps))
    links += [
        (rail_0 + rail, spine_0 + i_spine, spine.rate_bps, spine.delay_ps)
        for rail in range(n_rail)
        for i_spine in range(n_spine)
    ]
    node_name = [f"gpu{x}" for x in range(n_gpu)] + [f"nvswitch{x}" for x in range(n_nvswitch)]
    node_name += [f"rail{x}" for x in range(n_rail)] + [f"spine{x}" for x in range(n_spine)]
    server_of = [gpu // gpus_per_server for gpu in range(n_gpu)] + list(range(n_nvswitch)) + [-1] * (n_rail + n_spine)
    name = f"rail-optimised, {n_gpu} GPUs in {n_server} servers"
    is_switch = [False] * n_gpu + [True] * (len(node_name) - n_gpu)
    return make_topology(name, node_name, is_switch, server_of, links)


def _n_spine(n_server: int, oversubscription: float, nic_rate_bps: int, spine_rate_bps: int) -> int:
    """Uplinks that carry a unit's NICs of one rail; exact, so that 1.1 is eleven tenths."""
    ratio = Fraction(n_server * nic_rate_bps, spine_rate_bps) / Fraction(str(oversubscription))
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
