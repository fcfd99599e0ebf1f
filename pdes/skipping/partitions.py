"""Network partitions: which active flows share ports, directly or through other flows, kept as flows come and go.

Li et al., Wormhole (NSDI 2026), Definition 1 and Appendices A and B. Flows and ports are numbers, and which ports a
flow uses is given: this file knows no network. Two deviations from Algorithm 2, both in what an event costs: an
entering flow relabels all partitions that it joins but the largest; and when a flow leaves (`leaving`), the search for
parts stops when the last one, mostly the largest, is left, which stays as it was.

Labels depend on nothing but the order of `enter` and `leave`, so that ranks which make the same calls agree on them.
"""

from typing import NamedTuple

import numpy as np

from pdes.engine.jit import loop_kernel, step_kernel
from pdes.skipping.in_place_sort import sort_in_place


class Partitions(NamedTuple):
    """Network partitions of the active flows. Written only by `enter`, `leave` and `leave_all`.

    A slot is a place in `port_of`: one use of a port by a flow. A label is a number below n_flow; it is free while no
    partition has it. Chains end in -1. The fields from `prev_member` on are of this file, `leaving` and their check.
    """

    port_start: np.ndarray  # int64[n_flow + 1]  a flow's slots are port_start[flow] .. port_start[flow + 1] - 1
    port_of: np.ndarray  # int32[n_slot]  port of each slot; an inactive flow's may be rewritten, when its path changes

    label_of_flow: np.ndarray  # int32[n_flow]  partition of the flow, -1 while it is inactive
    label_of_port: np.ndarray  # int32[n_port]  partition of the flows that use the port, -1 if there is none
    first_member: np.ndarray  # int32[n_flow]  by label: one of its flows, -1 while the label is free
    next_member: np.ndarray  # int32[n_flow]  by flow: the next of its partition, in no promised order
    n_flow_of: np.ndarray  # int64[n_flow]  by label: flows in the partition, 0 while the label is free
    version: np.ndarray  # int64[n_flow]  by label: grows with every change, so (label, version) never comes again
    n_partition: np.ndarray  # int64[1]  partitions now

    prev_member: np.ndarray  # int32[n_flow]  by flow: the member before it
    flow_of: np.ndarray  # int32[n_slot]  flow of each slot
    first_use: np.ndarray  # int32[n_port]  a slot whose flow is active, -1 if none uses the port
    next_use: np.ndarray  # int32[n_slot]  the next slot of the same port
    prev_use: np.ndarray  # int32[n_slot]  the slot before it
    free_label: np.ndarray  # int32[n_flow]  the first n_flow - n_partition are the free labels, the last is next

    # Scratch of `leaving`; seed_of_* is -1 everywhere between calls. A seed is a port of the leaving flow, from which a
    # part of its partition is searched. Rows of seeds: as many as any flow has ports.
    parent: np.ndarray  # int32[n_seed]  another seed that this one's part has met, itself if it is the part's root
    n_pending: np.ndarray  # int32[n_seed]  by root: ports of its part that have still to be searched
    label_of_seed: np.ndarray  # int32[n_seed]  by root: label of its part
    seed_of_port: np.ndarray  # int32[n_port]  seed from which the port was reached
    seed_of_flow: np.ndarray  # int32[n_flow]  seed from which the flow was reached
    reached: np.ndarray  # int32[n_port]  ports reached, in the order in which they are searched
    found: np.ndarray  # int32[n_flow]  flows reached
    n_leaving: np.ndarray  # int64[n_flow]  by label: flows that leave together; 0 everywhere between calls


def make_partitions(port_start: np.ndarray, port_of: np.ndarray, n_port: int) -> Partitions:
    """No active flows; all memory that will ever be needed, 60 bytes per flow, 16 per slot and per port.

    Flow f uses port_of[port_start[f]:port_start[f + 1]], numbers below n_port, of which some may be equal. Both are
    copied.
    """
    n_flow, n_slot = len(port_start) - 1, len(port_of)
    n_port_of = np.diff(port_start)
    n_seed = n_port_of.max(initial=0)
    assert n_flow >= 0 and port_start[0] == 0 and port_start[-1] == n_slot and (n_port_of >= 0).all()
    assert n_slot == 0 or 0 <= port_of.min() <= port_of.max() < n_port

    def none(n_row: int) -> np.ndarray:
        return np.full(n_row, -1, np.int32)

    return Partitions(
        port_start=np.array(port_start, np.int64),
        port_of=np.array(port_of, np.int32),
        label_of_flow=none(n_flow),
        label_of_port=none(n_port),
        first_member=none(n_flow),
        next_member=none(n_flow),
        n_flow_of=np.zeros(n_flow, np.int64),
        version=np.zeros(n_flow, np.int64),
        n_partition=np.zeros(1, np.int64),
        prev_member=none(n_flow),
        flow_of=np.repeat(np.arange(n_flow, dtype=np.int32), n_port_of),
        first_use=none(n_port),
        next_use=none(n_slot),
        prev_use=none(n_slot),
        free_label=np.arange(n_flow, dtype=np.int32)[::-1].copy(),
        parent=none(n_seed),
        n_pending=none(n_seed),
        label_of_seed=none(n_seed),
        seed_of_port=none(n_port),
        seed_of_flow=none(n_flow),
        reached=none(n_port),
        found=none(n_flow),
        n_leaving=np.zeros(n_flow, np.int64),
    )


