"""Fast-forwarding where switches share their buffers: no pause, no drop and no admission comes out differently."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.network.skip.room import most_in_use
from models.network.state.parameters import BufferParameters, TransportParameters
from models.network.state.records import N_CONSTANT
from models.network.state.switch_state import INLET, SWITCH
from models.network.switch.shared_buffer import threshold_bytes
from models.topology.graph import Topology
from pdes.engine.jit import kernel
from reference.freezing import controlled, run_fast
from reference.network_case import Flow, NetworkCase, Outcome
from reference.network_strategies import switched

GBPS, US, KB, MB = 10**9, 10**6, 1000, 10**6
PAUSE_FRAMES, DROPS_BUFFER = 3, 0  # of Outcome.losses


def star(n: int) -> Topology:
    return switched(n, [(i, n, 100 * GBPS, US) for i in range(n)], 1, list(range(n)))


def buffered(
    law: str, topology: Topology, flows: list[Flow], pool_bytes: int, alpha: float, pfc: bool = True,
    reserve_bytes: int = 4096, queue_pairs: str = "per-pair",
) -> NetworkCase:  # fmt: skip
    """A case whose switches have a pool of so much, beyond reserves and headrooms."""
    into_switch = topology.is_switch[topology.port_dst]
    headroom = np.where(into_switch, 60_000 * pfc, 0)
    aside = np.bincount(topology.port_dst, weights=headroom + reserve_bytes, minlength=topology.n_node).astype(np.int64)
    size_bytes = np.where(topology.is_switch, aside + pool_bytes, 0)
    buffer = BufferParameters(size_bytes, np.full(topology.n_port, round(1024 * alpha)), headroom, reserve_bytes, pfc)
    return controlled(law, topology, flows, queue_pairs, buffer=buffer, transport=TransportParameters())


def n_skipped(outcome: Outcome) -> int:
    return outcome.model.fast_forward.skipped.packet_hops


def assert_no_trace(fast: Outcome, plain: Outcome) -> None:
    """The same rows to the ps; every pause and every drop as it was."""
    differ = {i: (fast.flows.get(i), row) for i, row in plain.flows.items() if fast.flows.get(i) != row}
    assert not differ and len(fast.flows) == len(plain.flows)
    assert fast.losses == plain.losses and fast.resent_bytes == plain.resent_bytes
    assert fast.n_hop + n_skipped(fast) == plain.n_hop
    assert [marks for _, _, marks in fast.ports] == [marks for _, _, marks in plain.ports]


@kernel
def first_threshold_bytes(switches, inlets, constants):
    return threshold_bytes(switches[0], inlets[0], constants)


@given(st.integers(0, 10**9), st.sampled_from([1, 64, 128, 1000, 1024, 8192]), st.integers(0, 10**7))
def test_what_may_be_in_use_is_what_leaves_the_threshold_above(pool_bytes, alpha_1024, part_bytes):
    switches, inlets, constants = np.zeros(1, SWITCH), np.zeros(1, INLET), np.zeros(N_CONSTANT, np.int64)
    switches["pool_bytes"], inlets["alpha_1024"] = pool_bytes, alpha_1024
    limit_bytes = int(most_in_use(*(np.array([value]) for value in (pool_bytes, alpha_1024, part_bytes)))[0])
    for shared_bytes in (limit_bytes, limit_bytes + 1):
        switches["shared_bytes"] = shared_bytes
        is_below = part_bytes < first_threshold_bytes(switches, inlets, constants)
        assert is_below == (shared_bytes <= limit_bytes)


@pytest.mark.parametrize("law", ["none", "fixed-window", "swift", "dcqcn"])
def test_a_flow_is_skipped_beside_an_incast_that_pauses_all_the_time(law):
    """It stays within its reserves, so what the pool does is nothing to it."""
    incast = [(i, 5, 3 * MB, 100 * US) for i in (2, 3, 4)]
    case = buffered(law, star(6), [(0, 1, 20 * MB, 0), *incast], 300 * KB, 0.125)
    fast, plain = run_fast(case, verify=law == "none"), case.run()
    assert sum(row[PAUSE_FRAMES] for row in plain.losses) > 5
    assert n_skipped(fast) > 0.5 * plain.n_hop and fast.model.fast_forward.counters.thaws_interrupted == 0
    assert_no_trace(fast, plain)


@pytest.mark.parametrize("pfc", [True, False], ids=["pauses", "drops"])
@pytest.mark.parametrize("law", ["fixed-window", "dctcp"])
def test_an_incast_that_takes_the_pool_ends_the_freeze(law, pfc):
    """By then the pair's bottleneck holds more than what is left of the pool lets it."""
    pair = [(src, 2, 20 * MB, 0) for src in (0, 1)]
    incast = [(src, 11, 500 * KB, 2000 * US + src) for src in range(3, 11 if pfc else 7)]
    case = buffered(law, star(12), pair + incast, 150 * KB, 1.0, pfc)
    fast, plain = run_fast(case), case.run()
    topology, column = case.topology, PAUSE_FRAMES if pfc else DROPS_BUFFER
    met = [topology.port_src == 0, topology.port_src == 1] if pfc else [topology.port_dst == 2]
    assert sum(plain.losses[port][column] for mine in met for port in np.flatnonzero(mine)) > 0, "the pair is met"
    counters = fast.model.fast_forward.counters
    assert counters.thaws_interrupted > 0 and n_skipped(fast) > 0.5 * plain.n_hop
    assert_no_trace(fast, plain)


