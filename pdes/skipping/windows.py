"""The last samples of every flow on several scales, and what can be said of the windows between them; compiled.

Progress is measured from acknowledgement to acknowledgement, in ps: short windows are then exact to far less than a
packet, which counting packets in fixed windows is not.
"""

from typing import NamedTuple

import numpy as np

from pdes.engine.jit import loop_kernel, step_kernel
from pdes.skipping import history as h

N_KEPT = 9
N_WINDOW = N_KEPT - 1
SETTLED = 0.001  # an average, a rate or a window that moves by less, relative to itself, has settled
N_ROUND_TRIP = 2  # that windows have to cover: what circulates repeats itself after one
NEAR, LEAST_CHANGE = 0.001, 1e-6  # relative: rates that are the same one; what cannot be told from no change
EXACT = 1e-9  # relative: what differs by less is the same to the ps
N_FINE = 2  # scales on which the control itself has to have settled
FOREVER = 1e30
MOST_CYCLE_BYTES = 2**62 - 1


class Memory(NamedTuple):
    """What is kept of all flows. Written by the kernels below."""

    kept: np.ndarray  # int64[n_scale, n_flow, N_KEPT, columns]  samples, see `history`
    floats: np.ndarray  # float64, the same memory: where the averages are
    count: np.ndarray  # int64[n_scale, n_flow]  of them
    group: np.ndarray  # int64[n_scale, n_flow, 2]  network partition of the last
    stride: np.ndarray  # int64[n_scale]  between a scale's samples, in those of the shortest, each divides the next
    look_ps: np.ndarray  # int64[n_flow]  least time between two samples of a flow
    every_ps: np.ndarray  # int64[n_flow]  by label: the longest of its flows', as far as they were sampled last
    last_ps: np.ndarray  # int64[1]  when something was sampled last
    n_new: np.ndarray  # int64[n_flow]  scales, from the shortest on, that the last sample was for
    n_kept: np.ndarray  # int64[2]  averages, and places in the stream, behind a sample's own columns
    known_rate: np.ndarray  # float64[n_flow]  bytes per ps, when it was found steady last; 0: never
    first_rate: np.ndarray  # float64[n_flow]  when it was first found steady near that rate
    first_age_ps: np.ndarray  # int64[n_flow]
    skipped_ps: np.ndarray  # int64[n_flow]  a flow does not age meanwhile


class Limits(NamedTuple):
    """Of `steady.Settings`, what the kernel needs."""

    spread: float
    coarse_spread: float
    drift: float
    queue_bytes: float
    guard_bytes: int


def make_memory(n_kept: tuple[int, int], strides: tuple[int, ...], look_ps: np.ndarray) -> Memory:
    """Nothing known of flows. n_kept: averages and places in the stream that a sample has. look_ps: see `Memory`."""
    n, n_flow = len(strides), len(look_ps)
    kept = np.zeros((n, n_flow, N_KEPT, h.N_COLUMN + sum(n_kept)), np.int64)
    return Memory(
        kept,
        kept.view(np.float64),
        np.zeros((n, n_flow), np.int64),
        np.full((n, n_flow, 2), -1, np.int64),
        np.array(strides, np.int64),
        look_ps.astype(np.int64),
        np.zeros(n_flow, np.int64),
        np.full(1, -1, np.int64),
        np.zeros(n_flow, np.int64),
        np.array(n_kept, np.int64),
        np.zeros(n_flow),
        np.zeros(n_flow),
        np.zeros(n_flow, np.int64),
        np.zeros(n_flow, np.int64),
    )


@step_kernel
def keep_sample(kept, n, row):
    """Keep a sample of a flow behind n others, forgetting the oldest if there is no room; how many there are.

    kept: int64[places, columns], written. row: int64[], as many columns or more, see `history`.
    """
    if n == kept.shape[0]:
        n -= 1
        for k in range(n):
            for column in range(kept.shape[1]):
                kept[k, column] = kept[k + 1, column]
    for column in range(kept.shape[1]):
        kept[n, column] = row[column]
    return n + 1


@step_kernel
def _append(memory: Memory, scale, row, group):
    """Keep a sample of a flow on a scale; it starts anew when its message, or its network partition, changes."""
    flow = row[h.FLOW]
    kept, count, last = memory.kept[scale, flow], memory.count[scale, flow], memory.group[scale, flow]
    if row[h.IS_PLAIN] == 0:
        memory.count[scale, flow] = 0
        return
    is_same = last[0] == group[0] and last[1] == group[1]
    if count > 0 and (not is_same or kept[count - 1, h.MESSAGE_END] != row[h.MESSAGE_END]):
        count = 0
    last[0], last[1] = group[0], group[1]
    memory.count[scale, flow] = keep_sample(kept, count, row)


