"""With which weights flows share ports where a control shares unevenly: learned from episodes, drawn for messages.

Under HPCC flows that share ports swing: over some round trips one gets half as much again as its fair share, another
half of it, and who is ahead is chance. No window says how a message goes on then. But over its whole life a message
keeps near a share that is up to the length of its way, and the rest has a distribution. So an episode that was
simulated from the first posting to the last end is compared with a fluid of the same messages: which weights, one for
each form of way, and which use of the ports (both by fixed-point iteration) bring the fluid's messages to their ends
when those came to theirs? What is left over of each message is a sample of its form's distribution. A message of a
later set of the same forms draws one, so an estimate has the distribution of completion times, and not each flow's own:
that is chance.

Weighted shares as Arcadia's flow mode has them for users; learned weights and draws are ours.
"""

from typing import NamedTuple

import numpy as np

from pdes.engine.jit import loop_kernel
from pdes.skipping.fluid.max_min import Scratch, max_min

MOST_FLOWS = 256  # of an episode: each fit takes as many squared
MOST_BURSTS = 16  # of a set of forms
MOST_OF_BURST = 4  # messages, of a form
MOST_WEIGHT = 8.0  # of a form, and as much less: HPCC's shares differ by three times
MOST_FITS, FITTED = 100, 1e-4  # iterations, and how far the means of forms may be off then, relative
LEAST_LEFT, LEAST_BYTES = 1e-6, 1e-3  # of a message, and bytes: nothing is left
FAR = 1e300


class Uneven(NamedTuple):
    """How flows of one set of forms share ports, and by how much messages differ from that."""

    form: np.ndarray  # int64[n_form], ascending
    weight: np.ndarray  # float64[n_form]
    ratio: np.ndarray  # float64[n_form, n_burst, MOST_OF_BURST], of a message's rate to what that says
    n_ratio: np.ndarray  # int64[n_form, n_burst]

    @property
    def n_burst(self) -> int:
        """Of how many sources' messages it has these ratios."""
        return self.ratio.shape[1]


NOTHING = Uneven(np.zeros(0, np.int64), np.zeros(0), np.zeros((0, 0, MOST_OF_BURST)), np.zeros((0, 0), np.int64))


class Episode(NamedTuple):
    """Messages that were there together, and scratch. Arrays have an element for each of them."""

    flows: np.ndarray  # int64
    size: np.ndarray  # float64, bytes
    begin_ps: np.ndarray  # float64, from the first one's on
    took_ps: np.ndarray  # float64, until its last byte left
    left: np.ndarray  # float64, scratch from here on: bytes
    end_ps: np.ndarray  # float64
    there: np.ndarray  # int64, flows that are there
    row: np.ndarray  # int64, and which messages are theirs
    rate: np.ndarray  # float64


def make_episode(flows: np.ndarray, size: np.ndarray, begin_ps: np.ndarray, end_ps: np.ndarray) -> Episode:
    """int64[n] each, see `Episode`."""
    n, first_ps = len(flows), int(begin_ps.min(initial=0 if len(flows) == 0 else begin_ps[0]))
    floats = size.astype(np.float64), (begin_ps - first_ps).astype(np.float64), (end_ps - begin_ps).astype(np.float64)
    places = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n)
    return Episode(flows, *floats, np.zeros(n), np.zeros(n), *places)


@loop_kernel
def run_fluid(e: Episode, port_start, port_of, byte_per_ps, s: Scratch, efficiency):
    """Write into e.end_ps when each message's last byte leaves, if they share ports by s.weight, and use so much of
    them. Ports of flow f: port_of[port_start[f]] .. . byte_per_ps: float64[n_port]."""
    n, now_ps = e.flows.size, 0.0
    for i in range(n):
        e.left[i] = e.size[i]
    while now_ps < FAR:
        next_ps, n_there = FAR, 0
        for i in range(n):
            if e.begin_ps[i] > now_ps:
                next_ps = min(next_ps, e.begin_ps[i])
            elif e.left[i] > 0.0:
                e.there[n_there], e.row[n_there] = e.flows[i], i
                n_there += 1
        max_min(e.there[:n_there], port_start, port_of, byte_per_ps, s, e.rate)
        for k in range(n_there):
            next_ps = min(next_ps, now_ps + e.left[e.row[k]] / (e.rate[k] * efficiency))
        for k in range(n_there):
            i = e.row[k]
            e.left[i] -= e.rate[k] * efficiency * (next_ps - now_ps)
            if e.left[i] <= max(LEAST_LEFT * e.size[i], LEAST_BYTES):
                e.left[i], e.end_ps[i] = 0.0, next_ps
        now_ps = next_ps


def fit(
    e: Episode, form: np.ndarray, source: np.ndarray, ways: tuple[np.ndarray, np.ndarray], byte_per_ps: np.ndarray,
    s: Scratch,
) -> tuple[float, Uneven]:  # fmt: skip
    """(how much of ports is used, how they are shared), by which the fluid goes as the episode did.

    form, source: int64[n], of the messages. s.weight of the flows is 1 before and afterwards. Of a form that is alone
    on its ports no weight explains how slow it is: its weight is bounded, the rest is left over of its messages.
    """
    forms, group = np.unique(form, return_inverse=True)
    group, efficiency = group.ravel(), 1.0
    n_of = np.bincount(group)
    weight, ratio = np.ones(len(n_of)), np.ones(len(form))
    for _ in range(MOST_FITS):
        s.weight[e.flows] = weight[group]
        run_fluid(e, *ways, byte_per_ps, s, efficiency)
        ratio = (e.end_ps - e.begin_ps) / e.took_ps  # above 1: the fluid is too slow
        of_form = np.bincount(group, ratio) / n_of
        if np.abs(of_form - 1).max() < FITTED:
            break
        efficiency *= float(ratio.mean())
        weight *= of_form / ratio.mean()
        weight = (weight / np.exp((np.log(weight) * n_of).sum() / len(form))).clip(1 / MOST_WEIGHT, MOST_WEIGHT)
    s.weight[e.flows] = 1.0
    bursts, burst = np.unique(source, return_inverse=True)
    n_burst = min(len(bursts), MOST_BURSTS)
    found, n_found = np.zeros((len(forms), n_burst, MOST_OF_BURST)), np.zeros((len(forms), n_burst), np.int64)
    for i, (g, b) in enumerate(zip(group.tolist(), burst.ravel().tolist(), strict=True)):
        if b < n_burst and n_found[g, b] < MOST_OF_BURST:
            found[g, b, n_found[g, b]] = ratio[i]
            n_found[g, b] += 1
    return efficiency, Uneven(forms, weight, found, n_found)


def together(a: Uneven, b: Uneven) -> Uneven:
    """What two episodes of the same forms say: the mean weights, all bursts as far as there is room."""
    if len(a.form) == 0:
        return b
    n_a, n_b = a.n_burst, b.n_burst
    weight = np.exp((np.log(a.weight) * n_a + np.log(b.weight) * n_b) / (n_a + n_b))
    ratio = np.concatenate([a.ratio, b.ratio], axis=1)[:, :MOST_BURSTS]
    n_ratio = np.concatenate([a.n_ratio, b.n_ratio], axis=1)[:, :MOST_BURSTS]
    return Uneven(a.form, weight, ratio, n_ratio)