@loop_kernel
def enter(partitions: Partitions, flow):
    """Make an inactive flow active, merging the partitions that its ports touch; return its partition's label.

    Returns -1, changing nothing, if the flow is active. The label is that of the largest partition touched (by flows;
    the first on the flow's path of equals), a free one if there is none. The labels that will merge stand, before the
    call, in `label_of_port` of the flow's ports. Costs the ports of all flows that get another label.
    """
    if partitions.label_of_flow[flow] >= 0:
        return np.int64(-1)
    label = _largest_touched(partitions, flow)
    if label < 0:
        label = take_label(partitions)
    for slot in range(partitions.port_start[flow], partitions.port_start[flow + 1]):
        port = partitions.port_of[slot]
        touched = np.int64(partitions.label_of_port[port])
        if touched >= 0 and touched != label:
            _absorb(partitions, label, touched)
        partitions.label_of_port[port] = label
        _put_first(partitions.first_use, partitions.next_use, partitions.prev_use, port, slot)
    link_member(partitions, label, flow)
    partitions.version[label] += 1
    return label


@loop_kernel
def canonical(partitions: Partitions, label, members):
    """Write a partition's flows into members, ascending; return how many.

    members: integers, at least n_flow_of[label] of them. A free label has none.
    """
    n_member = 0
    flow = partitions.first_member[label]
    while flow >= 0:
        members[n_member] = flow
        n_member += 1
        flow = partitions.next_member[flow]
    sort_in_place(members, n_member)
    return n_member


@step_kernel
def _largest_touched(partitions: Partitions, flow):
    """Label of the partition with the most flows among those that use a port of the flow, -1 if there is none."""
    label, n_most = np.int64(-1), np.int64(0)
    for slot in range(partitions.port_start[flow], partitions.port_start[flow + 1]):
        touched = np.int64(partitions.label_of_port[partitions.port_of[slot]])
        if touched >= 0 and partitions.n_flow_of[touched] > n_most:
            label, n_most = touched, partitions.n_flow_of[touched]
    return label


@step_kernel
def take_label(partitions: Partitions):
    """A free label, which is then one of a partition. There is always one: a partition has a flow."""
    n_free = partitions.free_label.size - partitions.n_partition[0]
    label = np.int64(partitions.free_label[n_free - 1])
    partitions.n_partition[0] += 1
    partitions.version[label] += 1
    return label


@step_kernel
def free_label(partitions: Partitions, label):
    """Give a label back whose partition has no flows left."""
    partitions.version[label] += 1
    partitions.n_partition[0] -= 1
    partitions.free_label[partitions.free_label.size - partitions.n_partition[0] - 1] = label


@step_kernel
def _put_first(first, following, before, key, row):
    """Put a row at the head of the chain first[key]."""
    head = first[key]
    first[key] = row
    following[row], before[row] = head, -1
    if head >= 0:
        before[head] = row


@step_kernel
def link_member(partitions: Partitions, label, flow):
    """Put a flow of no partition into one."""
    _put_first(partitions.first_member, partitions.next_member, partitions.prev_member, label, flow)
    partitions.n_flow_of[label] += 1
    partitions.label_of_flow[flow] = label


@step_kernel
def _absorb(partitions: Partitions, label, absorbed):
    """Move all flows and ports of one partition into another, and free its label."""
    head, flow = partitions.first_member[label], np.int32(-1)
    following = partitions.first_member[absorbed]
    partitions.first_member[label] = following
    while following >= 0:
        flow = following
        label_flow(partitions, label, flow)
        following = partitions.next_member[flow]
    partitions.next_member[flow] = head
    partitions.prev_member[head] = flow
    partitions.n_flow_of[label] += partitions.n_flow_of[absorbed]
    partitions.n_flow_of[absorbed] = 0
    partitions.first_member[absorbed] = -1
    free_label(partitions, absorbed)


@step_kernel
def label_flow(partitions: Partitions, label, flow):
    """Label an active flow and its ports."""
    partitions.label_of_flow[flow] = label
    for slot in range(partitions.port_start[flow], partitions.port_start[flow + 1]):
        partitions.label_of_port[partitions.port_of[slot]] = label
