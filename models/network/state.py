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
        ("ps_per_byte", np.int32),  # 0 if not a whole number: then see wire_time_ps
        ("ecn_min_bytes", np.int32),  # nothing is marked at or below
    ]
)

# What a port needs less often.
PORT_INFO = record(
    [
        ("rate_bps", np.int64),
        ("busy_ps", np.int64),  # kept only where ps_per_byte is 0
        ("ecn_marks", np.int64),
        ("ecn_draws", np.int64),
        ("ecn_max_bytes", np.int64),
        ("ecn_max_probability", np.float64),
        ("receiver", np.int32),  # node at the other end
        ("is_here", np.int32),  # 1 if that node is on this rank
        ("wait_next", np.int32),  # chain of ports of a switch with packets waiting; NOT_CHAINED: not in it
        ("spare", np.int32),
    ]
)
NOT_CHAINED = -2

NODE = record(
    [
        ("first_in", np.int64),  # its in-links are the ports first_in .. end_in - 1
        ("end_in", np.int64),
        ("first_mask", np.int64),  # its words of `mask`: bit i says that in-link i carries packets
        ("safe_ps", np.int64),  # least delay of a used link into it from its own LP, else NEVER
        ("wake_ps", np.int64),  # least wake_ps of its streams
        ("wait_head", np.int32),  # first port with packets waiting
        ("first_out", np.int32),  # a host's NIC ports are out_port[first_out .. end_out - 1]
        ("end_out", np.int32),
        ("first_stream", np.int32),
        ("end_stream", np.int32),
        ("is_switch", np.int32),
    ]
)

# A host's port: its queue pairs are first_pair .. first_pair + n_pair - 1.
NIC_PORT = record(
    [
        ("next_start_ps", np.int64),  # when it next starts a packet, NEVER if nothing waits
        ("first_pair", np.int64),
        ("n_pair", np.int64),
        ("first_ready", np.int64),  # where its set in `ready` begins
        ("last_served", np.int64),  # round robin: local index of the queue pair served last
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
        ("bits", np.uint8),
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
    port_info: np.ndarray  # PORT_INFO[n_port]
    nodes: np.ndarray  # NODE[n_node]
    packets: np.ndarray  # PACKET[n_packet]
    packet_words: np.ndarray  # int64[n_packet, 4]  the same memory, for moving packets between ranks
    label: np.ndarray  # int64[n_packet]  flow id, in packets that end a message
    path_port: np.ndarray  # int32[]  ports of every path in order, each path closed by -1
    mask: np.ndarray  # int64[]  see NODE.first_mask
    node_time: np.ndarray  # int64[2 * size]  min-tree of next event times
    departed: np.ndarray  # int32[n_port]  ports to other ranks that carry packets since the round began
    found: np.ndarray  # int64[3, n_node]  scratch: nodes to run; switches, hosts among them
    link_slot: np.ndarray  # int64[max in-degree]  scratch of the switch kernel
    link_key: np.ndarray  # int64[4 * max in-degree]  scratch: winner tree over in-links
    counters: np.ndarray
    constants: np.ndarray


class Nic(NamedTuple):
    """Queue pairs and messages. Queue pairs are sorted by sending port."""

    queue_pairs: np.ndarray  # QUEUE_PAIR[n_qp]
    nic_ports: np.ndarray  # NIC_PORT[n_port]
    ready: np.ndarray  # int64[]  sets (bits.py) of queue pairs with bytes to send and room in their windows
    out_port: np.ndarray  # int32[]  see NODE.first_out
    messages: np.ndarray  # MESSAGE[n_message]
    control: np.ndarray  # congestion control's own record per queue pair
    control_constants: np.ndarray  # float64[]


class Rows(NamedTuple):
    """Finished rows on their way to the result tables; Python empties them."""

    flow: np.ndarray  # int64[N_ROW, 7]
    arrival: np.ndarray  # int64[N_ROW, 2]
    task: np.ndarray  # int64[N_ROW, 8]
