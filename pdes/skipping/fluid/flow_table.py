"""What is kept of flows at flow level, and of what they get: see `flow_level`."""

from typing import NamedTuple

import numpy as np

from pdes.skipping.fluid.max_min import Scratch
from pdes.skipping.fluid.stage_load import StageLoads
from pdes.skipping.partitions import Partitions

MOST_MESSAGES = 4  # of a flow
MOST_KNOWN = 256  # sets of forms
MOST_UNEVEN = 4  # of them, whose flows share unevenly
MOST_SIZES = 8  # of a form, whose times alone are known
EVEN = -1
Ways = tuple[np.ndarray, np.ndarray]
FAR_PS = 2**54  # five hours: so late ends are that are not known yet
PAUSE_TICKS = 4  # so long a flow that went on packet by packet does so
TICKS_AHEAD = 2  # so early it is predicted how messages end
NOBODY, SHARED = -1, -2  # who has a port: flows at flow level, or none of them
FORM_PRIME = 2**31 - 1

# Words.
(
    N_KNOWN,
    N_DUE,
    N_FLOW,
    NEXT_PS,
    SEED,
    N_RELOADED,
    RTT_PS,
    LAST_PS,  # the last tick
    N_MESSAGE,  # messages that were posted here
    HAS_NEW_LOADS,  # 1: forms have changed with the load of stages
    LOADS_PS,  # when they may next, without an event
) = range(11)
N_WORD = 11


class Knowledge(NamedTuple):
    """What `shares` knows, by number of the set of forms."""

    digest: np.ndarray  # int64[MOST_KNOWN], of the forms, and of how many flows meet if these are few
    part: np.ndarray  # float64, of the fair shares
    n_most: np.ndarray  # int64, flows at one port
    queued_ps: np.ndarray  # int64, that packets wait
    n_size: np.ndarray  # int64[n_form], sizes of messages whose times are known when they are alone. Of these:
    size: np.ndarray  # float64[n_form, MOST_SIZES]
    sent_ps: np.ndarray  # float64[n_form, MOST_SIZES], from the posting until the last byte leaves
    longer: np.ndarray  # float64[n_form, MOST_SIZES], times as long where data meets acknowledgements
    tolerance: np.ndarray  # float64[1]
    uneven: np.ndarray  # int64, row of what follows where flows share unevenly, EVEN: they do not
    n_burst: np.ndarray  # int64[MOST_UNEVEN], see `weights.Uneven`
    weight: np.ndarray  # float64[MOST_UNEVEN, n_form]
    n_ratio: np.ndarray  # int64[MOST_UNEVEN, n_form, MOST_BURSTS]
    ratio: np.ndarray  # float64[MOST_UNEVEN, n_form, MOST_BURSTS, MOST_OF_BURST]


class Table(NamedTuple):
    """Rows for every flow, unless it says otherwise."""

    partitions: Partitions  # of flows at flow level, by the ports of their data
    known: Knowledge
    form: np.ndarray  # int64, `Links.form` itself
    late_ps: np.ndarray  # int64[n_flow, 2], from the last byte's leaving to its arrival, from there to the ACK's
    byte_per_ps: np.ndarray  # float64[n_port]
    all_start: np.ndarray  # int64[n_flow + 1], ports of each flow's way and of its acknowledgements':
    all_port: np.ndarray  # int32, from all_start on
    n_ack: np.ndarray  # int32[n_port], flows at flow level whose acknowledgements cross it, and their data does not
    n_other_ack: np.ndarray  # int32[n_port], the same of flows whose packets are simulated, or frozen
    scratch: Scratch
    n_message: np.ndarray  # int64, at flow level
    message: np.ndarray  # int64[n_flow, MOST_MESSAGES, N_POSTED], see `prediction`; the first one is under way
    left: np.ndarray  # float64, bytes of that which had not left
    since_ps: np.ndarray  # int64, at this instant
    rate: np.ndarray  # float64, from then on; 0: it has still to be solved
    part: np.ndarray  # float64, of the fair share, 0: it never had one
    drawn_end: np.ndarray  # int64, end of the message that has drawn its part
    queued_ps: np.ndarray  # int64, how long packets wait in queues on its way
    waited_ps: np.ndarray  # int64, the same when its message began: so much later it is delivered
    last_ps: np.ndarray  # int64, when the last message is delivered of which that is predicted: none overtakes it
    own: np.ndarray  # float64[n_flow, 2], rate that was measured, 0: none was; without ACKs on its way, with them
    company: np.ndarray  # int64, digest of the messages beside which it was measured
    n_beside: np.ndarray  # int64, flows that shared ports with it when it went on packet by packet
    is_shadow: np.ndarray  # uint8, 1: its messages are simulated all the same (`audit`)
    sent_ps: np.ndarray  # int64, when the last byte leaves if nothing changes
    is_predicted: np.ndarray  # uint8, 1: how the first message ends has been predicted
    is_reloaded: np.ndarray  # uint8 by label, 1: acknowledgements begin or cease to cross its ports; 2: forms changed
    reloaded_label: np.ndarray  # int64, such labels
    first_ps: np.ndarray  # tree (`time_index`) by label: the first of these whose end has not been predicted
    changed_ps: np.ndarray  # int64 by label: when something last changed, -1: nothing has. Scratch from here on:
    labels: np.ndarray  # int64
    touched: np.ndarray  # int64[2 n_flow, 2], flows, and when
    members: np.ndarray  # int64
    fair: np.ndarray  # float64
    form_mark: np.ndarray  # uint8[n_form]
    due: np.ndarray  # int64, flows of which it was predicted
    predicted: np.ndarray  # int64[n_flow, N_COLUMN], see `prediction`
    broken: np.ndarray  # int64, flows that go on packet by packet
    words: np.ndarray  # int64[N_WORD]
    stages: StageLoads  # of their ways
