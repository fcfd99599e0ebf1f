"""Plans of collectives: what each member ends with, how many bytes go where, and how long they take when alone."""

from collections import Counter

import numpy as np
import pytest

from models.topology.closed_form import ideal_delivery_ps
from models.topology.graph import LinkKind
from models.topology.rail_optimised import rail_optimised
from models.workload.collectives import Collective, plan_collectives
from models.workload.nccl.communicator import Communicator
from models.workload.nccl.estimate import Shape, choose, message_lead_ps
from models.workload.nccl.in_server import in_server_ps
from models.workload.nccl.options import CollectiveOptions
from models.workload.nccl.planner import NCCL_OPERATIONS, NcclPlanner, Planned
from models.workload.operations import Operation
from models.workload.plan import PlanBuilder
from models.workload.slots import SlotNames
from reference.network_case import make_parameters, make_plan_case
from reference.symbolic_collective import carry_out

NO_MARKS = (2**31 - 1, 2**31 - 1)
GBPS, NS = 10**9, 1000


def servers(n_server: int, per_server: int, type_: str = "h100", **options) -> Communicator:
    """All GPUs of some servers as one group; Simple, so that the wire carries nothing but data."""
    n = n_server * per_server
    settings = CollectiveOptions(**{"protocol": "Simple", **options})
    return Communicator("all", [tuple(range(n))], np.arange(n) // per_server, type_, settings)


class Ring:
    """A ring over the servers, for each rail: the share of the buffer in a chunk for each server.

    Before it the members of a server have summed their parts, so each starts with those of its server.
    """

    def __init__(self, n_server: int, per_server: int, kind: str) -> None:
        self.n, self.k, self.reduces = n_server, per_server, kind != "all-gather"
        own = [Counter(range(s * per_server, (s + 1) * per_server)) for s in range(n_server)]
        self.chunks = [
            [own[s].copy() if self.reduces or c == s else Counter() for c in range(n_server)]
            for s in range(n_server) for _ in range(per_server)
        ]  # fmt: skip

    def post(self, gpu: int, key: str, n: int) -> object:
        assert key in ("rail-next", "ring-next")
        return self.chunks[gpu][(gpu // self.k - n) % self.n].copy()

    def take(self, gpu: int, key: str, n: int, content: object) -> None:
        c = (gpu // self.k - 1 - n) % self.n
        is_sum = self.reduces and n < self.n - 1
        self.chunks[gpu][c] = self.chunks[gpu][c] + content if is_sum else content


class Trees:
    """A double tree over the servers of each rail: a chunk goes up when all below have added to it, then down."""

    def __init__(self) -> None:
        self.sums: dict[tuple[int, str, int], Counter] = {}
        self.results: dict[tuple[int, str, int], Counter] = {}
        self.parts: Counter = Counter()

    def sum_of(self, gpu: int, tree: str, n: int) -> Counter:
        return self.sums.setdefault((gpu, tree, n), Counter([gpu]))

    def post(self, gpu: int, key: str, n: int) -> object:
        tree, way = key[:6], key[7:]
        if way == "to-parent":
            return self.sum_of(gpu, tree, n).copy()
        return self.results.setdefault((gpu, tree, n), self.sum_of(gpu, tree, n)).copy()

    def take(self, gpu: int, key: str, n: int, content: object) -> None:
        tree, way = key[:6], key[7:]
        if way == "from-parent":
            self.results[gpu, tree, n] = content
        else:
            assert (gpu, tree, n) not in self.results
            self.sum_of(gpu, tree, n).update(content)


class Chain:
    """A broadcast: who has which chunk."""

    def __init__(self, n_root: int) -> None:
        self.has: dict[int, int] = dict.fromkeys(range(n_root), 10**6)

    def post(self, gpu: int, key: str, n: int) -> object:
        assert self.has[gpu] > n
        return n

    def take(self, gpu: int, key: str, n: int, content: object) -> None:
        assert content == n
        self.has[gpu] = n + 1


class Mail:
    """An all-to-all: who has heard from whom."""

    def __init__(self) -> None:
        self.heard: Counter = Counter()

    def post(self, gpu: int, key: str, n: int) -> object:
        return gpu

    def take(self, gpu: int, key: str, n: int, content: object) -> None:
        self.heard[content, gpu] += 1


@pytest.mark.parametrize("per_server", [1, 2, 4])
@pytest.mark.parametrize("n_server", [2, 3, 5])
@pytest.mark.parametrize("kind, n_pass", [("all-reduce", 2), ("all-gather", 1)])
def test_hierarchical_rings_end_with_every_contribution_once(n_server, per_server, kind, n_pass):
    size_bytes = 8 * 3 * 5 * 1000
    meaning = Ring(n_server, per_server, kind)
    sent = carry_out(servers(n_server, per_server, algorithm="hierarchical"), 64, kind, size_bytes, meaning)
    everybody = Counter(range(n_server * per_server))
    for chunks in meaning.chunks:
        if kind == "all-reduce":
            assert chunks == [everybody] * n_server
        else:
            assert sum(chunks, Counter()) == everybody
    shares = {n_pass * (n_server - 1) * size_bytes // n_server // per_server}
    assert set(sent.values()) == shares and len(sent) == n_server * per_server


@pytest.mark.parametrize("n", [2, 3, 4, 7])
def test_a_ring_of_packets_ends_with_every_contribution_once(n):
    meaning = Ring(n, 1, "all-reduce")
    sent = carry_out(servers(n, 1, ""), 8, "all-reduce", 420 * n, meaning)
    assert meaning.chunks == [[Counter(range(n))] * n] * n
    assert sent == {(i, (i + 1) % n): 2 * (n - 1) * 420 for i in range(n)}


@pytest.mark.parametrize("size_bytes", [1, 999, 300_000, 3_000_000, 60_000_000])
@pytest.mark.parametrize("n_server, per_server", [(3, 1), (4, 2), (5, 1), (8, 2), (13, 1)])
def test_trees_end_with_every_contribution_once(n_server, per_server, size_bytes):
    communicator = servers(n_server, per_server, algorithm="tree")
    meaning = Trees()
    sent = carry_out(communicator, 64, "all-reduce", size_bytes, meaning)
    n = n_server * per_server
    results = Counter((gpu, tree) for gpu, tree, _ in meaning.results)
    n_chunk = results[0, "tree-0"]
    assert results == {(gpu, tree): n_chunk for gpu in range(n) for tree in ("tree-0", "tree-1")}
    for (gpu, _, _), found in meaning.results.items():
        assert found == Counter(range(gpu % per_server, n, per_server))
    share = 2 * 2 * (n_server - 1) * size_bytes  # each tree has n - 1 edges and half of the bytes, both ways
    slack = n * 16 * (2 * n_chunk + 2)
    assert share <= 2 * sum(sent.values()) <= share + slack * n_chunk


@pytest.mark.parametrize("n_server, per_server", [(2, 1), (3, 2), (4, 4)])
def test_a_broadcast_reaches_everybody_along_a_chain(n_server, per_server):
    meaning = Chain(per_server)
    sent = carry_out(servers(n_server, per_server), 64, "broadcast", 1_000_000, meaning)
    assert len({meaning.has[gpu] for gpu in range(per_server, n_server * per_server)}) == 1
    assert all(1_000_000 <= n * per_server <= 1_000_000 + 64 * per_server for n in sent.values())
    assert len(sent) == (n_server - 1) * per_server


@pytest.mark.parametrize("n_server, per_server", [(2, 2), (3, 4), (4, 1)])
def test_a_ring_of_neighbours_sends_what_leaves_a_server_and_no_more(n_server, per_server):
    n = n_server * per_server
    meaning = Mail()
    sent = carry_out(servers(n_server, per_server), 64, "ring", 1000, meaning)
    edges = {(i, (i + 1) % n) for i in range(per_server - 1, n, per_server)}
    assert sent == dict.fromkeys(edges, (n - 1) * 1000)
    assert meaning.heard == Counter(dict.fromkeys(edges, n - 1))


@pytest.mark.parametrize("algorithm", ["direct", "pairwise", "pxn"])
@pytest.mark.parametrize("n_server, per_server", [(2, 1), (2, 4), (3, 2), (5, 1)])
def test_an_all_to_all_sends_each_peer_in_another_server_its_part(n_server, per_server, algorithm):
    n = n_server * per_server
    meaning = Mail()
    sent = carry_out(servers(n_server, per_server, algorithm=algorithm), 64, "all-to-all", 1000 * n, meaning)
    is_rail = algorithm == "pxn"
    peers = {
        (i, j) for i in range(n) for j in range(n)
        if i // per_server != j // per_server and (not is_rail or i % per_server == j % per_server)
    }  # fmt: skip
    assert meaning.heard == Counter(peers)
    assert sent == dict.fromkeys(peers, 1000 * (per_server if is_rail else 1))


@pytest.mark.parametrize("n_server, per_server", [(2, 2), (4, 8), (5, 4), (3, 1)])
@pytest.mark.parametrize("kind, n_pass", [("all-reduce", 2), ("reduce-scatter", 1), ("all-gather", 1)])
def test_a_ring_over_rails_crosses_servers_as_rings_over_all_gpus_do(n_server, per_server, kind, n_pass):
    """Rings through all GPUs, channel c entering and leaving each server on rail c, with n chunks each."""
    n, size_bytes = n_server * per_server, 1000 * n_server * per_server**2 * (n_server * per_server)
    crossing: Counter = Counter()
    for c in range(per_server):
        order = [s * per_server + (c + i) % per_server for s in range(n_server) for i in range(per_server)]
        for i, gpu in enumerate(order):
            after = order[(i + 1) % n]
            if gpu // per_server != after // per_server:
                crossing[gpu // per_server, c] += n_pass * (n - 1) * size_bytes // per_server // n
    sent = carry_out(servers(n_server, per_server, algorithm="ring"), 64, kind, size_bytes, Mail())
    found = Counter({(src // per_server, src % per_server): n_bytes for (src, _), n_bytes in sent.items()})
    assert set(found) == set(crossing)
    n_step = -(-n_pass * (n - 1) // per_server)
    assert all(0 <= found[key] - crossing[key] < n_step for key in found)


def apart(n_server: int, members: tuple[int, ...], **options) -> Communicator:
    """GPUs with these numbers in each of some servers of eight, as one group."""
    group = tuple(8 * s + i for s in range(n_server) for i in members)
    settings = CollectiveOptions(protocol="Simple", algorithm="ring", **options)
    return Communicator("some", [group], np.arange(8 * n_server) // 8, "a100", settings)


@pytest.mark.parametrize(
    "members, turns",
    [((0, 2, 4, 6), True), ((1, 5), True), ((0, 3), True), ((0, 1), False), ((0, 1, 4), False), ((3,), False),
     (tuple(range(8)), False)],
)  # fmt: skip
def test_rings_cross_rails_where_no_two_members_share_a_pcie_switch(members, turns):
    found = {}
    for crosses in (False, True):
        sent = carry_out(apart(3, members, cross_rail_rings=crosses), 64, "all-reduce", 10**6, Mail())
        found[crosses] = {(src % 8, dst % 8) for src, dst in sent}
    rails = {(i, i) for i in members}
    assert found[False] == rails
    following = {(i, j) for i, j in zip(members, members[1:] + members[:1], strict=True)}
    assert found[True] == (following if turns else rails)


@pytest.mark.parametrize("n_server", [2, 3, 4])
def test_rings_that_cross_rails_send_as_much(n_server):
    size_bytes = 8 * 3 * 5 * 1000
    for kind in ("all-reduce", "reduce-scatter", "all-gather"):
        bytes_from = []
        for crosses in (False, True):
            sent = carry_out(apart(n_server, (0, 2, 5, 7), cross_rail_rings=crosses), 64, kind, size_bytes, Mail())
            bytes_from.append(Counter({src: n_bytes for (src, _), n_bytes in sent.items()}))
        assert bytes_from[0] == bytes_from[1]


def test_rings_that_cross_rails_share_the_only_spine_and_others_do_not_see_it():
    """Each rail switch has one uplink for its four servers, as fast as a NIC: crossing messages get a quarter of it."""
    topology = rail_optimised(
        32, 8, 4, LinkKind(100 * GBPS, 500 * NS), LinkKind(100 * GBPS, 1500 * NS), oversubscription=4
    )
    communicator = apart(4, (0, 2, 4, 6))
    choice = communicator._choice("all-reduce", 64 * 10**6, False)
    packets_ps = {}
    for crosses in (False, True):
        _, outcome = run_alone(apart(4, (0, 2, 4, 6), cross_rail_rings=crosses), topology, "all-reduce", 64 * 10**6)
        packets_ps[crosses] = max(delivered for _, delivered, _, _ in outcome.flows.values()) - choice.lead_ps
    with_headers = choice.n_step * choice.message_bytes() * (1000 + 48 + 60) // 1000  # data, and ACKs of what came
    wire_ps = with_headers * 8 * 10**12 // (100 * GBPS)
    assert packets_ps[False] == pytest.approx(wire_ps, rel=0.02)
    assert packets_ps[True] == pytest.approx(4 * wire_ps, rel=0.02)


def run_alone(communicator: Communicator, topology, kind: str, size_bytes: int):
    """Case and outcome of one collective; every member as it plans it."""
    builder = PlanBuilder("alone", topology.n_host)
    programs = {}
    for gpu in communicator.layout.groups[0]:
        names = SlotNames()
        programs[gpu] = names, communicator.operations_of(gpu, names, kind, size_bytes, "dp", "dp")
    table = communicator.connect(builder)
    for gpu, (names, operations) in programs.items():
        builder.stream(gpu, "main", operations, names.resolve(table[gpu]))
    parameters = make_parameters(topology, NO_MARKS)
    case = make_plan_case(topology, builder.finish(), parameters, window_bytes=10**7)
    return case, case.run()


def test_in_one_server_it_takes_the_calibrated_time():
    topology = rail_optimised(8, 8, 4, LinkKind(400 * GBPS, 500 * NS), LinkKind(400 * GBPS, 1500 * NS))
    _, outcome = run_alone(servers(1, 8, protocol="auto"), topology, "all-reduce", 2**20)
    assert {row[6] for row in outcome.tasks} == {in_server_ps("h100", "all-reduce", 2**20, 8)}
    assert outcome.flows == {}


@pytest.mark.parametrize("algorithm, n_message", [("pxn", 1), ("direct", 2)])
def test_an_exchange_between_two_servers_takes_its_lead_and_its_messages(algorithm, n_message):
    """Two GPUs each: one message to the same rail, or two side by side, one of them over the spines."""
    topology = rail_optimised(4, 2, 4, LinkKind(400 * GBPS, 500 * NS), LinkKind(400 * GBPS, 500 * NS))
    communicator = servers(2, 2, algorithm=algorithm)
    case, outcome = run_alone(communicator, topology, "all-to-all", 4000)
    lead = communicator.operations(SlotNames(), "all-to-all", 4000, "dp", "dp")[0]
    assert isinstance(lead, Operation)
    sizes = 2000 // n_message
    starts = {start for start, *_ in outcome.flows.values()}
    assert starts == {lead.time_ps}
    t, p = case.topology, case.parameters
    alone_ps = [
        ideal_delivery_ps(
            sizes, p.payload_bytes, p.header_bytes, case.paths.row(2 * pair), t.port_rate_bps, t.port_delay_ps
        )
        for pair in range(len(case.plan.pair_src))
    ]
    end_ps = max(row[6] for row in outcome.tasks) - lead.time_ps
    assert max(alone_ps) <= end_ps
    if algorithm == "pxn":  # a single message in each direction: nothing but its own ACKs, behind it
        assert end_ps == max(alone_ps)


def test_hierarchical_rings_take_their_lead_their_steps_and_their_tail():
    topology = rail_optimised(8, 2, 4, LinkKind(400 * GBPS, 500 * NS), LinkKind(400 * GBPS, 500 * NS))
    communicator = servers(4, 2, algorithm="hierarchical")
    case, outcome = run_alone(communicator, topology, "all-reduce", 8000)
    lead, _, tail = communicator.operations(SlotNames(), "all-reduce", 8000, "dp", "dp")
    assert isinstance(lead, Operation) and isinstance(tail, Operation)
    t, p = case.topology, case.parameters
    ports = (case.paths.row(0), t.port_rate_bps, t.port_delay_ps)
    step_ps = ideal_delivery_ps(1000, p.payload_bytes, p.header_bytes, *ports)
    ack_ps = 60 * 8 * 1000 // 400  # each message waits for the ACK of the one that came
    assert {row[6] for row in outcome.tasks} >= {lead.time_ps + tail.time_ps + 6 * step_ps + 5 * ack_ps}


@pytest.mark.parametrize("n_server", [3, 4, 16, 64])
def test_small_ones_take_trees_and_large_ones_rings(n_server):
    options = CollectiveOptions(nic_goodput_bps=400 * GBPS)
    shape = Shape("h100", n_server, 8)
    small = choose("all-reduce", 8, shape, options, False)
    large = choose("all-reduce", 2**36, shape, options, False)
    assert (small.algorithm, small.protocol) == ("tree", "LL")
    assert (large.algorithm, large.protocol) == ("ring", "Simple")
    assert choose("all-reduce", 8, shape, options, True).algorithm == "ring"


def test_groups_with_other_numbers_in_their_servers_go_around_one_ring():
    communicator = Communicator("x", [(0, 1, 2, 4)], np.arange(8) // 4, "h100")
    names = SlotNames()
    (ring,) = communicator.operations(names, "all-reduce", 4000, "dp", "dp")
    assert isinstance(ring, Operation) and (ring.n_step, ring.size_bytes) == (6, 1000)


def test_channels_share_what_there_is_to_carry():
    whole, half = (servers(4, 2, share=share) for share in (1, 2))
    sizes = [
        sum(carry_out(c, 8, kind, 2**20, Mail()).values())
        for kind in ("all-to-all", "reduce-scatter") for c in (whole, half)
    ]  # fmt: skip
    assert sizes[0] == 2 * sizes[1] and sizes[2] == 2 * sizes[3]


@pytest.mark.parametrize("gpus, n_flow", [((0, 1), 0), ((0, 2), 1)])
def test_point_to_point_is_timed_in_a_server_and_a_message_between_two(gpus, n_flow):
    choices = {"x": Planned(CollectiveOptions(nic_goodput_bps=380 * GBPS))}
    planner = NcclPlanner("h100", np.arange(4) // 2, choices)
    job = Collective("x", "point-to-point", 10_000, gpus)
    plan = plan_collectives([job], 4, 1, planner.parts, NCCL_OPERATIONS)
    topology = rail_optimised(4, 2, 4, LinkKind(400 * GBPS, 500 * NS), LinkKind(400 * GBPS, 500 * NS))
    case = make_plan_case(topology, plan, make_parameters(topology, NO_MARKS), window_bytes=10**7)
    outcome = case.run()
    end_ps = max(row[6] for row in outcome.tasks)
    assert len(outcome.flows) == n_flow
    if n_flow:
        t, p = case.topology, case.parameters
        ports = (case.paths.row(0), t.port_rate_bps, t.port_delay_ps)
        size_bytes = int(plan.pair_bytes[0])
        assert size_bytes == 20_000  # LL: a flag of four bytes with every four
        lead_ps, _ = message_lead_ps("h100", 10_000, choices["x"].options)
        assert end_ps == lead_ps + ideal_delivery_ps(size_bytes, p.payload_bytes, p.header_bytes, *ports)
    else:
        assert end_ps == in_server_ps("h100", "send-receive", 10_000, 2)


@pytest.mark.parametrize("n_gpu", [8, 16])
def test_channels_are_streams_only_where_there_are_messages(n_gpu):
    planner = NcclPlanner("h100", np.arange(16) // 8, {"x": Planned(CollectiveOptions(), channels=16)})
    job = Collective("x", "all-reduce", 2**20, tuple(range(n_gpu)))
    plan = plan_collectives([job], 16, 1, planner.parts, NCCL_OPERATIONS)
    used = {plan.stream_names[name] for name in plan.streams["name"]}
    assert used == ({"x"} if n_gpu == 8 else {"x", "x/1"})
