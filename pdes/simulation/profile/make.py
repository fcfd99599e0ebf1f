"""A profile: what each LP had to do in rounds of a run, for the prediction of many ranks.

Of a run that goes packet by packet, stretches at instants that are spread over it (`instants`), where it can be
fast-forwarded to them. Of one that skips, or cannot, as much of it as there is time for, from the beginning on: its
first rounds one by one, and then some of every so many.

Long rounds are read in parts of MAX_LOOKAHEAD_PS, and joined again, so that a stretch is a small part of the run.

Looks of fast-forwarding are all made, and timed, in Python, though those that find nothing need no trip there, which
makes the time a little long; what ranks say to each other there is not in it. Those of samples and checks are made, as
they leave runs of rounds without a reduction no place (`pdes.engine.round`), but not timed.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from models.network.build.arrays import is_managed
from models.network.model import LogicalProcesses, NetworkModel
from models.network.skip.make_fast_forward import Wanted, make_fast_forward
from models.network.state.records import PACKET_HOPS
from models.network.watch.observers import Observer
from partition.round_model import Mixture, Profile
from pdes.engine.exchange import World
from pdes.engine.jit import is_compiled
from pdes.engine.round import NOW, make_loop
from pdes.engine.time_index import NEVER
from pdes.results.progress import Progress
from pdes.scenario import Scenario
from pdes.scenario.build import MAX_LOOKAHEAD_PS
from pdes.simulation.observers import make_sampler, watch_deadlocks, watch_iterations, watch_repeats, watch_stalls
from pdes.simulation.profile.instants import sample_run
from pdes.simulation.profile.stretches import Reader, Stretch, profiles_of, weigh
from pdes.skipping.criterion import Choice

WHOLE, SAMPLED, BEGINNING = "whole", "sampled", "beginning"
PLAIN_ROUNDS, MANAGED_ROUNDS = "rounds.run_rounds", "managed_rounds.run_managed_rounds"  # which compile last
SHORT_FRAC = 20  # a run that is expected to take so small a part of the time is run as a whole
SHORT_RATE = 30e6  # packet-hops per second, at best
MOST_ENTRIES = 500_000  # of rounds and nodes that are read one by one before only some are
N_BLOCK = 32  # rounds that are read in one go from then on
LEAST_GAP = 480  # and rounds that are not, between two blocks
TELL_EVERY_S = 0.2


@dataclass(frozen=True)
class Profiled:
    """A profile, and what it is of."""

    run: Mixture
    kind: str
    """WHOLE, SAMPLED or BEGINNING."""
    is_whole: bool
    """The run came to its end."""
    seconds: float
    """Of wall time that it took."""
    simulated_ps: int
    """How far the run came."""
    hops: int
    """Packet-hops of the rounds that were read or timed."""
    share: float
    """Of the packet-hops that are expected if nothing is skipped, those that the run had behind it at the end."""
    at_ps: np.ndarray
    """int64[]: where the stretches begin."""


def make_profile(scenario: Scenario, limit_s: float, kind: str | None = None, quiet: bool = True) -> Profiled:
    """Profile a scenario in limit_s of wall time at most, but for what is done once: compiling, building.

    kind: SAMPLED or BEGINNING, whether it is short or not; None: what suits it.
    """
    begin_s = time.monotonic()
    short = {name: min(getattr(scenario, name), MAX_LOOKAHEAD_PS) for name in ("lookahead_ps", "longest_round_ps")}
    s = replace(scenario, **short)
    longest_ps = max(scenario.lookahead_ps, scenario.longest_round_ps)
    if not quiet and not is_compiled(MANAGED_ROUNDS if is_managed(s.parameters) else PLAIN_ROUNDS):
        print("pdes-sim: compiling for this machine, once per version", file=sys.stderr, flush=True)
    progress = Progress(None if quiet else sys.stderr, 1)

    def say(now_ps: int, hops: int, share: float, more: str) -> None:
        progress.update(now_ps, hops, share, lambda: [more])

    expected, end_s = max(1, int(s.port_hops.sum())), begin_s + limit_s
    try:
        if s.config.wormhole.mode == "off":
            if kind is None and expected / SHORT_RATE < limit_s / SHORT_FRAC:
                found = _from_the_beginning(s, longest_ps, limit_s / 4, say)
                if found.is_whole:
                    return found
            if kind != BEGINNING:
                sampled = _sampled(s, longest_ps, end_s - time.monotonic(), say)
                if sampled is not None:
                    return sampled
        return _from_the_beginning(s, longest_ps, max(end_s - time.monotonic(), limit_s / 4), say)
    finally:
        progress.close()


def _sampled(
    s: Scenario, longest_ps: int, limit_s: float, say: Callable[[int, int, float, str], None]
) -> Profiled | None:
    begin_s, expected = time.monotonic(), max(1, int(s.port_hops.sum()))
    found = sample_run(s, limit_s, say)
    if found is None or not found.stretches:
        return None
    share = 1.0 if found.is_whole else min(1.0, found.hops / expected)
    hops = sum(stretch.hops + (stretch.total.hops if stretch.total else 0) for stretch in found.stretches)
    edges = _edges(s, sum(each.weight * each.hops for each in found.stretches))
    run = Mixture(profiles_of(s, found.stretches, longest_ps), edges)
    at_ps = np.array([stretch.at_ps for stretch in found.stretches], np.int64)
    seconds = time.monotonic() - begin_s
    return Profiled(run, SAMPLED, found.is_whole, seconds, found.simulated_ps, hops, share, at_ps)


def _edges(s: Scenario, hops: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Packets between LPs of a run that simulates so many packet-hops, by what is expected of it."""
    src, dst, weight = s.lp_edges()
    return src, dst, np.maximum(weight - 1, 0) * (hops / max(1, int(s.port_hops.sum())))


