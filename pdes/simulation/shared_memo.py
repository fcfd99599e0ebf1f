"""The memo that a run shares with others, `[wormhole] memo`: read by rank 0, given to all, added to at the end."""

import sys
from dataclasses import asdict
from typing import Any

from models.network.model import NetworkModel
from models.network.skip.fast_forward import FastForward
from models.network.skip.make_fast_forward import why_not
from models.network.skip.memo_identity import memo_identity, spread_entries
from models.network.skip.memo_states import why_no_memo
from models.network.verify.entry_trial import EntryTrial
from pdes.config.wormhole.table import WormholeConfig
from pdes.engine.exchange import World
from pdes.errors import SimError
from pdes.scenario import Scenario
from pdes.skipping.replay.memo_file import KEY, MemoFile

MAX_TOLD = 10  # entries that are wrong
KEYS_LEFT_OUT = {"memo", "memo_limit_bytes", "iteration_repeats", "iteration_tolerance", "audit"}


def read_memo(wormhole: WormholeConfig) -> MemoFile | None:
    """The file that a config names, read. ConfigError: it is no memo, or it could not be written."""
    if wormhole.memo is None:
        return None
    file = MemoFile(wormhole.memo, wormhole.memo_limit_bytes)
    file.read()
    return file


class SharedMemo:
    """One rank's share. file: on rank 0."""

    def __init__(self, file: MemoFile | None, scenario: Scenario, model: NetworkModel, world: World) -> None:
        self._file, self._n_record = file, len(file.records) if file is not None else 0
        fast, constants = model.fast_forward, model.state.fabric.constants
        self._memo = fast.memo if fast is not None else None
        self.why_not = why_not(scenario.parameters) or why_no_memo(scenario.parameters, constants)
        self.digest: str | None = None  # of what was read of this run's identity
        self._identity, self._n_read, self._n_none = b"", 0, 0  # n_none: records that are no entries, on rank 0
        self._network = (scenario.topology, scenario.parameters)
        if fast is None or self._memo is None:
            return
        self._identity = memo_identity(
            scenario.parameters, constants, model.control.parameters, model.state.fabric.pint,
            _settings(scenario.config.wormhole, fast),
        )  # fmt: skip
        own = file.take(self._identity) if file is not None else {}
        entries, self.digest = spread_entries(own, world)
        self._memo.start_with(entries)
        self._n_read = len(entries)
        self._n_none = max(0, len(own) - len(entries))
        if self._n_none:
            self._warn(f"{self._n_none} of {len(own)} entries are none and not used")
        self._try_entries(fast)

    def _try_entries(self, fast: FastForward) -> None:
        """Have entries tried before they are used."""
        if self._memo is not None and fast.replays is not None:
            states = fast.replays.states
            states.trial = EntryTrial(self._memo, states, *self._network, self._tell)

    def _tell(self, key: bytes, wrong: str) -> None:
        """Say on rank 0 that an entry is not used."""
        if self._memo is None or self._memo.n_refused > MAX_TOLD:
            return
        rest = " Further ones are not named." if self._memo.n_refused == MAX_TOLD else ""
        self._warn(f"entry {key.hex()[:16]} is wrong and not used, what it stands for is simulated: {wrong}.{rest}")

    def _warn(self, text: str) -> None:
        if self._file is not None:
            print(f"pdes-sim: warning: {KEY}: {self._file.path}: {text}", file=sys.stderr)

    def save(self) -> dict[str, Any]:
        """For a checkpoint; entries are in that of the memo itself."""
        return {"digest": self.digest, "n_read": self._n_read, "n_none": self._n_none}

    def load(self, saved: dict[str, Any], fast: FastForward | None) -> None:
        """Go on from a checkpoint: what counts as read is what was read when the run began."""
        self.digest, self._n_read, self._n_none = saved["digest"], saved["n_read"], saved["n_none"]
        self._memo = fast.memo if fast is not None else None
        if fast is not None:
            self._try_entries(fast)

    def finish(self) -> dict[str, Any]:
        """Add what the run has found to the file; what `run.json` says. On rank 0.

        The results do not need the file: if it cannot be written, that is said, and the run goes on to its end.
        """
        file, memo = self._file, self._memo
        assert file is not None
        facts: dict[str, Any] = {"path": str(file.path), "sha256": file.sha256, "records": self._n_record}
        if memo is None:
            return facts | {"why_not": self.why_not}
        facts |= {"entries_read": self._n_read, "entries_refused": self._n_none + memo.n_refused, "entries_added": 0}
        facts["counters"] = asdict(memo.counters)
        try:
            facts["entries_added"] = file.add(self._identity, memo.found)
        except SimError as error:
            facts["why_not_added"] = str(error)
            print(f"pdes-sim: warning: nothing was added to the memo: {error}", file=sys.stderr)
        return facts


def _settings(wormhole: WormholeConfig, fast: FastForward) -> dict[str, Any]:
    """What decides when episodes end."""
    keys = wormhole.model_dump(mode="json", exclude=KEYS_LEFT_OUT)
    return keys | {"criterion": fast.criterion, "pace": fast.settings}