@loop_kernel
def add_samples(memory: Memory, rows, groups, now_ps):
    """Append a sample of each flow on the scales on which one is due.

    All flows of a network partition are sampled at once: as often as the one with the longest interval.
    rows: int64[n, columns]. groups: int64[n, 2], label and version.
    """
    every_ps, last_ps = memory.every_ps, memory.last_ps[0]
    for i in range(rows.shape[0]):
        every_ps[groups[i, 0]] = 0
    for i in range(rows.shape[0]):
        every_ps[groups[i, 0]] = max(every_ps[groups[i, 0]], memory.look_ps[rows[i, h.FLOW]])
    for i in range(rows.shape[0]):
        n_new = 0
        for scale in range(memory.stride.size):
            interval_ps = every_ps[groups[i, 0]] * memory.stride[scale]
            if now_ps // interval_ps == last_ps // interval_ps:
                break
            _append(memory, scale, rows[i], groups[i])
            n_new += 1
        memory.n_new[rows[i, h.FLOW]] = n_new
    memory.last_ps[0] = now_ps


@loop_kernel
def forget(memory: Memory, flows):
    """Let flows' samples begin anew. flows: int64[]."""
    for i in range(flows.size):
        for scale in range(memory.stride.size):
            memory.count[scale, flows[i]] = 0


@loop_kernel
def remember_rates(memory: Memory, flows, rates, now_ps):
    """Note at which rates flows are found steady. flows: int64[], rates: float64[the same], bytes per ps."""
    for i in range(flows.size):
        flow, rate = flows[i], rates[i]
        memory.known_rate[flow] = rate
        if memory.first_rate[flow] == 0.0 or not abs(rate / memory.first_rate[flow] - 1) <= NEAR:
            memory.first_rate[flow] = rate
            memory.first_age_ps[flow] = now_ps - memory.skipped_ps[flow]


@step_kernel
def rate_of(kept, first, last):
    """Bytes acknowledged per ps between two samples; FOREVER if no time passed."""
    time_ps = kept[last, h.DONE_PS] - kept[first, h.DONE_PS]
    return (kept[last, h.DONE] - kept[first, h.DONE]) / time_ps if time_ps > 0 else FOREVER


@step_kernel
def stays(kept, first, last, share):
    """Whether a control's rate and window, in samples first..last of a flow, move by no more than a share of them."""
    for column in (h.RATE, h.WINDOW):
        low = high = kept[first, column]
        for k in range(first, last + 1):
            low, high = min(low, kept[k, column]), max(high, kept[k, column])
        if float(high) - float(low) > share * float(high):
            return False
    return True


@step_kernel
def covers_round_trips(kept, first, last, n_round_trip):
    """Whether the time between two samples of a flow is so many round trips as they are now, queueing included."""
    span_ps = kept[last, h.DONE_PS] - kept[first, h.DONE_PS]
    return span_ps > n_round_trip * (kept[last, h.SENT] - kept[last, h.DONE]) / rate_of(kept, first, last)


@step_kernel
def mismatch_of(kept, first, last):
    """By how much what was sent between two samples of a flow differs from what was acknowledged, relative to that;
    FOREVER if nothing was sent."""
    sent_ps = kept[last, h.SENT_PS] - kept[first, h.SENT_PS]
    if sent_ps <= 0:
        return FOREVER
    mean = rate_of(kept, first, last)
    return abs((kept[last, h.SENT] - kept[first, h.SENT]) / sent_ps - mean) / mean


@step_kernel
def _is_settled(kept, floats, n_average, first, last):
    """Whether a control's rate, window and averages stay, and no timer is on. floats: kept, where the averages are."""
    if not stays(kept, first, last, SETTLED):
        return False
    for k in range(first, last + 1):
        if kept[k, h.HAS_TIMER]:
            return False
    for a in range(h.N_COLUMN, h.N_COLUMN + n_average):
        lowest = highest = floats[first, a]
        for k in range(first, last + 1):
            lowest, highest = min(lowest, floats[k, a]), max(highest, floats[k, a])
        if not highest - lowest <= SETTLED * max(abs(lowest), abs(highest), 1.0):
            return False
    return True


@step_kernel
def _trend(kept, first, last, mean):
    """Change of the windows' rates along a least-squares line, relative; 0 below three standard errors of its slope."""
    n = last - first
    total = moment = squares = 0.0
    for k in range(n):
        at = k - (n - 1) / 2
        total += rate_of(kept, first + k, first + k + 1)
        moment += rate_of(kept, first + k, first + k + 1) * at
        squares += at * at
    slope, rest = moment / squares, 0.0
    for k in range(n):
        left = rate_of(kept, first + k, first + k + 1) - total / n - slope * (k - (n - 1) / 2)
        rest += left * left
    return abs(slope) * n / mean if abs(slope) > 3 * np.sqrt(rest / (n - 2) / squares) else 0.0


