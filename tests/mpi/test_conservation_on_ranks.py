"""Conservation over ranks (design R8): every rank's state, and what is between them, after every round.

Run by `mpirun -n 2 python -m pytest --with-mpi -m mpi`. Collective calls come before assertions: a rank that fails an
assertion must not leave the others waiting inside MPI.
"""

import numpy as np
import pytest

from models.network.model import LogicalProcesses, NetworkModel
from models.network.verify.network import verify_ranks
from models.topology.graph import LinkKind
from models.topology.leaf_spine import leaf_spine
from models.topology.rail_optimised import rail_optimised
from models.workload.training.iteration import GptModel, TrainingJob, plan_training
from partition.lps import cut_by_delay, lookahead_ps
from pdes.engine.exchange import World, world
from pdes.engine.round import make_loop, run_rounds
from reference.network_case import MAX_LOOKAHEAD_PS, NetworkCase, make_flow_case, make_parameters, make_plan_case

pytestmark = pytest.mark.mpi(min_size=2)
GBPS, NS = 10**9, 1000


def incast() -> NetworkCase:
    topology = leaf_spine(3, 2, 4, 100 * GBPS, 100 * GBPS, 1000 * NS, 1000 * NS)
    flows = [(i, 11, 60_000 + 997 * i, 100_000 * (i % 3)) for i in range(10)]
    return make_flow_case(topology, flows, make_parameters(topology, (10_000, 50_000), ecn_max_probability=0.2))


def training() -> NetworkCase:
    topology = rail_optimised(
        16, 4, 2, LinkKind(100 * GBPS, 500 * NS), LinkKind(100 * GBPS, 1500 * NS), 1.0, LinkKind(3_600 * GBPS, 25 * NS)
    )
    job = TrainingJob(GptModel(2, 64, 128, 32), tp=4, dp=2, pp=2, n_microbatch=3, flops_per_s=10**12)
    return make_plan_case(topology, plan_training(job, 16, topology.server[topology.host], 2))


@pytest.fixture(scope="module")
def ranks() -> World:
    return world()


def run_and_check(case: NetworkCase, ranks: World, threshold_ps: int) -> tuple[dict[int, tuple[int, ...]], list[str]]:
    """(finished flows of this rank: start, finish, marks; what the checks found), with LPs dealt out in turn."""
    t, flows, faults = case.topology, {}, []
    lp_of_node = cut_by_delay(t.n_node, t.port_src, t.port_dst, t.port_delay_ps, t.server, threshold_ps)
    ahead_ps = min(lookahead_ps(t.port_src, t.port_dst, t.port_delay_ps, lp_of_node), MAX_LOOKAHEAD_PS)
    rank_of_lp = np.arange(int(lp_of_node.max()) + 1) % ranks.size

    def sink(flow: np.ndarray, arrival: np.ndarray, task: np.ndarray, _spent: np.ndarray) -> None:
        flows.update({row[0]: (row[3], row[4], row[5]) for row in flow.tolist()})

    model = NetworkModel(
        t,
        case.paths,
        case.plan,
        case.window_bytes,
        LogicalProcesses(lp_of_node, rank_of_lp, ahead_ps),
        ranks,
        case.parameters,
        sink,
    )

    def check() -> None:
        states, exchanges = zip(*ranks.allgather((model.state, model.exchange)), strict=True)
        try:
            verify_ranks(states, exchanges, t, model.rank_of_node)
        except AssertionError as error:
            faults.append(str(error))

    run_rounds(model, make_loop(ahead_ps), model.exchange, check, pause_every_s=0)
    check()
    model.flush()
    return flows, faults


@pytest.mark.parametrize("make_case", [incast, training])
def test_nothing_is_lost_between_ranks_in_any_round(ranks: World, make_case) -> None:
    case = make_case()
    threshold_ps = case.thresholds_ps()[0]
    parts = ranks.allgather(run_and_check(case, ranks, threshold_ps))
    flows: dict[int, tuple[int, ...]] = {}
    for part, _ in parts:
        assert not flows.keys() & part.keys()
        flows.update(part)
    alone = case.run(threshold_ps)  # on one rank, without MPI
    assert ranks.size >= 2 and [faults for _, faults in parts] == [[]] * ranks.size
    assert flows == {i: (start, finish, marks) for i, (start, _, finish, marks) in alone.flows.items()}
