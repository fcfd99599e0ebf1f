"""Of processes that compile the same kernel at the same time, one compiles it."""

import os
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pdes.engine.compiling.turns import Turns

ROOT = Path(__file__).resolve().parents[3]
HOLD = """
import sys, time
from pdes.engine.compiling.turns import Turns
with Turns(lambda: sys.argv[1]).take(sys.argv[2]):
    print("held", flush=True)
    sys.stdin.readline()
"""
COMPILE = """
import numpy as np
from pdes.engine.foreign import clock_address, clock_ns
clock_ns(clock_address(), np.zeros(2, np.int64))
print(sum(clock_ns.stats.cache_misses.values()), flush=True)
"""


def start(text: str, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | variables
    command = [sys.executable, "-P", "-c", text, *arguments]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize(("name", "waits"), [("module.kernel", True), ("module.other", False)])
def test_a_name_is_held_by_one_process_until_it_lets_go(tmp_path, name, waits):
    with start(HOLD, str(tmp_path), "module.kernel") as first, start(HOLD, str(tmp_path), name) as second:
        found = [has_spoken(first, 20 if not waits else 3), has_spoken(second, 20 if not waits else 3)]
        assert found.count(True) == (1 if waits else 2)
        order = (first, second) if found[0] else (second, first)
        for process in order:  # whoever waits gets it then
            process.communicate("\n", timeout=60)
        assert first.returncode == second.returncode == 0


def has_spoken(process: subprocess.Popen[str], limit_s: float) -> bool:
    assert process.stdout is not None
    return bool(select.select([process.stdout], [], [], limit_s)[0])


def test_a_name_can_be_held_twice_by_one_process(tmp_path):
    turns = Turns(lambda: str(tmp_path))
    with turns.take("a"), turns.take("a"):
        pass
    with turns.take("a"):
        pass


def test_a_folder_without_locks_does_not_matter(tmp_path):
    with Turns(lambda: str(tmp_path / "missing")).take("a"):
        pass


@pytest.mark.skipif(bool(os.environ.get("NUMBA_DISABLE_JIT")), reason="nothing is compiled")
@pytest.mark.parametrize("beside", ["1", "0"])
def test_who_comes_second_loads_what_the_first_has_compiled(tmp_path, beside):
    """With the lock held from outside both processes stand before the same kernel; without turns both compile it."""
    environment = {"NUMBA_CACHE_DIR": str(tmp_path), "PDES_COMPILES_BESIDE": beside}
    with start(HOLD, str(tmp_path), "pdes.engine.foreign.clock_ns") as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        both = [start(COMPILE, **environment) for _ in range(2)]
        time.sleep(5 if beside == "1" else 0)
        assert all((each.poll() is None) for each in both)
        holder.communicate("\n")
    misses = [int(each.communicate(timeout=120)[0]) for each in both]
    assert sorted(misses) == [0, 1] if beside == "1" else sum(misses) >= 1