def test_what_pauses_all_the_time_is_not_skipped():
    case = buffered("none", star(4), [(src, 3, 4 * MB, 0) for src in range(3)], 300 * KB, 0.125)
    fast, plain = run_fast(case), case.run()
    assert sum(row[PAUSE_FRAMES] for row in plain.losses) > 20
    counters = fast.model.fast_forward.counters
    assert counters.freezes == 0 < counters.refused and n_skipped(fast) == 0
    assert_no_trace(fast, plain)


def drawn_case(seed: int, laws: tuple[str, ...]) -> NetworkCase:
    """Long flows, some into one host, and bursts of newcomers, with a pool that is full soon."""
    draw = random.Random(seed)
    n = draw.choice([4, 6, 8])
    links = [(i, n + i % 2, 100 * GBPS, draw.choice([100_000, 300_000, 900_000])) for i in range(n)]
    topology = switched(n, [*links, (n, n + 1, draw.choice([100, 400]) * GBPS, 2 * US)], 2, list(range(n)))
    flows = [(0, 1, 10 * MB, 0), (2, 3, 10 * MB, 0), (3, 1, 10 * MB, 0)][: draw.randint(1, 3)]
    for _ in range(draw.randint(2, 8)):
        base_ps, dst = draw.randrange(840 * US), draw.randrange(n)
        for _ in range(draw.randint(1, 5)):
            src = draw.choice([host for host in range(n) if host != dst])
            flows.append((src, dst, draw.choice([1, 5 * KB, 100 * KB, 300 * KB]), base_ps + draw.randrange(2 * US)))
    pool_bytes, alpha = draw.choice([20 * KB, 60 * KB, 150 * KB, 300 * KB]), draw.choice([0.125, 0.5, 1.0, 2.0])
    reserve_bytes, pairs = draw.choice([0, 1048, 4096]), draw.choice(["per-flow", "per-pair"])
    return buffered(draw.choice(laws), topology, flows, pool_bytes, alpha, draw.random() < 0.7, reserve_bytes, pairs)


SEEDS = (0, 1, 11, 20, 24)  # freezes are interrupted, and refused; the tier `all` has all of 25


def test_how_far_nodes_run_ahead_changes_no_decision(pytestconfig):
    """What else is on a rank decides that; here it is said. Hosts and switches are one logical process, and are not.

    And little is off, under controls whose advance is a measured rate, too.
    """
    n_interrupted = n_refused = 0
    errors: list[float] = []
    seeds = range(25) if pytestconfig.getoption("tier") == "all" else SEEDS
    for seed in seeds:
        case = drawn_case(seed, ("timely", "swift", "fixed-window", "dcqcn", "dctcp", "hpcc"))
        for threshold_ps in (1, 900_001):
            far, near = (run_fast(case, threshold_ps, longest_window_ps=ps) for ps in (10**12, 100_000))
            assert (near.flows, near.ports, near.losses, near.n_hop) == (far.flows, far.ports, far.losses, far.n_hop)
            plain, counters = case.run(threshold_ps), far.model.fast_forward.counters
            errors += [abs(far.flows[i][2] - end) / (end - start) for i, (start, _, end, _) in plain.flows.items()]
            assert vars(near.model.fast_forward.counters) == vars(counters)
            n_interrupted, n_refused = n_interrupted + counters.thaws_interrupted, n_refused + counters.refused
    assert n_interrupted > 0.8 * len(seeds) and n_refused > 0.2 * len(seeds)
    assert np.mean(errors) < 0.01
