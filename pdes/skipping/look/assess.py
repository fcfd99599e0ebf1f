"""A look up to where something is decided, compiled: survey, sample, judge, and whether anything came of it.

Most looks find nothing: no network partition has settled, none is new to the memo, none that others wait for was
disturbed. Such a look needs no trip through Python. What stands in `words` is written here and by the controller.
"""

from typing import NamedTuple

import numpy as np

from pdes.engine.jit import loop_kernel, step_kernel
from pdes.engine.time_index import NEVER
from pdes.skipping import history as h
from pdes.skipping.look.survey import (
    IS_CALM,
    MAX_INTERVAL,
    N_FRESH,
    N_JUDGED,
    SOON_PS,
    Survey,
    steady_labels,
    survey,
)
from pdes.skipping.partitions import Partitions
from pdes.skipping.windows import Limits, Memory, add_samples, judge_flows

# What `Assessment.words` holds.
(
    NEXT_LOOK_PS,
    INTERVAL_PS,  # from the last look to the next
    SHORTEST_PS,  # interval of any flow
    LOOK_PS,  # the longest
    N_LOOK,
    MOST_PARTITIONS,  # that there were at a look
    N_STEADY,  # network partitions that may be skipped for LEAST_PS or more, found by the last look
    LEAST_PS,
    N_LED,  # that others wait for, or may come to
    MUST_FOLLOW,  # 1: network partitions are brought up to date even if all messages are short
    SKIPS_STEADY,  # 0: what has settled is not skipped
    LED_DISTURBED,  # 1: one of those that others wait for was, found by the last look
) = range(12)
N_WORD = 12


class Assessment(NamedTuple):
    """What a look reads and writes before anything is decided."""

    words: np.ndarray  # int64[N_WORD]
    worth: np.ndarray  # float64[2]  for how many intervals messages must go on: to be judged; for the memo, -1: none
    partitions: Partitions
    survey: Survey
    is_frozen: np.ndarray  # bool[n_flow]
    memory: Memory
    limits: Limits
    judged: np.ndarray  # int64[n_flow, columns]  samples of the flows that are judged
    may_ps: np.ndarray  # float64[n_flow]  of each of them, see `windows.judge_flows`
    progress: np.ndarray  # int64[5, n_flow]
    steady: np.ndarray  # int64[n_flow]  labels of network partitions that have settled
    led: np.ndarray  # int64[2, n_flow]  labels and versions of those that others wait for
    led_version: np.ndarray  # int64[n_flow]  by label, -1: nobody waits for it


@step_kernel
def choose_next(words, is_calm, soon_ps, now_ps):
    """Choose the next look.

    As soon as some network partition wants, soon_ps (NEVER: none has only long messages), if one of them stays as it
    is, or if all is quiet. Else in twice the time that it was, so that traffic that never settles is hardly looked at.
    """
    most_ps = MAX_INTERVAL * words[LOOK_PS]
    if is_calm:
        words[INTERVAL_PS] = min(soon_ps if soon_ps < NEVER else words[SHORTEST_PS], most_ps)
    else:
        words[INTERVAL_PS] = min(2 * words[INTERVAL_PS], most_ps)
    words[NEXT_LOOK_PS] = now_ps + words[INTERVAL_PS]


@loop_kernel
def look_over(words, worth, partitions: Partitions, s: Survey, is_frozen, rows, now_ps, judges_all):
    """Bring network partitions up to date and choose the next look. rows: see `survey`."""
    words[N_LOOK] += 1
    survey(partitions, s, rows, is_frozen, now_ps, worth, judges_all, words[MUST_FOLLOW] != 0)
    words[MOST_PARTITIONS] = max(words[MOST_PARTITIONS], partitions.n_partition[0])
    choose_next(words, s.found[IS_CALM] != 0, s.found[SOON_PS], now_ps)


@step_kernel
def _is_led_disturbed(a: Assessment, rows):
    """Whether a network partition that others wait for has changed, or has a flow that is not plain any more."""
    for i in range(a.words[N_LED]):
        if a.partitions.version[a.led[0, i]] != a.led[1, i]:
            return True
    if a.words[N_LED] > 0:
        for i in range(rows.shape[0]):
            label = a.survey.label[i]
            if rows[i, h.IS_PLAIN] == 0 and a.led_version[label] == a.partitions.version[label]:
                return True
    return False


@loop_kernel
def assess(a: Assessment, rows, now_ps):
    """Look at a sample, by the default criterion; whether there is anything to decide.

    rows: int64[n, columns], of every active flow that is not frozen, ascending.
    """
    words, s = a.words, a.survey
    look_over(words, a.worth, a.partitions, s, a.is_frozen, rows, now_ps, False)
    n_judged = s.found[N_JUDGED]
    words[N_STEADY] = 0
    if n_judged > 0:
        for k in range(n_judged):
            for column in range(rows.shape[1]):
                a.judged[k, column] = rows[s.judged[k], column]
        add_samples(a.memory, a.judged[:n_judged], s.group[:n_judged], now_ps)
        judge_flows(a.memory, a.limits, a.judged[:n_judged], now_ps, a.may_ps, a.progress)
        if words[SKIPS_STEADY]:
            words[N_STEADY] = steady_labels(s, n_judged, a.may_ps, float(words[LEAST_PS]), a.steady)
    words[LED_DISTURBED] = _is_led_disturbed(a, rows)
    return words[N_STEADY] > 0 or s.found[N_FRESH] > 0 or words[LED_DISTURBED] != 0
