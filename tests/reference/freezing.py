"""Runs that freeze and thaw: by the real controller, or by doubles that do not ask whether anything is steady.

What freezing does to the packet state must be right whatever is frozen, and when. The real controller freezes seldom,
and only what hardly changes; the doubles do it all the time, in the middle of everything.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from models.congestion.law import BUILT_IN, find_law
from models.network.build.arrays import has_pfc, is_managed
from models.network.model import NetworkModel
from models.network.skip.fast_forward import FastForward
from models.network.skip.make_fast_forward import Wanted, make_fast_forward
from models.network.skip.progress import IS_PLAIN, MESSAGE_END, NEXT_BYTE, PAIR
from models.network.skip.room import Room
from models.network.skip.suspend.hidden import ControlWords, make_hidden
from models.network.state.parameters import NetworkParameters
from models.network.state.records import SLOT_PS
from models.network.verify.network import verify_network
from models.topology.base_rtt import path_base_rtt
from models.topology.graph import Topology
from pdes.engine.exchange import World
from pdes.engine.time_index import NEVER
from pdes.skipping.controller import Counters
from reference.network_case import Flow, NetworkCase, Outcome, make_flow_case

# Marks and telemetry; whole runs of others are in tests/pdes/test_skipping_runs.py.
MARKED_LAWS = [name if name in ("dctcp", "hpcc") else pytest.param(name, marks=pytest.mark.slow) for name in BUILT_IN]
LONGEST_ROUND_PS = 2 * 10**6  # so that there are looks even if all nodes are one logical process


@dataclass(eq=False)
class Rest:
    """What is frozen, and how it is to go on: by an even share of what it does until its end."""

    pairs: np.ndarray
    ports: np.ndarray
    begin_ps: int
    end_ps: int
    packets: np.ndarray  # int64[n_pair]  until the end
    moves: bool = True  # False: thawed as it was, at the instant at which it was frozen
    n_member: int = 1

    def progress(self, at_ps: int) -> tuple[int, np.ndarray, np.ndarray]:
        """As `pdes.skipping.controller.Freeze` has it."""
        whole_ps, none = self.end_ps - self.begin_ps, np.zeros(len(self.pairs), np.int64)
        assert self.begin_ps <= at_ps <= self.end_ps
        if not self.moves:
            return 0, none, none
        return at_ps - self.begin_ps, self.packets * (at_ps - self.begin_ps) // whole_ps, none


class Uncompiled:
    """Looks that are all Python's."""

    assessment = None


