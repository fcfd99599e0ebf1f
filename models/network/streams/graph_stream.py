"""Running a trace's graph: nodes begin when all that they wait for is complete, in the order in which that happens.

Each GPU has one stream for its graph. An event of it begins one node, or ends one: so what an event can post or write
is bounded, and nodes that become ready at the same instant begin in the order of the events that released them (design
R2), those that one event released in the order of the trace. A compute node waits for its lane; a send is posted at
once, on a queue pair of its own source, destination and tag; receives take messages of their channel in the order in
which they began; a collective runs in a stream of its communicator, which asks for it by OP_BEGIN_NODE and says when it
is complete by OP_END_NODE. No event costs more than the successors of one node, or the logarithm of timed ones.
"""

import numpy as np

from models.network.host.messages import post_message
from models.network.state.records import N_TASK_ROW, Fabric, Nic
from models.network.streams.groups import end_in_job
from models.network.streams.wake import set_wake
from models.workload.graph import NODE_BEGUN, NODE_DONE, NODE_READY, NODE_RELEASED, SENT_UNHEEDED, Graph
from models.workload.program import KEEPS_TASKS, N_STREAM_DONE, WAITING_DONE, WAITING_NODE, Work
from models.workload.trace.graph import COLLECTIVE, COMPUTE, RECEIVE, SEND
from pdes.engine.apart import apart
from pdes.engine.jit import step_kernel
from pdes.engine.time_index import NEVER


@step_kernel
def _append(nodes, head, i_node):
    """Put a node at the end of a list. head: a record with first and last."""
    nodes[np.uint64(i_node)].next = -1
    if head.first < 0:
        head.first = i_node
    else:
        nodes[np.uint64(head.last)].next = i_node
    head.last = i_node


@step_kernel
def _take(nodes, head):
    """Take the first node of a list that is not empty."""
    i_node = np.int64(head.first)
    head.first = nodes[np.uint64(i_node)].next
    return i_node


@step_kernel
def _is_before(graph: Graph, a, b):
    """Whether the timed node at place a of the heap ends before the one at place b."""
    a_ps, b_ps = graph.heap_ps[np.uint64(a)], graph.heap_ps[np.uint64(b)]
    return a_ps < b_ps or (a_ps == b_ps and graph.heap_node[np.uint64(a)] < graph.heap_node[np.uint64(b)])


@step_kernel
def _swap(graph: Graph, a, b):
    time_ps, node = graph.heap_ps[np.uint64(a)], graph.heap_node[np.uint64(a)]
    graph.heap_ps[np.uint64(a)], graph.heap_node[np.uint64(a)] = (
        graph.heap_ps[np.uint64(b)],
        graph.heap_node[np.uint64(b)],
    )
    graph.heap_ps[np.uint64(b)], graph.heap_node[np.uint64(b)] = time_ps, node


