"""Where the members of groups that do the same collectives sit: servers, members per server, and rails.

The i-th member of a group in each of its servers is on its i-th rail: with GPUs in order, the one on the same NIC
number in every server. Two GPUs share a PCIe switch, which their NICs hang on, as in DGX and HGX servers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pdes.errors import SimError

GPUS_PER_SWITCH = 2


@dataclass(frozen=True)
class Layout:
    """servers[group][server][i]: GPUs. n_server, per_server: of each group; per_server 0: not the same everywhere.

    is_apart: a server has several members, and no two of them on one PCIe switch.
    """

    groups: tuple[tuple[int, ...], ...]
    servers: tuple[tuple[tuple[int, ...], ...], ...]
    n_gpu: int
    n_server: int
    per_server: int
    is_apart: bool

    def rails(self, i_group: int) -> list[list[int]]:
        """Members of a group by rail, each in the order of the servers."""
        return [list(rail) for rail in zip(*self.servers[i_group], strict=True)]

    def n_part(self, channels: int, in_server: str) -> int:
        """Parts of a collective beside each other for a number of channels, one on each rail at least.

        Inside a server what is timed knows how many there are.
        """
        if self.n_server == 1 and in_server == "timed":
            return 1
        return max(1, -(-channels // (self.per_server or 1)))

    @cached_property
    def is_in_order(self) -> bool:
        """Whether the members of a server follow each other in every group, in as many servers of as many."""
        of_servers = (tuple(gpu for server in servers for gpu in server) for servers in self.servers)
        return self.per_server > 0 and tuple(of_servers) == self.groups

    @cached_property
    def edges(self) -> dict[int, tuple[bool, bool]]:
        """Per GPU: whether the next and the previous member, in its group's order, are in other servers."""
        found = {}
        for group, servers in zip(self.groups, self.servers, strict=True):
            server_of = {gpu: i for i, members in enumerate(servers) for gpu in members}
            here = [server_of[gpu] for gpu in group]
            for i, gpu in enumerate(group):
                found[gpu] = here[(i + 1) % len(group)] != here[i], here[i - 1] != here[i]
        return found


def make_layout(groups: Sequence[tuple[int, ...]], server_of_gpu: np.ndarray) -> Layout:
    """Sort the members of each group by server. SimError if the groups are not all of one size."""
    sizes = {len(group) for group in groups}
    if len(sizes) != 1 or min(sizes) < 1:
        raise SimError(f"groups of {sorted(sizes)} GPUs in one communicator: all have the same number")
    servers = tuple(_by_server(group, server_of_gpu) for group in groups)
    counts = {len(server) for group in servers for server in group}
    n_server = {len(group) for group in servers}
    per_server = counts.pop() if len(counts) == 1 and len(n_server) == 1 else 0
    is_apart = per_server > 1 and not any(_meet(members, server_of_gpu) for group in servers for members in group)
    return Layout(tuple(map(tuple, groups)), servers, sizes.pop(), max(n_server), per_server, is_apart)


def _meet(members: Sequence[int], server_of_gpu: np.ndarray) -> bool:
    """Whether two members of a server hang on one PCIe switch. A server's GPUs are numbered one after the other."""
    first = int(np.argmax(server_of_gpu == server_of_gpu[members[0]]))
    return len({(gpu - first) // GPUS_PER_SWITCH for gpu in members}) < len(members)


def _by_server(group: Sequence[int], server_of_gpu: np.ndarray) -> tuple[tuple[int, ...], ...]:
    """Members by server, servers in the order in which the group names them; a GPU outside any server is one."""
    found: dict[tuple[int, int], list[int]] = {}
    for gpu in group:
        server = int(server_of_gpu[gpu])
        found.setdefault((server, -1) if server >= 0 else (-1, gpu), []).append(gpu)
    return tuple(tuple(members) for members in found.values())
