"""Flows that enter the table of flow level, and leave it: ports, acknowledgements, and their first messages."""

import numpy as np

from pdes.engine.jit import step_kernel
from pdes.engine.time_index import NEVER, set_time
from pdes.skipping import prediction as m
from pdes.skipping.fluid.flow_table import HAS_NEW_LOADS, LOADS_PS, N_FLOW, N_RELOADED, NOBODY, SHARED, Table
from pdes.skipping.fluid.stage_load import N_LOAD, WAIT_TICKS, count_at_level, follow_stages, load_of
from pdes.skipping.partitions import enter


@step_kernel
def note_reload(t: Table, port):
    """Acknowledgements begin or cease to cross a port: that matters to a flow that is alone there."""
    label = np.int64(t.partitions.label_of_port[np.uint64(port)])
    if label >= 0 and t.is_reloaded[label] == 0 and t.partitions.n_flow_of[label] == 1:
        t.is_reloaded[label] = 1
        t.reloaded_label[t.words[N_RELOADED]] = label
        t.words[N_RELOADED] += 1


@step_kernel
def count_acks(t: Table, flow, n):
    """Note that a flow comes (n: 1), or leaves (-1): its acknowledgements cross ports, and it loads its stages."""
    p = t.partitions
    count_at_level(t.stages, flow, n)
    for at in range(t.all_start[flow], t.all_start[flow + 1]):
        port, is_data = t.all_port[at], False
        for k in range(p.port_start[flow], p.port_start[flow + 1]):
            is_data |= p.port_of[k] == port
        if not is_data:
            was = t.n_ack[np.uint64(port)]
            t.n_ack[np.uint64(port)] = was + n
            if was == 0 or was + n == 0:
                note_reload(t, np.int64(port))


@step_kernel
def follow_loads(t: Table, now_ps, tick_ps):
    """Have flows' forms say how full their stages are; who is at flow level with another one is solved again."""
    if t.stages.is_full.size == 0:
        return
    is_new, t.words[LOADS_PS] = follow_stages(t.stages, now_ps, WAIT_TICKS * tick_ps)
    if not is_new:
        return
    t.words[HAS_NEW_LOADS] = 1
    for flow in range(t.form.size):
        form = t.form[flow] // N_LOAD * N_LOAD + load_of(t.stages, flow)
        if form == t.form[flow]:
            continue
        t.form[flow] = form
        label = np.int64(t.partitions.label_of_flow[flow]) if t.n_message[flow] > 0 else np.int64(-1)
        if label >= 0:
            if t.is_reloaded[label] == 0:
                t.reloaded_label[t.words[N_RELOADED]] = label
                t.words[N_RELOADED] += 1
            t.is_reloaded[label] = 2


@step_kernel
def hold_ports(t: Table, holder, flow):
    """Say of a flow's ports whether flows at flow level have them."""
    p = t.partitions
    for at in range(p.port_start[flow], p.port_start[flow + 1]):
        port = np.uint64(p.port_of[at])
        holder[port] = SHARED if p.first_use[port] >= 0 else NOBODY


@step_kernel
def enter_table(t: Table, holder, flow):
    """A flow that has a message now is among those that share ports with it; their label."""
    p = t.partitions
    label = enter(p, flow)
    count_acks(t, flow, 1)
    t.words[N_FLOW] += 1
    t.own[flow, 0] = 0.0
    for at in range(p.port_start[flow], p.port_start[flow + 1]):
        holder[np.uint64(p.port_of[at])] = SHARED
    return label


@step_kernel
def forget_labels(t: Table, flow):
    """Labels of flows that a flow is about to meet: one of them will be that of all."""
    p = t.partitions
    for at in range(p.port_start[flow], p.port_start[flow + 1]):
        label = np.int64(p.label_of_port[np.uint64(p.port_of[at])])
        if label >= 0:
            set_time(t.first_ps, label, NEVER)


@step_kernel
def begin_first(t: Table, flow, from_ps):
    """A flow's first message is under way from an instant on."""
    t.left[flow], t.since_ps[flow], t.rate[flow] = t.message[flow, 0, m.SIZE], from_ps, 0.0
    t.sent_ps[flow], t.is_predicted[flow] = NEVER, 0
