"""What is known of a run before it: its scenario, and what rank 0 has opened for it."""

import time
from typing import Any

from pdes.debug.options import DebugPlan
from pdes.engine.checkpoint_folder import Checkpoint
from pdes.results.folder import ResultFolder
from pdes.scenario import Scenario
from pdes.simulation.compilers import Compilers
from pdes.simulation.devices import Device
from pdes.skipping.papers.queue_model import QueueModel
from pdes.skipping.replay.memo_file import MemoFile


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
