"""The fuzzer sees what it is there for, makes the same case again, and finds nothing in a short run of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz import fault

from fuzz_cases import make_case

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("status", "said", "expected"),
    [
        (0, "", ""),
        (2, "pdes-sim: error: config.toml: [topology] k: found 3. Accepted: an even number\n", ""),
        (2, "pdes-sim: error: /x/flows.csv, line 3: size -1. Accepted: more\n", ""),
        (1, "pdes-sim: error: the run cannot go on: nothing is left to happen\n", ""),
        (2, "pdes-sim: error: [topology] k: found 3\n", "no file is named"),
        (2, "pdes-sim: error: flows.csv: something is wrong\n", "no place is named"),
        (2, "", "0 messages"),
        (1, "pdes-sim: internal error\nTraceback (most recent call last)\nKeyError: 'x'\n", "traceback: KeyError"),
        (1, "pdes-sim: error: a\npdes-sim: error: b\n", "2 messages"),
        (-11, "", "status -11"),
    ],
)
def test_what_is_wrong_with_an_outcome(tmp_path: Path, status: int, said: str, expected: str) -> None:
    (tmp_path / "flows.csv").write_text("")
    found = fault(status, said, tmp_path, [str(tmp_path / "config.toml")])
    assert found.startswith(expected) and bool(found) == bool(expected)


def test_a_case_can_be_made_again(tmp_path: Path) -> None:
    made = []
    for name in ("one", "other"):
        families = set()
        for i_case in range(60):
            folder = tmp_path / name / str(i_case)
            folder.mkdir(parents=True)
            family, level, argv = make_case(3, i_case, folder)
            families.add(family)
            files = {path.name: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
            made.append((name, i_case, family, level, [word.replace(str(folder), "") for word in argv], files))
        assert len(families) == 8
    assert [case[1:] for case in made if case[0] == "one"] == [case[1:] for case in made if case[0] == "other"]


def test_a_short_run_finds_nothing(pytestconfig: pytest.Config) -> None:
    n_run = 100 if pytestconfig.getoption("tier") == "all" else 2
    command = [sys.executable, str(ROOT / "bench" / "fuzz.py"), "--runs", str(n_run), "--seed", "11"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["runs"] == n_run and figures["failed"] == 0
