"""A network that is saved in the middle and goes on in a new model does what it would have done."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.network.build.arrays import NetworkState
from models.network.checkpoint.saved_chains import chains_of
from models.network.checkpoint.saved_state import NETWORK_ADDED, load_network, save_network
from models.network.model import LogicalProcesses, NetworkModel
from models.network.state import owners
from models.network.state.owners import Owners, owned_tables
from models.network.state.pair_records import QUEUE_PAIR, RECEIVER
from models.network.state.records import N_TIMEOUT, PACKET_HOPS, PORT, PORT_INFO
from models.network.state.switch_state import INLET, QUEUE
from models.network.verify.network import verify_network
from models.network.watch.results import port_columns
from mpi.network_matrix import cases, scenario_of
from pdes.config import load_config
from pdes.convert.ns3 import convert
from pdes.engine.exchange import World
from pdes.engine.round import ASKS, N_ROUND, make_loop, run_rounds
from pdes.scenario import Scenario, build_scenario

NS3_CASES = Path(__file__).parents[2] / "reference" / "ns3_cases"
CASES = cases()
N_PART = 3  # a state is saved as that many ranks would save it


class Runner:
    """A run of a scenario that moves to a new model at some rounds. every: rounds between these, 0: it stays."""

    def __init__(self, scenario: Scenario, every: int) -> None:
        self.scenario, self.rows, self.n_moved = scenario, [], 0
        self.model = self._make()
        loop = self.loop = make_loop(scenario.lookahead_ps)
        n_round = [0]

        def tick() -> None:
            n_round[0] += 1
            loop[ASKS] = every > 0 and n_round[0] % every == 0

        run_rounds(_Through(self), loop, self.model.exchange, tick, 0, self._move)
        self.model.flush()

    def _make(self) -> NetworkModel:
        s = self.scenario
        model = NetworkModel(
            s.topology,
            s.paths,
            s.plan,
            s.max_window_bytes,
            LogicalProcesses(s.lp_of_node, np.zeros(s.n_lp, np.int64), s.lookahead_ps),
            World(),
            s.parameters,
            lambda *rows: self.rows.append([each.copy() for each in rows]),
        )
        model.compile()
        return model

    def _move(self) -> bool:
        topology, old = self.scenario.topology, self.model
        old.flush()
        rank_of_node = np.arange(topology.n_node) % N_PART
        parts = [save_network(topology, old.state, rank_of_node == rank, None) for rank in range(N_PART)]
        for part in parts[1:]:
            for name in NETWORK_ADDED:
                part[name] = np.zeros_like(part[name])
        new = self._make()
        everywhere = np.ones(topology.n_node, np.bool_)
        nodes = [rank_of_node == rank for rank in range(len(parts))]
        new.state = load_network(topology, new.state, parts, nodes, everywhere, True, None)
        self.model, self.n_moved = new, self.n_moved + 1
        if self.scenario.parameters.ns3 is None:
            verify_network(new.state, topology)
        return True

    def found(self) -> list[Any]:
        """Every row, and what was counted."""
        tables = [np.concatenate([rows[i] for rows in self.rows]) for i in range(4)]
        tables = [table[np.lexsort(table.T[::-1])].tolist() for table in tables]
        topology, counters = self.scenario.topology, self.model.state.fabric.counters
        ports = port_columns(self.model.state, topology, np.zeros(topology.n_node, np.int64), 0)
        return [tables, {n: c.tolist() for n, c in ports.items()}, counters[[PACKET_HOPS, N_TIMEOUT]].tolist()]


class _Through:
    """Whatever model a runner has now."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner.model, name)


@pytest.mark.parametrize("name", CASES)
def test_a_network_goes_on_in_another_model(name: str) -> None:
    scenario = scenario_of(CASES[name])
    whole = Runner(scenario, 0)
    moved = Runner(scenario, int(whole.loop[N_ROUND]) // 4)
    assert moved.n_moved >= 3
    assert moved.found() == whole.found()


@pytest.mark.parametrize("name", ["i2_pfc_incast8_1mb/dcqcn", "k_link_error/hpcc", "j_lossy_nopfc/timely"])
def test_a_network_by_ns3s_rules_goes_on(name: str, tmp_path: Path) -> None:
    convert(NS3_CASES / name, tmp_path / "case.toml")
    scenario = build_scenario(load_config(tmp_path / "case.toml", ["partition.delay_threshold=500ns"]))
    whole = Runner(scenario, 0)
    moved = Runner(scenario, int(whole.loop[N_ROUND]) // 4)
    assert moved.n_moved >= 3
    assert moved.found() == whole.found()


def test_every_field_has_an_owner_or_never_changes() -> None:
    known = {
        PORT: (*owners.SENDS, *owners.CONSTANT_OF_PORT, *owners.CHAINS_OF_PORT),
        PORT_INFO: (*owners.INFO, *owners.CONSTANT_OF_INFO),
        QUEUE_PAIR: (*owners.SENDER, *owners._OTHERS),
        RECEIVER: (*owners.RECEIVES, *owners._OTHERS_OF_RECEIVER),
    }
    for record, fields in known.items():
        assert sorted(record.names or ()) == sorted(fields)
    assert sorted(QUEUE.names or ()) == sorted(("head", "tail", *owners.QUEUE_FIELDS))
    assert sorted(INLET.names or ()) == sorted(("headroom_bytes", "alpha_1024", "peer", *owners.INLET_FIELDS))


CONSTANT = {  # arrays that follow from the scenario, are scratch, of no result's concern, or are saved otherwise
    "fabric": {"packets", "packet_words", "label", "extra", "pint", "dropped", "path_port", "departed", "found",
               "link_slots", "link_keys", "port_back", "lp_of_node", "stop_ps", "stopped_node", "stopped_ps", "n_step",
               "counters", "constants"},
    "nic": {"receiver_row", "facts", "sends", "receives", "out_port", "messages", "posted", "event", "law", "ranges",
            "parts", "timer_pair", "frozen_port", "interrupted", "interrupt_ps", "active", "withdrawn", "unseen",
            "frozen", "is_frozen", "ns3_ports", "ns3_listed", "fluid", "fluid_port", "goes"},
    "buffers": {"drops", "weight_bytes", "changes"},
    "routing": {"routes", "epoch_ps", "component", "local", "attach_start", "attach_group", "group_component",
                "group_first", "way_start", "way_port", "is_up", "port_src", "in_start", "settings", "flowlets"},
    "work": {"operations", "jobs", "ends", "slots", "groups", "group_stream", "group_peer", "joined",
             "iteration_end_ps", "iteration_tasks", "totals", "graph"},
    "rows": {"flow", "arrival", "task", "spent", "rtt"},
}  # fmt: skip


def test_every_table_is_saved_or_known_not_to_be() -> None:
    """A new array in the state has to be entered somewhere."""
    scenario = scenario_of(CASES["hpcc, PFC"])
    network = Runner(scenario, 0).model.state
    topology = scenario.topology
    mine = Owners.of(topology, network)
    saved = [table.rows for table in owned_tables(topology, network, mine)]
    saved += [chain.heads for chain in chains_of(topology, network, mine, None)]
    for part, constant in CONSTANT.items():
        arrays = getattr(network, part)._asdict()
        for name, array in arrays.items():
            is_saved = any(rows is array or np.shares_memory(array, rows) for rows in saved if name != "graph")
            assert is_saved != (name in constant), f"{part}.{name}"
    assert set(NetworkState._fields) == set(CONSTANT)
