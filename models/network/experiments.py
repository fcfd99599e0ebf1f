"""Many experiments in one compiled loop: Multiverse (section 4) puts an experiment's number in front of every table.

Here the networks of all experiments are one network whose parts are not joined: node, port, queue pair, message and
task numbers of an experiment begin where those of the one before it end. So every table has the experiments one behind
the other, and nothing in the kernels knows of them. They run one after the other, for the sake of the cache: nodes of
the others have no events meanwhile. What the kernels take for granted of a whole network, `Fabric.constants`, is that
of the experiment that runs; random numbers are drawn by its own numbers of ports and tasks (FIRST_PORT, FIRST_TASK).
Deviation: Multiverse advances all experiments together, window by window, as a GPU wants it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from models.network.build.arrays import NetworkState, is_managed
from models.network.managed_rounds import managed_rounds
from models.network.model import NetworkModel
from models.network.outputs import Outputs
from models.network.rounds import plain_rounds
from models.network.state.parameters import NetworkParameters
from models.network.state.records import (
    EVENTS,
    FIRST_PORT,
    FIRST_TASK,
    LAST_EVENT_PS,
    LINK_BITS,
    N_CONSTANT,
    N_EXTRA,
    N_INT_WORD,
    N_TIMEOUT,
    NEED_MESSAGES,
    NEED_PACKETS,
    NEED_ROWS,
    PACKET_HOPS,
    SLOT_PS,
)
from pdes.engine.foreign import clock_ns
from pdes.engine.jit import inlined, loop_kernel, program_kernel
from pdes.engine.round import (
    HORIZON,
    IN_ROUND,
    LEAST,
    LOOKAHEAD,
    NOW,
    ROUND_DONE,
    ROUND_PAUSE,
    RUN_LEFT,
    RUN_LENGTH,
    STOP,
    make_loop,
)
from pdes.engine.round_exchange import ExchangeState
from pdes.engine.time_index import NEVER, set_time

OF_ALL = [SLOT_PS, LINK_BITS, NEED_PACKETS, NEED_MESSAGES, NEED_ROWS, N_EXTRA, N_INT_WORD]  # sizes: the largest will do
OF_EXPERIMENT = np.setdiff1d(np.arange(N_CONSTANT), OF_ALL)

# Columns of Experiments.words: what is told of each, and what has been counted.
(
    FIRST_NODE,
    END_NODE,
    LOOKAHEAD_PS,
    STOP_PS,  # last instant
    IS_BEGUN,
    HOPS,
    EVENT,
    TIMEOUTS,
    LAST_PS,  # of its last event at a host
    SPENT_NS,  # wall time
    MOST_EVENTS,  # what has more of them is given up
    IS_GIVEN_UP,
) = range(12)
N_EXPERIMENT_WORD = 12


class Experiments(NamedTuple):
    """Which of them runs, and what each needs."""

    at: np.ndarray  # int64[1]  number of the one that runs
    words: np.ndarray  # int64[n_experiment, N_EXPERIMENT_WORD]
    constants: np.ndarray  # int64[n_experiment, N_CONSTANT]
    begin_ps: np.ndarray  # int64[n_node]  first event of each node, NEVER: none


class Experiment(NamedTuple):
    """One of them, as `make_experiments` is told: how many nodes, ports and tasks it has, and its own scalars.

    constants: int64[N_CONSTANT], `make_constants` of it alone. most_events: where it ends at the latest. stop_ps: last
    instant that is simulated.
    """

    n_node: int
    n_port: int
    n_task: int
    constants: np.ndarray
    lookahead_ps: int
    most_events: int
    stop_ps: int = NEVER - 1


def make_experiments(model: NetworkModel, parts: Sequence[Experiment]) -> Experiments:
    """parts: in the order in which their networks were joined. Takes the nodes' first events out of the model."""
    fabric, n = model.state.fabric, len(parts)
    words, constants = np.zeros((n, N_EXPERIMENT_WORD), np.int64), np.zeros((n, N_CONSTANT), np.int64)
    end_node = np.cumsum([part.n_node for part in parts])
    words[:, FIRST_NODE], words[:, END_NODE] = end_node - [part.n_node for part in parts], end_node
    words[:, LOOKAHEAD_PS] = [part.lookahead_ps for part in parts]
    words[:, STOP_PS], words[:, MOST_EVENTS] = [part.stop_ps for part in parts], [part.most_events for part in parts]
    constants[:] = fabric.constants
    for row, part, first, end in zip(constants, parts, words[:, FIRST_NODE], end_node, strict=True):
        row[OF_EXPERIMENT] = part.constants[OF_EXPERIMENT]
        row[SLOT_PS] = min(NEVER, int(fabric.nodes["safe_ps"][first:end].min()))
    for place, counts in ((FIRST_PORT, [p.n_port for p in parts]), (FIRST_TASK, [p.n_task for p in parts])):
        constants[:, place] = np.cumsum(counts) - counts
    tree = fabric.node_time
    begin_ps = tree[len(tree) // 2 :][: len(fabric.nodes)].copy()
    tree[:] = NEVER
    return Experiments(np.zeros(1, np.int64), words, constants, begin_ps)


@loop_kernel
def _begin(loop, state, experiments, words):
    fabric, k = state.fabric, experiments.at[0]
    counters = fabric.counters
    for i in range(N_CONSTANT):
        fabric.constants[i] = experiments.constants[k, i]
    for node in range(words[FIRST_NODE], words[END_NODE]):
        if experiments.begin_ps[node] < NEVER:
            set_time(fabric.node_time, node, experiments.begin_ps[node])
    counters[LAST_EVENT_PS] = 0
    words[HOPS], words[EVENT], words[TIMEOUTS] = counters[PACKET_HOPS], counters[EVENTS], counters[N_TIMEOUT]
    words[IS_BEGUN] = 1
    loop[LOOKAHEAD], loop[STOP], loop[LEAST] = words[LOOKAHEAD_PS], words[STOP_PS], -1
    loop[HORIZON] = loop[NOW] = loop[IN_ROUND] = loop[RUN_LEFT] = loop[RUN_LENGTH] = 0


@loop_kernel
def _end(state, words):
    """What is left after a stop time has no event any more."""
    fabric = state.fabric
    counters = fabric.counters
    words[HOPS], words[EVENT] = counters[PACKET_HOPS] - words[HOPS], counters[EVENTS] - words[EVENT]
    words[TIMEOUTS], words[LAST_PS] = counters[N_TIMEOUT] - words[TIMEOUTS], counters[LAST_EVENT_PS]
    for node in range(words[FIRST_NODE], words[END_NODE]):
        set_time(fabric.node_time, node, NEVER)


@inlined
def _in_turn(loop, ex, state, port_peer_row, outputs, experiments, run):
    """One after the other, each to its end; what `run` returns, which is `plain_rounds` or `managed_rounds`."""
    while experiments.at[0] < len(experiments.words):
        words = experiments.words[experiments.at[0]]
        begin_ns = clock_ns(ex.clock[0], ex.clock[1:])
        if words[IS_BEGUN] == 0:
            _begin(loop, state, experiments, words)
        code = run(loop, ex, state, port_peer_row, outputs)
        words[SPENT_NS] += clock_ns(ex.clock[0], ex.clock[1:]) - begin_ns
        if code != ROUND_DONE:
            return code
        _end(state, words)
        experiments.at[0] += 1
    return ROUND_DONE


@program_kernel
def run_experiments(
    loop, ex: ExchangeState, state: NetworkState, port_peer_row, outputs: Outputs, experiments: Experiments
):  # fmt: skip
    """Of networks of plain switches."""
    return _in_turn(loop, ex, state, port_peer_row, outputs, experiments, plain_rounds)


@program_kernel
def run_managed_experiments(
    loop, ex: ExchangeState, state: NetworkState, port_peer_row, outputs: Outputs, experiments: Experiments
):  # fmt: skip
    """Of networks of managed switches."""
    return _in_turn(loop, ex, state, port_peer_row, outputs, experiments, managed_rounds)


class InTurn:
    """A model of all experiments, for `pdes.engine.round.run_rounds`."""

    def __init__(self, model: NetworkModel, parameters: NetworkParameters, parts: Sequence[Experiment]) -> None:
        self.model, self.experiments = model, make_experiments(model, parts)
        self._run = run_managed_experiments if is_managed(parameters) else run_experiments

    def run_rounds(self, loop: np.ndarray, ex: ExchangeState) -> int:
        """Compiled rounds of the one that runs, and of those behind it."""
        model = self.model
        code = self._run(loop, ex, model.state, model.port_peer_row, model.outputs, self.experiments)
        if code == ROUND_PAUSE:
            self._give_up_what_is_endless(loop)
        return code

    def _give_up_what_is_endless(self, loop: np.ndarray) -> None:
        """What sends the same again and again, for ever, has no more rounds."""
        words = self.experiments.words[int(self.experiments.at[0])]
        if int(self.model.state.fabric.counters[EVENTS]) - words[EVENT] > words[MOST_EVENTS]:
            loop[STOP], words[IS_GIVEN_UP] = -1, 1

    def kernels(self) -> list[tuple[Any, tuple[Any, ...]]]:
        """As `NetworkModel.kernels`."""
        model = self.model
        arguments = (make_loop(1), model.exchange, model.state, model.port_peer_row, model.outputs, self.experiments)
        return [*model.kernels(), (self._run, arguments)]

    def relieve(self, code: int) -> None:
        """Mend a shortage."""
        self.model.relieve(code)
