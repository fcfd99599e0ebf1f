"""What is asked of NCCL in a training job: trees, protocols and channels are those of collectives by themselves."""

from dataclasses import replace

import numpy as np
import pytest

from models.compute.devices import DEVICES
from models.compute.layout import Layout
from models.compute.model_shape import ModelShape
from models.compute.parameters import parameters_of
from models.topology.graph import LinkKind
from models.topology.rail_optimised import rail_optimised
from models.workload.collectives import Collective, plan_collectives
from models.workload.compiler.build import plan_job
from models.workload.compiler.job import Job
from models.workload.compiler.tuning import KindTuning, Tuning
from models.workload.nccl.options import CollectiveOptions
from models.workload.nccl.planner import NCCL_OPERATIONS, NcclPlanner, Planned
from models.workload.plan import WorkloadPlan
from models.workload.program import OP_COMPUTE, OP_GROUP, PARTS
from reference.network_case import Outcome, make_parameters, make_plan_case

GBPS, NS = 10**9, 10**3
NO_MARKS = (2**31 - 1, 2**31 - 1)
GPT = ModelShape(2, 512, 8, vocabulary=1024, sequence=128)
SERVERS = np.arange(16)  # one GPU each
FABRIC = rail_optimised(16, 1, 16, LinkKind(400 * GBPS, 500 * NS), LinkKind(400 * GBPS, 500 * NS))


def job(tuning: Tuning, **sizes) -> Job:
    layout = Layout(**({"tp": 1, "dp": 16, "pp": 1} | sizes))
    return Job(
        GPT, layout, (DEVICES["h100"],), overlap_gradients=False, bucket_parameters=10**9, tuning=tuning,
        nic_goodput_bps=380 * GBPS,
    )  # fmt: skip


def asked(kind: str = "all-reduce", **keys) -> Tuning:
    return Tuning(of_kind={kind: KindTuning(**keys)})


def run(plan: WorkloadPlan) -> Outcome:
    case = make_plan_case(FABRIC, plan, make_parameters(FABRIC, NO_MARKS), window_bytes=10**8)
    outcome = case.run(longest_round_ps=10**9)
    assert len(outcome.tasks) == plan.n_task and len(outcome.flows) == plan.n_flow
    return outcome


def summed_sizes(one: Job) -> list[int]:
    """The gradients of the job's parts, which are summed one after the other behind the backward pass."""
    own = {part: parameters_of(one.shape, one.layout, part).dense_parameters for part in ("embedding", "dense", "head")}
    return [own["embedding"] * 4, own["dense"] * 2 * 4, own["head"] * 4]


@pytest.mark.parametrize("algorithm", ["auto", "ring", "tree"])
@pytest.mark.parametrize("protocol", ["auto", "Simple"])
def test_a_job_sums_as_the_same_collectives_alone(algorithm: str, protocol: str) -> None:
    """All GPUs compute equally long; what follows takes every GPU as long as it does without the job before it."""
    one = job(asked(algorithm=algorithm, protocol=protocol))
    in_job = run(plan_job(one, 16, SERVERS))
    options = CollectiveOptions(algorithm=algorithm, protocol=protocol, nic_goodput_bps=380 * GBPS)
    sizes = summed_sizes(one)
    jobs = [
        Collective(str(i), "all-reduce", size, tuple(range(16)), after=(str(i - 1),) if i else ())
        for i, size in enumerate(sizes)
    ]
    planner = NcclPlanner("h100", SERVERS, {one.name: Planned(options) for one in jobs})
    alone = run(plan_collectives(jobs, 16, 1, planner.parts, NCCL_OPERATIONS))
    assert len(alone.flows) == len(in_job.flows)
    ends_ps = [max(row[6] for row in alone.tasks if row[1] == gpu) for gpu in range(16)]
    spent_ps = {row[1]: row[4 + PARTS.index("dp")] for row in in_job.spent}
    assert [spent_ps[gpu] for gpu in range(16)] == ends_ps


def test_trees_move_what_rings_move_along_fewer_steps() -> None:
    """Every member of two trees but the roots sends half up and has half sent down: 2 (n - 1) S, as around a ring."""
    ring, tree = (plan_job(job(asked(algorithm=name, protocol="Simple")), 16, SERVERS) for name in ("ring", "tree"))
    expected = sum(2 * 15 * size for size in summed_sizes(job(Tuning())))
    for plan in (ring, tree):
        assert expected <= int(plan.pair_bytes.sum()) <= expected * 1.001
    assert len(tree.pair_src) == 4 * 15 and len(ring.pair_src) == 16
    most = np.bincount(tree.pair_src, weights=tree.pair_bytes, minlength=16).max()
    assert most == pytest.approx(2 * sum(summed_sizes(job(Tuning()))), rel=1e-3)  # inner in one tree, leaf in the other


def test_small_sums_take_trees_and_large_ones_rings() -> None:
    """NCCL's own choice, which is what a job has if nothing is asked for."""
    plan = plan_job(job(Tuning()), 16, SERVERS)
    large = plan_job(replace(job(Tuning()), shape=replace(GPT, hidden=4096, vocabulary=51200)), 16, SERVERS)
    n_program = [len({row["first_operation"] for row in one.streams}) for one in (plan, large)]
    assert n_program[0] > 1 and len(plan.pair_src) > 16
    ring = int(large.pair_bytes.max())
    assert ring > 0.99 * int(large.pair_bytes.sum()) / 16  # next to nothing goes along trees


