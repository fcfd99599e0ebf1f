"""A rank has rows of the queue pairs' and ports' ends that are on it, and nothing of the others."""

from dataclasses import replace

import numpy as np
import pytest

from models.network.model import LogicalProcesses, NetworkModel
from models.network.state.pair_records import NO_WINDOW
from mpi.network_matrix import cases, scenario_of
from pdes.engine.exchange import World
from pdes.engine.time_index import NEVER
from pdes.scenario import Scenario

CASES = cases()
N_RANK = 3


def model_of(scenario: Scenario, rank_of_lp: np.ndarray) -> NetworkModel:
    """What rank 0 would build."""
    s = scenario
    return NetworkModel(
        s.topology,
        s.paths,
        s.plan,
        s.max_window_bytes,
        LogicalProcesses(s.lp_of_node, rank_of_lp, s.lookahead_ps),
        World(),
        s.parameters,
        lambda *_: None,
    )


@pytest.mark.parametrize("name", CASES)
def test_rows_of_ends_elsewhere_are_zeros_and_those_here_as_on_a_single_rank(name: str) -> None:
    scenario = scenario_of(CASES[name])
    rank_of_lp = np.arange(scenario.n_lp) % N_RANK
    alone = model_of(scenario, np.zeros(scenario.n_lp, np.int64)).state.nic
    part = model_of(scenario, rank_of_lp)
    nic, here = part.state.nic, part.rank_of_node == 0
    sends, receives = here[nic.facts["node"]], np.zeros(len(nic.facts), np.bool_)
    receives[nic.receiver_row] = here[nic.facts["receiver"]]
    assert 0 < sends.sum() < len(sends) and 0 < receives.sum() < len(receives)
    assert nic.sends.tolist() == np.flatnonzero(sends).tolist()
    assert nic.receives.tolist() == np.flatnonzero(receives).tolist()
    assert np.array_equal(nic.facts, alone.facts) and np.array_equal(nic.receiver_row, alone.receiver_row)
    tables = {"queue_pairs": sends, "control": sends, "interrupt_ps": sends, "receivers": receives}
    for field, is_here in tables.items():
        mine, whole = (getattr(each, field).view(np.ndarray) for each in (nic, alone))
        assert mine[is_here].tobytes() == whole[is_here].tobytes(), field
        assert not any(mine[~is_here].tobytes()), field
    own_port = here[scenario.topology.port_src] & ~scenario.topology.is_switch[scenario.topology.port_src]
    assert nic.nic_ports[own_port].tobytes() == alone.nic_ports[own_port].tobytes()
    assert not any(nic.nic_ports[~own_port].tobytes())
    for node in np.flatnonzero(part.state.fabric.nodes["n_timer"] > 0).tolist():
        first, n_leaf = (int(part.state.fabric.nodes[key][node]) for key in ("first_timer", "n_timer"))
        assert (nic.timers[first : first + 2 * n_leaf] == (NEVER if here[node] else 0)).all()


@pytest.mark.parametrize("may_skip", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_records_of_ports_are_those_with_an_end_here_or_all_where_something_may_be_skipped(
    name: str, may_skip: bool
) -> None:
    scenario = scenario_of(CASES[name])
    scenario = replace(scenario, parameters=replace(scenario.parameters, may_skip=may_skip))
    alone = model_of(scenario, np.zeros(scenario.n_lp, np.int64)).state
    part = model_of(scenario, np.arange(scenario.n_lp) % N_RANK)
    t, here, n_queue = scenario.topology, part.rank_of_node == 0, scenario.parameters.n_queue
    kept = here[t.port_src] | here[t.port_dst] | may_skip
    assert kept.all() == may_skip
    pairs = [(getattr(part.state.fabric, name), getattr(alone.fabric, name)) for name in ("ports", "port_info")]
    pairs += [(getattr(part.state.buffers, name), getattr(alone.buffers, name)) for name in ("inlets", "egress")]
    for mine, whole in pairs:
        mine, whole = mine.view(np.ndarray).copy(), whole.view(np.ndarray).copy()
        if "is_here" in (mine.dtype.names or ()):
            assert (mine["is_here"] == (kept & here[t.port_dst])).all()
            mine["is_here"] = whole["is_here"] = 0
        assert mine[kept].tobytes() == whole[kept].tobytes() and not any(mine[~kept].tobytes())
    queues, all_queues = (state.buffers.queues.view(np.ndarray) for state in (part.state, alone))
    if len(queues) > 1:
        of_kept = np.repeat(kept, n_queue)
        assert queues[of_kept].tobytes() == all_queues[of_kept].tobytes() and not any(queues[~of_kept].tobytes())


@pytest.mark.parametrize("name", CASES)
def test_streams_of_this_rank_wake_when_the_plan_says_and_others_sleep(name: str) -> None:
    scenario = scenario_of(CASES[name])
    alone = model_of(scenario, np.zeros(scenario.n_lp, np.int64)).state.work.streams.view(np.ndarray)
    part = model_of(scenario, np.arange(scenario.n_lp) % N_RANK)
    streams, is_here = part.state.work.streams.view(np.ndarray), part.rank_of_node[alone["node"]] == 0
    assert (alone["wake_ps"] == scenario.plan.streams["wake_ps"]).all()
    assert (streams["wake_ps"] == np.where(is_here, alone["wake_ps"], NEVER)).all()
    streams["wake_ps"] = alone["wake_ps"]
    assert streams.tobytes() == alone.tobytes()


def test_facts_say_what_paths_and_the_plan_say() -> None:
    scenario = scenario_of(CASES["hpcc, PFC"])
    model = model_of(scenario, np.zeros(scenario.n_lp, np.int64))
    facts, plan, t, path = model.state.nic.facts, scenario.plan, scenario.topology, model.state.fabric.path_port
    for row, pair in enumerate(model.pairs.pair_of_row.tolist()):
        src, dst = int(t.host[plan.pair_src[pair]]), int(t.host[plan.pair_dst[pair]])
        assert (facts["node"][row], facts["receiver"][row]) == (src, dst)
        assert path[facts["data_path"][row]] == facts["port"][row] and t.port_src[facts["port"][row]] == src
        assert t.port_src[path[facts["ack_path"][row]]] == dst
        assert facts["waiting_stream"][row] == plan.pair_stream[pair]
        window = int(scenario.max_window_bytes[pair])
        assert facts["max_window_bytes"][row] == window
        assert model.state.nic.queue_pairs["window_bytes"][row] == (window or NO_WINDOW)


def test_the_rows_of_a_host_lie_together_at_either_end() -> None:
    scenario = scenario_of(CASES["hpcc, PFC"])
    nic = model_of(scenario, np.zeros(scenario.n_lp, np.int64)).state.nic
    assert sorted(nic.receiver_row.tolist()) == list(range(len(nic.facts)))
    of_row = np.empty(len(nic.facts), np.int64)
    of_row[nic.receiver_row] = nic.facts["receiver"]
    for host in (nic.facts["node"], of_row):
        assert 1 + np.count_nonzero(np.diff(host)) == len(np.unique(host))
