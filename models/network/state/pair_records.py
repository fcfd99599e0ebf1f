"""Records of queue pairs: what sender and receiver have of one, what never changes, messages, ranges out of order."""

import numpy as np

from pdes.engine.jit import record

# What the sender has of a queue pair, three cache lines: the first one is what every packet needs.
QUEUE_PAIR = record(
    [
        ("next_byte", np.int64),  # first byte to send next
        ("acked_byte", np.int64),  # first byte not acknowledged
        ("message_end", np.int64),  # end of the message being sent
        ("posted_end", np.int64),  # end of the last message posted
        ("next_send_ps", np.int64),  # pacing: no data packet earlier
        ("rate_bps", np.int64),
        ("window_bytes", np.int64),  # current window, NO_WINDOW: none
        ("high_byte", np.int64),  # first byte never sent
        ("resend_byte", np.int64),  # selective repeat: from here to lost_byte, what is not held is sent again
        ("lost_byte", np.int64),
        ("sent_bytes", np.int64),  # payload that left, resends included
        ("first_message", np.int32),  # oldest message that is not fully acknowledged
        ("sending_message", np.int32),
        ("n_marked", np.int32),  # marked packets of the oldest message
        ("port", np.int32),  # the sender's port
        ("data_path", np.int32),  # first row of path_port
        ("law_row", np.int32),  # parameters of the congestion control
        ("is_done", np.int32),  # ns-3 mode: its only message is acknowledged, and it is gone
        ("last_size_bytes", np.uint16),  # of the packet sent last
        ("queue", np.uint8),
        ("n_backoff", np.uint8),  # timeouts since anything was acknowledged
        ("resent_bytes", np.int64),  # of the oldest message
        ("line_rate_bps", np.int64),
        ("max_window_bytes", np.int64),  # 0: none
        ("deadline_ps", np.int64),  # retransmission timeout, NEVER: nothing in flight
        ("check_ps", np.int64),  # when the timeout is looked at next, at most deadline_ps
        ("recover_byte", np.int64),  # the recovery lasts until this is acknowledged, 0: there is none
        ("last_message", np.int32),
        ("timer_leaf", np.int32),  # in its host's tree
        ("node", np.int32),  # the sender's host
        ("sacked_range", np.int32),  # selective repeat: what the receiver holds out of order, chain of RANGE
        ("gap_ps", np.int64),  # what last_size_bytes take at rate_bps; 0: to be worked out anew
    ]
)
# What the receiver has, a cache line.
RECEIVER = record(
    [
        ("expected_byte", np.int64),  # the next byte in order
        ("received_bytes", np.int64),  # payload that arrived, of any kind
        ("nack_byte", np.int64),  # what the last NACK asked for
        ("nack_after_ps", np.int64),  # and until when it is not repeated
        ("cnp_after_ps", np.int64),  # no CNP before
        ("ack_path", np.int32),
        ("waiting_stream", np.int32),  # stream that consumes its messages, -1 if none
        ("n_arrived", np.int32),  # messages that arrived and were not consumed
        ("n_unacked", np.int32),  # packets since the last ACK
        ("held_range", np.int32),  # selective repeat: what came before its turn, chain of RANGE
        ("early_end", np.int32),  # messages that end there, chain of RANGE (end, flow id)
    ]
)
PAIR_FACTS = record(  # what never changes: any rank may ask
    [
        ("max_window_bytes", np.int64),  # 0: none
        ("port", np.int32),  # the sender's
        ("node", np.int32),  # the sender's host
        ("receiver", np.int32),  # the receiver's
        ("data_path", np.int32),  # first row of path_port
        ("ack_path", np.int32),
        ("queue", np.int32),
        ("waiting_stream", np.int32),  # stream that consumes its messages, -1 if none
        ("first_part", np.int32),  # the first of the queue pairs that share its messages: itself if it has them alone
    ]
)
NO_WINDOW = 2**62
RANGE = record([("first_byte", np.int64), ("end_byte", np.int64), ("next", np.int64)])
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
