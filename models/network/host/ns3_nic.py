"""How a host's port takes turns in ns-3 mode: MODEL.md section 4 with CORRECTIONS.md 3, 9, 10, 11.

ns-3's NIC looks for something to send when a transmission ends, a packet arrives, a pause ends, a flow starts or its
one wake-up timer fires; between these it sleeps, even if a queue pair could send. Its list of queue pairs is compacted
only when a finished one is met on the way to the one that is chosen. Used with `compatibility = "ns3-hpcc"` alone.
"""

import numpy as np

from models.network.state.pair_records import NO_WINDOW
from models.network.state.records import NS3_ACK_QUEUE_MASK, Nic
from pdes.engine.apart import apart
from pdes.engine.jit import step_kernel
from pdes.engine.time_index import NEVER

NOTHING, SEND_ACK, SEND_DATA = range(3)


@step_kernel
def list_pair(nic: Nic, record, pair, now_ps):
    """A queue pair starts: it joins its port's list and may send from now on."""
    port = np.int64(record.port)
    ns3_port = nic.ns3_ports[np.uint64(port)]
    nic.ns3_listed[np.uint64(nic.nic_ports[np.uint64(port)].first_pair + ns3_port.n_listed)] = pair
    ns3_port.n_listed += 1
    record.next_send_ps = now_ps


@step_kernel
def poke(ns3_ports, nic_port, port, now_ps):
    """Look for something to send now, as the next thing that happens at this host."""
    apart()
    ns3_ports[np.uint64(port)].poke_ps = now_ps
    nic_port.next_start_ps = now_ps


@step_kernel
def pull_timer(ns3_ports, port, next_send_ps, now_ps):
    """HPCC moved a queue pair's send time: a wake-up that would be late comes forward (CORRECTIONS.md 3)."""
    apart()
    ns3_port = ns3_ports[np.uint64(port)]
    if ns3_port.timer_ps < NEVER and next_send_ps < ns3_port.timer_ps:
        ns3_port.timer_ps = max(next_send_ps, now_ps)


@step_kernel
def next_look(nic: Nic, port):
    """Enter when a port next looks for something to send."""
    apart()
    ns3_port = nic.ns3_ports[np.uint64(port)]
    soon_ps = min(ns3_port.poke_ps, ns3_port.complete_ps, ns3_port.timer_ps)
    nic.nic_ports[np.uint64(port)].next_start_ps = soon_ps


@step_kernel
def look(ports, nic: Nic, constants, port, now_ps):
    """One look of a port at what there is to send: NOTHING, SEND_ACK, or SEND_DATA with the queue pair; (what, pair).

    At one instant a poke comes first, then the end of a transmission, then the timer.
    """
    apart()
    ns3_port, nic_port = nic.ns3_ports[np.uint64(port)], nic.nic_ports[np.uint64(port)]
    if ns3_port.poke_ps <= now_ps:
        ns3_port.poke_ps = NEVER
    elif ns3_port.complete_ps <= now_ps:
        ns3_port.complete_ps = NEVER
    else:
        ns3_port.timer_ps = NEVER
    what, pair = NOTHING, np.int64(-1)
    if ns3_port.complete_ps == NEVER:
        if ports[np.uint64(port)].ack_head >= 0 and nic_port.paused & constants[NS3_ACK_QUEUE_MASK] == 0:
            what = SEND_ACK
        else:
            pair = _choose(nic.queue_pairs, nic.ns3_listed, nic_port, ns3_port, now_ps)
            if pair >= 0:
                what = SEND_DATA
            else:
                _sleep(nic.queue_pairs, nic.ns3_listed, nic_port, ns3_port, now_ps)
    return what, pair


@step_kernel
def _choose(queue_pairs, listed, nic_port, ns3_port, now_ps):
    """Round robin from behind the one served last; finished ones met on the way take all later finished ones along."""
    n, first = ns3_port.n_listed, nic_port.first_pair
    chosen, first_done = np.int64(-1), n
    for k in range(1, n + 1):
        i = (k + nic_port.last_served) % n
        record = queue_pairs[np.uint64(listed[np.uint64(first + i)])]
        is_paused = (nic_port.paused >> record.queue) & 1
        if record.next_byte < record.posted_end and is_paused == 0 and not _is_window_bound(record):
            if record.next_send_ps <= now_ps:
                chosen = i
                break
        elif record.acked_byte >= record.posted_end:
            first_done = min(first_done, i)
    if first_done < n:
        chosen = _compact(queue_pairs, listed, first, first_done, n, chosen, ns3_port)
    if chosen < 0:
        return chosen
    nic_port.last_served = chosen
    return np.int64(listed[np.uint64(first + chosen)])


@step_kernel
def _is_window_bound(record):
    """Bytes in flight fill the window; fewer than none, after a stale NACK, count as very many (64 bits unsigned)."""
    in_flight = record.next_byte - record.acked_byte
    return record.window_bytes < NO_WINDOW and (in_flight < 0 or in_flight >= record.window_bytes)


@step_kernel
def _compact(queue_pairs, listed, first, first_done, n, chosen, ns3_port):
    """Drop the finished queue pairs from first_done on; where the chosen one is then."""
    n_kept, moved = first_done, chosen
    for i in range(first_done + 1, n):
        pair = listed[np.uint64(first + i)]
        record = queue_pairs[np.uint64(pair)]
        if record.acked_byte < record.posted_end:
            if i == chosen:
                moved = n_kept
            listed[np.uint64(first + n_kept)] = pair
            n_kept += 1
    ns3_port.n_listed = n_kept
    return moved


@step_kernel
def _sleep(queue_pairs, listed, nic_port, ns3_port, now_ps):
    """Set the wake-up to the first pacing time of a queue pair with bytes left, if that is ahead and none is set."""
    soon_ps = NEVER
    for i in range(ns3_port.n_listed):
        record = queue_pairs[np.uint64(listed[np.uint64(nic_port.first_pair + i)])]
        if record.next_byte < record.posted_end:
            soon_ps = min(soon_ps, record.next_send_ps)
    if ns3_port.timer_ps == NEVER and now_ps < soon_ps < NEVER:
        ns3_port.timer_ps = soon_ps