@step_kernel
def _cycle_bytes(kept, first, last, begin, n_place):
    """By how much places in the stream have moved in the last window, else in all: their least common multiple,
    at most MOST_CYCLE_BYTES."""
    cycle, moves = np.int64(1), False
    for k in range(begin, begin + n_place):
        moved = kept[last, k] - kept[last - 1, k]
        if moved <= 0:
            moved = kept[last, k] - kept[first, k]
        if moved > 0:
            moves = True
            a, b = cycle, moved
            while b:
                a, b = b, a % b
            if cycle // a > MOST_CYCLE_BYTES // moved:
                return MOST_CYCLE_BYTES
            cycle = cycle // a * moved
    return cycle if moves else np.int64(0)


@step_kernel
def _old_drift(memory: Memory, flow, rate, now_ps):
    """Relative change per ps of a flow since it was first found near its rate."""
    if memory.first_rate[flow] == 0.0:
        return FOREVER
    change = abs(rate / memory.first_rate[flow] - 1)
    age_ps = now_ps - memory.skipped_ps[flow] - memory.first_age_ps[flow]
    return max(change, LEAST_CHANGE) / max(age_ps, 1) if change <= NEAR else FOREVER


@step_kernel
def _judge_windows(memory: Memory, limits, scale, row, n_window, now_ps):
    """How long a flow may be skipped by its last n_window windows on a scale; negative: not at all."""
    flow = row[h.FLOW]
    kept, last = memory.kept[scale, flow], memory.count[scale, flow] - 1
    first = last - n_window
    if first < 0:
        return -1.0
    mean = rate_of(kept, first, last)
    if mean <= 0 or mean >= FOREVER:
        return -1.0
    low = high = rate_of(kept, first, first + 1)
    for k in range(first, last):
        each = rate_of(kept, k, k + 1)
        low, high = min(low, each), max(high, each)
    span_ps = kept[last, h.DONE_PS] - kept[first, h.DONE_PS]
    spread, mismatch = (high - low) / mean, mismatch_of(kept, first, last)
    if mismatch >= FOREVER or not covers_round_trips(kept, first, last, N_ROUND_TRIP):
        return -1.0
    if scale < N_FINE:
        if spread > limits.spread or not _is_settled(kept, memory.floats[scale, flow], memory.n_kept[0], first, last):
            return -1.0
        agrees = n_window == N_WINDOW or (spread < EXACT and mismatch < EXACT)
        agrees |= memory.known_rate[flow] > 0 and abs(mean / memory.known_rate[flow] - 1) < NEAR
        if not agrees:
            return -1.0
        half = first + n_window // 2
        drift = abs(rate_of(kept, half, last) - rate_of(kept, first, half)) / mean
        drift_per_ps = min(2 * drift / span_ps, _old_drift(memory, flow, mean, now_ps))
    else:
        if spread > limits.coarse_spread:
            return -1.0
        drift_per_ps = _trend(kept, first, last, mean) / span_ps
    left_ps = (row[h.MESSAGE_END] - row[h.SENT] - limits.guard_bytes) / mean
    drift_ps = 2 * limits.drift / max(drift_per_ps, 1e-30)
    return min(left_ps, drift_ps, limits.queue_bytes / (max(mismatch, 1e-12) * mean))


@loop_kernel
def judge_flows(memory: Memory, limits: Limits, rows, now_ps, may_ps, progress):
    """How long each flow of a sample may be skipped, at most what any scale allows, and its progress on that scale.

    Negative: not at all, or nothing new is known of it. Written: may_ps float64[n], progress int64[5, n], of flows that
    may be skipped: see `steady.Progress`.
    """
    begin = h.N_COLUMN + memory.n_kept[0]
    for i in range(rows.shape[0]):
        row = rows[i]
        may_ps[i] = -1.0
        for scale in range(memory.n_new[row[h.FLOW]]):
            kept, last = memory.kept[scale, row[h.FLOW]], memory.count[scale, row[h.FLOW]] - 1
            for n_window in (2, 4, N_WINDOW):
                if scale >= N_FINE and n_window != N_WINDOW:
                    continue
                allowed_ps = _judge_windows(memory, limits, scale, row, n_window, now_ps)
                if allowed_ps <= may_ps[i]:
                    continue
                first = last - n_window
                may_ps[i] = allowed_ps
                progress[0, i] = kept[last, h.DONE] - kept[first, h.DONE]
                progress[1, i] = kept[last, h.DONE_PS] - kept[first, h.DONE_PS]
                progress[2, i] = kept[last, h.DONE_PS] - kept[last - 1, h.DONE_PS]
                progress[3, i] = _cycle_bytes(kept, first, last, begin, memory.n_kept[1])
                progress[4, i] = kept[last, h.MARKED] - kept[first, h.MARKED]
