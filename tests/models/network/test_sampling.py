"""Sampled time series hold exactly what their rule says; below their bound is what fewer samples would have given."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.network.state.pair_records import NO_WINDOW
from models.network.watch.observers import look_at, next_look_ps
from models.network.watch.sample_rows import FlowRows, PortRows, instants_kept
from models.network.watch.sampling import FLOW_SAMPLE_COLUMNS, FLOWS, PORT_SAMPLE_COLUMNS, PORTS, Sampler, Sampling
from models.topology.leaf_spine import leaf_spine
from pdes.engine.exchange import World
from pdes.engine.round import END_RUN, HORIZON, make_loop, run_rounds
from pdes.engine.time_index import NEVER
from reference.network_case import NetworkCase, Outcome, make_flow_case
from reference.ring_case import GBPS, NS, pausing_parameters

US = 10**6
NO_LIMIT = 2**40


def incast(pool_bytes: int | None = 40_000) -> NetworkCase:
    topology = leaf_spine(3, 2, 3, 100 * GBPS, 100 * GBPS, 1000 * NS, 1000 * NS)
    flows = [(i, 8, 40_000 + 997 * i, 300_000 * (i % 3)) for i in range(7)] + [(8, 0, 100_000, 40 * US)]
    parameters = None if pool_bytes is None else pausing_parameters(topology, pool_bytes)
    return make_flow_case(topology, flows, parameters, queue_pairs="per-pair")


class Recorder:
    """Writes down everything at every round end, by itself."""

    def __init__(self, case: NetworkCase) -> None:
        self.case, self.due_ps = case, 1
        self.ports: dict[int, np.ndarray] = {}
        self.flows: dict[int, list[tuple[int, ...]]] = {}

    def look(self, state, horizon_ps):
        t = self.case.topology
        table = np.zeros((t.n_port, 3), np.int64)
        table[:, 0], table[:, 2] = state.fabric.ports["queued_bytes"], state.fabric.ports["tx_bytes"]
        for port in range(t.n_port):
            if not t.is_switch[t.port_src[port]]:
                table[port, 1] = state.nic.nic_ports["paused"][port]
            elif self.case.parameters.buffer is not None:
                table[port, 1] = state.buffers.managed["paused"][port]
        rows = []
        for pair in state.nic.queue_pairs:
            if pair.acked_byte < pair.posted_end:
                message = state.nic.messages[pair.sending_message if pair.sending_message >= 0 else pair.last_message]
                first_byte = message.end_byte - message.size_bytes
                acked = min(max(int(pair.acked_byte) - int(first_byte), 0), int(message.size_bytes))
                window = -1 if pair.window_bytes >= NO_WINDOW else int(pair.window_bytes)
                in_flight = int(pair.next_byte) - int(pair.acked_byte)
                rows.append((horizon_ps, int(message.flow_id), int(pair.rate_bps), window, in_flight, acked))
        self.ports[horizon_ps], self.flows[horizon_ps] = table, sorted(rows)
        self.due_ps = horizon_ps + 1
        return False


def sample(case: NetworkCase, interval_ps: int, limit_bytes: int = NO_LIMIT, kinds=(PORTS, FLOWS), bits=(0, 1 << 3)):
    """(sampler, its tables, what a recorder saw) of a run."""
    model, ahead_ps = case.model(case.thresholds_ps()[0], Outcome())
    wanted = Sampling(interval_ps, kinds, limit_bytes)
    sampler = Sampler(case.topology, case.parameters, model.pairs, model.rank_of_node, World(), wanted, bits)
    recorder = Recorder(case)
    model.observers = [recorder, sampler]
    loop = make_loop(ahead_ps, NEVER - 1, next_look_ps(model.observers))
    run_rounds(model, loop, model.exchange)
    return sampler, sampler.gather(), recorder


def first_in_each_interval(times_ps: list[int], interval_ps: int) -> list[int]:
    """The rule of the instants, in another way than the sampler's."""
    taken, due_ps = [], interval_ps
    for time_ps in times_ps:
        if time_ps >= due_ps:
            taken.append(time_ps)
            due_ps = -(-(time_ps + 1) // interval_ps) * interval_ps
    return taken


def port_rows(history: dict[int, np.ndarray], times_ps: list[int]) -> list[tuple[int, ...]]:
    """The rule of the port rows, port by port."""
    rows, last = [], {}
    for time_ps in times_ps:
        for port, now in enumerate(history[time_ps].tolist()):
            if now[0] or now[1] or now != last.get(port, [0, 0, 0]):
                rows.append((time_ps, port, now[0], now[1], now[2]))
                last[port] = now
    return rows


@pytest.mark.parametrize("pool_bytes", [None, 40_000])
@pytest.mark.parametrize("interval_ps", [1, 3 * US, 10 * US])
def test_rows_are_what_a_bystander_sees_at_those_instants(pool_bytes: int | None, interval_ps: int) -> None:
    sampler, tables, seen = sample(incast(pool_bytes), interval_ps, bits=(0, 1))
    times_ps = first_in_each_interval(list(seen.ports), interval_ps)
    assert sampler.times_ps == times_ps and len(times_ps) > 3
    for table in seen.ports.values():
        table[:, 1] >>= 1  # queue 1 is bit 0 of the table here
    rows = list(zip(*(tables[PORTS][name].tolist() for name in PORT_SAMPLE_COLUMNS), strict=True))
    assert rows == port_rows(seen.ports, times_ps)
    rows = list(zip(*(tables[FLOWS][name].tolist() for name in FLOW_SAMPLE_COLUMNS), strict=True))
    assert rows == [row for time_ps in times_ps for row in seen.flows[time_ps]]
    if interval_ps == 1:
        assert tables[PORTS]["queue_bytes"].max() > 10_000
        assert bool(tables[PORTS]["paused"].any()) == (pool_bytes is not None)
        assert 0 < tables[FLOWS]["acked_bytes"].max() < 100_000


def test_a_pause_is_the_bit_of_its_priority() -> None:
    tables = sample(incast(), US)[1]
    assert set(tables[PORTS]["paused"].tolist()) == {0, 1 << 3}


@pytest.mark.parametrize("limit_bytes", [20_000, 5_000, 2_000, 200])
def test_below_the_bound_is_left_what_fewer_samples_would_have_been(limit_bytes: int) -> None:
    few, tables, _ = sample(incast(), US, limit_bytes)
    size_bytes = 8 * sum(len(table["time_ps"]) * {PORTS: 5, FLOWS: 7}[kind] for kind, table in tables.items())
    assert size_bytes <= limit_bytes and few.interval_ps > US
    other, expected, _ = sample(incast(), few.interval_ps)
    assert few.times_ps == other.times_ps
    for kind, table in expected.items():
        for name, column in table.items():
            assert tables[kind][name].tolist() == column.tolist(), (kind, name)


def test_one_kind_alone_is_the_same() -> None:
    both = sample(incast(), US)[1]
    for kind in (PORTS, FLOWS):
        alone = sample(incast(), US, kinds=(kind,))[1]
        assert list(alone) == [kind]
        assert all((alone[kind][name] == both[kind][name]).all() for name in both[kind])


history = st.lists(st.tuples(*[st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 2))] * 3), max_size=20)