def test_programs_are_shared_by_members_with_the_same_place() -> None:
    """Two servers of eight: the GPUs of a server run one program, in rings all GPUs do."""
    servers = np.arange(32) // 8
    shared = [
        len({row["first_operation"] for row in plan_job(job(asked(algorithm=name), dp=32), 32, servers).streams})
        for name in ("tree", "hierarchical")
    ]
    assert shared == [4, 1]


def test_a_protocol_puts_its_flags_on_the_wire() -> None:
    def sent(protocol: str) -> int:
        return int(plan_job(job(asked(algorithm="ring", protocol=protocol)), 16, SERVERS).pair_bytes.sum())

    assert sent("LL") == 2 * sent("Simple") and sent("LL128") == pytest.approx(16 / 15 * sent("Simple"), rel=1e-3)
    of_all = int(plan_job(job(Tuning(protocol="LL")), 16, SERVERS).pair_bytes.sum())
    assert of_all == pytest.approx(sent("LL"), rel=1e-3)


@pytest.mark.parametrize("algorithm", ["ring", "tree"])
def test_channels_split_a_sum_over_queue_pairs_side_by_side(algorithm: str) -> None:
    """As many bytes over four times the pairs, never faster than the line; around a ring as long as in one."""
    one, four = (job(asked(algorithm=algorithm, protocol="Simple", channels=n)) for n in (1, 4))
    plans = [plan_job(each, 16, SERVERS, 2) for each in (one, four)]
    assert len(plans[1].pair_src) == 4 * len(plans[0].pair_src)
    assert int(plans[1].pair_bytes.sum()) == pytest.approx(int(plans[0].pair_bytes.sum()), rel=1e-3)
    names = {plans[1].stream_names[i] for i in plans[1].streams["name"]}
    assert names == {"main", "main/1", "main/2", "main/3"}
    outcomes = [run(plan) for plan in plans]
    spent = [{row[1:3]: row[4 + PARTS.index("dp")] for row in outcome.spent} for outcome in outcomes]
    assert spent[0].keys() == spent[1].keys() and len(spent[0]) == 32
    line_ps = 2 * 15 * sum(summed_sizes(one)) // 16 * 8 * 1000 // 400
    assert all(time_ps > line_ps for times in spent for time_ps in times.values())
    if algorithm == "ring":  # trees are pipelines of fewer chunks then, which is slower
        assert max(spent[1].values()) == pytest.approx(max(spent[0].values()), rel=0.02)


def test_channels_are_those_of_their_kind_and_run_beside_the_backward_pass() -> None:
    """ZeRO-3: gathers have one, reduce-scatters two streams."""
    one = replace(job(asked("reduce-scatter", channels=2), zero=3), overlap_gradients=True)
    plan = plan_job(one, 16, SERVERS, 2)
    assert {plan.stream_names[i] for i in plan.streams["name"]} == {"main", "gather", "reduce", "reduce/1"}
    run(plan)


def test_what_is_asked_of_some_groups_leaves_the_others() -> None:
    """Tensor parallelism in servers of eight, data parallelism between two: all-reduces of both."""
    servers = np.arange(16) // 8

    def timed(**keys) -> set[int]:
        operations = plan_job(job(asked(**keys), tp=8, dp=2), 16, servers).operations
        assert (operations["kind"] == OP_COMPUTE).any()
        return set(operations["time_ps"][operations["kind"] == OP_GROUP].tolist())

    usual, all_ll, dp_ll, tp_ll = (
        timed(), timed(protocol="LL"), timed(protocol="LL", groups=("dp",)), timed(protocol="LL", groups=("tp",))
    )  # fmt: skip
    assert len({frozenset(times) for times in (usual, all_ll, dp_ll, tp_ll)}) == 4
    assert all_ll <= dp_ll | tp_ll


@pytest.mark.parametrize(("algorithm", "n_pair"), [("direct", 16 * 8), ("pairwise", 16 * 8), ("pxn", 16)])
def test_tokens_go_the_way_that_is_asked_for(algorithm: str, n_pair: int) -> None:
    """Two servers of eight, one group: to each GPU in the other server, or to the one on the same rail."""
    one = replace(job(asked("all-to-all", algorithm=algorithm), ep=16), shape=replace(GPT, n_expert=16, top_k=2))
    plan = plan_job(replace(one, layout=replace(one.layout, zero=0)), 16, np.arange(16) // 8)
    tags = np.array(plan.tags)
    assert "ep" in tags
    plain = plan_job(replace(one, shape=GPT, layout=replace(one.layout, ep=1)), 16, np.arange(16) // 8)
    assert len(plan.pair_src) - len(plain.pair_src) == n_pair


def test_nothing_asked_is_the_default() -> None:
    empty = Tuning(of_kind={"all-reduce": KindTuning(groups=("tp", "dp", "ep"))})
    plans = [plan_job(job(tuning), 16, SERVERS) for tuning in (Tuning(), empty)]
    assert plans[0].operations.tobytes() == plans[1].operations.tobytes()
