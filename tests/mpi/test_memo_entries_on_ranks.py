"""An entry of the memo's file that cannot be true is refused alike on every number of ranks (design R6)."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from mpi import test_waves_on_ranks as waves
from pdes.skipping.replay.memo_file import MemoFile, unpack
from reference.checkpointed import different

LIMIT = 2**28


def test_wrong_entries_are_refused_on_every_rank_count(tmp_path: Path, simulate: Callable) -> None:
    config, true = tmp_path / "config.toml", tmp_path / "true.memo"
    config.write_text(waves.CONFIG)
    simulate(1, config, tmp_path / "first", f"wormhole.memo={true}")
    file = MemoFile(true, LIMIT)
    file.read()
    found = {name: unpack(record) for name, record in file.records.items()}
    facts = []
    for n_rank in (1, 2):
        memo = tmp_path / f"{n_rank}.memo"
        for (identity, key), entry in found.items():
            assert entry is not None
            MemoFile(memo, LIMIT).add(identity, {key: replace(entry, port_bytes=entry.port_bytes + 1)})
        simulate(n_rank, config, tmp_path / str(n_rank), f"wormhole.memo={memo}")
        facts.append(json.loads((tmp_path / str(n_rank) / "run.json").read_text())["memo"])
    assert facts[0]["entries_refused"] == facts[1]["entries_refused"] > 0
    assert facts[0]["counters"]["hits_read"] == facts[1]["counters"]["hits_read"] == 0
    assert different(tmp_path / "1", tmp_path / "2") == []
    assert (tmp_path / "1.memo").read_bytes() == (tmp_path / "2.memo").read_bytes()
