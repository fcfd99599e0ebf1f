"""One rank's part of a run: what is assembled, its rows, its clock, and where all of that comes from."""

from dataclasses import replace

import numpy as np

from models.network.model import NetworkModel
from partition.placement import balance
from pdes.checkpoint_places import checkpoint_directory
from pdes.debug.options import DebugPlan
from pdes.engine.compiling.straight import let_go
from pdes.engine.exchange import World
from pdes.engine.round import LIMIT, N_LOOP, NOW, make_loop
from pdes.engine.time_index import NEVER
from pdes.simulation.assemble import Assembly, Basis, assemble
from pdes.simulation.devices import Device
from pdes.simulation.memory import fits
from pdes.simulation.preparation.prepared import Prepared
from pdes.simulation.rows import Rows
from pdes.simulation.shared_memo import SharedMemo
from pdes.skipping.replay.memo_file import MemoFile
from pdes.witness import Witness


def begins_alone(prepared: Prepared, n_rank: int, n_rank_here: int) -> bool:
    """Whether rank 0 begins by itself, see `crew`: something may be skipped, and nobody debugs it.

    There must be room for all of the network on every rank here: each has it when ranks join or fall asleep.
    """
    s = prepared.scenario
    is_asked = n_rank > 1 and s.may_begin_alone and prepared.debug == DebugPlan()
    return is_asked and fits(s, 1, n_rank_here)


class Run:
    """Nothing has happened in it at first; `loop.run_to_end` changes that."""

    def __init__(self, prepared: Prepared, world: World, witness: Witness | None = None) -> None:
        """witness: of this rank, to be told where the run is."""
        self.scenario, self.witness = prepared.scenario, witness
        self.folder = prepared.result_folder()
        self.device: Device = prepared.device
        if witness is not None:
            checkpoints = checkpoint_directory(self.scenario.config).absolute()
            witness.tell(folder=self.folder.work.absolute(), checkpoints=checkpoints)
        self.begin_s, self.compilers, self.resumed = prepared.begin_s, prepared.compilers, prepared.resumed
        self.run_id = self.folder.token if self.resumed is None else self.resumed.facts["run"]
        self.restored = {"rounds": 0, "hops": 0, "events": 0}  # what others have simulated before
        self.own_hops = 0  # packet-hops of this rank beyond those that its network has counted, see `crew`
        s, model = self.scenario, prepared.queue_model
        sizes = world.size, world.n_rank_here()
        self.begins_alone: bool = world.bcast(begins_alone(prepared, *sizes) if world.rank == 0 else None)
        self.everyone, self.is_asleep = world, self.begins_alone and world.rank > 0
        self.rows = Rows(s, world, self.folder.work)
        self.queue_model_digest = None if model is None else model.digest  # on rank 0
        self._basis = Basis(s, world, prepared.debug, model, self.rows.take)
        self.memo: SharedMemo | None = None
        self.loop = make_loop(0, words=None if witness is None else witness.words[:N_LOOP])
        if self.begins_alone and world.rank == 0:
            self.place(World(), np.zeros(s.n_lp, np.int64), prepared.memo)
        elif not self.begins_alone:
            self.place(world, self.common_placement(), prepared.memo)

    def common_placement(self) -> np.ndarray:
        """int64[n_lp]: ranks of LPs, when all ranks have some; the same on every rank, of which each must ask."""
        world = self.everyone
        return world.bcast(self.scenario.rank_of_lp(world.size) if world.rank == 0 else None)

    def place(self, world: World, rank_of_lp: np.ndarray, memo: MemoFile | None = None) -> None:
        """Have a network in which nothing has happened, on these ranks, each of which must call it. memo: on rank 0."""
        s, self._basis = self.scenario, replace(self._basis, world=world)
        self.balance = balance(s.lp_load(), rank_of_lp, world.size)
        self.assemble(rank_of_lp)
        if s.config.wormhole.memo is not None and self.memo is None:
            self.memo = SharedMemo(memo, s, self.model, World() if self.begins_alone else world)
        stop_ps = NEVER - 1 if s.stop_ps is None else s.stop_ps
        # Interrupts everyone has to hear of at once; and in a hybrid something is decided at rounds' ends.
        model = self.model
        may_run_on = model.fast_forward is None and not s.parameters.is_hybrid and model.flow_sampler is None
        make_loop(self._basis.lookahead_ps, stop_ps, model.first_look_ps(), self.loop, may_run_on)
        if model.flow_sampler is not None:
            self.loop[LIMIT] = model.limit_ps

    def rehearse(self) -> None:
        """On a rank without LPs, load the kernels of a network, which is dropped again."""
        found = assemble(replace(self._basis, world=World()), np.zeros(self.scenario.n_lp, np.int64))
        found.model.compile()
        found.facts.compile()
        let_go()

    @property
    def world(self) -> World:
        """The ranks that have LPs: all, or rank 0 by itself. What is asleep only asks for its number."""
        return self._basis.world

    def assemble(self, rank_of_lp: np.ndarray) -> None:
        """Have LPs placed so, in a network in which nothing has happened. On every rank."""
        self.assembly: Assembly = assemble(self._basis, rank_of_lp)
        self.rows.source = self.assembly

    def take_apart(self) -> None:
        """Let go of the network, before there is another: two of them may be too much for the memory."""
        del self.assembly
        self.rows.source = None
        let_go()

    @property
    def model(self) -> NetworkModel:
        """Of this rank."""
        return self.assembly.model

    @property
    def rank_of_lp(self) -> np.ndarray:
        """int64[n_lp]"""
        return self.assembly.rank_of_lp

    @property
    def looks_at_rounds(self) -> bool:
        """Whether somebody debugs it round by round, on the ranks where LPs are."""
        return self._basis.debug.looks_at_rounds

    @property
    def now_ps(self) -> int:
        """The time that the simulation is about: later than its clock by what was left out."""
        repeats = self.assembly.repeats
        return int(self.loop[NOW]) + (0 if repeats is None else repeats.skipped_ps)
