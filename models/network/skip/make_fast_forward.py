"""Making the fast-forwarding of a network: what is needed of it, and why nothing can be skipped, if so."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from models.network.build.arrays import has_pfc, is_managed
from models.network.restore.path_queues import PathQueues
from models.network.skip.fast_forward import FastForward
from models.network.skip.fluid_links import links_of, slack_ps, slowdown_of, spread_links
from models.network.skip.fluid_states import FluidStates
from models.network.skip.memo_states import MemoStates, why_no_memo
from models.network.skip.replays import Replays
from models.network.skip.room import Room
from models.network.skip.suspend.hidden import ControlWords, make_hidden
from models.network.skip.wave_states import WaveStates, end_ports
from models.network.state.parameters import NetworkParameters
from models.network.state.records import MAY_OVERTAKE, SEED
from models.network.state.ways import ports_of_pairs
from models.network.switch.routed_ways import RoutedWays
from models.network.switch.spread_ways import Spread, find_spread, together
from models.topology.graph import Topology
from pdes.engine.exchange import World
from pdes.skipping.audit import Audit
from pdes.skipping.components import components_of
from pdes.skipping.controller import Controller
from pdes.skipping.criterion import Choice, Network, look_intervals, make_criterion, report, resolve
from pdes.skipping.fluid.alone_rates import MIN_ROUND_TRIPS
from pdes.skipping.fluid.audit import FluidAudit
from pdes.skipping.fluid.fluid import Fluid
from pdes.skipping.fluid.stretches import Stretches
from pdes.skipping.replay.memo import Memo
from pdes.skipping.similar.waves import WaveLinks, Waves
from pdes.units import BITS_PER_BYTE, PS_PER_S

if TYPE_CHECKING:
    from models.network.model import NetworkModel


class Wanted(NamedTuple):
    """What is to be skipped."""

    choice: Choice | None = None  # what says that flows are steady; None: the default
    mode: str = "full"  # or "steady" or "memo": one of them alone
    tolerance: float = 0.0  # of what is an estimate; 0: none is used
    audit: Audit | None = None  # what some skips are compared by


EVERYTHING_EXACT = Wanted()
BY_PACKET = "switches choose a way for each packet"
NO_STAGES = f"{BY_PACKET}, and these ways have some ports in common, and not others"
FORGETS = ("dctcp", "hpcc", "hpcc-pint", "none", "fixed-window")  # controls whose messages are not slower for what
# those before have met, as far as was measured: of others nothing is learned over full stages
READS_LOAD = {"int", "pint"}  # what controls need that hold ports below full


def make_fast_forward(
    topology: Topology, model: "NetworkModel", parameters: NetworkParameters, world: World, rtt_ps: np.ndarray,
    stop_ps: int | None, wanted: Wanted = EVERYTHING_EXACT,
) -> FastForward | None:  # fmt: skip
    """The part of one rank; None where nothing can be skipped, see `why_not`.

    rtt_ps: int64[n_pair], base round trips on the pairs' own ways, plan's order.
    """
    choice, mode, memo_tolerance, audit = wanted
    words = parameters.law.moving_words
    if words is None or why_not(parameters) or parameters.flow is not None:
        return None
    assert parameters.may_skip or world.size == 1, "ports of other ranks have no records"
    model.state.fabric.counters[MAY_OVERTAKE] = 1
    pairs, routes, spread = model.pairs, _routes(topology, model, parameters), None
    if routes is not None:
        if parameters.is_by_packet:
            if (spread := find_spread(topology, pairs, routes.pairs, model.state.routing)) is None:
                return None
            routes.by_epoch = [together(routes.pairs, spread)]
        model.state, pairs = routes.install(model.state), routes.pairs
    port_peer = topology.port_peer if has_pfc(parameters) else None
    start, port_of = ports_of_pairs(pairs, port_peer)
    if spread is not None:
        start, port_of = spread.without_wide((start, port_of))
    floats = parameters.law.float_words
    changes_ps = [change.time_ps for change in parameters.link_changes] if routes is None else routes.ends_ps
    known_ps = np.array(sorted({*changes_ps, *([stop_ps] if stop_ps else [])}), np.int64)
    n_kept = (len(floats), len(words[1]))
    rates_bps = topology.port_rate_bps[pairs.port if len(pairs.port) else slice(None)]
    slowest_bps, fastest_bps = (int(rate_bps) for rate_bps in (rates_bps.min(), rates_bps.max()))
    network = Network(int(rtt_ps.max(initial=1)), slowest_bps, fastest_bps, parameters.payload_bytes)
    choice = choice or Choice()
    look_ps = look_intervals(choice, turns_ps(parameters, rtt_ps)[pairs.pair_of_row])
    choice = resolve(choice, network)
    every = [pairs] if routes is None else routes.by_epoch
    n_hop = max(int(np.diff(each.path_start)[::2].max(initial=2)) - 1 for each in every)  # without the end mark

    def make_controller(ways: tuple[np.ndarray, np.ndarray]) -> Controller:
        criterion = make_criterion(choice, network, look_ps, n_kept, n_hop)
        made = Controller(*ways, topology.n_port, criterion, known_ps, look_ps)
        made.skips_steady, made.audit = mode != "memo" and spread is None, audit
        return made

    controller = make_controller((start, port_of))
    here = model.rank_of_node == world.rank
    moving = ControlWords(*words, *parameters.law.hop_count_words)
    hidden = make_hidden(topology, len(pairs.pair_of_row), here, moving, is_managed(parameters))
    fast = FastForward(pairs, controller, world, hidden, floats + words[1])
    fast.criterion = report(choice, network)
    if routes is not None:
        fast.routes = routes
        routes.remake = lambda changed: make_controller(ports_of_pairs(changed, port_peer))
    has_memo = mode != "steady" and not why_no_memo(parameters, model.state.fabric.constants)
    has_waves = memo_tolerance > 0 and (has_memo or parameters.has_fluid)
    states = MemoStates(topology, parameters, world, hidden, fast.ways) if has_memo or has_waves else None
    if has_memo and states is not None:
        look_every_ps = controller.criterion.settings.look_ps
        controller.memo = Memo(topology.port_rate_bps[pairs.port], look_every_ps, parameters.payload_bytes)
        fast.replays = Replays(states, fast.suspension)
    if has_waves and states is not None:
        seeds = (0.0, 0) if audit is None else (audit.share, audit.seed)
        wave_links = WaveLinks(*_shared(fast.ways, spread), _rates_bps(topology, spread), end_ports(model.state))
        waves = Waves(
            wave_links, controller.holders, memo_tolerance, network.base_rtt_ps, known_ps, parameters.payload_bytes,
            seeds,
        )  # fmt: skip
        fast.use_waves(waves, WaveStates(topology, world, hidden, states, model.state))
        if parameters.has_fluid:
            shape = memo_tolerance, network.base_rtt_ps
            fast.fluid = _make_fluid(topology, model, world, fast, shape, seeds[0], parameters, spread)
            fast.spread_over(spread)
    if parameters.buffer is not None:
        fast.suspension.room = Room(topology, pairs, parameters, world, here)
    fast.lossy_port = _lossy_ports(topology, parameters)
    if choice.needs_queues:
        fast.queues = PathQueues(n_hop, here[topology.port_src], world)
    return fast


def _make_fluid(
    topology: Topology, model: "NetworkModel", world: World, fast: FastForward, shape: tuple[float, int],
    audit_share: float, parameters: NetworkParameters, spread: Spread | None,
) -> FluidStates:  # fmt: skip
    """shape: the tolerance and the base round-trip time. audit_share: of time in which nothing goes at flow level."""
    state, (_, rtt_ps) = model.state, shape
    links, fluid = links_of(topology, state, fast.ways), state.nic.fluid
    if spread is not None:
        links = spread_links(links, spread, topology.port_rate_bps, parameters.law.name in FORGETS)
    fluid["behind_ps"] = links.behind_ps
    fluid["least_bytes"] = state.nic.queue_pairs["line_rate_bps"] * (rtt_ps / (BITS_PER_BYTE * PS_PER_S))
    fluid["slack_ps"] = slack_ps(topology, state, links.behind_ps)
    n_pair, seed = len(links.form), int(state.fabric.constants[SEED])
    component = components_of(links.all_ways, topology.n_port) if audit_share > 0 else np.zeros(n_pair, np.int64)
    audit = FluidAudit(n_pair, Stretches(component, audit_share, seed, MIN_ROUND_TRIPS * rtt_ps))
    slowdown = slowdown_of(state, links, leaves_room=not READS_LOAD.isdisjoint(parameters.law.needs))
    made = Fluid(links, state.nic.fluid_port, *shape, slowdown, parameters.has_shares, audit)
    made.takes_under_way = parameters.routing is None  # of packets that take routes nobody knows where they are
    return FluidStates(world, fast.hidden, state, made, fast.n_column, np.diff(fast.ways[0]))


def _shared(ways: tuple[np.ndarray, np.ndarray], spread: Spread | None) -> tuple[np.ndarray, np.ndarray]:
    return ways if spread is None else spread.without_wide(ways)


def _rates_bps(topology: Topology, spread: Spread | None) -> np.ndarray:
    return topology.port_rate_bps if spread is None else spread.of_all(topology.port_rate_bps)


def turns_ps(parameters: NetworkParameters, rtt_ps: np.ndarray) -> np.ndarray:
    """How long pairs' controls take for a turn, at least: the round trip, or the one that they are told if longer."""
    if parameters.base_rtt_ps is None or not parameters.law.knows_base_rtt:
        return rtt_ps
    return np.maximum(rtt_ps, np.minimum(parameters.base_rtt_ps, rtt_ps.max(initial=0)))


