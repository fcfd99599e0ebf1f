"""Compiled controls between processes: kept, kept apart by content, and the same bits without the compiler."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from models.congestion.interface import N_HOP
from models.congestion.law import BUILT_IN
from pdes.engine.jit import JIT_DISABLED
from reference.control_driver import Driver

ROOT = Path(__file__).resolve().parents[3]
GOOD = (ROOT / "examples" / "my_cc.py").read_text()
LOAD = """
import sys
from models.congestion.law import find_law
from reference.control_driver import Driver
law = find_law("my_cc.py:Aimd", sys.argv[1])
hits = sum(sum(one.stats.cache_hits.values()) for one in law.compile().alive if one)
cc = Driver(law)
cc.ack(1000, 9000, is_marked=1)
print(hits, int(cc.flow.rate_bps))
"""
PLAY = """
from test_law_cache import play
from models.congestion.law import BUILT_IN
for name in BUILT_IN:
    print(name, play(name))
"""


def run(script: str, *arguments: str, **variables: str) -> list[str]:
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "tests", Path(__file__).parent)))
    environment = os.environ | {"PYTHONPATH": paths} | variables
    command = [sys.executable, "-W", "ignore", "-c", script, *arguments]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.splitlines()


@pytest.mark.skipif(JIT_DISABLED, reason="needs the compiler")
def test_a_second_process_loads_and_a_changed_file_is_compiled_again(tmp_path):
    file, cache = tmp_path / "my_cc.py", {"PDES_CACHE_DIR": str(tmp_path / "cache"), "NUMBA_CACHE_DIR": ""}
    file.write_text(GOOD)
    stamp = file.stat()
    assert run(LOAD, str(tmp_path), **cache) == ["0 70700000000"]
    assert run(LOAD, str(tmp_path), **cache) == ["1 70700000000"]
    file.write_text(GOOD.replace("1 - p.cut", "2 - p.cut"))  # as long as before, and of the same time
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert file.stat().st_size == stamp.st_size
    assert run(LOAD, str(tmp_path), **cache) == ["0 100000000000"]
    file.write_text(GOOD)
    assert run(LOAD, str(tmp_path), **cache) == ["1 70700000000"]


def play(name: str) -> str:
    """The state of a control after a thousand drawn events, as hexadecimal digits."""
    draw = np.random.Generator(np.random.Philox(7))
    cc, now_ps, acked = Driver(name), 0, 0
    times, sent = np.zeros(N_HOP, np.int64), np.zeros(N_HOP, np.int64)
    for _ in range(1000):
        now_ps, acked = now_ps + int(draw.integers(1, 200_000)), acked + int(draw.integers(0, 3_000))
        cc.run_timers(now_ps)
        times += draw.integers(1, 300_000, N_HOP)
        sent += draw.integers(1, 3_000, N_HOP)
        marked = int(draw.integers(0, 2))
        cc.ack(
            acked,
            acked + int(draw.integers(0, 60_000)),
            now_ps=now_ps,
            newly_acked_bytes=int(draw.integers(0, 3_000)),
            is_marked=marked,
            is_cnp=marked,
            is_nack=int(draw.integers(0, 50) == 0),
            rtt_ps=int(draw.integers(1_000_000, 900_000_000)),
            pint_code=int(draw.integers(0, 200)),
            n_hop=N_HOP,
            hop_time_ps=times.tolist(),
            hop_tx_bytes=sent.tolist(),
            hop_queue_bytes=draw.integers(0, 500_000, N_HOP).tolist(),
            hop_rate_bps=[100 * 10**9] * N_HOP,
        )
    cc.call("on_timeout", now_ps=now_ps, acked_byte=acked, next_byte=acked)
    return cc.state().hex()


def test_every_control_does_the_same_with_and_without_the_compiler():
    other = run(PLAY, NUMBA_DISABLE_JIT="0" if JIT_DISABLED else "1")
    assert other == [f"{name} {play(name)}" for name in BUILT_IN]
