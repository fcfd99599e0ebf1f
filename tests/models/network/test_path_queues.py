"""Queues along the ways of flows are those of the ports that a walk along the path finds."""

import numpy as np

from models.network.restore.path_queues import PathQueues
from models.network.watch.observers import next_look_ps
from models.topology.leaf_spine import leaf_spine
from pdes.engine.exchange import World
from pdes.engine.round import make_loop, run_rounds
from pdes.engine.time_index import NEVER
from reference.network_case import Outcome, make_flow_case
from reference.ring_case import GBPS, NS


class TwoHalves(World):
    """One rank that holds what two would, and says so."""

    other: np.ndarray

    def allgather(self, value):
        return [value, self.other]


def test_queues_are_those_of_the_ports_of_the_path_and_of_whoever_has_them() -> None:
    topology = leaf_spine(3, 2, 3, 100 * GBPS, 100 * GBPS, 1000 * NS, 1000 * NS)
    flows = [(i, 8, 40_000 + 997 * i, 300_000 * (i % 3)) for i in range(7)]
    case = make_flow_case(topology, flows, queue_pairs="per-pair")
    model, ahead_ps = case.model(case.thresholds_ps()[0], Outcome())
    pairs, n_hop, seen = np.arange(7), 6, []
    here = np.arange(topology.n_port) % 2 == 0
    all_of_them = PathQueues(n_hop, np.ones(topology.n_port, np.bool_), World())
    world = TwoHalves()
    half, other_half = PathQueues(n_hop, here, world), PathQueues(n_hop, ~here, World())

    class Watch:
        due_ps = 1

        def look(self, state, horizon_ps):
            expected = np.full((7, n_hop), -1)
            for pair in pairs.tolist():
                plan_pair, path = model.pairs.pair_of_row[pair], case.paths
                ports = path.port[path.start[2 * plan_pair] : path.start[2 * plan_pair + 1]]
                expected[pair, : len(ports)] = state.fabric.ports["queued_bytes"][ports]
            found = all_of_them.sample(state.fabric, state.nic, pairs)
            assert found.tolist() == expected.tolist()
            world.other = other_half.sample_own(state.fabric, state.nic, pairs)
            assert half.sample(state.fabric, state.nic, pairs).tolist() == expected.tolist()
            seen.append(found.max())
            self.due_ps = horizon_ps + 1
            return False

    model.observers = [Watch()]
    run_rounds(model, make_loop(ahead_ps, NEVER - 1, next_look_ps(model.observers)), model.exchange)
    assert max(seen) > 20_000 and len(seen) > 10
