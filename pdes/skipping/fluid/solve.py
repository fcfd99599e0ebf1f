"""Sharing out the ports of a set of flows at flow level, by what is known of flows on ways of their forms."""

import numpy as np

from pdes.engine.jit import loop_kernel, step_kernel
from pdes.engine.rng import uniform
from pdes.engine.time_index import NEVER, set_time
from pdes.random_plain import PURPOSE_SHARE
from pdes.skipping import prediction as m
from pdes.skipping.fluid.alone_rates import alone_rate
from pdes.skipping.fluid.flow_table import EVEN, FORM_PRIME, N_KNOWN, SEED, Table
from pdes.skipping.fluid.max_min import max_min
from pdes.skipping.fluid.shares import LEAST_FLOWS, MORE_FLOWS
from pdes.skipping.partitions import canonical


@step_kernel
def _digest_of(form):
    """A number that hardly any other form has; nor are sums of them equal."""
    x = (form + 1) * 1_000_003 % FORM_PRIME
    return x * x % FORM_PRIME + 1


@loop_kernel
def digest_of(forms, n_few):
    """Of a set of forms, int64[], and of how many of their flows meet at one port: 0, at least LEAST_FLOWS do."""
    digest = np.int64(0)
    for i in range(forms.size):
        digest += _digest_of(forms[i])
    return digest * LEAST_FLOWS + n_few


@step_kernel
def _digest_of_message(flow, end):
    """A number that hardly any other message has; nor are sums of them equal."""
    x = (flow * 1_000_003 + end % FORM_PRIME) % FORM_PRIME
    return x * x % FORM_PRIME + 1


@step_kernel
def company_of(t: Table, members):
    """A number that says which messages are under way together: first messages of flows, int64[]."""
    digest = np.int64(0)
    for i in range(members.size):
        digest += _digest_of_message(members[i], t.message[members[i], 0, m.END])
    return digest


@step_kernel
def _are_measured(t: Table, n):
    """Whether the rates of the first n members have been measured just as they are together."""
    digest, is_so = company_of(t, t.members[:n]), True
    for i in range(n):
        flow = t.members[i]
        is_so &= t.own[flow, 0] > 0.0 and t.company[flow] == digest
    return is_so


@step_kernel
def meets_acks(t: Table, flow):
    """1: acknowledgements of others cross a flow's way, 0: none do."""
    p, found = t.partitions, 0
    for at in range(p.port_start[flow], p.port_start[flow + 1]):
        found |= t.n_ack[np.uint64(p.port_of[at])] + t.n_other_ack[np.uint64(p.port_of[at])] > 0
    return found


@loop_kernel
def who_meets_acks(t: Table, flows, out):
    """Write for flows, int64[], whether acknowledgements of others cross their ways. out: bool[]."""
    for i in range(flows.size):
        out[i] = meets_acks(t, flows[i]) != 0


@step_kernel
def _find_known(t: Table, n, n_few):
    """(number of the set of forms of the first n members or -1: it is not known, how many these are)

    n_few: how many of them meet at one port, 0: it is to be known of more.
    """
    digest, n_form = np.int64(0), 0
    for i in range(n):
        form = t.form[t.members[i]]
        if t.form_mark[form] == 0:
            t.form_mark[form] = 1
            digest += _digest_of(form)
            n_form += 1
    for i in range(n):
        t.form_mark[t.form[t.members[i]]] = 0
    digest = digest * LEAST_FLOWS + n_few
    for k in range(t.words[N_KNOWN]):
        if t.known.digest[k] == digest:
            return np.int64(k), n_form
    return np.int64(-1), n_form


@step_kernel
def _draw_ratio(t: Table, row, flow):
    """By what a message's rate differs from what its weight says: that of one like it, in a burst that was simulated.

    Messages that one source has posted at one instant have theirs from the same burst: they were fast or slow together.
    """
    known, form = t.known, t.form[flow]
    port = np.int64(t.partitions.port_of[t.partitions.port_start[flow]])
    burst = np.int64(uniform(t.words[SEED], port, PURPOSE_SHARE, t.message[flow, 0, m.POSTED_PS]) * known.n_burst[row])
    n = known.n_ratio[row, form, burst]
    if n == 0:
        return 1.0
    i = np.int64(uniform(t.words[SEED], flow, PURPOSE_SHARE, t.message[flow, 0, m.END]) * n)
    return known.ratio[row, form, burst, i]


