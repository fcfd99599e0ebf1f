"""State of managed switches: queues, shared buffers, PFC, links that change, tables by which routes are chosen.

Every table is indexed by a global id, as in `state`, which has what all switches have. Not here: what the kernels do
with it (`managed_switch`, `shared_buffer`, `pfc`, `forwarding`, `link_changes`), and how it is filled (`build_buffers`,
`build_routing`).
"""

from typing import NamedTuple

import numpy as np

from pdes.engine.jit import record

# A port of a managed switch: the same bytes, with queues of its own (QUEUE) instead of the two chains.
MANAGED_PORT = record(
    [
        ("link_head", np.int32),
        ("link_tail", np.int32),
        ("frame_head", np.int32),  # PFC frames that wait, before everything else
        ("frame_tail", np.int32),
        ("waiting", np.int32),  # bit q: packets wait in queue q
        ("paused", np.int32),  # bit q: the receiver has paused queue q
        ("free_at_ps", np.int64),  # from here on as in state.PORT
        ("tx_bytes", np.int64),
        ("delay_ps", np.int64),
        ("queued_bytes", np.int32),
        ("max_queued_bytes", np.int32),
        ("ps_per_byte", np.int32),
        ("ecn_min_bytes", np.int32),
    ]
)

# A port's egress side beyond MANAGED_PORT:
EGRESS = record(
    [
        ("turn", np.int64),  # the data queue served last
        ("paused_since_ps", np.int64),  # of any queue
        ("paused_ps", np.int64),  # total time with any queue paused
        ("n_pause", np.int64),  # pause frames received
        ("earlier_max_bytes", np.int64),  # longest queue before MANAGED_PORT.max_queued_bytes began anew, see `room`
    ]
)
QUEUE = record([("head", np.int32), ("tail", np.int32), ("queued_bytes", np.int32), ("deficit_bytes", np.int32)])

# A port as its receiving switch sees it: an ingress port.
INLET = record(
    [
        ("headroom_bytes", np.int64),  # per queue
        ("alpha_1024", np.int32),
        ("peer", np.int32),  # the port back
        ("loss_probability", np.float64),
        ("n_loss_draw", np.int64),
        ("n_route_draw", np.int64),  # ways drawn for packets that came in here
        ("up_since_ps", np.int64),  # NEVER: the link is down
    ]
)
INGRESS = record(  # per ingress port and queue: what the switch holds of it
    [
        ("held_bytes", np.int64),  # in the reserve and the shared pool
        ("headroom_bytes", np.int32),  # in the headroom
        ("is_pausing", np.int32),  # 1: the sender has been told to pause
    ]
)
SWITCH = record(
    [
        ("pool_bytes", np.int64),  # buffer without reserves and headrooms; 2**62: unlimited
        ("shared_bytes", np.int64),  # in use of it
        ("n_pausing", np.int64),  # ingress queues that pause their senders
        # what is frozen here (`room`):
        ("frozen_bytes", np.int64),  # what it may yet take of the pool: part of shared_bytes
        ("limit_bytes", np.int64),  # shared_bytes beyond would make a difference to it, at most pool_bytes
        ("n_wet", np.int64),  # frozen network partitions that use the pool
        ("interrupt_ps", np.int64),  # when a packet came that they have a say in, else NEVER
    ]
)
DROP_BUFFER, DROP_LOSS, DROP_LINK = range(3)  # columns of Buffers.drops

# A link that changes: rows of one node, in order of time.
LINK_CHANGE = record(
    [
        ("time_ps", np.int64),
        ("rate_bps", np.int64),
        ("loss_probability", np.float64),
        ("port", np.int32),
        ("is_up", np.int32),
        ("is_sender", np.int64),  # 1: of the node that sends on the port; 0: of the one at its other end
    ]
)

# How a packet without a fixed path finds its next port: `forwarding`.
ROUTE = record(
    [
        ("dst", np.int64),
        ("header_0", np.int64),  # what ECMP hashes: addresses and ports
        ("header_1", np.int64),
        ("header_2", np.int64),
        ("policy", np.int64),  # parameters.ECMP ..
    ]
)
FIRST_ROUTE = -2  # path_port holds FIRST_ROUTE - i instead of a port where packets take route i from here on

# What `settings`, int64[N_ROUTING_SETTING], holds.
ECMP_SEED, FLOWLET_GAP_PS = range(2)
N_ROUTING_SETTING = 4


class Buffers(NamedTuple):
    """What managed switches have beyond Fabric: queues, shared buffers, PFC. Rows exist for every port and node."""

    managed: np.ndarray  # MANAGED_PORT[n_port]  the memory of state.Fabric.ports
    egress: np.ndarray  # EGRESS[n_port]
    queues: np.ndarray  # QUEUE[n_port * n_queue]
    inlets: np.ndarray  # INLET[n_port]
    ingress: np.ndarray  # INGRESS[n_port * n_queue]
    switches: np.ndarray  # SWITCH[n_node]
    drops: np.ndarray  # int64[n_port, 3]  packets, see DROP_*
    weight_bytes: np.ndarray  # int64[n_queue]  a weighted queue's share of a turn
    changes: np.ndarray  # LINK_CHANGE[], see state.NODE
    utilisation: np.ndarray  # float64[n_port, 3]  PINT: utilisation, time and size of the packet sent last


class Routing(NamedTuple):
    """Next hops by destination, one set of tables per epoch: from epoch_ps[e] on, until the next one begins."""

    routes: np.ndarray  # ROUTE[n_route]
    epoch_ps: np.ndarray  # int64[n_epoch]
    component: np.ndarray  # int32[n_epoch, n_node]  component of a switch among the links that are up, -1 for hosts
    local: np.ndarray  # int32[n_epoch, n_node]  row of a switch within its component
    attach_start: np.ndarray  # int64[n_epoch, n_node + 1]  a host's groups are attach_group[start .. next start - 1]
    attach_group: np.ndarray  # int64[]
    group_component: np.ndarray  # int32[n_group]  groups of all epochs
    group_first: np.ndarray  # int64[n_group]  candidates of the component's first switch: row of way_start
    way_start: np.ndarray  # int64[]
    way_port: np.ndarray  # int32[]
    is_up: np.ndarray  # uint8[n_epoch, n_port]
    port_src: np.ndarray  # int64[n_port]
    in_start: np.ndarray  # int64[n_node + 1]  the ports into a node are in_start[node] .. in_start[node + 1] - 1
    flowlets: np.ndarray  # int64[n_node, n_flowlet, 2]  a switch's flowlet table: port, time of the last packet
    settings: np.ndarray
