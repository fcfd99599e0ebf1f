"""What a look finds before anything is judged, in one pass over the sample: network partitions brought up to date,
which of them have long messages alone, which have changed, which might be new to the memo.
"""

from typing import NamedTuple

import numpy as np

from pdes.engine.jit import loop_kernel, step_kernel
from pdes.engine.time_index import NEVER
from pdes.skipping import history as h
from pdes.skipping.in_place_sort import sort_in_place
from pdes.skipping.leaving import leave
from pdes.skipping.partitions import Partitions, enter

BIT_PS = 8e12  # bits per byte x ps per second
WITH_SHORT, WITH_SHORTER, NOT_PLAIN, UNASKED, CHANGED, RENEWED = 1, 2, 4, 8, 16, 32  # of a network partition
PATIENCE = 48  # intervals in which a network partition stays as it is before it is looked at half as often
MAX_INTERVAL = 32  # between two looks, in intervals

# What `Survey.found` holds.
N_JUDGED, N_FRESH, IS_CALM, SOON_PS, IS_FOLLOWED = range(5)


class Survey(NamedTuple):
    """What looks remember, and what the last one found. Written by `survey` alone, but for `ask` and `thawed`."""

    active: np.ndarray  # int64[2, n_flow]  flows in network partitions, ascending; and room for the next such list
    n_active: np.ndarray  # int64[1]
    look_ps: np.ndarray  # int64[n_flow]  least time between two samples of a flow
    every_ps: np.ndarray  # int64[n_flow]  by label: the longest of its flows'
    since_ps: np.ndarray  # int64[n_flow]  by label: since when it has been as it is, -1: it has just been thawed
    last_end: np.ndarray  # int64[n_flow]  by flow: end of its message at the last look
    seen_version: np.ndarray  # int64[n_flow]  by label: version at the last look
    asked_version: np.ndarray  # int64[n_flow]  by label: version when a key was asked for, -1: never
    asked_end: np.ndarray  # int64[n_flow]  by flow: end of its message then
    n_row: np.ndarray  # int64[n_flow]  by label: rows of a sample; 0 between looks
    kind: np.ndarray  # int64[n_flow]  by label: bits; 0 between looks
    label: np.ndarray  # int64[n_flow]  of each row; the others by row, too:
    judged: np.ndarray  # int64[n_flow]  rows of flows that are to be judged
    group: np.ndarray  # int64[n_flow, 2]  and their labels and versions
    fresh: np.ndarray  # int64[n_flow]  rows of network partitions that may want keys
    found: np.ndarray  # int64[5]
    least_ps: np.ndarray  # float64[n_flow]  by label: scratch of `steady_labels`, inf between calls


def make_survey(look_ps: np.ndarray) -> Survey:
    """Nothing is known of flows. look_ps: int64[n_flow], least time between two samples of a flow."""
    n_flow = len(look_ps)

    def rows(value: int = 0) -> np.ndarray:
        return np.full(n_flow, value, np.int64)

    return Survey(
        np.zeros((2, n_flow), np.int64), np.zeros(1, np.int64), look_ps.astype(np.int64), rows(), rows(), rows(),
        rows(-1), rows(-1), rows(), rows(), rows(), rows(), rows(), np.zeros((n_flow, 2), np.int64), rows(),
        np.zeros(5, np.int64), np.full(n_flow, np.inf),
    )  # fmt: skip


@step_kernel
def _lasts(row, for_ps):
    """Whether a flow's message goes on for that long at its present rate."""
    return float(row[h.MESSAGE_END] - row[h.SENT]) * BIT_PS > float(row[h.RATE]) * for_ps


@step_kernel
def _follow(partitions: Partitions, s: Survey, rows, is_frozen):
    """Let flows that have ended leave their network partitions, and new ones enter, each in ascending order."""
    active, kept, n_kept, i = s.active[0], s.active[1], 0, 0
    for k in range(s.n_active[0]):
        flow = active[k]
        while i < rows.shape[0] and rows[i, h.FLOW] < flow:
            i += 1
        if is_frozen[flow] or (i < rows.shape[0] and rows[i, h.FLOW] == flow):
            kept[n_kept] = flow
            n_kept += 1
        else:
            leave(partitions, flow)
    k, n_active = 0, 0
    for i in range(rows.shape[0]):
        flow = rows[i, h.FLOW]
        while k < n_kept and kept[k] < flow:
            active[n_active] = kept[k]
            n_active, k = n_active + 1, k + 1
        if partitions.label_of_flow[flow] < 0:
            enter(partitions, flow)
        else:
            k += 1
        active[n_active] = flow
        n_active += 1
    while k < n_kept:
        active[n_active] = kept[k]
        n_active, k = n_active + 1, k + 1
    s.n_active[0] = n_active