@given(steps=history, gaps=st.lists(st.integers(1, 7), min_size=20, max_size=20), factor=st.integers(1, 4))
def test_thinning_gives_the_rows_of_the_instants_that_stay(steps, gaps, factor) -> None:
    """Whatever ports do: they may send and queue, or change a pause alone, or nothing."""
    times_ps = np.cumsum(gaps)[: len(steps)]
    states = {}
    tx_bytes = np.zeros(3, np.int64)
    rows, flows = PortRows(3), FlowRows()
    for i, (time_ps, step) in enumerate(zip(times_ps.tolist(), steps, strict=True)):
        now = np.array(step, np.int64)
        tx_bytes = tx_bytes + now[:, 2]
        now[:, 2] = tx_bytes
        states[time_ps] = now
        rows.add(i, np.arange(3), now)
        flows.add(i, np.full((2, 6), i))
    interval_ps = 1
    for _ in range(factor):
        interval_ps *= 2
        kept = instants_kept(times_ps, interval_ps)
        times_ps = times_ps[kept]
        rows.thin(kept)
        flows.thin(kept)
        assert times_ps.tolist() == first_in_each_interval(list(states), interval_ps)
        table = rows.table()
        found = [(int(times_ps[row[0]]), *row[1:]) for row in table.tolist()]
        assert found == port_rows(states, times_ps.tolist())
        old = [list(states).index(time_ps) for time_ps in times_ps.tolist()]
        assert flows.table()[:, :2].tolist() == [[i, was] for i, was in enumerate(old) for _ in range(2)]


class Due:
    def __init__(self, due_ps: int, ends: bool = False) -> None:
        self.due_ps, self.ends, self.looks = due_ps, ends, []

    def look(self, state, horizon_ps):
        self.looks.append(horizon_ps)
        self.due_ps = horizon_ps + 10
        return self.ends


def test_observers_look_when_they_are_due_and_any_may_end_the_run() -> None:
    one, other = Due(5), Due(7, ends=True)
    assert next_look_ps([one, other]) == 5 and next_look_ps([]) == NEVER
    assert look_at([one, other], None, 6) == 7
    assert look_at([one, other], None, 16) == END_RUN
    assert (one.looks, other.looks) == ([6, 16], [16])


def test_sampling_changes_nothing_of_the_run() -> None:
    case, outcome = incast(), Outcome()
    model, ahead_ps = case.model(case.thresholds_ps()[0], outcome)
    model.observers = [Recorder(case)]
    loop = make_loop(ahead_ps, NEVER - 1, 1)
    run_rounds(model, loop, model.exchange)
    model.flush()
    assert outcome.flows == case.run().flows and loop[HORIZON] > 0
