"""What a congestion control sees: the records that the engine hands to its handlers, and where their words are.

A control is a class whose handlers get three records: the flow (one queue pair), the event (what has just happened) and
the parameters (one record per line rate). Every field is 8 bytes wide, so the engine, which cannot know a user's state
at compile time, addresses them as int64 words by the offsets below. How a class becomes machine code: `law.py`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pdes.engine.jit import record

NEVER = 2**62  # of a timer that is off
N_TIMER, N_HOP = 4, 8
REFERENCE_RATE_BPS = 100 * 10**9  # what scaled() values and ecn_at_100g are given for
NO_WRAP = 2**62  # modulus of telemetry that does not wrap

FLOW_FIELDS: list[tuple[Any, ...]] = [
    ("rate_bps", np.int64),  # pace of the packets on the wire; written by handlers, then clamped to 1..line_rate_bps
    ("window_bytes", np.int64),  # most bytes in flight, 0: no bound; a handler's own only if controls_window
    ("line_rate_bps", np.int64),  # of the NIC; this and the next three are constant
    ("max_window_bytes", np.int64),  # of [network] window; 0: none
    ("base_rtt_ps", np.int64),  # of the idle network
    ("payload_bytes", np.int64),  # of a full packet
    ("timer_ps", np.int64, (N_TIMER,)),  # when on_timer runs, absolute; written by handlers; NEVER: off
]
(
    FLOW_RATE,
    FLOW_WINDOW,
    FLOW_LINE_RATE,
    FLOW_MAX_WINDOW,
    FLOW_BASE_RTT,
    FLOW_PAYLOAD,
    FLOW_TIMER,
) = range(7)
N_FLOW_WORD_FIXED = FLOW_TIMER + N_TIMER  # the control's own state starts here

EVENT_FIELDS: list[tuple[Any, ...]] = [
    ("now_ps", np.int64),
    ("timer", np.int64),  # on_timer: which of timer_ps has fired
    ("acked_byte", np.int64),  # this ACK's cumulative sequence; may be lower than an earlier one's
    ("newly_acked_bytes", np.int64),  # 0 if it acknowledges nothing new
    ("next_byte", np.int64),  # first byte not sent, after a NACK's go-back
    ("is_marked", np.int64),  # the ACK echoes an ECN mark
    ("is_cnp", np.int64),  # the ACK carries a congestion notification: on_cnp runs, then on_ack
    ("is_nack", np.int64),
    ("rtt_ps", np.int64),  # of the packet that is acknowledged; needs "rtt"
    ("pint_code", np.int64),  # largest utilisation on the path, encoded by `hpcc_pint`; needs "pint"
    ("retime", np.int64),  # written by handlers: 1 moves the packet that is paced already to the new rate
    ("path_id", np.int64),  # of the ports that the telemetry comes from: another one, another path; needs "int"
    ("n_hop", np.int64),  # hops with telemetry, data path, 0..N_HOP; needs "int"
    ("hop_time_ps", np.int64, (N_HOP,)),  # when the packet started to leave the hop's port
    ("hop_tx_bytes", np.int64, (N_HOP,)),  # bytes that the port had sent before it
    ("hop_queue_bytes", np.int64, (N_HOP,)),  # bytes that waited behind it
    ("hop_rate_bps", np.int64, (N_HOP,)),
]
(
    EVENT_NOW,
    EVENT_TIMER,
    EVENT_ACKED_BYTE,
    EVENT_NEWLY_ACKED,
    EVENT_NEXT_BYTE,
    EVENT_IS_MARKED,
    EVENT_IS_CNP,
    EVENT_IS_NACK,
    EVENT_RTT,
    EVENT_PINT_CODE,
    EVENT_RETIME,
    EVENT_PATH_ID,
    EVENT_N_HOP,
    EVENT_HOP_TIME,
) = range(14)
EVENT_HOP_TX = EVENT_HOP_TIME + N_HOP
EVENT_HOP_QUEUE = EVENT_HOP_TX + N_HOP
EVENT_HOP_RATE = EVENT_HOP_QUEUE + N_HOP
N_EVENT_WORD = EVENT_HOP_RATE + N_HOP
EVENT = record(EVENT_FIELDS)

HANDLERS = ("start", "on_ack", "on_cnp", "on_timer", "on_timeout")
NEEDS = ("rtt", "int", "pint")
WINDOWS = ("none", "max-bdp", "pair-bdp")
FLOW_WRITABLE = ("rate_bps", "window_bytes", "timer_ps")  # and the control's own state
EVENT_WRITABLE = ("retime",)


@dataclass(frozen=True)
class Scaled:
    """A parameter that grows with the sender's line rate. at_100g: its value at 100 Gbit/s."""

    at_100g: int | float | str


def scaled(at_100g: int | float | str) -> Any:
    """A parameter's default that is in proportion to the sender's line rate; whole units are rounded down."""
    return Scaled(at_100g)
