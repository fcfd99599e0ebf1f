"""The network against what theory says: closed forms to the picosecond, queueing theory within its standard error."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.topology.closed_form import ideal_delivery_ps, ideal_fct_ps
from models.topology.fat_tree import fat_tree
from models.topology.graph import LinkKind, Topology, make_topology
from models.topology.leaf_spine import leaf_spine
from models.topology.rail_optimised import rail_optimised
from models.workload.collectives import Collective, chunk_bytes, plan_collectives
from reference.network_case import NetworkCase, Outcome, make_flow_case, make_parameters, make_plan_case

GBPS, NS, US = 10**9, 1000, 10**6
NO_MARKS = (2**31 - 1, 2**31 - 1)
TX_PS, ACK_PS = 83_840, 4_800  # 1048 B and 60 B at 100 Gbit/s
WIDE_BYTES = 2 * 10**6
SEED = 20261101  # of every random workload here; chosen once, before the first run


def unmarked(topology: Topology, **keys):
    return make_parameters(topology, NO_MARKS, **keys)


def chain(links: list[tuple[int, int]]) -> Topology:
    """Two hosts with len(links) links and switches between them."""
    n = len(links)
    joined = [(0, 2 if n > 1 else 1, *links[0])]
    joined += [(1 + i, 2 + i, *links[i]) for i in range(1, n - 1)] + ([(n, 1, *links[-1])] if n > 1 else [])
    names = ["a", "b"] + [f"switch{i}" for i in range(n - 1)]
    is_switch = [False, False] + [True] * (n - 1)
    return make_topology("chain", names, is_switch, [0, 1] + [-1] * (n - 1), joined)


def star(n_host: int, delay_ps: int = US, rate_bps: int = 100 * GBPS) -> Topology:
    return leaf_spine(1, 0, n_host, rate_bps, rate_bps, delay_ps, delay_ps)


def ideal_ps(case: NetworkCase, pair: int, size_bytes: int) -> tuple[int, int]:
    """(delivery, completion) of a lone message by the closed form."""
    t, p, data, ack = case.topology, case.parameters, case.paths.row(2 * pair), case.paths.row(2 * pair + 1)
    ports = (t.port_rate_bps, t.port_delay_ps)
    delivery = ideal_delivery_ps(size_bytes, p.payload_bytes, p.header_bytes, data, *ports)
    return delivery, ideal_fct_ps(size_bytes, p.payload_bytes, p.header_bytes, p.ack_bytes, data, ack, *ports)


# One flow.


@pytest.mark.parametrize("n_link", [1, 2, 4, 6])
@pytest.mark.parametrize("size_bytes", [1, 1000, 1001, 10_000, 123_456])
def test_a_flow_over_equal_links_takes_what_the_formula_says(n_link, size_bytes):
    topology = chain([(100 * GBPS, US)] * n_link)
    outcome = make_flow_case(topology, [(0, 1, size_bytes, 0)], unmarked(topology), WIDE_BYTES).run()
    n_full, last_ps = (size_bytes - 1) // 1000, ((size_bytes - 1) % 1000 + 1 + 48) * 80
    on_wires_ps = (n_full + n_link - 1) * TX_PS + last_ps if n_full else n_link * last_ps
    assert outcome.flows[0][1] == on_wires_ps + n_link * US


LINKS = st.lists(
    st.tuples(
        st.sampled_from([GBPS, 25 * GBPS, 100 * GBPS, 400 * GBPS, 3_600 * GBPS, 7_777_777_777]),
        st.integers(1, 2 * US),
    ),
    min_size=1,
    max_size=6,
)


@given(LINKS, st.integers(1, 60_000), st.integers(0, 10**9), st.sampled_from([1000, 500, 4096]))
@settings(max_examples=100)
def test_a_lone_flow_matches_the_closed_form_to_the_picosecond(links, size_bytes, start_ps, payload_bytes):
    topology = chain(links)
    parameters = unmarked(topology, payload_bytes=payload_bytes)
    case = make_flow_case(topology, [(0, 1, size_bytes, start_ps)], parameters, WIDE_BYTES)
    delivery_ps, fct_ps = ideal_ps(case, 0, size_bytes)
    assert case.run().flows == {0: (start_ps, start_ps + delivery_ps, start_ps + fct_ps, 0)}


@pytest.mark.parametrize(
    "topology",
    [
        fat_tree(4, 100 * GBPS, 100 * GBPS, US, US),
        leaf_spine(2, 2, 2, 25 * GBPS, 40 * GBPS, 777, US),
        rail_optimised(
            16,
            4,
            2,
            LinkKind(100 * GBPS, 500 * NS),
            LinkKind(400 * GBPS, 1500 * NS),
            1.0,
            LinkKind(3_600 * GBPS, 25 * NS),
        ),
    ],
    ids=lambda t: t.name,
)
def test_every_pair_of_hosts_matches_the_closed_form_one_after_another(topology):
    n, far_ps = topology.n_host, 100 * US
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    flows = [(i, j, 12_345, k * far_ps) for k, (i, j) in enumerate(pairs)]
    case = make_flow_case(topology, flows, unmarked(topology), WIDE_BYTES)
    for flow_id, (start_ps, delivered_ps, finish_ps, _) in case.run().flows.items():
        assert (delivered_ps - start_ps, finish_ps - start_ps) == ideal_ps(case, flow_id, 12_345)


def test_a_window_of_one_packet_costs_a_round_trip_each():
    topology, n_packet = chain([(100 * GBPS, US)] * 2), 7
    outcome = make_flow_case(topology, [(0, 1, n_packet * 1000, 0)], unmarked(topology), 1).run()
    round_trip_ps = 2 * TX_PS + 2 * ACK_PS + 4 * US
    assert outcome.flows[0][2] == n_packet * round_trip_ps


# Several flows.


def fifo_ps(ready_ps: list[int], sizes: list[int], links: list[tuple[int, int]]) -> list[int]:
    """When each packet is past a row of FIFO ports, packet by packet."""
    for rate_bps, delay_ps in links:
        idle_ps, out = 0, []
        for here_ps, size in zip(ready_ps, sizes, strict=True):
            time_ps = Fraction(size * 8 * 10**12, rate_bps)
            idle_ps = max(here_ps, idle_ps) - (-time_ps.numerator // time_ps.denominator)
            out.append(idle_ps + delay_ps)
        ready_ps = out
    return ready_ps


@given(LINKS, st.lists(st.integers(1, 5_000), min_size=2, max_size=6))
@settings(max_examples=60)
def test_messages_of_one_queue_pair_go_back_to_back(links, sizes):
    topology = chain(links)
    case = make_flow_case(
        topology, [(0, 1, size, 0) for size in sizes], unmarked(topology), WIDE_BYTES, queue_pairs="per-pair"
    )
    packets, owner = [], []
    for i, size in enumerate(sizes):
        cut = [1000] * ((size - 1) // 1000) + [(size - 1) % 1000 + 1]
        packets += [payload + 48 for payload in cut]
        owner += [i] * len(cut)
    delivered = fifo_ps([0] * len(packets), packets, links)
    acked = fifo_ps(delivered, [60] * len(packets), links[::-1])
    last = {i: k for k, i in enumerate(owner)}
    assert case.run().flows == {i: (0, delivered[last[i]], acked[last[i]], 0) for i in range(len(sizes))}


@pytest.mark.parametrize("n_sender", [2, 3, 7])
@pytest.mark.parametrize("size_bytes", [50_000, 12_345])
def test_flows_into_one_port_keep_it_busy_from_the_first_packet_to_the_last(n_sender, size_bytes):
    topology = star(n_sender + 1)
    outcome = make_flow_case(
        topology, [(i, n_sender, size_bytes, 0) for i in range(n_sender)], unmarked(topology), WIDE_BYTES
    ).run()
    n_packet = -(-size_bytes // 1000)
    wire_ps = n_sender * (size_bytes + 48 * n_packet) * 80
    ends = sorted(delivered for _, delivered, _, _ in outcome.flows.values())
    assert ends[-1] == TX_PS + US + wire_ps + US
    last_ps = ((size_bytes - 1) % 1000 + 1 + 48) * 80
    assert np.diff(ends).tolist() == [last_ps] * (n_sender - 1)  # packet by packet in turn: fair to the last round
    port = int(np.flatnonzero((topology.port_src == n_sender + 1) & (topology.port_dst == n_sender))[0])
    assert outcome.ports[port][0] == wire_ps // 80


def test_queue_pairs_of_one_nic_take_turns():
    topology, sizes = star(4), [40_000, 20_000, 10_000]
    outcome = make_flow_case(
        topology, [(0, 1 + i, sizes[i], 0) for i in range(3)], unmarked(topology), WIDE_BYTES
    ).run()
    # 10 packets of each in turn, then the two longer ones, then the longest alone.
    sent = [30, 30 + 2 * 10, 30 + 2 * 10 + 20]
    assert [outcome.flows[2 - i][1] for i in range(3)] == [
        (sent[0] + 1) * TX_PS + 2 * US,
        (sent[1] + 1) * TX_PS + 2 * US,
        (sent[2] + 1) * TX_PS + 2 * US,
    ]


def test_acknowledgements_overtake_the_data_that_waits():
    # 0 and 1 fill the port to 2; 2 sends to 0: its ACKs share a port with the data of 3 to 2 and do not wait for it.
    topology = star(4)
    flows = [(0, 2, 300_000, 0), (1, 2, 300_000, 0), (2, 3, 1_000, 10 * US)]
    outcome = make_flow_case(topology, flows, unmarked(topology), WIDE_BYTES).run()
    start_ps, delivered_ps, finish_ps, _ = outcome.flows[2]
    ideal = 2 * TX_PS + 2 * US + 2 * ACK_PS + 2 * US
    # At its NIC an ACK goes first, at the switch its own ACK waits for one data packet at most.
    assert ideal <= finish_ps - start_ps <= ideal + ACK_PS + TX_PS
    assert outcome.flows[0][2] > 40 * US


# Queueing theory.


@pytest.mark.parametrize("load_frac", [0.3, 0.6, 0.8])
def test_the_mean_wait_is_that_of_an_m_d_1_queue(load_frac):
    """Pollaczek-Khinchine with constant service: rho / (2 (1 - rho)) service times, by means of 40 batches.

    Single packets of 64 hosts in turn, at Poisson instants: a host's next packet comes 64 arrivals later, so nothing
    waits before the shared port, and the arrivals there are the starts shifted by a constant. ACKs go the other way.
    """
    n_host, n_batch, n_in_batch, n_warm = 64, 40, 3_000, 2_000
    rng = np.random.default_rng(SEED)
    n_flow = n_warm + n_batch * n_in_batch
    start_ps = np.cumsum(rng.exponential(TX_PS / load_frac, n_flow)).astype(np.int64).tolist()
    topology = star(n_host + 1)
    flows = [(i % n_host, n_host, 1000, start_ps[i]) for i in range(n_flow)]
    case = make_flow_case(topology, flows, unmarked(topology), WIDE_BYTES, queue_pairs="per-pair")
    rows = case.run().flows
    delivery_ps, fct_ps = ideal_ps(case, 0, 1000)
    waits = np.array([rows[i][1] - rows[i][0] - delivery_ps for i in range(n_flow)])
    assert [rows[i][2] - rows[i][0] - fct_ps for i in range(n_flow)] == waits.tolist()
    assert waits.min() == 0
    means = waits[n_warm:].reshape(n_batch, n_in_batch).mean(axis=1) / TX_PS
    error = means.std(ddof=1) / np.sqrt(n_batch)
    expected = load_frac / (2 * (1 - load_frac))
    assert error < 0.05 * expected  # else the test would say little
    assert abs(means.mean() - expected) < 3 * error
    # Lindley's recursion is exact, arrival by arrival (in the order of arrival; equal instants have equal waits' sum).
    wait, lindley = 0, [0]
    for gap in np.diff(start_ps).tolist():
        wait = max(0, wait + TX_PS - gap)
        lindley.append(wait)
    assert sorted(lindley) == sorted(waits.tolist())


# Collectives.


def run_collective(topology: Topology, job: Collective, **keys) -> tuple[NetworkCase, Outcome]:
    case = make_plan_case(topology, plan_collectives([job], topology.n_host), unmarked(topology, **keys), WIDE_BYTES)
    return case, case.run()


@pytest.mark.parametrize("n_gpu", [2, 3, 4, 8])
@pytest.mark.parametrize("operation", ["all-reduce", "reduce-scatter", "all-gather"])
def test_a_ring_of_single_packets_takes_exactly_its_steps(n_gpu, operation):
    """Each step is a delivery; from the second on, the ACK of the step before goes first on the NIC."""
    n_step = (n_gpu - 1) * (2 if operation == "all-reduce" else 1)
    job = Collective("ring", operation, 1000 * n_gpu, tuple(range(n_gpu)), start_ps=5 * US)
    case, outcome = run_collective(star(n_gpu), job)
    step_ps = ideal_ps(case, 0, 1000)[0]
    end_ps = 5 * US + n_step * step_ps + (n_step - 1) * ACK_PS
    assert {row[6] for row in outcome.tasks} == {end_ps}
    assert len(outcome.tasks) == n_gpu
    assert len(outcome.flows) == n_step * n_gpu


RAIL_OF_4 = rail_optimised(16, 4, 4, LinkKind(100 * GBPS, 500 * NS), LinkKind(100 * GBPS, 1500 * NS))


@pytest.mark.parametrize("size_bytes", [100_000, 1_000_000, 1_234_567])
@pytest.mark.parametrize(
    "topology, gpus", [(star(4), (0, 1, 2, 3)), (star(8), tuple(range(8))), (RAIL_OF_4, (1, 5, 9, 13))]
)
def test_a_ring_all_reduce_is_within_the_closed_form_of_its_steps(topology, gpus, size_bytes):
    """2 (n - 1) deliveries of a chunk, and at most what the ACKs take from the data.

    Each port on the way also carries an ACK per data packet of the opposite flow, first: a share a = 60 / 1048 of its
    time, in bursts of one. So a hop offers the rest of its rate after at most one ACK, and a step of N packets over
    two hops takes at most 2 d + ((N + 1) t + 2 t_ack) / (1 - a), by the usual service curves.
    """
    n, n_step = len(gpus), 2 * (len(gpus) - 1)
    case, outcome = run_collective(topology, Collective("ring", "all-reduce", size_bytes, gpus))
    chunk = chunk_bytes(size_bytes, n)
    delivery_ps = ideal_ps(case, 0, chunk)[0]
    n_packet, delay_ps = -(-chunk // 1000), int(topology.port_delay_ps[0])
    longest_ps = 2 * delay_ps + ((n_packet + 1) * TX_PS + 2 * ACK_PS) / (1 - ACK_PS / TX_PS)
    end_ps = max(row[6] for row in outcome.tasks)
    assert n_step * delivery_ps <= end_ps <= n_step * longest_ps
    assert longest_ps < 1.07 * delivery_ps
    assert len(outcome.flows) == n_step * n


def payload_of(case: NetworkCase, outcome: Outcome, gpu: int) -> int:
    """Payload that a GPU sent on its NIC, from the bytes of its port."""
    t, pair_src = case.topology, case.plan.pair_src
    port = int(np.flatnonzero(t.port_src == t.host[gpu])[0])
    pairs = np.flatnonzero(pair_src == gpu)
    to_me = np.flatnonzero(case.plan.pair_dst == gpu)
    n_data = sum(-(-int(case.plan.pair_bytes[p]) // 1000) for p in pairs)
    n_ack = sum(-(-int(case.plan.pair_bytes[p]) // 1000) for p in to_me)
    return outcome.ports[port][0] - 48 * n_data - 60 * n_ack


@pytest.mark.parametrize(
    "operation, n_chunk", [("all-reduce", 6), ("reduce-scatter", 3), ("all-gather", 3), ("all-to-all", 3)]
)
def test_a_collective_moves_its_bytes_and_no_others(operation, n_chunk):
    """Chunks of 7000 B, a whole number of packets: each of 4 GPUs sends n_chunk of them."""
    case, outcome = run_collective(star(4), Collective("c", operation, 28_000, (0, 1, 2, 3)))
    assert [payload_of(case, outcome, gpu) for gpu in range(4)] == [n_chunk * 7000] * 4
    assert len(outcome.flows) == 4 * n_chunk
    assert [row[7] for row in outcome.tasks] == [28_000] * 4


def test_an_all_to_all_is_as_fast_as_a_nic_at_most_and_every_port_carries_the_same():
    n, chunk = 5, 20_000
    _, outcome = run_collective(star(n), Collective("all", "all-to-all", n * chunk, tuple(range(n))))
    wire_ps = (n - 1) * 20 * TX_PS
    assert max(row[6] for row in outcome.tasks) >= 2 * US + wire_ps + TX_PS
    assert {tx_bytes for tx_bytes, _, _ in outcome.ports} == {(n - 1) * 20 * (1048 + 60)}


def test_a_point_to_point_is_a_flow():
    case, outcome = run_collective(RAIL_OF_4, Collective("p", "point-to-point", 54_321, (2, 6), start_ps=7 * US))
    delivery_ps, fct_ps = ideal_ps(case, 0, 54_321)
    assert outcome.flows == {0: (7 * US, 7 * US + delivery_ps, 7 * US + fct_ps, 0)}
    assert [row[1:] for row in outcome.tasks] == [(6, 0, 0, 0, 7 * US, 7 * US + delivery_ps, 54_321)]
