"""What is said before the first event, and signals that come by then: nothing may be left behind."""

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pdes.beginning import QUIET_S, Beginning, Interrupted, Terminated
from pdes.engine import shared_memory

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = str(ROOT / "examples" / "quickstart.toml")
SAID = "compiling the kernels, once per version"
needs_compiler = pytest.mark.skipif(bool(os.environ.get("NUMBA_DISABLE_JIT")), reason="nothing is compiled")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    """Wall time that stands still until it is set."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def wait_for(stream: io.StringIO, text: str) -> str:
    end_s = time.monotonic() + 20
    while text not in stream.getvalue() and time.monotonic() < end_s:
        time.sleep(0.01)
    return stream.getvalue()


def test_a_terminal_is_told_the_phase_its_time_and_how_much_is_done():
    stream, clock = Terminal(), Clock()
    with Beginning(0, stream, clock=clock) as beginning:
        beginning.enter("compiling", lambda: "3 of 7 done")
        clock.now_s += 12
        assert wait_for(stream, "compiling") == "\rcompiling: 12 s, 3 of 7 done\x1b[K"
    assert stream.getvalue().endswith("\r\x1b[K")  # a clean line for what follows


@pytest.mark.parametrize("shows", [False, True])
def test_elsewhere_lines_come_only_if_asked_for(shows):
    stream, clock = io.StringIO(), Clock()
    with Beginning(0, stream, shows, clock=clock) as beginning:
        beginning.announce("compiling")
        clock.now_s += QUIET_S + 1
        if shows:
            wait_for(stream, " s\n")
        time.sleep(0.3)
    assert stream.getvalue() == "pdes-sim: compiling\n" + ("starting: 2 s\n" if shows else "")


@pytest.mark.parametrize(("phase", "is_first"), [("", True), ("loading", True), ("", False)])
def test_a_long_start_is_said_to_be_one_on_a_first_run(phase, is_first):
    stream, clock = io.StringIO(), Clock()
    with Beginning(0, stream, says_start=is_first, clock=clock) as beginning:
        if phase:
            beginning.enter(phase)
        clock.now_s += QUIET_S
        time.sleep(0.3) if phase or not is_first else wait_for(stream, "starting")
    assert stream.getvalue() == ("pdes-sim: starting\n" if is_first and not phase else "")


@pytest.mark.parametrize("rank", [0, 1])
def test_nothing_is_said_by_other_ranks_or_if_nobody_listens(rank):
    stream, clock = io.StringIO(), Clock()
    with Beginning(rank, None if rank == 0 else stream, True, clock=clock) as beginning:
        beginning.announce("compiling")
        clock.now_s += 100
        time.sleep(0.2)
    assert stream.getvalue() == ""


@pytest.mark.parametrize(("number", "kind"), [(signal.SIGTERM, Terminated), (signal.SIGINT, Interrupted)])
def test_a_signal_ends_the_beginning_and_handlers_are_put_back(number, kind):
    before = signal.getsignal(number)
    with pytest.raises(kind), Beginning(heeds_signals=True):
        signal.raise_signal(number)
    assert signal.getsignal(number) is before


def test_a_signal_for_a_checkpoint_waits_for_the_rounds():
    with Beginning(heeds_signals=True) as beginning:
        signal.raise_signal(signal.SIGUSR1)
        assert beginning.seen == {signal.SIGUSR1}


def test_what_a_signal_raises_does_not_get_lost_in_a_callback_of_the_compiler():
    def _raw_object_cache_notify() -> None:  # where C code would drop it
        signal.raise_signal(signal.SIGTERM)

    with Beginning(heeds_signals=True):
        _raw_object_cache_notify()
        with pytest.raises(Terminated):
            time.sleep(20)


def test_what_a_signal_raises_does_not_get_lost_where_an_object_ends():
    class Ending:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    with Beginning(heeds_signals=True):
        Ending()
        with pytest.raises(Terminated):
            time.sleep(20)


def test_what_somebody_has_dropped_is_raised_when_the_beginning_ends():
    with Beginning(heeds_signals=True) as beginning:
        with suppress(Terminated):
            signal.raise_signal(signal.SIGTERM)
        with pytest.raises(Terminated):
            beginning.end()


def children(pid: int) -> list[int]:
    """Processes below one, witnesses and compilers among them."""
    found = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    pairs = [tuple(map(int, line.split())) for line in found.splitlines()]
    below = [child for child, parent in pairs if parent == pid]
    return below + [each for child in below for each in children(child)]


def maps_of(pid: int) -> list[str]:
    try:
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    except OSError:  # it has ended
        return []
    return [line for line in lines if not line.endswith("(deleted)")]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[subprocess.Popen[str]]]:
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


SIGNALS = [(signal.SIGTERM, 75), (signal.SIGINT, 130)]
# One rank is quickest to begin.
SIGNALLED = [
    pytest.param(n_rank, wait_s, *SIGNALS[k], marks=[pytest.mark.slow] * ((n_rank, wait_s, k) != (1, 0, 1)))
    for n_rank in (1, 2)
    for wait_s in (0, 6)
    for k in (0, 1)
]


@needs_compiler
@pytest.mark.parametrize(("n_rank", "wait_s", "number", "status"), SIGNALLED)
def test_a_signal_while_kernels_are_compiled_leaves_nothing_behind(tmp_path, started, n_rank, wait_s, number, status):
    """wait_s: after it is said that kernels are compiled, which is at once; the scenario is built by then or nearly."""
    mpirun = ["mpirun", "-n", str(n_rank)] if n_rank > 1 else []
    command = [*mpirun, sys.executable, "-P", "-m", "pdes", QUICKSTART, "--out", str(tmp_path / "results" / "out")]
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment |= {"PDES_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True)
    started.append(process)
    assert process.stderr is not None
    lines = iter(process.stderr.readline, "")
    said = next((line for line in lines if SAID in line), "")
    assert said, "the cache was empty: compiling is announced"
    time.sleep(wait_s)
    below = children(process.pid)
    mapped = {line.split()[-1] for pid in below for line in maps_of(pid) if f" {shared_memory.FOLDER}/" in line}
    assert bool(mapped) == (n_rank > 1), "MPI's"
    assert len(below) >= 3, "a witness and two compilers at least"
    process.send_signal(number)
    rest = process.stderr.read()
    assert process.wait(60) == status, rest
    assert ("stopped by a signal" if number == signal.SIGTERM else "interrupted") in rest
    assert "Traceback" not in rest and "was killed" not in rest, rest
    assert rest.count("pdes-sim:") == 1
    end_s = time.monotonic() + 10
    while (alive := [pid for pid in below if Path(f"/proc/{pid}").exists()]) and time.monotonic() < end_s:
        time.sleep(0.05)
    assert not alive, "processes of the run are left"
    assert not (tmp_path / "results").exists()
    assert not [path for pid in (process.pid, *below) for path in shared_memory.FOLDER.glob(f"pdes-{pid}-*")]
    assert not [path for path in mapped if Path(path).exists()]