@dataclass(eq=False)
class Double:
    """A controller that freezes what `choose` says, of what is not frozen, at every look."""

    case: NetworkCase
    model: NetworkModel
    every_ps: int
    choose: Callable[["Double", int, np.ndarray], list[Rest]]
    next_look_ps: int = 1
    counters: Counters = field(default_factory=Counters)
    frozen: list[Rest] = field(default_factory=list)
    stranded: list[Rest] = field(default_factory=list)
    log: list[int] = field(default_factory=list)  # when something was frozen
    looks: Uncompiled = field(default_factory=Uncompiled)

    @property
    def first_end_ps(self) -> int:
        return min((rest.end_ps for rest in self.frozen), default=NEVER)

    first_thaw_ps = first_end_ps

    def ways(self, pair: int) -> set[int]:
        """The ports of a queue pair's packets and ACKs; with PFC those back, too, as pauses go there."""
        path, record = self.model.state.fabric.path_port, self.model.state.nic.facts[pair]
        first = [int(record[name]) for name in ("data_path", "ack_path")]
        ports = np.concatenate([path[i : i + int(np.argmax(path[i:] < 0))].astype(np.int64) for i in first])
        back = self.case.topology.port_peer[ports] if has_pfc(self.case.parameters) else ports
        return set(ports.tolist()) | set(back.tolist())

    def partitions(self, rows: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """(rows of `rows`, ports) of each network partition: flows that share ports, directly or through others."""
        found: list[tuple[list[int], set[int]]] = []
        for i, pair in enumerate(rows[:, PAIR].tolist()):
            mine = self.ways(pair)
            joined = [part for part in found if mine & part[1]]
            members = sorted([i, *(j for part in joined for j in part[0])])
            apart = [part for part in found if not mine & part[1]]
            found = [*apart, (members, mine.union(*(part[1] for part in joined)))]
        return [(np.array(members), np.array(sorted(ports))) for members, ports in sorted(found, key=lambda f: f[0])]

    def ends(self, now_ps: int, interrupts: dict[int, int]) -> Iterator[tuple[Rest, int]]:
        still = []
        for rest in self.frozen:
            met = [at_ps for pair, at_ps in interrupts.items() if self.ways(pair) & set(rest.ports.tolist())]
            at_ps = min([*met, rest.end_ps if rest.end_ps <= now_ps else NEVER])
            if at_ps == NEVER:
                still.append(rest)
                continue
            self.counters.thaws_planned += at_ps == rest.end_ps
            self.counters.thaws_interrupted += at_ps < rest.end_ps
            yield rest, at_ps
        self.frozen = still

    def decide(self, now_ps: int, rows: np.ndarray, allows: Any = None, is_assessed: bool = False) -> list[Rest]:
        self.next_look_ps = now_ps + self.every_ps
        new = self.choose(self, now_ps, rows)
        self.counters.freezes += len(new)
        self.log += [now_ps] * len(new)
        self.frozen += new
        return new

    def due(self, now_ps: int) -> list[Rest]:
        return []

    def give_up(self, now_ps: int) -> None:
        pass


def blink(double: Double, now_ps: int, rows: np.ndarray) -> list[Rest]:
    """Everything that is active, partition by partition, to be thawed at once: for `Blinking`."""
    return [
        Rest(rows[members, PAIR], ports, now_ps, now_ps + 1, np.zeros(len(members), np.int64), moves=False)
        for members, ports in double.partitions(rows)
    ]


def wait_once(from_ps: int, for_ps: int) -> Callable[[Double, int, np.ndarray], list[Rest]]:
    """The whole network as one, at the first look from an instant on, for a time, in which nothing gets done."""

    def choose(double: Double, now_ps: int, rows: np.ndarray) -> list[Rest]:
        if now_ps < from_ps or double.counters.freezes or not len(rows):
            return []
        ports, none = np.arange(double.case.topology.n_port), np.zeros(len(rows), np.int64)
        return [Rest(rows[:, PAIR].copy(), ports, now_ps, now_ps + for_ps, none)]

    return choose


def gamble(seed: int, longest_ps: int) -> Callable[[Double, int, np.ndarray], list[Rest]]:
    """Any network partition whose flows are all plain, for any time, in which they get any number of packets done."""
    draw = random.Random(seed)

    def choose(double: Double, now_ps: int, rows: np.ndarray) -> list[Rest]:
        payload, new = double.case.parameters.payload_bytes, []
        for members, ports in double.partitions(rows):
            mine = rows[members]
            if not mine[:, IS_PLAIN].all() or draw.random() < 0.5:
                continue
            left = (mine[:, MESSAGE_END] - mine[:, NEXT_BYTE]) // payload - 1
            packets = np.array([draw.randint(0, max(0, int(n))) for n in left], np.int64)
            new.append(Rest(mine[:, PAIR].copy(), ports, now_ps, now_ps + draw.randint(1, longest_ps), packets))
        return new

    return choose


class Blinking(FastForward):
    """Thaws at once what it freezes."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._freeze, self.suspension.freeze = self.suspension.freeze, self._blink

    def _blink(self, state: Any, new: Any) -> None:
        self._freeze(state, new)
        for freeze in new:
            self._controller.frozen.remove(freeze)
        self.suspension.thaw(state, [(freeze, freeze.begin_ps) for freeze in new], self.grow)


def run_double(
    case: NetworkCase, choose: Callable, every_ps: int, threshold_ps: int | None = None, verify: bool = False,
    kind: type[FastForward] = FastForward,
) -> Outcome:  # fmt: skip
    """Run a case with a double that freezes what `choose` says. verify: check the whole state after every round."""
    law, here = case.parameters.law, np.ones(case.topology.n_node, np.bool_)
    words = law.moving_words
    assert words is not None

    def prepare(model: NetworkModel) -> None:
        double: Any = Double(case, model, every_ps, choose)
        moving = ControlWords(*words, *law.hop_count_words)
        hidden = make_hidden(case.topology, len(model.pairs.pair_of_row), here, moving, is_managed(case.parameters))
        model.fast_forward = kind(model.pairs, double, World(), hidden, law.float_words + words[1])
        if case.parameters.buffer is not None:
            model.fast_forward.suspension.room = Room(case.topology, model.pairs, case.parameters, World(), here)

    check = _verify(case) if verify else None
    return case.run(threshold_ps, check, prepare=prepare, longest_round_ps=LONGEST_ROUND_PS)


def run_fast(
    case: NetworkCase, threshold_ps: int | None = None, mode: str = "steady", stop_ps: int | None = None,
    verify: bool = False, longest_window_ps: int = NEVER,
) -> Outcome:  # fmt: skip
    """Run a case with the real controller.

    longest_window_ps: how far a node may run ahead of the others of its logical process, at most. What else a rank has
    makes that shorter or longer.
    """
    p = case.parameters
    rtt_ps = path_base_rtt(case.topology, case.paths, p.payload_bytes + p.header_bytes, p.ack_bytes)[0]

    def prepare(model: NetworkModel) -> None:
        nodes, constants = model.state.fabric.nodes, model.state.fabric.constants
        nodes["safe_ps"] = np.minimum(nodes["safe_ps"], longest_window_ps)
        constants[SLOT_PS] = min(constants[SLOT_PS], longest_window_ps)
        fast = make_fast_forward(case.topology, model, p, World(), rtt_ps, stop_ps, Wanted(mode=mode))
        assert fast is not None
        model.fast_forward = fast

    stop = {} if stop_ps is None else {"stop_ps": stop_ps}
    return case.run(threshold_ps, _verify(case) if verify else None, prepare=prepare, longest_round_ps=10**7, **stop)


def _verify(case: NetworkCase) -> Callable[[NetworkModel], None]:
    def check(model: NetworkModel) -> None:
        assert model.fast_forward is not None
        verify_network(model.state, case.topology, model.fast_forward.link_head)

    return check


def controlled(
    law_name: str, topology: Topology, flows: list[Flow], queue_pairs: str = "per-flow", **keys
) -> NetworkCase:  # fmt: skip
    """A case of a flow list under a control with its defaults."""
    law = find_law(law_name)
    parameters = NetworkParameters(header_bytes=48 + law.header_bytes, law=law, **keys)
    window = None if law.window != "none" else 0
    case = make_flow_case(topology, flows, parameters, window, queue_pairs)
    rtt_ps = path_base_rtt(topology, case.paths, 1000 + parameters.header_bytes, parameters.ack_bytes)[0]
    return replace(case, parameters=replace(parameters, base_rtt_ps=np.full(len(rtt_ps), rtt_ps.max())))
