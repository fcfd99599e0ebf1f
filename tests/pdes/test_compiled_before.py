"""Compiling ahead compiles all that a run needs, and touches nothing of its state."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SKIPPING = ["wormhole.mode=auto", "wormhole.tolerance=0.02", "workload.model.hidden=4096"]
CASES = {
    "waves": SKIPPING,
    "lanes": [*SKIPPING, 'wormhole.paper.forecasts=["periodic", "replay", "similar", "alone"]'],
    "shared buffers": [*SKIPPING, "network.buffer.size=auto"],
    "queues": ["wormhole.mode=exact", "wormhole.paper.criterion=hygra"],
}
QUICKEST = "queues"  # the others, with other kernels, are slow


@pytest.mark.skipif(bool(os.environ.get("NUMBA_DISABLE_JIT")), reason="nothing is compiled")
@pytest.mark.parametrize(
    "name", [name if name == QUICKEST else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_compiling_is_done_before_and_changes_nothing(name: str, tmp_path: Path) -> None:
    config = ROOT / "examples" / "quickstart.toml"
    command = [sys.executable, ROOT / "tests" / "pdes" / "compiled_before.py", tmp_path / "out", config, *CASES[name]]
    for _ in range(2):  # compiled code that is loaded from the cache brings what it calls along
        found = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert found.returncode == 0, found.stderr
    assert found.stdout == ""
