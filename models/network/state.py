"""State of the packet network on one rank: records, arrays, their allocation, and what may be asked of them.

Every table is indexed by a global id (node, port, queue pair), on every rank; a rank only touches the rows of its own
nodes. Packets and messages live in pools with free lists. Not here: what the kernels do with it (`port`, `nic`,
`switch`, `host`), and how it is filled from a topology (`build`).
"""

from typing import NamedTuple

import numpy as np

from pdes.engine.jit import record

# One port = one cache line. Chains of packets are linked through Packet.next; -1 is the end.
PORT = record(
    [
        ("link_head", np.int32),  # packets on the wire, in order of arrival: owned by the receiving node
        ("link_tail", np.int32),
        ("ack_head", np.int32),  # waiting, strict priority
        ("ack_tail", np.int32),
        ("data_head", np.int32),  # waiting (switches; a NIC makes its data packets when they leave)
        ("data_tail", np.int32),
        ("free_at_ps", np.int64),  # when the transmitter next falls idle; never decreases
        ("tx_bytes", np.int64),
        ("delay_ps", np.int64),
        ("queued_bytes", np.int32),  # data waiting, without the packet in transmission
        ("max_queued_bytes", np.int32),
        ("ps_per_byte", np.int32),  # 0 if not a whole number: then see tx_time_ps
        ("ecn_min_bytes", np.int32),  # nothing is marked at or below
    ]
)
MAX_QUEUE_BYTES = 2**31 - 2**17  # a queue beyond this stops the run

PACKET = record(
    [
        ("arrival_ps", np.int64),  # at the far end of the link; meaningful on a wire only
        ("sequence", np.int64),  # data: offset of the first byte in the queue pair's stream; ACK: next byte expected
        ("queue_pair", np.int32),
        ("next", np.int32),
        ("path", np.int32),  # row of path_port with the next port to take
        ("size_bytes", np.uint16),  # on the wire
        ("flags", np.uint8),
        ("spare", np.uint8),
    ]
)
FLAG_ACK, FLAG_MARKED, FLAG_LAST = 1, 2, 4  # marked: CE on data, its echo on an ACK; last: ends a message

QUEUE_PAIR = record(
    [
        ("next_byte", np.int64),  # sender: first byte not sent yet
        ("acked_byte", np.int64),  # sender: first byte not acknowledged
        ("message_end", np.int64),  # sender: end of the message being sent
        ("posted_end", np.int64),  # sender: end of the last message posted
        ("next_send_ps", np.int64),  # pacing: no data packet earlier
        ("rate_bps", np.int64),
        ("window_bytes", np.int64),  # current window
        ("expected_byte", np.int64),  # receiver
        ("max_window_bytes", np.int64),
        ("line_rate_bps", np.int64),
        ("first_message", np.int32),  # oldest message that is not fully acknowledged
        ("sending_message", np.int32),
        ("last_message", np.int32),
        ("n_marked", np.int32),  # marked packets of the oldest message
        ("port", np.int32),  # the sender's port
        ("data_path", np.int32),  # first row of path_port
        ("ack_path", np.int32),
        ("waiting_stream", np.int32),  # receiver: stream that consumes its messages, -1 if none
        ("n_arrived", np.int32),  # receiver: messages that arrived and were not consumed
        ("spare", np.int32),
    ]
)

MESSAGE = record(
    [
        ("end_byte", np.int64),
        ("size_bytes", np.int64),
        ("flow_id", np.int64),
        ("posted_ps", np.int64),
        ("next", np.int32),
        ("tag", np.int32),
    ]
)

# Scalars that change, in `counters` (int64[N_COUNTER]).
(
    PACKET_HOPS,
    EVENTS,
    FREE_PACKET,
    N_FREE_PACKET,
    FREE_MESSAGE,
    N_FREE_MESSAGE,
    N_FLOW_ROW,
    N_ARRIVAL_ROW,
    N_TASK_ROW,
    N_DEPARTED,
    FAULT,
    FAULT_NODE,
    LAST_EVENT_PS,  # time of the last event at a host; every run ends with one
) = range(13)
N_COUNTER = 16

