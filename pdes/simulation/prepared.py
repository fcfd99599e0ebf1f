"""What rank 0 does before a run: build and check all of it, and open the result folder."""

import time
from collections.abc import Callable
from typing import Any

from pdes.checkpoint_places import check_directory
from pdes.config import Config
from pdes.debug.options import DebugOptions, DebugPlan, resolve
from pdes.engine.checkpoint_folder import Checkpoint
from pdes.results.folder import ResultFolder
from pdes.scenario import Scenario, build_scenario
from pdes.simulation.checkpoints.resume import find
from pdes.simulation.compilers import Compilers
from pdes.simulation.devices import Device
from pdes.simulation.devices.refusals import check_device
from pdes.simulation.memory import check_memory, within_memory
from pdes.simulation.restoration import read_queue_model
from pdes.simulation.shared_memo import read_memo
from pdes.skipping.papers.queue_model import QueueModel
from pdes.skipping.replay.memo_file import MemoFile

NO_DEBUG = DebugOptions()


class Prepared:
    """A scenario; with the result folder and the memo's file, which rank 0 keeps when the rest goes to other ranks."""

    def __init__(self, scenario: Scenario, folder: ResultFolder) -> None:
        self.scenario, self.folder, self.token, self.begin_s = scenario, folder, folder.token, time.monotonic()
        self.memo: MemoFile | None = None
        self.queue_model: QueueModel | None = None
        self.debug = DebugPlan()
        self.compilers: Compilers | None = None
        self.resumed: Checkpoint | None = None  # where the run goes on from
        self.device: Device = "cpu"

    def __getstate__(self) -> dict[str, Any]:
        of_rank_0 = {"folder": None, "begin_s": 0.0, "memo": None, "queue_model": None, "compilers": None}
        return self.__dict__ | of_rank_0

    def result_folder(self) -> ResultFolder:
        """Rank 0's; on another rank, the same folder."""
        return self.folder or ResultFolder(self.scenario.config.output.dir, self.token)


def prepare(
    config: Config, quiet: bool = False, n_rank: int = 1, n_rank_here: int = 1, options: DebugOptions = NO_DEBUG,
    device: Device = "cpu",
) -> Prepared:  # fmt: skip
    """Check everything and open the result folder. Raises SimError; on rank 0 only.

    n_rank: of the run; n_rank_here: of them, on this machine. device: see `devices`.
    """

    def build() -> Scenario:
        scenario = build_scenario(config)
        check_device(device, scenario, n_rank, options != NO_DEBUG)
        return scenario

    prepared = _prepare(config, build, n_rank, n_rank_here, options)
    prepared.device = device
    return prepared


def prepare_resumed(
    directory: str, out: str | None, quiet: bool = False, n_rank: int = 1, n_rank_here: int = 1
) -> Prepared:
    """The same of a run that goes on from a checkpoint. directory: of checkpoints. out: None: the run's own."""
    found, scenario = find(directory, out)
    prepared = _prepare(scenario.config, lambda: scenario, n_rank, n_rank_here)
    prepared.resumed = found
    return prepared


def _prepare(
    config: Config, build: Callable[[], Scenario], n_rank: int, n_rank_here: int,
    options: DebugOptions = NO_DEBUG,
) -> Prepared:  # fmt: skip
    memo = read_memo(config.wormhole)
    with within_memory(config):
        scenario = build()
    check_memory(scenario, n_rank, n_rank_here)
    queue_model, debug = read_queue_model(scenario), resolve(options, scenario)
    folder = ResultFolder(config.output.dir)
    try:
        folder.check()
        check_directory(config, folder)
    except BaseException:
        folder.abandon()
        raise
    prepared = Prepared(scenario, folder)
    prepared.memo, prepared.queue_model, prepared.debug = memo, queue_model, debug
    return prepared
