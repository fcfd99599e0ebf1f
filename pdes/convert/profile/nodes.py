"""A rank's kernels as nodes of a program: time between communications as stretches of computing, bytes as they are.

What a stream did not do between the last thing that a kernel waited for and its start counts as time of that kernel:
the CPU was late, or the GPU took a moment to begin. How long a communication took is left to the network.
"""

from dataclasses import dataclass, field

from pdes.convert.profile.order import dependencies, in_order
from pdes.convert.profile.seen import RECEIVE, SEND, Communication, Kernel, RankProfile


@dataclass
class Node:
    """A node before ranks are put into groups. communication None: it computes for time_ps."""

    name: str
    lane: int
    time_ps: int = 0
    communication: Communication | None = None
    after: list[int] = field(default_factory=list)
    where: str = ""
    tag: int = 0
    n_kernel: int = 0


def nodes_of(profile: RankProfile) -> list[Node]:
    """The program of a rank."""
    kernels = in_order(profile)
    after = dependencies(profile, kernels)
    lane_of = {stream: lane for lane, stream in enumerate(dict.fromkeys(kernel.stream for kernel in kernels))}
    is_waited_for = {
        one for found, kernel in zip(after, kernels, strict=True) for one in _across(found, kernel, kernels)
    }
    nodes: list[Node] = []
    node_of: list[int] = []
    for kernel, found in zip(kernels, after, strict=True):
        waited = [node_of[one] for one in found]
        ready_ps = max([profile.begin_ps, *(kernels[one].end_ps for one in found)])
        lag_ps = max(0, kernel.start_ps - ready_ps)
        lane = lane_of[kernel.stream]
        if kernel.communication is None:
            time_ps = max(0, kernel.end_ps - max(kernel.start_ps, ready_ps)) + lag_ps
            joins = len(found) == 1 and kernels[found[0]].stream == kernel.stream and found[0] not in is_waited_for
            if joins and nodes[waited[0]].communication is None:
                nodes[waited[0]].time_ps += time_ps
                nodes[waited[0]].n_kernel += 1
                node_of.append(waited[0])
                continue
            nodes.append(Node(kernel.name, lane, time_ps, after=waited, where=kernel.where, n_kernel=1))
        else:
            if lag_ps > 0:
                nodes.append(Node("gap", lane, lag_ps, after=waited, where=kernel.where))
                waited = [len(nodes) - 1]
            nodes.append(Node(kernel.name, lane, 0, kernel.communication, waited, kernel.where))
        node_of.append(len(nodes) - 1)
    for node in nodes:
        if node.n_kernel > 1:
            node.name = f"{node.name[:160]} and {node.n_kernel - 1} more"
    return _without_lone_groups(nodes)


def _across(found: list[int], kernel: Kernel, kernels: list[Kernel]) -> list[int]:
    return [one for one in found if kernels[one].stream != kernel.stream]


def _without_lone_groups(nodes: list[Node]) -> list[Node]:
    """What a rank communicates with itself alone takes no time."""
    for node in nodes:
        if node.communication is not None and node.communication.operation not in (SEND, RECEIVE):
            if len(node.communication.group) == 1:
                node.communication = None
    return nodes
