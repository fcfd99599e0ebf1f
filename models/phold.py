"""PHOLD, the standard benchmark of parallel discrete-event engines, as ROSS runs it.

Every LP starts with `population` events. An event draws U; if U <= remote, its successor goes to an LP drawn
uniformly over all of them (itself included), else to the LP itself, at now + lookahead + Exp(mean - lookahead).
Events at or past the end are dropped (Fujimoto 1990; ROSS `models/phold`). Deviation: times are integer picoseconds,
so an exponential draw is rounded down. It runs on the engine's rounds, order and exchange, and knows no network.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pdes.engine.event_queue import FREE, EventQueue, make_event_queue, peek_time, pop_event, push_event
from pdes.engine.exchange import World
from pdes.engine.jit import loop_kernel
from pdes.engine.rng import uniform
from pdes.engine.round import HORIZON, ROUND_DONE, close_round, make_loop, open_round, run_rounds
from pdes.engine.round_exchange import HEADER_WORDS, ExchangeState, make_exchange
from pdes.engine.time_index import NEVER
from pdes.random_plain import (
    PURPOSE_PHOLD_DELAY,
    PURPOSE_PHOLD_REMOTE,
    PURPOSE_PHOLD_START,
    PURPOSE_PHOLD_TARGET,
    mix64_plain,
)

# What `counters` holds: events run, a digest of (LP, time) of all of them that does not depend on their order.
N_EVENT, DIGEST = 0, 1
WORDS_PER_EVENT = 4
_LOW31 = 2**31 - 1  # keeps the digest's products below 2**63


@dataclass(frozen=True)
class PholdConfig:
    """n_lp LPs in contiguous blocks per rank; times in ps; remote in 0..1."""

    n_lp: int = 1024
    population: int = 1
    lookahead_ps: int = 1_000_000
    mean_ps: int = 2_000_000
    remote_frac: float = 1.0
    end_ps: int = 100_000_000
    seed: int = 1


class PholdState(NamedTuple):
    """One rank's share. LP i of the run is row i - first_lp here."""

    queue: EventQueue
    drawn: np.ndarray  # int64[n_local]  events each LP has run: the counter of its random draws
    counters: np.ndarray  # int64[2]
    block: np.ndarray  # int64[3]  first LP here, LPs here, LPs in all
    rank_of_peer: np.ndarray  # int64[n_rank]  row of a rank in the exchange, -1 for this one
    first_lp: np.ndarray  # int64[n_rank + 1]
    parameters: np.ndarray  # float64[2]  remote fraction, mean of the exponential in ps
    times: np.ndarray  # int64[3]  lookahead, end, seed


@loop_kernel
def _rank_of(first_lp, lp_id):
    low, high = 0, first_lp.size - 1
    while high - low > 1:
        middle = (low + high) >> 1
        if first_lp[middle] <= lp_id:
            low = middle
        else:
            high = middle
    return low


@loop_kernel
def _run_events(state: PholdState, ex: ExchangeState, horizon_ps):
    """Run this rank's events below the horizon; the least time of what is pending afterwards, here or sent."""
    queue, drawn, counters = state.queue, state.drawn, state.counters
    first, n_lp = state.block[0], state.block[2]
    lookahead_ps, end_ps, seed = state.times[0], state.times[1], state.times[2]
    remote_frac, mean_ps = state.parameters[0], state.parameters[1]
    n_event, digest, alone, least_sent_ps = 0, counters[DIGEST], state.first_lp.size == 2, NEVER
    while True:
        time_ps = peek_time(queue)
        if time_ps >= horizon_ps:
            break
        lp_id = np.int64(queue.events[np.uint64(pop_event(queue))].target)
        local = np.uint64(lp_id - first)
        count = drawn[local]
        drawn[local] = count + 1
        n_event += 1
        digest ^= (((time_ps & _LOW31) * 1_000_003 + lp_id) & _LOW31) * 2_654_435_761 + count
        target = lp_id
        if uniform(seed, lp_id, PURPOSE_PHOLD_REMOTE, count) <= remote_frac:
            target = np.int64(uniform(seed, lp_id, PURPOSE_PHOLD_TARGET, count) * n_lp)
        wait_ps = np.int64(-np.log(1.0 - uniform(seed, lp_id, PURPOSE_PHOLD_DELAY, count)) * mean_ps)
        new_ps = time_ps + lookahead_ps + wait_ps
        if new_ps >= end_ps:
            continue
        owner = 0 if alone else _rank_of(state.first_lp, target)
        peer = state.rank_of_peer[owner]
        if peer < 0:
            push_event(queue, new_ps, lp_id, count, target)
        else:
            box, at = ex.outbox[peer], ex.n_out[peer] + HEADER_WORDS
            box[at], box[at + 1], box[at + 2], box[at + 3] = new_ps, lp_id, count, target
            ex.n_out[peer] += WORDS_PER_EVENT
            least_sent_ps = min(least_sent_ps, new_ps)
    counters[N_EVENT] += n_event
    counters[DIGEST] = digest
    return min(least_sent_ps, peek_time(queue))


