"""State of the window engine: experiments x nodes as one flat network, of which no two threads write the same row.

A window has three steps with a barrier behind each. Every node whose next event lies before its bound runs its events
up to there (`switches`, `hosts`). Every node looks at what its neighbours have put on the links into it (`step`): it
pulls, as egress ports do in Multiverse (Gui et al., NSDI'25, section 4.2). The least next event of an experiment is the
beginning of its next window. A node's bound is that plus the least time in which anything reaches it.

Deviation: the unit of work is a node, not a port, and a link is a ring of packets that its sender appends to and its
receiver takes from, in place of a plan of writes; how far either has come counts for the other from the next window on.

Records of ports, nodes, NICs and queue pairs are those of the other engine (`models.network.state`), and so are the
steps that choose, pace, mark, stamp and time. Several experiments are one network of separate parts (ExpID is
`SPOT.experiment`), each with its own clock, constants and seed; indices count through, except that a port's random
draws and path ids go by its number within the experiment.

Not here: anything that is lost, paused or shared between ports; `refusals` says what is refused.
"""

from typing import NamedTuple

import numpy as np

from pdes.engine.jit import record

# A link, by its port: packets first .. first + mask of `packets`, used as a ring.
WIRE = record(
    [
        ("first", np.int64),
        ("mask", np.int64),  # places less one; places are a power of two
        ("head", np.int64),  # packets taken so far: the receiver's
        ("tail", np.int64),  # packets put there so far: the sender's
        ("seen_head", np.int64),  # as of the window's beginning: what the sender goes by
        ("seen_tail", np.int64),  # and the receiver
        ("n_wanted", np.int64),  # places of a longer ring that it needs; the sender has stopped for want of room
        ("spare", np.int64),
    ]
)
# What a node has beyond NODE.
SPOT = record(
    [
        ("next_ps", np.int64),  # its next event
        ("own_ps", np.int64),  # the same without what is on the links into it
        ("wake_ps", np.int64),  # when its flows' list goes on
        ("n_hop", np.int64),
        ("n_event", np.int64),
        ("last_ps", np.int64),  # of its last event, hosts only
        ("first_key", np.int64),  # its winner tree over in-links in `keys`
        ("n_leaf", np.int32),
        ("experiment", np.int32),
        ("free", np.int32),  # its own places for packets that wait, chain of PACKET.next
        ("n_place", np.int32),
        ("next_flow", np.int32),  # of FLOW: its own up to end_flow - 1 are ahead
        ("end_flow", np.int32),
        ("has_begun", np.int32),  # the next flow is waited for
        ("n_wanted", np.int32),  # more places that it needs, as it has stopped for want of one
    ]
)
# A flow, which is a message: in the order of the hosts' lists.
FLOW = record(
    [
        ("time_ps", np.int64),
        ("size_bytes", np.int64),
        ("flow_id", np.int64),
        ("end_byte", np.int64),  # in the queue pair's stream, once it is posted
        ("posted_ps", np.int64),
        ("delivered_ps", np.int64),
        ("finish_ps", np.int64),
        ("queue_pair", np.int32),
        ("next", np.int32),  # of the queue pair's
        ("n_marked", np.int32),
        ("tag", np.int32),
    ]
)
EXPERIMENT = record(
    [
        ("begin_ps", np.int64),  # of the window, NEVER: it is over
        ("first_port", np.int64),
        ("first_chunk", np.int64),
        ("end_chunk", np.int64),
    ]
)
ROOM = record(  # places of `packets` for a link, in place of those that it has, or for a node, besides
    [("first", np.int64), ("n_place", np.int64), ("owner", np.int64), ("is_node", np.int64)]
)
CHUNK = record([("first_node", np.int64), ("end_node", np.int64), ("least_ps", np.int64)])

GROWTH = 4  # places where there were too few, over those

STOPPED, OVERFLOWN, N_USED = range(3)  # what `status` holds: 1: a node has stopped for want of room; 1: a queue passed
# what there may be; packets of `packets` that belong to links and nodes
HAS_ON_ACK, HAS_ON_CNP, HAS_ON_TIMER = range(3)  # places of `handlers`


class Windows(NamedTuple):
    """All of it, for one set of kernels. Rows are of all experiments, one after the other."""

    goes_by_value = True  # see `pdes.engine.compiling.tables`

    ports: np.ndarray  # records.PORT[]
    port_info: np.ndarray  # records.PORT_INFO[]
    wires: np.ndarray  # WIRE[n_port]
    nodes: np.ndarray  # records.NODE[]; safe_ps: of all links
    spots: np.ndarray  # SPOT[n_node]
    packets: np.ndarray  # records.PACKET[]  on links and in nodes' places
    label: np.ndarray  # int64[n_packet]  FLOW row, in packets that end a message
    extra: np.ndarray  # int64[n_packet, n_extra]
    path_port: np.ndarray  # int32[]
    keys: np.ndarray  # int64[]  scratch, see SPOT.first_key
    nic_ports: np.ndarray  # records.NIC_PORT[n_port]
    ready: np.ndarray  # int64[]
    out_port: np.ndarray  # int32[]
    queue_pairs: np.ndarray  # QUEUE_PAIR[]
    receivers: np.ndarray  # RECEIVER[]
    receiver_row: np.ndarray  # int32[n_qp]
    flows: np.ndarray  # FLOW[]
    control: np.ndarray  # int64[n_qp, n_word]  the law's records as words
    controlled: np.ndarray  # the same memory as records of the law
    parameters: np.ndarray  # the law's
    event_words: np.ndarray  # int64[n_node, N_EVENT_WORD]
    events: np.ndarray  # EVENT[n_node]  the same memory
    handlers: np.ndarray  # int64[3]  which the law has
    timers: np.ndarray  # int64[]
    timer_pair: np.ndarray  # int32[]
    constants: np.ndarray  # int64[n_experiment, N_CONSTANT]
    experiments: np.ndarray  # EXPERIMENT[]
    chunks: np.ndarray  # CHUNK[]
    status: np.ndarray  # int64[3]  see STOPPED