# Scalars that do not, in `constants` (int64[N_CONSTANT]).
(
    PAYLOAD_BYTES,
    HEADER_BYTES,
    ACK_BYTES,
    SEED,
    SLOT_PS,
    LINK_BITS,
    NEED_PACKETS,
    NEED_MESSAGES,
    NEED_ROWS,
) = range(9)
N_CONSTANT = 16

# Columns of the row buffers.
FLOW_COLUMNS = ("flow_id", "queue_pair", "size_bytes", "start_ps", "finish_ps", "ecn_marks", "tag")
ARRIVAL_COLUMNS = ("flow_id", "delivered_ps")
TASK_COLUMNS = ("task_id", "gpu", "iteration", "kind", "stream", "start_ps", "end_ps", "bytes")
N_ROW = 2**15


class Fabric(NamedTuple):
    """Ports, packets and routes. Written by `models.network` kernels."""

    ports: np.ndarray  # PORT[n_port], sorted by (receiving node, sending node)
    packets: np.ndarray  # PACKET[n_packet]
    stamp_ps: np.ndarray  # int64[n_packet]  when the NIC sent the data packet; an ACK echoes it
    label: np.ndarray  # int64[n_packet]  flow id, in packets that end a message
    path_port: np.ndarray  # int32[]  ports of every path in order, each path closed by -1
    port_dst: np.ndarray  # int32[n_port]
    port_here: np.ndarray  # uint8[n_port]  1 if the receiving node is on this rank
    rate_bps: np.ndarray  # int64[n_port]
    busy_ps: np.ndarray  # int64[n_port]  kept only where ps_per_byte is 0
    ecn_marks: np.ndarray  # int64[n_port]
    ecn_draws: np.ndarray  # int64[n_port]
    ecn_max_bytes: np.ndarray  # int64[n_port]
    ecn_max_probability: np.ndarray  # float64[n_port]
    in_start: np.ndarray  # int64[n_node + 1]  in-links of node v are ports in_start[v] .. in_start[v + 1] - 1
    mask_start: np.ndarray  # int64[n_node + 1]  words of `mask` of node v
    mask: np.ndarray  # int64[]  bit i of node v: its in-link i carries packets
    wait_head: np.ndarray  # int32[n_node]  chain of ports of a switch with packets waiting
    wait_next: np.ndarray  # int32[n_port]  -2: not in the chain
    node_time: np.ndarray  # int64[2 * size]  min-tree of next event times
    safe_ps: np.ndarray  # int64[n_node]  least delay of a used link into this node from its own LP, else NEVER
    departed: np.ndarray  # int32[n_port]  ports to other ranks that carry packets since the round began
    is_switch: np.ndarray  # uint8[n_node]
    found: np.ndarray  # int64[3, n_node]  scratch: nodes to run; switches, hosts among them
    link_slot: np.ndarray  # int64[max in-degree]  scratch of the switch kernel
    link_key: np.ndarray  # int64[4 * max in-degree]  scratch: winner tree over in-links
    counters: np.ndarray
    constants: np.ndarray


class Nic(NamedTuple):
    """Queue pairs and messages. Queue pairs are sorted by sending port: those of port p are qp_first[p] ..."""

    queue_pairs: np.ndarray  # QUEUE_PAIR[n_qp]
    control: np.ndarray  # congestion control's own record per queue pair
    control_constants: np.ndarray  # float64[]
    messages: np.ndarray  # MESSAGE[n_message]
    ready_first: np.ndarray  # int64[n_port]  first word in `ready` of a NIC port
    qp_first: np.ndarray  # int64[n_port]
    qp_count: np.ndarray  # int64[n_port]
    ready: np.ndarray  # int64[]  bit: the queue pair has bytes to send and room in its window
    last_served: np.ndarray  # int64[n_port]  round robin: local index of the queue pair served last
    next_start_ps: np.ndarray  # int64[n_port]  when the NIC port next starts a packet, NEVER if nothing waits
    out_start: np.ndarray  # int64[n_node + 1]
    out_port: np.ndarray  # int32[]  NIC ports of a host


class Rows(NamedTuple):
    """Finished rows on their way to the result tables; Python empties them."""

    flow: np.ndarray  # int64[N_ROW, 7]
    arrival: np.ndarray  # int64[N_ROW, 2]
    task: np.ndarray  # int64[N_ROW, 8]
