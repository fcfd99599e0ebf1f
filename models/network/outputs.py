"""Earliest output: an instant before which nothing leaves for another logical process, so that rounds may be longer.

A round ends one lookahead behind the next event of all ranks, as that event might send something to another logical
process. Often it is known that none can: no queue pair whose packets cross has anything under way, and all streams that
could post on one compute, or wait for messages of which much is still to be sent. The round then ends one lookahead
behind the first instant at which one of them may go on (earliest output time, Jha and Bagrodia 1994), which is what
ranks reduce instead of the next event. So an all-reduce inside the reach of one switch costs few rounds.

What this module gives is a lower bound and follows from the state at a round's end. It holds whatever ranks there are,
as it is about logical processes; without looks no result depends on where rounds end (`pdes.engine.round`).
"""

from typing import NamedTuple

import numpy as np

from models.network.build.arrays import QueuePairs
from models.network.state.records import PAYLOAD_BYTES, Fabric, Nic
from models.network.streams.compute_time import slowed_1024_of
from models.topology.graph import Topology
from models.workload.plan import WorkloadPlan
from models.workload.program import OP_COMPUTE, WAITING_DONE, WAITING_GATE, WAITING_GROUP, Work
from pdes.engine.jit import step_kernel
from pdes.engine.round import LOOKAHEAD, STOP, free_until_ps
from pdes.engine.time_index import NEVER

BIT_PS = 8 * 10**12  # of a byte at 1 bit/s
IS_KNOWN, MOST_PS, SEEN_PAIR, SEEN_NODE = range(4)
N_OUTPUT_WORD = 4


class Outputs(NamedTuple):
    """What of a rank may send to other logical processes."""

    pairs: np.ndarray  # int32[]  queue pairs with senders here whose packets, or their answers, cross
    nodes: np.ndarray  # int32[]  their hosts
    words: np.ndarray  # int64[N_OUTPUT_WORD]
    # IS_KNOWN 0: rounds end by their next event. MOST_PS: at most so much later.
    # SEEN_PAIR, SEEN_NODE: where one was in the way when they were last gone through: looked at first.


def find_outputs(
    topology: Topology, pairs: QueuePairs, plan: WorkloadPlan, nic: Nic, lp_of_node: np.ndarray
) -> Outputs:
    """Those of a rank's hosts, with nothing known yet. Paths are fixed."""
    crosses = lp_of_node[topology.port_src] != lp_of_node[topology.port_dst]
    on_path = np.append(0, np.cumsum(crosses[pairs.path_port] & (pairs.path_port >= 0)))
    bounds = on_path[pairs.path_start[::2]]
    does = np.zeros(len(plan.pair_src), np.bool_)
    does[pairs.row_of_pair] = np.diff(bounds) > 0
    mine = nic.sends[does[nic.sends]]
    nodes = np.unique(nic.facts["node"][mine])
    return Outputs(mine.astype(np.int32), nodes.astype(np.int32), np.zeros(N_OUTPUT_WORD, np.int64))


def no_outputs() -> Outputs:
    """Nothing is known, so rounds end by their next event."""
    return Outputs(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(N_OUTPUT_WORD, np.int64))


@step_kernel
def _is_under_way(queue_pairs, outputs: Outputs):
    """Whether a queue pair that crosses has anything unacknowledged."""
    pairs, n = outputs.pairs, outputs.pairs.size
    i = outputs.words[SEEN_PAIR]
    for _ in range(n):
        record = queue_pairs[np.uint64(pairs[np.uint64(i)])]
        if record.acked_byte < record.posted_end:
            outputs.words[SEEN_PAIR] = i
            return True
        i = i + 1 if i + 1 < n else 0
    return False


