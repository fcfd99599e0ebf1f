"""A wheel and a source distribution, built and installed where nothing else of ours is, and how long it takes to start.

    python bench/install.py [--quick] [--clone]

The wheel is made of the source distribution, so that a file missing there is missing everywhere, and installed with
what it needs, from the package index, into a new virtual environment. The program runs in an empty folder.
--quick: without the runs that have to compile first. --clone: only from a clone of what is committed, with an empty
environment and an empty cache, to the quick start's answer by `scripts/run`, and when it says what.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Sequence
from pathlib import Path

from cases import print_last

ROOT = Path(__file__).resolve().parent.parent
N_START, N_RUN = 15, 5


def build(folder: Path) -> tuple[Path, Path]:
    """(source distribution, wheel), in a folder; needs `build` and setuptools."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return next(folder.glob("*.tar.gz")), next(folder.glob("*.whl"))


def seconds(call: Callable[[], object]) -> float:
    """How long a call takes."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def first_lines(command: Sequence[str], folder: Path, environment: dict[str, str]) -> tuple[dict[str, float], float]:
    """(seconds after which each line of stderr came, seconds that it took) of a command that succeeds."""
    begin, said = time.perf_counter(), dict[str, float]()
    stdout = tempfile.TemporaryFile("w+")
    with stdout, subprocess.Popen(
        command, cwd=folder, env=environment, stdout=stdout, stderr=subprocess.PIPE, text=True
    ) as process:  # fmt: skip
        assert process.stderr is not None
        for line in process.stderr:
            said.setdefault(line.strip(), time.perf_counter() - begin)
        if process.wait():
            raise SystemExit(f"{' '.join(command)}: exit status {process.returncode}\n" + "\n".join(said))
    return said, time.perf_counter() - begin


def clone_to_answer(work: Path, environment: dict[str, str]) -> dict[str, object]:
    """What a newcomer waits for, and then a traced run, which has kernels of its own."""
    begin = time.perf_counter()
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(work / "clone")], check=True)
    clone_s, clone = time.perf_counter() - begin, work / "clone"
    clean = {name: value for name, value in environment.items() if name != "PDES_VENV"}
    said, seconds_of_run = first_lines(["sh", "scripts/run", "--out", str(work / "answer")], clone, clean)
    total_s = clone_s + seconds_of_run
    print(f"clone to answer: {total_s:.1f} s")
    program, config = str(clone / ".venv/bin/pdes-sim"), "examples/quickstart.toml"
    traced = [program, config, "--trace", "flow=3", "--out", str(work / "traced")]
    traced_said, traced_s = first_lines(traced, clone, clean)
    warm_s = [seconds(lambda: first_lines([program, config, "--out", str(work / "warm")], clone, clean)) for _ in "123"]
    print(f"first traced run: {traced_s:.1f} s; a run with its kernels: {statistics.median(warm_s):.2f} s")
    for title, lines in (("from the clone", said), ("traced", traced_said)):
        for line, after_s in lines.items():
            print(f"{title}, after {after_s:.1f} s: {line}")
    return {"clone_to_answer_s": total_s, "said_s": said, "traced_s": traced_s, "traced_said_s": traced_said,
            "warm_s": warm_s}  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Build, install, run; print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only install, and ask for help")
    parser.add_argument("--clone", action="store_true", help="only from a fresh clone to the answer")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as work_name:
        work = Path(work_name)
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PDES", "NUMBA"))}
        clean |= {"PDES_CACHE_DIR": str(work / "cache")}
        if arguments.clone:
            print_last(clone_to_answer(work, clean))
            return 0
        source, wheel = build(work / "dist")
        venv.create(work / "venv", with_pip=True)
        pip = [str(work / "venv/bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        install_s = seconds(lambda: subprocess.run([*pip, f"{wheel}[mpich]"], check=True, env=clean))
        program = str(work / "venv/bin/pdes-sim")
        (work / "empty").mkdir()

        def run(*words: str) -> str:
            done = subprocess.run([program, *words], cwd=work / "empty", env=clean, capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(f"{' '.join(words)}: exit status {done.returncode}\n{done.stderr}")
            return done.stdout

        run("--help")
        figures = {
            "source_bytes": source.stat().st_size, "wheel_bytes": wheel.stat().st_size, "install_s": install_s,
            "help_s": [seconds(lambda: run("--help")) for _ in range(N_START)],
        }  # fmt: skip
        print(f"source distribution {figures['source_bytes']:,} B, wheel {figures['wheel_bytes']:,} B")
        print(f"installed with its dependencies in {install_s:.1f} s")
        print(f"pdes-sim --help: median {statistics.median(figures['help_s']):.3f} s of {N_START}")
        if not arguments.quick:
            config = str(ROOT / "examples/quickstart.toml")
            figures["first_s"] = seconds(lambda: run(config, "--out", "first"))
            figures["warm_s"] = [seconds(lambda i=i: run(config, "--out", f"warm{i}")) for i in range(N_RUN)]
            print(f"quick start: {figures['first_s']:.1f} s first, then {statistics.median(figures['warm_s']):.2f} s")
            figures["report_s"] = seconds(lambda: run("report", "first"))
            assert json.loads((work / "empty/first/result.json").read_text())["packet_hops"] > 0
            print(f"report: {figures['report_s']:.2f} s")
        print_last(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