@loop_kernel
def _receive_events(state: PholdState, ex: ExchangeState):
    for i in range(ex.peer.size):
        box = ex.inbox[i]
        for at in range(HEADER_WORDS, HEADER_WORDS + ex.n_in[i], WORDS_PER_EVENT):
            push_event(state.queue, box[at], box[at + 1], box[at + 2], box[at + 3])
        ex.n_in[i] = 0


@loop_kernel
def _run_rounds(loop, ex: ExchangeState, state: PholdState):
    while True:
        if not open_round(loop, ex, peek_time(state.queue)):
            return ROUND_DONE
        least_ps = _run_events(state, ex, loop[HORIZON])
        code = close_round(loop, ex, least_ps)
        _receive_events(state, ex)
        if code != 0:
            return code


def make_phold(config: PholdConfig, world: World) -> PholdState:
    """State of one rank, with the first events of its LPs: at lookahead + Exp(mean - lookahead) from the start."""
    first_lp = np.array([config.n_lp * r // world.size for r in range(world.size + 1)], np.int64)
    first, last = int(first_lp[world.rank]), int(first_lp[world.rank + 1])
    queue = make_event_queue(config.n_lp * config.population + 1, 8 * config.mean_ps)
    peers = [r for r in range(world.size) if r != world.rank]
    rank_of_peer = np.full(world.size, -1, np.int64)
    rank_of_peer[peers] = np.arange(len(peers))
    exponential_ps = config.mean_ps - config.lookahead_ps
    for lp_id in range(first, last):
        for k in range(config.population):
            draw = uniform(config.seed, lp_id, PURPOSE_PHOLD_START, k)
            time_ps = config.lookahead_ps + int(-np.log(1.0 - draw) * exponential_ps)
            if time_ps < config.end_ps:
                push_event(queue, time_ps, lp_id, -1 - k, lp_id)
    return PholdState(
        queue=queue,
        drawn=np.zeros(max(1, last - first), np.int64),
        counters=np.zeros(2, np.int64),
        block=np.array([first, last - first, config.n_lp], np.int64),
        rank_of_peer=rank_of_peer,
        first_lp=first_lp,
        parameters=np.array([config.remote_frac, exponential_ps], np.float64),
        times=np.array([config.lookahead_ps, config.end_ps, config.seed], np.int64),
    )


class Phold:
    """PHOLD on this rank, for `pdes.engine.round.run_rounds`."""

    def __init__(self, config: PholdConfig, world: World) -> None:
        self.state, self._config, self._world = make_phold(config, world), config, world
        peers = [r for r in range(world.size) if r != world.rank]
        self.exchange = make_exchange(world, peers, config.n_lp * config.population * WORDS_PER_EVENT)
        self.loop = make_loop(config.lookahead_ps)

    def run_rounds(self, loop: np.ndarray, ex: ExchangeState) -> int:
        """Compiled rounds until done or time to pause."""
        return _run_rounds(loop, ex, self.state)

    def save(self) -> dict[str, np.ndarray]:
        """This rank's part of a checkpoint, at a round's end."""
        queue, n_local = self.state.queue, int(self.state.block[1])
        is_pending, free = np.ones(len(queue.events), np.bool_), int(queue.cursor[FREE])
        while 0 <= free < len(queue.events):
            is_pending[free] = False
            free = int(queue.events["next"][free])
        names = ("time_ps", "source", "sequence", "target")
        return {
            "events": np.column_stack([queue.events[name][is_pending].astype(np.int64) for name in names]),
            "drawn": self.state.drawn[:n_local], "counters": self.state.counters,
        }  # fmt: skip

    def load(self, parts: Sequence[dict[str, np.ndarray]]) -> None:
        """Go on from a checkpoint. parts: of all ranks, however many there were."""
        state, config, (first, n_local, _) = self.state, self._config, self.state.block.tolist()
        self.state = state._replace(queue=make_event_queue(len(state.queue.events), 8 * config.mean_ps))
        for time_ps, source, sequence, target in np.concatenate([part["events"] for part in parts]).tolist():
            if first <= target < first + n_local:
                push_event(self.state.queue, time_ps, source, sequence, target)
        drawn = np.concatenate([part["drawn"] for part in parts])  # blocks of LPs stand in the order of ranks
        state.drawn[:n_local] = drawn[first : first + n_local]
        if self._world.rank == 0:
            state.counters[N_EVENT] = sum(int(part["counters"][N_EVENT]) for part in parts)
            state.counters[DIGEST] = np.bitwise_xor.reduce([part["counters"][DIGEST] for part in parts])

    def relieve(self, code: int) -> None:
        """PHOLD's buffers hold every event that can exist: nothing is ever short."""
        raise AssertionError(f"unexpected code {code}")


def run_phold(config: PholdConfig, world: World) -> tuple[int, int, np.ndarray]:
    """Run to the end; (events, digest) over all ranks, and this rank's loop counters.

    The digest combines time, LP and draw count of every event, so equal digests mean equal histories.
    """
    model = Phold(config, world)
    run_rounds(model, model.loop, model.exchange)
    parts = world.allgather((int(model.state.counters[N_EVENT]), int(model.state.counters[DIGEST])))
    digest = 0
    for part in parts:
        digest ^= part[1]
    return sum(p[0] for p in parts), mix64_plain(digest & (2**64 - 1)), model.loop
