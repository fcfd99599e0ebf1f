"""Messages at flow level: posted without a packet, and without their ends being known yet.

`pdes.skipping.fluid.flow_level` decides how they end.

A message that is posted on a queue pair whose flow is at flow level leaves its two markers at once, as those on lanes
do (`lanes`), but for the time being they come FAR later. The next look sees the message, and once its end is known, the
markers are moved to where they belong.
"""

import numpy as np

from models.network.host.lanes import Withdrawn, count_packets, last_row, send_marker
from models.network.state.records import FLAG_ACK, N_LANE, N_UNSEEN, Fabric, Nic
from pdes.engine.bits import drop_from_set, put_in_set
from pdes.engine.jit import step_kernel
from pdes.skipping.fluid.flow_table import FAR_PS, MOST_MESSAGES, SHARED


@step_kernel
def may_share(fabric: Fabric, nic: Nic, record, pair, size_bytes, was_idle):
    """Whether a message that is posted on a queue pair (its record) goes at flow level: nothing of the pair's is in
    flight as packets, and no port of its way is frozen, or kept for somebody alone."""
    if fabric.counters[N_LANE] == 0:
        return False
    lane = nic.lanes[np.uint64(pair)]
    if lane.is_shared == 0 or lane.is_open != 0 or lane.n_withdrawn >= MOST_MESSAGES or size_bytes < lane.least_bytes:
        return False
    is_under_way = lane.n_withdrawn == 0 or record.acked_byte < lane.from_byte  # some of it as packets
    if nic.is_frozen[np.uint64(pair)] or (not was_idle and is_under_way):
        return False
    row = np.int64(nic.facts[np.uint64(pair)].data_path)
    port = np.int64(fabric.path_port[np.uint64(row)])
    while port >= 0:
        if nic.frozen_port[np.uint64(port)] == 1 or nic.lane_of_port[np.uint64(port)] >= 0:
            return False
        row += 1
        port = np.int64(fabric.path_port[np.uint64(row)])
    return True


@step_kernel
def waits_behind(fabric: Fabric, nic: Nic, record, pair, now_ps):
    """Whether a message that is posted on a queue pair (its record) has to wait until some of those before it are over,
    all of which are at flow level: then a look takes it there, too."""
    lane = nic.lanes[np.uint64(pair)]
    if lane.is_shared == 0 or lane.is_open != 0 or lane.n_withdrawn < MOST_MESSAGES or now_ps >= lane.free_ps:
        return False
    holder = np.int64(nic.lane_of_port[np.uint64(fabric.path_port[np.uint64(nic.facts[np.uint64(pair)].data_path)])])
    return record.acked_byte >= lane.from_byte and (holder == SHARED or lane.n_unseen > 0)


@step_kernel
def send_at_share(fabric: Fabric, nic: Nic, record, pair, size_bytes, flow_id, now_ps):
    """Send the message that was just posted on a queue pair by its markers, whose times are not known yet."""
    lane = nic.lanes[np.uint64(pair)]
    lane.free_ps = now_ps + FAR_PS
    if lane.n_withdrawn == 0:
        put_in_set(nic.withdrawn, 0, nic.queue_pairs.size, pair)
        lane.from_byte = record.posted_end - size_bytes
    if lane.n_unseen == 0:
        put_in_set(nic.unseen, 0, nic.queue_pairs.size, pair)
    lane.n_withdrawn += 1
    lane.n_unseen += 1
    fabric.counters[N_UNSEEN] += 1
    lane.spared_ps += FAR_PS
    count_packets(fabric.constants, lane, size_bytes, 1)
    record.sent_bytes += size_bytes
    record.next_byte = record.high_byte = record.posted_end
    record.sending_message = -1
    facts = nic.facts[np.uint64(pair)]
    data, acks = last_row(fabric, np.int64(facts.data_path)), last_row(fabric, np.int64(facts.ack_path))
    far_ps = now_ps + FAR_PS
    message = Withdrawn(flow_id, np.int64(record.posted_end), size_bytes, np.int64(0), now_ps, far_ps)
    send_marker(fabric, pair, 0, data, message, far_ps)
    send_marker(fabric, pair, FLAG_ACK, acks, message, far_ps)


@step_kernel
def forget_unseen(fabric: Fabric, nic: Nic, lane, pair):
    """What a queue pair (its lane) has posted at flow level goes packet by packet after all."""
    if lane.n_unseen > 0:
        fabric.counters[N_UNSEEN] -= lane.n_unseen
        lane.n_unseen = 0
        drop_from_set(nic.unseen, 0, nic.queue_pairs.size, pair)
