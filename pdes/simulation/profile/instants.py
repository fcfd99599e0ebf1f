"""Stretches of a run at instants that are spread over it, each of them packet by packet.

The run is fast-forwarded. Whenever so many more packet-hops or rounds are done, simulated or skipped, a copy of the
process wakes the network and simulates a stretch of it from there: some rounds to fill the ways of packets, some one
by one, to say what is done in them, and some in one go, to say how long they take. The run itself goes on as if nothing
had been. So an instant's chance to be among them is known, and with it what its stretch stands for.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from models.network.model import LogicalProcesses, NetworkModel
from models.network.skip.make_fast_forward import Wanted, make_fast_forward
from models.network.skip.wake import wake
from models.network.state.records import PACKET_HOPS
from models.network.watch.observers import Observer, next_look_ps
from models.network.watch.reached import Reached
from pdes.config.wormhole.table import FORECASTS
from pdes.engine.exchange import World
from pdes.engine.round import END_RUN, HORIZON, LOOKAHEAD, N_ROUND, NEXT_LOOK, NOW, make_loop
from pdes.engine.time_index import NEVER
from pdes.scenario import Scenario
from pdes.scenario.network import with_skips
from pdes.simulation.observers import make_sampler, watch_deadlocks, watch_iterations, watch_stalls
from pdes.simulation.profile.forked import forked
from pdes.simulation.profile.stretches import GO_EVERY_S, Reader, Stretch, weigh
from pdes.skipping.criterion import Choice

N_INSTANT = 32  # by packet-hops
LONGER = 4  # by rounds there is one in so many times the rounds that the same instants would have at full load
MOST_INSTANTS = 4 * N_INSTANT  # before they become half as many
LOOKS = 8  # between two instants, to see how far the run is
N_FILL_TRIP, LEAST_FILL, MOST_FILL = 4, 16, 512  # round trips before a stretch, and rounds
N_GO, N_READ = 64, 64  # rounds of a stretch in one go, and one by one
N_LONG = 16  # where they may be longer than a lookahead
TOLERANCE = 0.05  # of waves, where the config has none: what is skipped between instants need not be exact


@dataclass(frozen=True)
class Sampled:
    """Stretches, and how far the run came."""

    stretches: list[Stretch]
    is_whole: bool
    simulated_ps: int
    hops: float
    """That the run has done, simulated or skipped."""


def skipping(s: Scenario) -> Scenario:
    """The same run, with as much fast-forwarding as gets through it soon."""
    w = s.config.wormhole
    forecasts = w.paper.forecasts or FORECASTS[:4]
    paper = {"forecasts": [*FORECASTS[:4], *forecasts[4:]], "restoration": "snapshot", "restoration_model": None}
    keys = {
        "mode": "auto", "tolerance": w.wave_tolerance or TOLERANCE, "audit": 0.0, "memo": None,
        "microbatch_repeats": 0, "paper": w.paper.model_copy(update=paper),
    }  # fmt: skip
    config = s.config.model_copy(update={"wormhole": w.model_copy(update=keys)})
    return replace(s, config=config, parameters=with_skips(config, s.parameters))


def sample_run(s: Scenario, limit_s: float, say: Callable[[int, int, float, str], None]) -> Sampled | None:
    """Sample a run that is to be predicted packet by packet, in limit_s of wall time; None: it cannot skip.

    say: told the time, the packet-hops simulated so far, the share that is done and what else there is to say.
    """
    fast = skipping(s)
    model = NetworkModel(
        fast.topology,
        fast.paths,
        fast.plan,
        fast.max_window_bytes,
        LogicalProcesses(fast.lp_of_node, np.zeros(fast.n_lp, np.int64), fast.lookahead_ps),
        World(),
        fast.parameters,
        lambda *_: None,
    )
    w = fast.config.wormhole
    choice = Choice(w.paper.criterion, **w.paper.criterion_parameters)
    wanted = Wanted(choice, w.skips, w.wave_tolerance)
    model.fast_forward = make_fast_forward(
        fast.topology, model, fast.parameters, World(), fast.path_rtt_ps, fast.stop_ps, wanted
    )
    if model.fast_forward is None:
        return None
    iterations = watch_iterations(fast, model, World())
    model.observers = [] if iterations is None else [iterations]
    model.compile()
    return _Instants(s, model, say).run(time.monotonic() + limit_s)


class _OutOfTimeError(Exception):
    pass


class _Instants:
    """A run that skips, and looks at where it is."""

    def __init__(self, s: Scenario, model: NetworkModel, say: Callable[[int, int, float, str], None]) -> None:
        self._s, self._model, self._say = s, model, say
        stop_ps = NEVER - 1 if s.stop_ps is None else s.stop_ps
        self._loop = make_loop(s.lookahead_ps, stop_ps, model.first_look_ps())
        self._reached, self._expected = Reached(model), max(1, int(s.port_hops.sum()))
        full_ps = max(_full_load_ps(s), N_INSTANT * s.lookahead_ps)
        self._every_hops = self._expected / N_INSTANT
        self._every_rounds = LONGER * full_ps / N_INSTANT / s.lookahead_ps
        self._look_ps = max(int(full_ps / N_INSTANT / LOOKS), s.lookahead_ps)
        self._due, self._due_ps = 0.5, 0  # instants that are to be sampled; when to look again
        self._was = (0, 0, 0.0, False)  # time, rounds, packet-hops, whether something was skipped
        self._stretches: list[Stretch] = []
        self._n_since_thinned, self._end_s = 0, 0.0

    def run(self, end_s: float) -> Sampled:
        """Run until it is over, or until an instant of wall time."""
        model, loop, look, self._end_s = self._model, self._loop, self._model.look, end_s
        fast = model.fast_forward
        assert fast is not None

        def look_at_instants(horizon_ps: int) -> int:
            next_ps = look(horizon_ps)
            if next_ps == END_RUN:
                return END_RUN
            if horizon_ps >= self._due_ps:
                self._look_at(horizon_ps)
            fast.hold(self._due_ps)
            return min(next_ps, self._due_ps)

        model.look = look_at_instants
        loop[NEXT_LOOK] = min(int(loop[NEXT_LOOK]), self._look_ps)
        try:
            is_whole = Reader(model, loop).run_for(2**62, end_s - time.monotonic(), 0.2)
        except _OutOfTimeError:
            is_whole = False
        hops = self._reached.hops(int(loop[HORIZON]))
        is_short = is_whole and self._s.stop_ps is not None
        found = [stretch for stretch in self._stretches if stretch.n_round > 0 and stretch.hops > 0]
        weigh(found, hops if is_short else self._expected)
        return Sampled(found, is_whole, int(loop[NOW]), hops)

    def _look_at(self, horizon_ps: int) -> None:
        """See how far the run is, and sample it here if it is time."""
        model, reached = self._model, self._reached
        hops, n_round, is_skipping = reached.hops(horizon_ps), int(self._loop[N_ROUND]), reached.is_skipping
        was_ps, was_round, was_hops, was_skipping = self._was
        rounds = n_round - was_round
        if is_skipping or was_skipping:
            rounds = max(rounds, (horizon_ps - was_ps) // int(self._loop[LOOKAHEAD]))
        self._was = (horizon_ps, n_round, hops, is_skipping)
        self._due += max(0.0, hops - was_hops) / self._every_hops + rounds / self._every_rounds
        next_ps = horizon_ps if is_skipping else int(model.state.fabric.node_time[1])
        self._due_ps = min(max(horizon_ps, next_ps) + self._look_ps, NEVER)  # nothing happens before, if ever
        share = hops / self._expected
        self._say(horizon_ps, int(model.state.fabric.counters[PACKET_HOPS]), share, f"{len(self._stretches)} stretches")
        if time.monotonic() > self._end_s:
            raise _OutOfTimeError
        if self._due < 1:
            return
        self._due -= 1
        self._take(forked(self._stretch))

    def _take(self, stretch: Stretch) -> None:
        """Keep a stretch with what it stands for: rounds over its chance per round.

        Rounds in one go are left out: how many there are depends on how busy the machine is.
        """
        if stretch.n_round == 0:
            return
        longer = np.clip(stretch.round_ps, self._s.lookahead_ps, max(self._s.longest_round_ps, self._s.lookahead_ps))
        rounds_of_one = float(longer) / self._s.lookahead_ps  # every_rounds are of one lookahead
        stands_for = 1 / (stretch.hops / stretch.n_round / self._every_hops + rounds_of_one / self._every_rounds)
        stretch.weight = stands_for / stretch.n_round
        self._stretches.append(stretch)
        self._n_since_thinned += 1
        if self._n_since_thinned >= MOST_INSTANTS:
            self._every_hops, self._every_rounds = 2 * self._every_hops, 2 * self._every_rounds
            self._n_since_thinned = 0

    def _stretch(self) -> Stretch:
        """In a copy of the process: simulate a stretch from here on, packet by packet."""
        s, model, loop = self._s, self._model, self._loop
        at_ps, each_s = int(loop[HORIZON]), max(0.05, (self._end_s - time.monotonic()) / N_INSTANT / 6)
        wake(model, loop)
        model.observers = _observers(s, model)
        loop[NEXT_LOOK] = next_look_ps(model.observers)
        reader = Reader(model, loop)
        n_fill = int(np.clip(N_FILL_TRIP * s.base_rtt_ps // s.lookahead_ps, LEAST_FILL, MOST_FILL))
        if reader.run_for(n_fill, each_s, GO_EVERY_S):
            return Stretch(at_ps)
        n_go, n_read = (N_LONG, N_LONG) if s.longest_round_ps else (N_GO, N_READ)
        if s.longest_round_ps:
            model.know_outputs(s.lp_of_node, s.lookahead_ps, s.longest_round_ps)
        stretch, is_over = reader.one_by_one(n_read, each_s)
        total, is_over = (None, True) if is_over else reader.go(n_go, each_s)
        return replace(stretch, at_ps=at_ps, total=None if is_over else total)


def _observers(s: Scenario, model: NetworkModel) -> list[Observer]:
    """Those of the run that is predicted: they say when rounds begin with a reduction."""
    world = World()
    found: list[Observer | None] = [make_sampler(s, model, world), watch_deadlocks(s, model, world)]
    found.append(watch_stalls(s, model, world))
    return [one for one in found if one is not None]


def _full_load_ps(s: Scenario) -> int:
    """How long the busiest port sends, about: half of its packets are acknowledgements."""
    size_bytes = (s.config.network.payload_bytes + s.config.network.header_bytes) / 2
    return int((s.port_hops / s.topology.port_rate_bps).max(initial=0.0) * 8e12 * size_bytes)