@step_kernel
def _push_timed(graph: Graph, agenda, i_node, end_ps):
    """Let a node end at end_ps."""
    first, k = agenda.first_heap, agenda.n_heap
    agenda.n_heap += 1
    graph.heap_ps[np.uint64(first + k)], graph.heap_node[np.uint64(first + k)] = end_ps, i_node
    while k > 0 and _is_before(graph, first + k, first + (k - 1) // 2):
        _swap(graph, first + k, first + (k - 1) // 2)
        k = (k - 1) // 2


@step_kernel
def _pop_timed(graph: Graph, agenda):
    """Take the node that ends first."""
    first = agenda.first_heap
    i_node = np.int64(graph.heap_node[np.uint64(first)])
    agenda.n_heap -= 1
    n = agenda.n_heap
    _swap(graph, first, first + n)
    k = 0
    while 2 * k + 1 < n:
        child = 2 * k + 1
        if child + 1 < n and _is_before(graph, first + child + 1, first + child):
            child += 1
        if not _is_before(graph, first + child, first + k):
            break
        _swap(graph, first + child, first + k)
        k = child
    return i_node


@step_kernel
def _start_timed(graph: Graph, agenda, i_node, now_ps):
    node = graph.nodes[np.uint64(i_node)]
    node.begun_ps, node.state = now_ps, NODE_BEGUN
    _push_timed(graph, agenda, i_node, now_ps + node.time_ps)


@step_kernel
def _write_row(work: Work, task_rows, counters, i_node, now_ps):
    """The task row of a node that ends: its id is its place in the trace, its stream's name its own."""
    node = work.graph.nodes[np.uint64(i_node)]
    stream = work.streams[np.uint64(work.graph.agendas[np.uint64(node.agenda)].stream)]
    iteration = np.uint64(work.jobs[np.uint64(stream.job)].first_iteration)
    work.iteration_tasks[iteration] += 1
    if now_ps > work.iteration_end_ps[iteration]:
        work.iteration_end_ps[iteration] = now_ps
    if not work.totals[KEEPS_TASKS]:
        return
    row = counters[N_TASK_ROW]
    counters[N_TASK_ROW] = row + 1
    out = task_rows[np.uint64(row)]
    out[0] = stream.first_task + i_node
    out[1], out[2], out[3], out[4] = stream.gpu, 0, node.kind, node.label
    out[5], out[6], out[7] = node.begun_ps, now_ps, node.size_bytes


@step_kernel
def complete_node(work: Work, task_rows, counters, i_node, now_ps):
    """A node is complete: release those that waited for nothing else."""
    graph = work.graph
    node = graph.nodes[np.uint64(i_node)]
    node.state = NODE_DONE
    agenda = graph.agendas[np.uint64(node.agenda)]
    agenda.n_left -= 1
    for k in range(node.first_successor, node.end_successor):
        i_other = np.int64(graph.successors[np.uint64(k)])
        other = graph.nodes[np.uint64(i_other)]
        other.n_unmet -= 1
        if other.n_unmet == 0:
            other.state = NODE_RELEASED
            _append(graph.nodes, agenda, i_other)
    _write_row(work, task_rows, counters, i_node, now_ps)


@step_kernel
def _post(fabric: Fabric, nic: Nic, work: Work, i_node, now_ps):
    node = work.graph.nodes[np.uint64(i_node)]
    stream = work.streams[np.uint64(work.graph.agendas[np.uint64(node.agenda)].stream)]
    flow_id = stream.first_flow + node.flow
    post_message(fabric, nic, np.int64(node.place), node.size_bytes, flow_id, np.int64(node.tag), now_ps)


@step_kernel
def _begin(fabric: Fabric, nic: Nic, work: Work, agenda, i_node, now_ps):
    """Begin a node that is released; True if it is complete."""
    graph = work.graph
    node = graph.nodes[np.uint64(i_node)]
    node.begun_ps, node.state = now_ps, NODE_BEGUN
    kind = node.kind
    if kind == COMPUTE:
        lane = graph.lanes[np.uint64(node.place)]
        if lane.running >= 0:
            _append(graph.nodes, lane, i_node)
        else:
            lane.running = i_node
            _start_timed(graph, agenda, i_node, now_ps)
        return False
    if kind == SEND:
        _post(fabric, nic, work, i_node, now_ps)
        if graph.sent.shape[0] == 0 or graph.sent[np.uint64(node.place), 1] == SENT_UNHEEDED:
            return True
        first = np.int64(graph.sent[np.uint64(node.place), 0])
        node.next = -1
        if first < 0:
            graph.sent[np.uint64(node.place), 0] = i_node
        else:
            graph.nodes[np.uint64(graph.sent[np.uint64(node.place), 1])].next = i_node
        graph.sent[np.uint64(node.place), 1] = i_node
        return False
    if kind == RECEIVE:
        channel = graph.channels[np.uint64(node.place)]
        if channel.n_arrived > 0:
            channel.n_arrived -= 1
            return True
        _append(graph.nodes, channel, i_node)
        return False
    if kind == COLLECTIVE:
        stream = np.int64(node.place)
        if stream >= 0 and work.streams[np.uint64(stream)].waiting_for == WAITING_NODE:
            set_wake(work.streams, fabric.nodes, fabric.node_time, stream, now_ps)
        return stream < 0
    if node.time_ps > 0:
        _push_timed(graph, agenda, i_node, now_ps + node.time_ps)
        return False
    return True


@step_kernel
def run_graph(fabric: Fabric, nic: Nic, work: Work, task_rows, i_stream, now_ps):
    """One event of a GPU's graph: the end of a timed node, or the beginning or end of a released one."""
    graph = work.graph
    stream = work.streams[np.uint64(i_stream)]
    agenda = graph.agendas[np.uint64(stream.step)]
    if agenda.n_heap > 0 and graph.heap_ps[np.uint64(agenda.first_heap)] <= now_ps:
        i_node = _pop_timed(graph, agenda)
        if graph.nodes[np.uint64(i_node)].kind == COMPUTE:
            lane = graph.lanes[np.uint64(graph.nodes[np.uint64(i_node)].place)]
            lane.running = -1
            if lane.first >= 0:
                follower = _take(graph.nodes, lane)
                lane.running = follower
                _start_timed(graph, agenda, follower, now_ps)
        complete_node(work, task_rows, fabric.counters, i_node, now_ps)
    elif agenda.first >= 0:
        i_node = _take(graph.nodes, agenda)
        is_complete = graph.nodes[np.uint64(i_node)].state == NODE_READY
        if is_complete or _begin(fabric, nic, work, agenda, i_node, now_ps):
            complete_node(work, task_rows, fabric.counters, i_node, now_ps)
    go_on(fabric, work, stream, i_stream, agenda, now_ps)


@step_kernel
def go_on(fabric: Fabric, work: Work, stream, i_stream, agenda, now_ps):
    """Wake a GPU's graph for what comes next: now if a node is released, else when a timed one ends."""
    wake_ps = NEVER
    if agenda.first >= 0:
        wake_ps = now_ps
    elif agenda.n_heap > 0:
        wake_ps = work.graph.heap_ps[np.uint64(agenda.first_heap)]
    set_wake(work.streams, fabric.nodes, fabric.node_time, i_stream, wake_ps)
    if agenda.n_left == 0 and stream.waiting_for != WAITING_DONE:
        stream.waiting_for = WAITING_DONE
        work.totals[N_STREAM_DONE] += 1
        job = work.jobs[np.uint64(stream.job)]
        if job.end_end > job.first_end:
            end_in_job(work, fabric.nodes, fabric.node_time, job, now_ps)


@step_kernel
def begins_node(work: Work, i_node, now_ps):
    """Whether a collective may begin; if so, it does."""
    node = work.graph.nodes[np.uint64(i_node)]
    if node.state != NODE_BEGUN:
        return False
    node.begun_ps = now_ps
    return True


@step_kernel
def end_collective(fabric: Fabric, work: Work, task_rows, i_node, now_ps):
    """A collective is complete; its GPU's graph goes on."""
    agenda = work.graph.agendas[np.uint64(work.graph.nodes[np.uint64(i_node)].agenda)]
    complete_node(work, task_rows, fabric.counters, i_node, now_ps)
    i_stream = np.int64(agenda.stream)
    go_on(fabric, work, work.streams[np.uint64(i_stream)], i_stream, agenda, now_ps)


@step_kernel
def take_message(fabric: Fabric, nic: Nic, work: Work, i_stream, pair, now_ps):
    """Messages of a queue pair have come whole to a GPU with a graph: receives that wait for them are ready."""
    apart()
    graph = work.graph
    agenda = graph.agendas[np.uint64(work.streams[np.uint64(i_stream)].step)]
    record = nic.receivers[np.uint64(nic.receiver_row[np.uint64(pair)])]
    channel = graph.channels[np.uint64(graph.pair_channel[np.uint64(pair)])]
    channel.n_arrived += record.n_arrived
    record.n_arrived = 0
    while channel.n_arrived > 0 and channel.first >= 0:
        channel.n_arrived -= 1
        i_node = _take(graph.nodes, channel)
        graph.nodes[np.uint64(i_node)].state = NODE_READY
        _append(graph.nodes, agenda, i_node)
    go_on(fabric, work, work.streams[np.uint64(i_stream)], i_stream, agenda, now_ps)


@step_kernel
def end_sends(fabric: Fabric, work: Work, pair, n_ended, now_ps):
    """The oldest n_ended messages of a queue pair are acknowledged: sends of a graph that wait for that are ready."""
    apart()
    graph = work.graph
    i_node = np.int64(graph.sent[np.uint64(pair), 0])
    if i_node < 0:  # a collective's
        return
    agenda = graph.agendas[np.uint64(graph.nodes[np.uint64(i_node)].agenda)]
    for _ in range(n_ended):
        following = np.int64(graph.nodes[np.uint64(i_node)].next)
        graph.nodes[np.uint64(i_node)].state = NODE_READY
        _append(graph.nodes, agenda, i_node)
        i_node = following
    graph.sent[np.uint64(pair), 0] = i_node
    i_stream = np.int64(agenda.stream)
    go_on(fabric, work, work.streams[np.uint64(i_stream)], i_stream, agenda, now_ps)
