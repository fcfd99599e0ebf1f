"""Generated inputs, thousands of them: none may bring forth a traceback, a hang or a crash, whatever is in it.

    python bench/fuzz.py [--runs N] [--seed S] [--quick] [--only I,J,..] [--keep FOLDER]

Configs, topology, flow and trace files, other tools' inputs to convert, and overrides; 3 of 10 valid, 4 with one thing
changed, 3 with several. Each is run for 20 us of simulated time, in a process that many cases share and that is started
anew when one ends it. A case has failed if there was a traceback, if the process ended, if it was not done within its
budget of wall time, or if a rejection does not name the file and the place in it. --only runs some cases again.
"""

import argparse
import contextlib
import io
import json
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from cases import print_last
from fuzz_cases import make_case

BUDGET_S, COMPILE_S = 60.0, 600.0  # of a case; of those before, which compile
CASES_PER_PROCESS = 1000
MEMORY = ("--set", "run.memory_limit=1GB")
PLACE = re.compile(
    r"\[[\w.-]+|\b(line|byte|column|node|rank|row|tier) \d|:\d+:|\bend of|\bempty\b|--set|\bkey\b|communicator \w"
    r"|may never end|ring\.xml|\.parquet|(result|run|commit-plan)\.json|results cannot be read|no complete result"
)
WARM_UP = """\
[topology]
kind = "leaf-spine"
leaves = 2
spines = 1
hosts_per_leaf = 1
[workload]
kind = "collectives"
[[workload.collective]]
name = "ring"
operation = "all-reduce"
size = "20kB"
"""
STATUSES = {0: "run", 1: "could not go on", 2: "refused"}


def work() -> None:
    """Run cases that come as lines of JSON; answer each with a line."""
    from pdes import cli
    from pdes.witness import Witness

    Witness._start = lambda self: None  # a process for each case would take longer than the case
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        said, status = io.StringIO(), -1
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            try:
                status = cli.main(json.loads(line))
            except BaseException as error:
                print(f"Traceback: {type(error).__name__}: {error} left main", file=sys.stderr)
        answers.write(json.dumps([status, said.getvalue()]) + "\n")
        answers.flush()


class Worker:
    """A process that runs cases, one after the other."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._n_case = 0

    def run(self, argv: list[str], budget_s: float = BUDGET_S) -> tuple[int, str, str]:
        """(status, stderr, what went wrong with the process, "" if nothing did) of a case."""
        if self._process is None or self._n_case >= CASES_PER_PROCESS:
            self.end()
            self._process = subprocess.Popen([sys.executable, __file__, "--work"], stdin=-1, stdout=-1, stderr=-3)
        self._n_case += 1
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(argv).encode() + b"\n")
        self._process.stdin.flush()
        answer, end_s = b"", time.monotonic() + budget_s
        while not answer.endswith(b"\n"):
            is_there, _, _ = select.select([self._process.stdout], [], [], max(0.0, end_s - time.monotonic()))
            chunk = os.read(self._process.stdout.fileno(), 1 << 16) if is_there else b""
            if not chunk:
                if is_there:
                    why = f"the process ended with {self._process.wait()}"
                else:
                    why = f"not done within {budget_s:g} s"
                self.end()
                return -1, "", why
            answer += chunk
        status, said = json.loads(answer)
        return status, said, ""

    def end(self) -> None:
        """Stop the process; the next case gets another."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process, self._n_case = None, 0


def fault(status: int, said: str, folder: Path, argv: list[str]) -> str:
    """What is wrong with an outcome, "" if nothing is."""
    if "Traceback" in said or "internal error" in said:
        lines = said.strip().splitlines()
        return f"traceback: {next((line for line in reversed(lines) if ': ' in line), lines[-1])}"
    if status not in STATUSES:
        return f"status {status}"
    errors = [text for text in said.split("pdes-sim") if text.startswith(": error")]
    if argv[0] == "diff" and status == 1 and not errors:  # two results differ
        return ""
    if status and len(errors) != 1:
        return f"{len(errors)} messages with status {status}"
    files = [path for path in folder.rglob("*") if not path.is_dir()]
    names = {path.name for path in files} | {Path(word).name for word in argv} | {"--set"}
    names |= {str(path.parent / path.name.split(".")[0]) for path in files}  # a trace's, of which each rank has a file
    if status == 2 and not any(name in errors[0] for name in names):
        return f"no file is named: {errors[0].strip()}"
    if status == 2 and not PLACE.search(errors[0]):
        return f"no place is named: {errors[0].strip()}"
    return ""


