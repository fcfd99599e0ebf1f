"""Fast-forwarding by the real controller: what repeats itself is skipped without a trace, whoever comes meanwhile."""

import random

import numpy as np
import pytest

from models.network.skip.suspend.suspension import Suspension
from models.network.state.parameters import LinkChange, TransportParameters
from models.network.watch.results import port_columns
from models.topology.graph import Topology
from reference.both_ends import both_ends
from reference.freezing import controlled, run_fast
from reference.network_case import Flow, Outcome
from reference.network_strategies import switched

GBPS, US, MB = 10**9, 10**6, 10**6
EXACT = ("dctcp", "dcqcn", "timely", "swift", "nscc", "fixed-window", "none")
LONG = 10 * MB


def star(n: int, rate_bps: int = 100 * GBPS, per_server: int = 1) -> Topology:
    servers = [i // per_server for i in range(n)]
    return switched(n, [(i, n, rate_bps, US) for i in range(n)], 1, servers)


def dumbbell(n: int) -> Topology:
    links = [(i, 2 * n + (i >= n), 100 * GBPS, US) for i in range(2 * n)] + [(2 * n, 2 * n + 1, 100 * GBPS, US)]
    return switched(2 * n, links, 2, list(range(2 * n)))


def port_totals(outcome: Outcome) -> tuple[list[int], list[int]]:
    """Bytes that every port sent and how long it was busy."""
    model, nodes = outcome.model, np.zeros(outcome.model.topology.n_node, np.int64)
    columns = port_columns(model.state, model.topology, nodes, 0)
    return columns["tx_bytes"].tolist(), columns["busy_ps"].tolist()


def n_skipped(outcome: Outcome) -> int:
    return outcome.model.fast_forward.skipped.packet_hops


def assert_no_trace(fast: Outcome, plain: Outcome) -> None:
    """The same rows to the ps; what was simulated and what was skipped are all there was."""
    differ = {i: (fast.flows.get(i), row) for i, row in plain.flows.items() if fast.flows.get(i) != row}
    assert not differ and len(fast.flows) == len(plain.flows)
    assert fast.n_hop + n_skipped(fast) == plain.n_hop
    assert port_totals(fast) == port_totals(plain)
    assert fast.sent_bytes == plain.sent_bytes and fast.last_event_ps == plain.last_event_ps


@pytest.mark.parametrize("law", EXACT)
def test_a_ring_is_skipped_without_a_trace(law):
    size_bytes = 50 * MB if law == "dctcp" else LONG  # its average of marks takes a while to settle
    case = controlled(law, star(4), [(i, (i + 1) % 4, size_bytes, 0) for i in range(4)])
    fast, plain = run_fast(case), case.run()
    assert n_skipped(fast) > 0.85 * plain.n_hop
    assert_no_trace(fast, plain)


@pytest.mark.parametrize("law", ["dctcp", "fixed-window"])
@pytest.mark.parametrize("topology", [dumbbell(2), star(4)], ids=["dumbbell", "incast"])
def test_flows_that_share_a_bottleneck_are_skipped_without_a_trace(law, topology):
    ends = [(0, 2), (1, 3)] if topology.n_host == 4 and topology.n_node == 6 else [(0, 3), (1, 3), (2, 3)]
    case = controlled(law, topology, [(src, dst, 40 * MB, i * US) for i, (src, dst) in enumerate(ends)])
    fast, plain = run_fast(case), case.run()
    assert n_skipped(fast) > 0.8 * plain.n_hop
    assert_no_trace(fast, plain)


def test_times_that_are_rounded_up_repeat_too():
    case = controlled("fixed-window", star(4, 33 * GBPS), [(i, (i + 1) % 4, LONG, 0) for i in range(4)])
    fast, plain = run_fast(case), case.run()
    assert n_skipped(fast) > 0.8 * plain.n_hop
    assert_no_trace(fast, plain)


@pytest.mark.parametrize("topology", [star(4), dumbbell(2)], ids=["ring", "dumbbell"])
def test_hpcc_is_off_by_less_than_a_ten_thousandth(topology):
    """Its utilisation is an average that only comes ever nearer to where it settles."""
    ends = [(i, (i + 1) % 4) for i in range(4)] if topology.n_node == 5 else [(0, 2), (1, 3)]
    case = controlled("hpcc", topology, [(src, dst, 50 * MB, 0) for src, dst in ends])
    fast, plain = run_fast(case), case.run()
    assert n_skipped(fast) > 0.8 * plain.n_hop
    for i, (start_ps, _, end_ps, _) in plain.flows.items():
        assert abs(fast.flows[i][2] - end_ps) < 1e-4 * (end_ps - start_ps)
    assert fast.n_hop + n_skipped(fast) == plain.n_hop
    assert port_totals(fast)[0] == port_totals(plain)[0]


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """(begin, planned end) of everything that is frozen from now on."""
    found, freeze_it = [], Suspension.freeze

    def note(self, state, new) -> None:
        found.extend((freeze.begin_ps, freeze.end_ps) for freeze in new)
        freeze_it(self, state, new)

    monkeypatch.setattr(Suspension, "freeze", note)
    return found


PAIRS = [(0, 1, LONG, 0), (2, 3, LONG, 0)]
BYTES = 150_000  # of a newcomer: enough for the next look to see it, so that nothing is skipped by what it disturbed
NEWCOMERS: dict[str, list[Flow]] = {
    "on the same host": [(0, 3, BYTES, 333_333_333)],
    "on another host, to the receiver": [(4, 1, BYTES, 333_333_333)],
    "on another host, with data on the way of ACKs": [(4, 0, BYTES, 333_333_333)],
    "from the receiver": [(1, 4, BYTES, 333_333_333)],
    "from a receiver to another": [(1, 3, BYTES, 333_333_333)],
    "nowhere near": [(4, 5, BYTES, 333_333_333)],
    "two in a round": [(4, 1, BYTES, 333_333_333), (5, 3, BYTES, 333_834_567)],
    "two in a round, the second through both": [(4, 1, BYTES, 333_333_333), (0, 3, BYTES, 333_834_567)],
    "two at once": [(4, 1, BYTES, 333_333_333), (5, 1, BYTES, 333_333_333)],
    "three in a round, one after the other": [(i, 1, BYTES, 333_333_333 + 300_000 * i) for i in (5, 4, 2)],
    "again and again": [(4, 1, BYTES, at * 77_777_777) for at in range(1, 9)],
    "appended to what is frozen": [(0, 1, BYTES, 333_333_333), (2, 3, 2 * MB, 333_333_333)],
    "appended, and one that interrupts": [(0, 1, BYTES, 333_333_333), (4, 3, BYTES, 333_400_000)],
    "just before the end": [(4, 1, BYTES, 838_000_000)],
}


@pytest.mark.parametrize("name", NEWCOMERS)
@pytest.mark.parametrize("law", ["swift", "dcqcn", "none"])
def test_newcomers_find_what_they_would_have_found(law, name):
    case = controlled(law, star(6), PAIRS + NEWCOMERS[name], "per-pair")
    for threshold_ps in case.thresholds_ps():
        fast, plain = run_fast(case, threshold_ps), case.run(threshold_ps)
        assert n_skipped(fast) > 0.3 * plain.n_hop
        assert_no_trace(fast, plain)
        is_met = name not in ("nowhere near", "appended to what is frozen")
        assert (fast.model.fast_forward.counters.thaws_interrupted > 0) == is_met


@pytest.mark.parametrize("offset_ps", [-1, 0, 1])
@pytest.mark.parametrize("newcomer", [(4, 1), (0, 3), (4, 5)], ids=["elsewhere", "same host", "apart"])
def test_newcomers_at_the_instants_of_decisions(newcomer, offset_ps, spans):
    """As something freezes, as it thaws by plan, and at looks in between."""
    run_fast(controlled("timely", star(6), PAIRS, "per-pair"))
    instants = sorted({at_ps for span in spans for at_ps in span})
    assert len(instants) >= 2
    for at_ps in [*instants, 2 * instants[0]]:
        flows = [*PAIRS, (*newcomer, BYTES, at_ps + offset_ps)]
        case = controlled("timely", star(6), flows, "per-pair")
        assert_no_trace(run_fast(case), case.run())


def test_a_logical_process_stops_where_the_first_of_its_nodes_meets_what_is_frozen():
    """Two GPUs of one server post within a round, in either order, between messages that meet nothing frozen."""
    n_interrupted = 0
    for seed in range(12):
        draw, base_ps = random.Random(seed), 10**8 + 31_415_927 * seed
        flows = [(0, 2, LONG, 0), (1, 3, LONG, 0)]
        flows += [(src, dst, BYTES, base_ps + draw.randrange(US)) for src, dst in ((0, 3), (1, 2))]
        flows += [(src, dst, 5000, base_ps + draw.randrange(US)) for src, dst in ((1, 3), (0, 2))]
        case = controlled(draw.choice(["none", "swift", "dcqcn"]), star(4, per_server=2), flows, "per-pair")
        fast = run_fast(case, 1_000_000)
        n_interrupted += fast.model.fast_forward.counters.thaws_interrupted
        assert_no_trace(fast, case.run(1_000_000))
    assert n_interrupted > 12


def test_how_far_nodes_run_ahead_changes_no_decision():
    """What else is on a rank decides that; here it is said. Seed 96: a look at the end of an interrupted round."""
    for seed in (96, *range(12)):
        draw = random.Random(seed)
        law = draw.choice(["dcqcn", "timely", "swift", "fixed-window", "none", "dctcp", "nscc", "hpcc"])
        n = draw.choice([4, 6])
        links = [(i, n + i % 2, 100 * GBPS, draw.choice([100_000, 300_000, 900_000])) for i in range(n)]
        topology = switched(n, [*links, (n, n + 1, 400 * GBPS, 2 * US)], 2, list(range(n)))
        size_bytes = 40 * MB if law == "dctcp" else LONG
        flows = [(0, 1, size_bytes, 0)] + [(2, 3, size_bytes, 0)] * (draw.random() < 0.5)
        for _ in range(draw.randint(2, 12)):
            base_ps = draw.randrange(84 * size_bytes)
            for _ in range(draw.randint(1, 3)):
                src, dst = draw.sample(range(n), 2)
                flows.append((src, dst, draw.choice([1, 1000, 5000, 100_000]), base_ps + draw.randrange(2 * US)))
        case = controlled(law, topology, flows, draw.choice(["per-flow", "per-pair"]))
        far, near = (run_fast(case, US + 1, "full", longest_window_ps=ps) for ps in (10**12, 100_000))
        assert (near.flows, near.ports, near.n_hop) == (far.flows, far.ports, far.n_hop)
        assert vars(near.model.fast_forward.counters) == vars(far.model.fast_forward.counters)


def pair_states(outcome: Outcome) -> list[list[int]]:
    table = both_ends(outcome.model.state.nic)
    return [table[name].tolist() for name in ("acked_byte", "next_byte", "expected_byte", "sent_bytes")]


@pytest.mark.parametrize("mode", ["steady", "full"])
@pytest.mark.parametrize("law", ["dctcp", "dcqcn", "nscc"])
def test_a_run_that_stops_is_where_it_would_have_been(law, mode):
    """Also what stands still while another does the same (mode "full": queue pairs that begin alike)."""
    case = controlled(law, star(4), [(0, 1, 5 * MB, 0), (2, 3, 5 * MB, 0)])
    for stop_ps in (50 * US, 203_345_679, 420 * US):
        fast, plain = run_fast(case, mode=mode, stop_ps=stop_ps), case.run(stop_ps=stop_ps)
        assert fast.flows == plain.flows and pair_states(fast) == pair_states(plain)
        assert fast.last_event_ps == plain.last_event_ps
        if mode == "steady":
            assert_no_trace(fast, plain)


@pytest.mark.parametrize("mode", ["steady", "full"])
@pytest.mark.parametrize("law", ["dctcp", "swift", "dcqcn"])
def test_no_skip_passes_a_link_that_changes(law, mode):
    changes = (LinkChange(200 * US + 777, 2, 40 * GBPS), LinkChange(320 * US, 3, 100 * GBPS, 0.0, False),
               LinkChange(330 * US, 3, 100 * GBPS))  # fmt: skip
    flows = [(0, 1, LONG, 0), (2, 3, LONG, 0)]
    case = controlled(law, star(4), flows, transport=TransportParameters(), link_changes=changes)
    fast, plain = run_fast(case, mode=mode, verify=True), case.run()
    assert plain.flows[1][2] > 1.5 * plain.flows[0][2], "the change matters"
    assert sum(plain.resent_bytes.values()) > 0, "so does the failure"
    assert fast.flows == plain.flows and fast.resent_bytes == plain.resent_bytes
    assert n_skipped(fast) > 0.2 * plain.n_hop


@pytest.mark.parametrize("mode", ["steady", "full"])
def test_the_state_is_whole_in_every_round(mode):
    flows = PAIRS + [flow for name in ("on the same host", "two at once") for flow in NEWCOMERS[name]]
    fast = run_fast(controlled("hpcc", star(6), flows, "per-pair"), mode=mode, verify=True)
    assert fast.model.fast_forward.counters.thaws_interrupted > 0 < n_skipped(fast)
    assert sorted(fast.flows) == list(range(len(flows)))