@step_kernel
def _delivered_ps(fabric: Fabric, nic: Nic, pair, next_ps):
    """When the message that a queue pair's receiver waits for may be there; (it, False), or (next_ps, True) if its
    sender has not posted it. Sender and receiver are of one logical process.

    What is not sent yet takes its time at the sender's line rate, but for a packet's worth.
    """
    sender = nic.queue_pairs[np.uint64(pair)]
    expected_byte = nic.receivers[np.uint64(nic.receiver_row[np.uint64(pair)])].expected_byte
    place = np.int64(sender.first_message)
    while place >= 0 and nic.messages[np.uint64(place)].end_byte <= expected_byte:
        place = np.int64(nic.messages[np.uint64(place)].next)
    if place < 0:
        return next_ps, True
    left_bytes = nic.messages[np.uint64(place)].end_byte - sender.next_byte - fabric.constants[PAYLOAD_BYTES]
    return next_ps + max(0, left_bytes) * (BIT_PS // sender.line_rate_bps), False


@step_kernel
def _goes_on_ps(fabric: Fabric, nic: Nic, work: Work, i_stream, next_ps):
    """When a stream may go on at the earliest, NEVER if others tell; and the host that has to post for it first, or -1.

    Behind a gate another stream of its GPU has to come first; what comes from another logical process is known there.
    """
    stream, waiting_for = work.streams[np.uint64(i_stream)], work.streams[np.uint64(i_stream)].waiting_for
    if waiting_for == WAITING_DONE or waiting_for == WAITING_GATE:
        return NEVER, np.int64(-1)
    operation = work.operations[np.uint64(stream.operation)]
    if stream.wake_ps < NEVER:
        rest_ps = max(0, stream.wake_ps - next_ps)
        if operation.kind == OP_COMPUTE and work.jobs[np.uint64(stream.job)].slowed_1024 > 1024:
            rest_ps = rest_ps * 1024 // slowed_1024_of(work, stream)  # it may get its own time back
        return next_ps + rest_ps, np.int64(-1)
    if waiting_for == WAITING_GROUP and stream.job_begin_ps < 0:
        return next_ps, np.int64(-1)
    if waiting_for == WAITING_GROUP:
        return max(next_ps, stream.begun_ps + operation.time_ps), np.int64(-1)
    if waiting_for < 0:
        return next_ps, np.int64(-1)
    facts = nic.facts[np.uint64(waiting_for)]
    if fabric.lp_of_node[np.uint64(facts.node)] != fabric.lp_of_node[np.uint64(facts.receiver)]:
        return NEVER, np.int64(-1)
    at_ps, is_unposted = _delivered_ps(fabric, nic, np.int64(waiting_for), next_ps)
    return at_ps, np.int64(facts.node) if is_unposted else np.int64(-1)


@step_kernel
def _poster_ps(fabric: Fabric, nic: Nic, work: Work, node_id, next_ps):
    """When a host may post at the earliest, as far as can be told from it alone."""
    node, least_ps = fabric.nodes[np.uint64(node_id)], NEVER
    for k in range(node.first_stream, node.end_stream):
        least_ps = min(least_ps, _goes_on_ps(fabric, nic, work, k, next_ps)[0])
    return least_ps


@step_kernel
def _output_ps(fabric: Fabric, nic: Nic, work: Work, node_id, next_ps):
    """When a host may post at the earliest; where it waits for messages that are not posted, when their senders may."""
    node, least_ps = fabric.nodes[np.uint64(node_id)], NEVER
    for k in range(node.first_stream, node.end_stream):
        at_ps, poster = _goes_on_ps(fabric, nic, work, k, next_ps)
        if poster >= 0:
            at_ps = _poster_ps(fabric, nic, work, poster, next_ps)
        least_ps = min(least_ps, at_ps)
    return least_ps


@step_kernel
def earliest_output_ps(loop, fabric: Fabric, nic: Nic, work: Work, outputs: Outputs, next_ps):
    """What a rank reduces in place of next_ps, its next event: as much later as nothing leaves its logical processes.

    No later than the stretch of rounds begins in which somebody looks, or than the run's stop.
    """
    words = outputs.words
    if words[IS_KNOWN] == 0 or next_ps < 0:
        return next_ps
    latest_ps = min(next_ps + words[MOST_PS], free_until_ps(loop) - loop[LOOKAHEAD], loop[STOP])
    if latest_ps <= next_ps or _is_under_way(nic.queue_pairs, outputs):
        return next_ps
    i, n = words[SEEN_NODE], outputs.nodes.size
    for _ in range(n):
        at_ps = _output_ps(fabric, nic, work, np.int64(outputs.nodes[np.uint64(i)]), next_ps)
        if at_ps <= next_ps:
            words[SEEN_NODE] = i
            return next_ps
        latest_ps = min(latest_ps, at_ps)
        i = i + 1 if i + 1 < n else 0
    return latest_ps
