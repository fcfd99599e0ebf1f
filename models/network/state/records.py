"""State of the packet network on one rank: records, arrays, their allocation, and what may be asked of them.

Every table is indexed by a global id (node, port, queue pair), on every rank; a rank only touches the rows of its own
nodes. Rows of queue pairs' ends that are elsewhere (`pair_facts`), and of ports without an end here, are zeros, which
take no memory; where something may be skipped every rank has those of all ports. Packets and messages live in pools
with free lists. Not here: queue pairs (`pair_records`), what managed switches have beyond (`switch_state`), what the
kernels do with it (`port`, `nic`, `switch`, `host`), and how it is filled from a topology (`build`).
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
        ("is_ns3", np.int32),  # 1: times as ns-3 truncates them
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
        ("first_timer", np.int64),  # a host's min-tree in Nic.timers
        ("n_timer", np.int32),  # its leaves, 0: no timers
        ("is_lossy", np.int32),  # 1: packets can be lost on a link into it
        ("next_change", np.int32),  # its links' changes that are ahead: changes[next_change .. end_change - 1]
        ("end_change", np.int32),
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
        ("paused", np.int64),  # bit q: the switch has paused queue q
        ("paused_since_ps", np.int64),
        ("paused_ps", np.int64),
    ]
)
NS3_PORT = record(  # a host's port in ns-3 mode: see ns3_nic
    [
        ("poke_ps", np.int64),  # something changed: look at once
        ("complete_ps", np.int64),  # the transmission ends, NEVER: idle
        ("timer_ps", np.int64),  # wake-up for a pacing time
        ("n_listed", np.int64),
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
        ("queue", np.uint8),  # of the ports on its way; of a PFC frame: the queue that it is about
    ]
)
# marked: CE on data, its echo on an ACK; last: ends a message; frame: PFC, pause if `sequence` is 1, resume if 0
# marker: stands for what ends a message that was not sent packet by packet (`markers`)
FLAG_ACK, FLAG_MARKED, FLAG_LAST, FLAG_NACK, FLAG_CNP, FLAG_FRAME, FLAG_MARKER = 1, 2, 4, 8, 16, 32, 64

# What a packet carries beyond, one row of int64 in Fabric.extra: as many columns as the run needs.
EXTRA_SENT_PS = 0  # when the NIC started it
EXTRA_N_HOP = 1  # INT: path id << PATH_ID_SHIFT | hops stamped so far; PINT: the code of the largest utilisation
PATH_ID_SHIFT, N_HOP_MASK = 8, 255
EXTRA_HOPS = 2  # INT: per hop its time, the bytes its port had sent, the bytes that waited, the port's rate
WORDS_PER_HOP = 4


# A queue pair at flow level, see `models.network.host.fluid`.
FLUID = record(
    [
        ("n_withdrawn", np.int32),  # messages under way that are not sent packet by packet
        ("n_unseen", np.int32),  # posted at flow level, or with a shadow there, and seen by no tick
        ("from_byte", np.int64),  # of the stream, where what is under way as markers begins
        ("free_ps", np.int64),  # when what follows those under way may leave (`free_to_follow`)
        ("slack_ps", np.int64),  # so much later the smallest packet overtakes none of them: it crosses switches faster
        ("behind_ps", np.int64),  # from a full packet's last byte leaving the NIC to its arrival
        ("clear_end", np.int64),  # end of the last message that found nothing of the queue pair's waiting before it
        ("packets", np.int64),  # that were not simulated
        ("short_bytes", np.int64),  # that these lack to be full ones
        ("spared_ps", np.int64),  # time that its messages took
        ("least_bytes", np.int64),  # no smaller message goes at flow level
        ("most_bytes", np.int64),  # nor a larger one; 0: none does
        ("shadow_end", np.int64),  # of the last message that has a shadow there, 0: none has
        ("n_shadow", np.int32),  # messages that have, as of the last tick and posted since
        ("is_audited", np.int32),  # 1: what could go there is simulated, and has a shadow (`pdes.skipping.fluid.audit`)
    ]
)
# What a marker carries in Fabric.extra, from constants[MARKER_COLUMN] on.
MARKER_DELIVERED_PS, MARKER_SIZE, MARKER_BEGIN_PS, N_MARKER_WORD = range(4)


# How a message that is posted goes in flow mode, column 2 of Nic.posted; and that one is over that went as packets.
AS_RATE, AS_PACKETS, OVER = range(3)
N_POSTED_COLUMN = 4
# Bits of Nic.goes: a queue pair's messages go as packets; and the next one is to, once none is under way.
GOES_AS_PACKETS, WANTS_PACKETS = 1, 2


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
    N_SPENT_ROW,
    N_DEPARTED,
    FAULT,
    FAULT_NODE,
    LAST_EVENT_PS,  # time of the last event at a host; every run ends with one
    N_TIMEOUT,
    FREE_RANGE,
    N_FREE_RANGE,
    N_RTT_ROW,
    N_FROZEN_PORT,  # fast-forwarding: ports that are frozen
    N_INTERRUPT,  # queue pairs that have met frozen ports in this round
    N_POSTED,  # messages
    N_STOPPED,  # nodes set aside until the round ends
    N_CROWDED,  # switches that stopped because a packet came in which frozen ports have a say, see `room`
    N_FLUID,  # 1: messages may go at flow level
    N_UNSEEN,  # messages there, or with shadows there, that no tick has seen; in flow mode rows of Nic.posted
    MAY_OVERTAKE,  # 1: what is put on a link may arrive before the last one there, as markers are about, or thaws
) = range(26)
N_COUNTER = 26

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
    N_EXTRA,  # columns of Fabric.extra
    TELEMETRY,  # TELEMETRY_*
    IS_NS3,  # 1: ns-3's packets, times and NIC (models.network.host.ns3_nic)
    INT_MULTI,
    WINDOW_MODE,  # parameters.WINDOW_*; WINDOW_BY_LAW
    TIMEOUT_PS,  # 0: nothing is ever lost
    MAX_TIMEOUT_PS,
    NACK_INTERVAL_PS,
    ACK_EVERY,
    CNP_INTERVAL_PS,
    N_QUEUE,
    SCHEDULER,
    RESERVE_BYTES,
    RESUME_OFFSET_BYTES,
    FRAME_BYTES,
    HAS_PFC,
    HAS_BUFFER,
    NS3_CHUNK_BYTES,
    NS3_ACK_INTERVAL_BYTES,
    NS3_BACK_TO_ZERO,
    NS3_ACK_QUEUE_MASK,  # queues that stop a host's ACKs while they are paused
    NS3_IGNORES_PFC,
    NS3_RATE_BOUND,
    PINT_RTT_PS,
    IS_LOSSY,  # 1: packets may be lost or come out of order
    IS_SELECTIVE,  # 1: selective repeat
    REORDER_BYTES,
    N_PART,  # queue pairs that share each message
    SACK_COLUMN,  # of Fabric.extra: first byte and end of the range that an acknowledgement names
    RTT_FLOW,  # whose round-trip times become rows, -1: nobody's
    TELLS_RTT,  # 1: the congestion control is told round-trip times
    MARKER_COLUMN,  # of Fabric.extra, see MARKER_*; -1: nothing goes at flow level
    N_INT_WORD,  # columns of Fabric.extra that INT has, the first ones; 0: there is no INT
    IS_FLOW_MODE,  # 1: there are no packets, see `models.network.flow_mode`; IS_HYBRID: some messages go as packets
    CALM_1024,  # hybrid: 1024ths of its line rate and largest window that a control has which has met nobody lately
    FIRST_PORT,  # of the experiment that is run, see `models.network.experiments`: what is drawn is drawn by numbers
    FIRST_TASK,  # that count from there
    MAY_FOLLOW,  # 1: packets in flight come before what is posted behind them, so that it may go at flow level
) = range(47)
N_CONSTANT = 48
TELEMETRY_NONE, TELEMETRY_INT, TELEMETRY_PINT = range(3)
IS_HYBRID = 2
WINDOW_BY_LAW = 2

# What `law`, int64[N_LAW], holds: addresses, valid in this process only, and sizes.
(
    LAW_FLOWS,
    LAW_FLOW_BYTES,
    LAW_EVENT,
    LAW_PARAMETERS,
    LAW_PARAMETER_BYTES,
    LAW_SCRATCH,
    LAW_ON_ACK,
    LAW_ON_CNP,
    LAW_ON_TIMER,
    LAW_ON_TIMEOUT,
) = range(10)
N_LAW = 16

# Columns of the row buffers.
FLOW_COLUMNS = (
    "flow_id", "queue_pair", "size_bytes", "start_ps", "finish_ps", "ecn_marks", "tag", "retransmitted_bytes",
)  # fmt: skip
ARRIVAL_COLUMNS = ("flow_id", "delivered_ps")
TASK_COLUMNS = ("task_id", "gpu", "iteration", "kind", "stream", "start_ps", "end_ps", "bytes")
SPENT_COLUMNS = ("row_id", "gpu", "iteration", "end_ps")  # and a column for each of program.PARTS
RTT_COLUMNS = ("sequence", "sent_ps", "rtt_ps")
N_ROW = 2**15


class Fabric(NamedTuple):
    """Ports, packets and routes. Written by `models.network` kernels."""

    ports: np.ndarray  # PORT[n_port], sorted by (receiving node, sending node)
    port_info: np.ndarray  # PORT_INFO[n_port]
    nodes: np.ndarray  # NODE[n_node]
    packets: np.ndarray  # PACKET[n_packet]
    packet_words: np.ndarray  # int64[n_packet, 4]  the same memory, for moving packets between ranks
    label: np.ndarray  # int64[n_packet]  flow id, in packets that end a message
    extra: np.ndarray  # int64[n_packet, n_extra]  see EXTRA_*
    pint: np.ndarray  # float64[1]  base of the logarithm in which utilisations are carried
    dropped: np.ndarray  # int64[n_qp, 2]  payload bytes and ACKs of each queue pair that were dropped or lost
    port_back: np.ndarray  # int32[n_port]  the port of the same link in the other direction
    path_port: np.ndarray  # int32[]  ports of every path in order, each path closed by -1
    mask: np.ndarray  # int64[]  see NODE.first_mask
    node_time: np.ndarray  # int64[2 * size]  min-tree of next event times
    departed: np.ndarray  # int32[n_port]  ports to other ranks that carry packets since the round began
    found: np.ndarray  # int64[3, n_node]  scratch: nodes to run; switches, hosts among them
    link_slots: np.ndarray  # LINK_SLOT[max in-degree]  scratch of the switch kernel, see `link_order`
    link_keys: np.ndarray  # int64[4 * max in-degree]  scratch: winner tree over in-links
    lp_of_node: np.ndarray  # int32[n_node]
    stop_ps: np.ndarray  # int64[n_lp]  runs no further in this round, see `interrupts`; NEVER: to its end
    stopped_node: np.ndarray  # int32[n_node]  nodes set aside in this round
    stopped_ps: np.ndarray  # int64[n_node]  their next events, else NEVER
    n_step: np.ndarray  # int64[n_node]  what each has done here: events, packets sent, visits; no result depends on it
    counters: np.ndarray
    constants: np.ndarray


class Nic(NamedTuple):
    """Queue pairs and messages. Queue pairs are sorted by sending port; n_qp rows unless it says otherwise."""

    queue_pairs: np.ndarray  # QUEUE_PAIR[n_qp]  rows of senders that are here, else zeros
    receivers: np.ndarray  # RECEIVER[n_qp]  sorted by receiving port: rows of receivers that are here, else zeros
    receiver_row: np.ndarray  # int32[n_qp]  each queue pair's row there
    facts: np.ndarray  # PAIR_FACTS[n_qp]  of all, wherever their ends are
    sends: np.ndarray  # int32[]  queue pairs whose senders are here, ascending
    receives: np.ndarray  # int32[]  rows of `receivers` that are here, ascending
    nic_ports: np.ndarray  # NIC_PORT[n_port]  of hosts that are here, else zeros
    ready: np.ndarray  # int64[]  sets (bits.py) of queue pairs with bytes to send and room in their windows
    out_port: np.ndarray  # int32[]  see NODE.first_out
    messages: np.ndarray  # MESSAGE[n_message]
    # int64[2 * n_message, N_POSTED_COLUMN]  flow mode, in this round. What was posted: queue pair, place, AS_*; what is
    # over: queue pair, byte of its stream up to which all is acknowledged, OVER, when
    posted: np.ndarray
    goes: np.ndarray  # uint8[n_qp]  hybrid: GOES_*, WANTS_*
    control: np.ndarray  # int64[n_qp, n_word]  the congestion control's FLOW records as words
    event: np.ndarray  # int64[]  the EVENT record as words: what a handler is told
    law: np.ndarray  # int64[N_LAW]  its handlers, see LAW_*
    ranges: np.ndarray  # RANGE[]  pool
    parts: np.ndarray  # int32[n_qp, n_part]  queue pairs that share the messages of the first one; not used if alone
    timers: np.ndarray  # int64[]  min-trees of hosts' timers, see NODE.first_timer
    timer_pair: np.ndarray  # int32[]  queue pair of a leaf, at the tree's first place + leaf
    ns3_ports: np.ndarray  # NS3_PORT[n_port], or of one row without ns-3 mode
    ns3_listed: np.ndarray  # int32[n_qp]  ns-3's list of queue pairs of each port, from NIC_PORT.first_pair on
    acked_ps: np.ndarray  # int64[n_qp]  when something new was acknowledged last
    delivered_ps: np.ndarray  # int64[n_qp]  by row of `receivers`: when its last message came across
    ended: np.ndarray  # int64[n_qp, 3]  its last message that was acknowledged: its end byte, when, marked packets
    withdrawn: np.ndarray  # int64[]  set of queue pairs with messages at flow level
    unseen: np.ndarray  # int64[]  set of queue pairs with messages there, or shadows, that no tick has seen
    active: np.ndarray  # int64[]  set (bits.py) of queue pairs that a look visits, see `visits`
    frozen: np.ndarray  # int64[]  set of those that are frozen, on any rank
    is_frozen: np.ndarray  # uint8[n_qp]  the same, 1: its network partition is (models.network.skip.suspend.freeze)
    frozen_port: np.ndarray  # uint8[n_port]  1: its network partition is frozen, on any rank; 2: watched
    interrupted: np.ndarray  # int32[n_qp]  queue pairs that have met frozen ports in this round
    interrupt_ps: np.ndarray  # int64[n_qp]  and when first, else NEVER; of senders that are here
    fluid: np.ndarray  # FLUID[n_qp], or of one row where nothing goes at flow level
    fluid_port: np.ndarray  # int32[n_port]  SHARED: flows at flow level have it, on any rank; NOBODY


class Rows(NamedTuple):
    """Finished rows on their way to the result tables; Python empties them."""

    flow: np.ndarray  # int64[N_ROW, 8]
    arrival: np.ndarray  # int64[N_ROW, 2]
    task: np.ndarray  # int64[N_ROW, 8]
    spent: np.ndarray  # int64[N_ROW, n]  see SPENT_COLUMNS
    rtt: np.ndarray  # int64[n, 3]  n as many as are kept, 0 without RTT_FLOW