@step_kernel
def _describe(partitions: Partitions, s: Survey, rows, n_long, n_memo):
    """Say of each network partition of the sample what kind it is."""
    for i in range(rows.shape[0]):
        flow = rows[i, h.FLOW]
        label = np.int64(partitions.label_of_flow[flow])
        if s.n_row[label] == 0:
            s.every_ps[label] = 0
        s.label[i] = label
        s.n_row[label] += 1
        s.every_ps[label] = max(s.every_ps[label], s.look_ps[flow])
    for i in range(rows.shape[0]):
        row, label = rows[i], s.label[i]
        flow, version, every_ps = row[h.FLOW], partitions.version[label], float(s.every_ps[label])
        kind = s.kind[label]
        if s.seen_version[label] != version:
            kind |= CHANGED
        if s.last_end[flow] != row[h.MESSAGE_END]:
            kind |= RENEWED
            s.last_end[flow] = row[h.MESSAGE_END]
        if not _lasts(row, n_long * every_ps):
            kind |= WITH_SHORT
        if not _lasts(row, n_memo * every_ps):
            kind |= WITH_SHORTER
        if row[h.IS_PLAIN] == 0:
            kind |= NOT_PLAIN
        if s.asked_version[label] != version or s.asked_end[flow] != row[h.MESSAGE_END]:
            kind |= UNASKED
        s.kind[label] = kind


@step_kernel
def _next_ps(s: Survey, label, now_ps):
    """How soon a network partition is to be looked at again: the later, the longer nothing about it has changed."""
    if s.kind[label] & (CHANGED | RENEWED) or s.since_ps[label] < 0:
        s.since_ps[label] = now_ps
    n, patience_ps = np.int64(1), PATIENCE * s.every_ps[label]
    left_ps = now_ps - s.since_ps[label] - patience_ps
    while left_ps >= 0 and n < MAX_INTERVAL:
        n *= 2
        left_ps -= n * patience_ps
    return n * s.every_ps[label]


@loop_kernel
def survey(partitions: Partitions, s: Survey, rows, is_frozen, now_ps, worth, judges_all, must_follow):
    """Look over a sample. rows: of every active flow that is not frozen, ascending.

    worth: for how many intervals messages must go on to be judged, and for the memo, negative: there is none.
    judges_all: flows are judged with those whose messages are short. must_follow: network partitions are brought up to
    date even if all messages are short. Without that nothing is found.
    """
    n_long, n_memo = worth[0], worth[1]
    found, has_memo = s.found, n_memo >= 0.0
    is_any_long, is_any_kept = False, rows.shape[0] == 0 or must_follow
    for i in range(rows.shape[0]):
        every_ps = float(s.look_ps[rows[i, h.FLOW]])
        is_any_long |= _lasts(rows[i], n_long * every_ps)
        is_any_kept |= has_memo and _lasts(rows[i], n_memo * every_ps)
    found[N_JUDGED], found[N_FRESH], found[IS_CALM], found[SOON_PS] = 0, 0, rows.shape[0] == 0, NEVER
    found[IS_FOLLOWED] = is_any_long or is_any_kept
    if not found[IS_FOLLOWED]:
        return
    _follow(partitions, s, rows, is_frozen)
    _describe(partitions, s, rows, n_long, n_memo)
    short = WITH_SHORTER if has_memo else WITH_SHORT
    for i in range(rows.shape[0]):
        label = s.label[i]
        kind, version = s.kind[label], partitions.version[label]
        next_ps = _next_ps(s, label, now_ps)
        if kind & short == 0:
            found[IS_CALM] |= kind & CHANGED == 0
            found[SOON_PS] = min(found[SOON_PS], next_ps)
        if is_any_long and (judges_all or kind & WITH_SHORT == 0):
            k = found[N_JUDGED]
            s.judged[k], s.group[k, 0], s.group[k, 1] = i, label, version
            found[N_JUDGED] += 1
        is_whole = s.n_row[label] == partitions.n_flow_of[label]
        if has_memo and is_whole and kind & (WITH_SHORTER | NOT_PLAIN | UNASKED) == UNASKED:
            s.fresh[found[N_FRESH]] = i
            found[N_FRESH] += 1
    for i in range(rows.shape[0]):
        label = s.label[i]
        s.seen_version[label] = partitions.version[label]
        s.n_row[label], s.kind[label] = 0, 0


@loop_kernel
def steady_labels(s: Survey, n_row, may_ps, least_ps, out):
    """Labels of network partitions all of whose flows may be skipped for least_ps or more, ascending; how many.

    may_ps: float64[n_row], of the rows that are judged. out: int64[], at least as many as there are labels.
    """
    n_steady = 0
    for k in range(n_row):
        label = s.group[k, 0]
        s.least_ps[label] = min(s.least_ps[label], may_ps[k])
    for k in range(n_row):
        label = s.group[k, 0]
        if least_ps <= s.least_ps[label] < np.inf:
            out[n_steady] = label
            n_steady += 1
        s.least_ps[label] = np.inf
    sort_in_place(out, n_steady)
    return n_steady


def ask(s: Survey, labels: np.ndarray, versions: np.ndarray, rows: np.ndarray) -> None:
    """Network partitions have got their keys, with these messages. rows: their flows' samples."""
    s.asked_version[labels] = versions
    s.asked_end[rows[:, h.FLOW]] = rows[:, h.MESSAGE_END]


def thawed(s: Survey, labels: np.ndarray) -> None:
    """They go on after a skip: they may be keyed again as they are, and are looked at as if they were new."""
    s.asked_version[labels], s.since_ps[labels] = -1, -1