def warm_up(root: Path, worker: Worker) -> None:
    """Have the kernels compiled, each kind by a run of its own, so that no budget has that in it."""
    config = root / "warm-up.toml"
    for network in ("", '[network.buffer]\nsize = "20MB"\n'):
        for wormhole in ("", '[wormhole]\nmode = "exact"\n'):
            config.write_text(WARM_UP + network + wormhole)
            status, said, wrong = worker.run([str(config), "--out", str(root / "warm-up"), "--quiet"], COMPILE_S)
            if status or wrong:
                raise SystemExit(f"the first run failed: {said or wrong}")


def one_case(seed: int, i_case: int, root: Path, worker: Worker) -> tuple[str, str, int, str, str]:
    """(family, level, status, stderr, what is wrong) of a case; its files stay if something is."""
    folder = root / str(i_case)
    folder.mkdir()
    family, level, argv = make_case(seed, i_case, folder)
    if argv[0].endswith(".toml"):
        argv = [*argv, "--out", str(folder / "out"), "--quiet", *MEMORY]
    status, said, wrong = worker.run(argv)
    wrong = wrong or fault(status, said, folder, argv)
    if wrong:
        (folder / "arguments.json").write_text(json.dumps(argv))
        (folder / "stderr.txt").write_text(said)
    else:
        shutil.rmtree(folder)
    return family, level, status, said, wrong


def main() -> None:
    """Run the cases; print the failed ones, then counts by family, last a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="100 cases")
    parser.add_argument("--only", metavar="I,J,..", help="run these cases alone, and print what they say")
    parser.add_argument("--keep", metavar="FOLDER", help="where the files of failed cases stay")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work()
        return
    memory = Path("/dev/shm")
    root = Path(arguments.keep or tempfile.mkdtemp(prefix="fuzz-", dir=memory if memory.is_dir() else None))
    root.mkdir(parents=True, exist_ok=True)
    n_run = 100 if arguments.quick else arguments.runs
    numbers = range(n_run) if arguments.only is None else [int(i) for i in arguments.only.split(",")]
    counts, failed, worker = Counter(), [], Worker()
    warm_up(root, worker)
    begin_s = time.monotonic()
    for i_case in numbers:
        family, level, status, said, wrong = one_case(arguments.seed, i_case, root, worker)
        counts[family, STATUSES.get(status, "failed") if not wrong else "failed"] += 1
        counts[level, STATUSES.get(status, "failed") if not wrong else "failed"] += 1
        if wrong:
            failed.append(i_case)
            print(f"case {i_case} ({family}, {level}): {wrong}", flush=True)
        if arguments.only is not None:
            print(f"case {i_case}: status {status}\n{said}", end="")
        if i_case and i_case % 1000 == 0:
            print(f"{i_case:,} cases, {time.monotonic() - begin_s:,.0f} s, {len(failed)} failed", flush=True)
    worker.end()
    outcomes = [*STATUSES.values(), "failed"]
    print(f"\n{'':14} " + " ".join(f"{name:>16}" for name in outcomes))
    for name in dict.fromkeys(name for name, _ in counts):
        print(f"{name:14} " + " ".join(f"{counts[name, outcome]:>16,}" for outcome in outcomes))
    if failed:
        print(f"files of the failed cases: {root}")
    else:
        shutil.rmtree(root, ignore_errors=True)
    seconds = time.monotonic() - begin_s
    print_last(
        {"runs": len(numbers), "failed": len(failed), "seed": arguments.seed, "seconds": seconds, "cases": failed}
    )
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
