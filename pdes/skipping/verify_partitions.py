"""Check of the network partitions against Algorithm 1 of Wormhole: a search over all active flows, from nothing.

For tests: it takes as long as Python takes to visit every flow and port.
"""

from collections.abc import Iterator

import numpy as np

from pdes.skipping.partitions import Partitions

Part = tuple[set[int], set[int]]
"""Flows and ports of a network partition."""


def verify_partitions(partitions: Partitions) -> None:
    """Raise AssertionError, saying what differs, unless labels, chains and counts are those of the active flows."""
    p = partitions
    active = np.flatnonzero(p.label_of_flow >= 0).tolist()
    users = _users_of_ports(p, active)
    parts = list(_search_all(p, active, users))
    for flows, ports in parts:
        _verify_part(p, flows, ports)
    labels = {int(p.label_of_flow[min(flows)]) for flows, _ in parts}
    _expect(len(labels) == len(parts), f"{len(parts)} partitions share {len(labels)} labels")
    _expect(p.n_partition[0] == len(parts), f"{len(parts)} partitions, {p.n_partition[0]} counted")
    _verify_free(p, labels)
    unused = np.setdiff1d(np.arange(len(p.label_of_port)), list(users))
    _expect((p.label_of_port[unused] == -1).all(), "a port that no active flow uses has a label")
    _expect((p.first_use[unused] == -1).all(), "a port that no active flow uses has a chain of uses")
    for port, slots in users.items():
        chain = _chain(int(p.first_use[port]), p.next_use, p.prev_use, f"uses of port {port}")
        _expect(sorted(chain) == slots, f"port {port}: its uses are {slots}, its chain has {sorted(chain)}")
    is_clear = (p.seed_of_port == -1).all() and (p.seed_of_flow == -1).all() and (p.n_leaving == 0).all()
    _expect(is_clear, "`leaving` left its scratch uncleared")


def _expect(holds: object, else_what: str) -> None:
    if not holds:
        raise AssertionError(else_what)


def _users_of_ports(p: Partitions, active: list[int]) -> dict[int, list[int]]:
    """Slots of the active flows by port, ascending."""
    users: dict[int, list[int]] = {}
    for flow in active:
        for slot in range(p.port_start[flow], p.port_start[flow + 1]):
            _expect(p.flow_of[slot] == flow, f"slot {slot} is flow {flow}'s, not {p.flow_of[slot]}'s")
            users.setdefault(int(p.port_of[slot]), []).append(slot)
    return users


def _search_all(p: Partitions, active: list[int], users: dict[int, list[int]]) -> Iterator[Part]:
    """The connected parts of the graph that joins flows to their ports."""
    seen: set[int] = set()
    for first in active:
        if first in seen:
            continue
        flows, ports, waiting = {first}, set(), [first]
        while waiting:
            flow = waiting.pop()
            for port in set(p.port_of[p.port_start[flow] : p.port_start[flow + 1]].tolist()) - ports:
                ports.add(port)
                new = {int(p.flow_of[slot]) for slot in users[port]} - flows
                flows |= new
                waiting += new
        seen |= flows
        yield flows, ports


def _verify_part(p: Partitions, flows: set[int], ports: set[int]) -> None:
    """One partition's labels, members and count."""
    label = int(p.label_of_flow[min(flows)])
    name = f"partition {label} of flows {sorted(flows)}"
    for flow in flows:
        _expect(p.label_of_flow[flow] == label, f"{name}: flow {flow} has label {p.label_of_flow[flow]}")
    for port in ports:
        _expect(p.label_of_port[port] == label, f"{name}: port {port} has label {p.label_of_port[port]}")
    members = _chain(int(p.first_member[label]), p.next_member, p.prev_member, name)
    _expect(sorted(members) == sorted(flows), f"{name}: its chain has {sorted(members)}")
    _expect(p.n_flow_of[label] == len(flows), f"{name}: {p.n_flow_of[label]} counted")
    _expect(p.version[label] > 0, f"{name} has never changed")


def _verify_free(p: Partitions, labels: set[int]) -> None:
    """The labels of no partition are empty and free, each once."""
    free = sorted(p.free_label[: len(p.free_label) - len(labels)].tolist())
    others = sorted(set(range(len(p.free_label))) - labels)
    _expect(free == others, f"free labels {free}, and those of no partition are {others}")
    _expect((p.n_flow_of[others] == 0).all(), "a free label has flows counted")
    _expect((p.first_member[others] == -1).all(), "a free label has members")


def _chain(head: int, following: np.ndarray, before: np.ndarray, name: str) -> list[int]:
    """Rows of a chain from its head on, after checking that every row names the one before it."""
    rows, previous = [], -1
    while head >= 0:
        _expect(before[head] == previous, f"{name}: {before[head]} stands before {head}, not {previous}")
        _expect(len(rows) < len(following), f"{name}: the chain has no end")
        rows.append(head)
        previous, head = head, int(following[head])
    return rows
