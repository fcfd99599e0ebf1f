"""A process beside a rank that says why when the rank ends without a word, or stands still; run by path, alone.

It imports nothing of ours, so that it is small and there at once. The rank tells it what it needs, a line at a time,
and takes its leave with a last line; if the lines end without that, the rank has been killed. The first witness to put
a file into the run's work folder speaks, as the launcher then kills all other ranks.
"""

import glob
import mmap
import os
import select
import signal
import struct
import sys
import time

POLL_S = 1.0
GRACE_S = 20.0  # a rank that waits for others lets theirs speak first
CLAIM = "failed"
STATES = {
    "R": "it computes", "S": "it sleeps", "D": "it waits for a disk or file system", "T": "it is stopped",
    "t": "it is stopped by a debugger", "Z": "it has ended",
}  # fmt: skip
HELD_UP = (STATES["D"], STATES["T"], STATES["t"])  # wherever it is, others wait for it


def _count_oom_kills() -> int:
    """How often the kernel has killed for want of memory, on this machine."""
    try:
        with open("/proc/vmstat") as file:
            return sum(int(line.split()[1]) for line in file if line.startswith("oom_kill "))
    except (OSError, ValueError):
        return 0


def _resident_mb(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 10**6
    except (OSError, ValueError, IndexError):
        return 0


def _state(pid: int) -> str:
    """What the system says that the process does."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            letter = file.read().rsplit(")", 1)[1].split()[0]
    except (OSError, IndexError):
        return "it is gone"
    return STATES.get(letter, f"its state is {letter}")


class Witness:
    """What it knows of its rank."""

    def __init__(self, who: str, pid: int, memory: int) -> None:
        """memory: file descriptor of the words that the rank's rounds are in; -1: none."""
        self.who, self.pid = who, pid
        self.facts: dict[str, str] = {}
        self.oom_kills, self.resident_mb = _count_oom_kills(), 0
        self.words = mmap.mmap(memory, 0, prot=mmap.PROT_READ) if memory >= 0 else None
        self.last: tuple[int, ...] = ()
        self.since_s = time.monotonic()

    def watch(self) -> None:
        """Until the rank takes its leave or is gone."""
        rest = b""
        while True:
            is_there, _, _ = select.select([0], [], [], POLL_S)
            if not is_there:
                self._look()
                continue
            chunk = os.read(0, 65536)
            if not chunk:
                self._speak(self._death())
                return
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                key, _, value = line.decode(errors="replace").partition(" ")
                if key == "bye":
                    return
                self.facts[key] = value
            self.last = ()

    def _look(self) -> None:
        self.resident_mb = _resident_mb(self.pid) or self.resident_mb
        if self.words is None or not float(self.facts.get("stall_s", 0)):
            return
        places = [int(place) for place in self.facts["places"].split()]  # of what moves, first; then two more
        found = tuple(struct.unpack_from("q", self.words, 8 * place)[0] for place in places)
        now_s = time.monotonic()
        if found != self.last:
            self.last, self.since_s = found, now_s
            return
        state, n_round, now_ps = _state(self.pid), found[0], found[1]
        is_waiting = bool(found[-1]) and state not in HELD_UP
        still_s, limit_s = now_s - self.since_s, float(self.facts["stall_s"])
        if still_s < limit_s + (GRACE_S if is_waiting else 0):
            return
        where = f"for {still_s:.0f} s in round {n_round:,}, at {now_ps / 1e6:,.3f} us of simulated time"
        if is_waiting:
            text = f"{self.who} has waited {where}, for other ranks that do not answer"
        elif state in HELD_UP:
            text = f"{self.who} stands still {where}: {state}"
        else:
            text = f"{self.who} has been {where}, without coming to its end: {state}. A loop without "
            text += "an end in a congestion control of one's own would look like this"
        self._speak(f"{text}. [run] stall_limit says how long is too long")
        os.kill(self.pid, signal.SIGKILL)
        sys.exit()

    def _death(self) -> str:
        if _count_oom_kills() > self.oom_kills:
            size = f"; it had {self.resident_mb:,} MB" if self.resident_mb else ""
            return f"{self.who} was killed, as the machine ran out of memory{size}"
        return f"{self.who} was killed: it ended without a word (kill -9, a limit of the batch system, or a crash)"

    def _speak(self, text: str) -> None:
        """Unless another witness, or the rank itself, has."""
        folder = self.facts.get("folder")
        if folder:
            try:
                os.close(os.open(os.path.join(folder, CLAIM), os.O_CREAT | os.O_EXCL))
            except OSError:  # someone has, or all is over
                return
        print(f"pdes-sim: error: {text}{self._hint()}", file=sys.stderr, flush=True)

    def _hint(self) -> str:
        directory = self.facts.get("checkpoints", "")
        if glob.glob(os.path.join(glob.escape(directory), "checkpoint-*")):
            return f". Go on with: pdes-sim --resume {directory}"
        return ""


def main() -> None:
    """Arguments: who the rank is, its process, the descriptor of its words."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    try:
        Witness(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])).watch()
    except OSError:  # nobody to speak to
        pass


if __name__ == "__main__":
    main()