@step_kernel
def _give_parts(t: Table, k, n):
    """Give the first n members, which are of a set of forms that is known, their weights and parts; True: some have
    other weights than before."""
    row, is_new = t.known.uneven[k], False
    for i in range(n):
        flow = t.members[i]
        weight, part = 1.0, t.known.part[k]
        if row != EVEN:
            weight, end = t.known.weight[row, t.form[flow]], t.message[flow, 0, m.END]
            part = t.part[flow] if t.drawn_end[flow] == end else part * _draw_ratio(t, row, flow)
            t.drawn_end[flow] = end
        is_new |= weight != t.scratch.weight[flow]
        t.scratch.weight[flow], t.part[flow] = weight, part
    return is_new


@step_kernel
def _is_tail(t: Table, flow, fair, as_of_ps):
    """Whether what a flow that has come to be alone has left takes no longer than its message has taken until now: so
    long it keeps the part that it had in company."""
    left = t.left[flow] - t.rate[flow] * max(0, as_of_ps - t.since_ps[flow])
    return t.is_predicted[flow] != 0 or left <= fair * t.part[flow] * (as_of_ps - t.message[flow, 0, m.POSTED_PS])


@step_kernel
def solve(t: Table, label, as_of_ps):
    """Share out what flows of a label have, from as_of_ps on; False: nobody knows how they do.

    Few flows of several forms may share unevenly, unless it is known that they do not: they are let alone if that is
    what is left of more.
    """
    p, n = t.partitions, canonical(t.partitions, label, t.members)
    n_most = max_min(t.members[:n], p.port_start, p.port_of, t.byte_per_ps, t.scratch, t.fair)
    first, is_measured = t.members[0], _are_measured(t, n)
    k, n_form = _find_known(t, n, n_most if n_most < LEAST_FLOWS else 0)
    is_known = k >= 0 and n_most <= MORE_FLOWS * t.known.n_most[k]
    if k < 0 and n_most < LEAST_FLOWS:
        k, n_form = _find_known(t, n, 0)
        is_known = k >= 0 and n_form == 1
    if is_known and not is_measured and _give_parts(t, k, n):
        max_min(t.members[:n], p.port_start, p.port_of, t.byte_per_ps, t.scratch, t.fair)
    least_part, alone, waited_ps = 1.0, 0.0, np.int64(0)
    for i in range(n):
        flow = t.members[i]
        least_part = min(least_part, t.part[flow])
        if t.rate[flow] > 0.0:
            waited_ps = max(waited_ps, t.queued_ps[flow])
    if n == 1:
        alone = alone_rate(t, first, t.message[first, 0, m.WHOLE], meets_acks(t, first))
        if not _is_tail(t, first, t.fair[0], as_of_ps):
            least_part = 0.0
    if not is_measured and alone <= 0.0 and not is_known and (n_most >= LEAST_FLOWS or least_part <= 0.0):
        return False
    first_ps = NEVER
    for i in range(n):
        flow = t.members[i]
        if t.is_predicted[flow]:
            continue
        if t.rate[flow] == 0.0:
            t.waited_ps[flow] = waited_ps
        elif as_of_ps > t.since_ps[flow]:
            t.left[flow] = max(0.0, t.left[flow] - t.rate[flow] * (as_of_ps - t.since_ps[flow]))
            t.since_ps[flow] = as_of_ps
        if is_measured:
            t.rate[flow] = t.own[flow, meets_acks(t, flow)]
        elif alone > 0.0:
            t.rate[flow], t.queued_ps[flow] = min(alone, t.fair[i]), 0
        else:
            t.rate[flow] = t.fair[i] * t.part[flow]
            if is_known:
                t.queued_ps[flow] = t.known.queued_ps[k]
        t.sent_ps[flow] = t.since_ps[flow] + np.int64(t.left[flow] / t.rate[flow])
        first_ps = min(first_ps, t.sent_ps[flow])
    set_time(t.first_ps, label, first_ps)
    return True