def _from_the_beginning(
    s: Scenario, longest_ps: int, limit_s: float, say: Callable[[int, int, float, str], None]
) -> Profiled:
    """Run the beginning of a scenario on one rank."""
    world, expected = World(), max(1, int(s.port_hops.sum()))
    model = NetworkModel(
        s.topology,
        s.paths,
        s.plan,
        s.max_window_bytes,
        LogicalProcesses(s.lp_of_node, np.zeros(s.n_lp, np.int64), s.lookahead_ps),
        world,
        s.parameters,
        lambda *_: None,
    )
    wormhole = s.config.wormhole
    if wormhole.may_skip:
        choice = Choice(wormhole.paper.criterion, **wormhole.paper.criterion_parameters)
        wanted = Wanted(choice, wormhole.skips, wormhole.wave_tolerance)
        model.fast_forward = make_fast_forward(s.topology, model, s.parameters, world, s.path_rtt_ps, s.stop_ps, wanted)
    fast = model.fast_forward
    if s.longest_round_ps:
        model.know_outputs(s.lp_of_node, s.lookahead_ps, s.longest_round_ps)
    if fast is not None:
        fast.round_looks = lambda other_look_ps: None  # looks are Python's, to be timed
    model.observers = _observers(s, model, world)
    model.compile()
    stop_ps = NEVER - 1 if s.stop_ps is None else s.stop_ps
    loop = make_loop(s.lookahead_ps, stop_ps, model.first_look_ps(), may_run_on=fast is None)
    reader, begin_s = Reader(model, loop), time.monotonic()
    _time_looks(model, reader)

    next_s = [begin_s + TELL_EVERY_S]

    def tick() -> None:
        if time.monotonic() < next_s[0]:
            return
        next_s[0] = time.monotonic() + TELL_EVERY_S
        hops = int(model.state.fabric.counters[PACKET_HOPS])
        skipped = 0 if fast is None else fast.hops_so_far(model.state)
        say(int(loop[NOW]), hops, (hops + skipped) / expected, "profiling from the beginning")

    stretches, is_whole = _blocks(reader, begin_s + limit_s, tick)
    hops = int(model.state.fabric.counters[PACKET_HOPS])
    done = hops + (0 if fast is None else fast.hops_so_far(model.state))
    share = 1.0 if is_whole else min(1.0, done / expected)
    rest = 1.0 / max(share, 1e-12)  # is taken to be like it
    weigh(stretches, hops * rest)
    profiles = profiles_of(s, stretches, longest_ps)
    if fast is not None:  # samples and the like are of each rank's own nodes: the more ranks the less
        profiles.append(_decisions(reader.looks_s * 1e9, rest))
    run = Mixture(profiles, _edges(s, hops * rest))
    at_ps = np.array([stretch.at_ps for stretch in stretches], np.int64)
    seconds, kind = time.monotonic() - begin_s, WHOLE if is_whole else BEGINNING
    return Profiled(run, kind, is_whole, seconds, int(loop[NOW]), hops, share, at_ps)


def _blocks(reader: Reader, end_s: float, tick: Callable[[], None]) -> tuple[list[Stretch], bool]:
    """Run until the run or the time is over; (stretches, whether the run is)."""
    first, is_over = reader.one_by_one(2**62, end_s - time.monotonic(), tick, MOST_ENTRIES)
    found, n_gap, n_entry = [first], LEAST_GAP, 0
    while not is_over and time.monotonic() < end_s:
        stretch, is_over = reader.one_by_one(N_BLOCK, end_s - time.monotonic(), tick)
        found.append(stretch)
        if not is_over:
            stretch.total, is_over = reader.go(n_gap, end_s - time.monotonic(), tick)
            stretch.weight = 1 + stretch.total.n_round / max(1, stretch.n_round)
        n_entry += len(stretch.node)
        if n_entry > MOST_ENTRIES:
            n_entry, n_gap = 0, 2 * n_gap
    return [stretch for stretch in found if stretch.n_round > 0], is_over


def _decisions(serial_ns: float, weight: float) -> Profile:
    """What is done between rounds, in a profile of its own."""
    none = np.zeros(0, np.int64)
    return Profile(0, 0, none, none, np.zeros(0), 0.0, serial_ns, weight)


def _time_looks(model: NetworkModel, reader: Reader) -> None:
    look = model.look

    def timed_look(horizon_ps: int) -> int:
        reader.read_now()
        begin_s = time.thread_time()
        found = look(horizon_ps)
        reader.looks_s += time.thread_time() - begin_s
        return found

    model.look = timed_look


def _observers(s: Scenario, model: NetworkModel, world: World) -> list[Observer]:
    """Those of a run that say when rounds begin with a reduction: with fast-forwarding all do, whoever looks."""
    iterations = watch_iterations(s, model, world)
    found: list[Observer | None] = [iterations, watch_repeats(s, model, world, iterations)]
    if model.fast_forward is None:
        found = [make_sampler(s, model, world), watch_deadlocks(s, model, world), watch_stalls(s, model, world), *found]
    return [one for one in found if one is not None]