def why_not(parameters: NetworkParameters) -> str:
    """Why nothing of a network can be skipped, "" if it can."""
    if parameters.law.moving_words is None:
        return f"{parameters.law.name} does not say what of its state are `times` and `sequences`"
    if parameters.ns3 is not None:
        return "ns-3's times and telemetry wrap around"
    is_lost = parameters.is_by_packet and not parameters.has_fluid
    return BY_PACKET if is_lost else ""


def _routes(topology: Topology, model: "NetworkModel", parameters: NetworkParameters) -> RoutedWays | None:
    """Where switches choose the ways of flows, what these are."""
    if parameters.routing is None:
        return None
    convergence_ps = parameters.routing.convergence_ps
    return RoutedWays(topology, model.pairs, model.state.routing, parameters.link_changes, convergence_ps)


def _lossy_ports(topology: Topology, parameters: NetworkParameters) -> np.ndarray | None:
    """bool[n_port]: ports that lose packets at random, at any time; None: none does."""
    loss = parameters.loss_probability
    is_lossy = np.zeros(topology.n_port, np.bool_) if loss is None else loss > 0
    for change in parameters.link_changes:
        is_lossy[[change.port, topology.port_peer[change.port]]] |= change.loss_probability > 0
    return is_lossy if is_lossy.any() else None
