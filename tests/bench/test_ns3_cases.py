"""The comparison with ns-3's cases: flows that only one of two has finished, and an installation in editable mode."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ns3_cases import difference

from pdes.errors import ConfigError
from reference.ns3_runs import UNFINISHED, answers_of

ROOT = Path(__file__).parents[2]
SINGLE = ROOT / "tests" / "reference" / "ns3_cases" / "a_single" / "dctcp"
FLOWS = """\
4
0 1 3 100 1000000 2.000000000
0 1 3 100 1000000 2.001000000
0 1 3 100 1000000 2.002000000
0 1 3 100 1000000 2.003000000
"""
FCT = """\
# flow src dst sport dport size_B start_ns fct_ns ideal_ns
0 0 1 10000 100 1000000 2000000000 87091 88000
2 0 1 10002 100 1000000 2002000000 87091 88000
"""
STOP = "X_STOP_S 2.0015\n"  # so that flows 2 and 3 do not begin; ns-3, that it has finished flow 2 and not flow 1
EDITABLE = """\
import importlib.util
import sys
from importlib.machinery import PathFinder


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in ("models", "partition", "pdes"):
            return None
        folder = f"{ROOT}/{name}"
        return importlib.util.spec_from_file_location(
            name, f"{folder}/__init__.py", submodule_search_locations=[folder]
        )


ROOT = %r
sys.meta_path.insert(sys.meta_path.index(PathFinder) + 1, Finder)
"""


@pytest.fixture
def case(tmp_path: Path) -> Path:
    """A case of four flows, one after another, of which ns-3 has finished two and the engine two others."""
    case = tmp_path / "cases" / "four" / "dctcp"
    shutil.copytree(SINGLE, case)
    (case / "paths.txt").unlink()
    (case / "flow.txt").write_text(FLOWS)
    (case / "fct.txt").write_text(FCT)
    with (case / "config.txt").open("a") as file:
        file.write(STOP)
    return case


def run(tmp_path: Path, **env: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(ROOT / "bench" / "ns3_cases.py"), "--cases", str(tmp_path / "cases")]
    command += ["--cache", str(tmp_path / "cache")]
    return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=os.environ | env)


def test_a_flow_without_a_row_is_unfinished(case):
    assert answers_of(case) == [87091, UNFINISHED, 87091, UNFINISHED]
    (case / "fct.txt").write_text(FCT + "3 0 1 - - 1000000 - UNFINISHED -\n")
    assert answers_of(case) == [87091, UNFINISHED, 87091, UNFINISHED]
    (case / "fct.txt").unlink()
    assert answers_of(case) is None


@pytest.mark.parametrize("row", ["4 0 1 10004 100 1000000 2003000000 87091 88000", "x 0 1", FCT.splitlines()[1]])
def test_a_row_of_no_flow_and_a_second_one_are_refused(case, row):
    (case / "fct.txt").write_text(FCT + row + "\n")
    with pytest.raises(ConfigError, match=f"fct.txt: found '{row}'.* Accepted: one row each of flows 0 to 3"):
        answers_of(case)


def test_flows_that_one_of_two_has_finished_count_whole_and_are_named():
    found = difference([10, 20, UNFINISHED, UNFINISHED], [10, UNFINISHED, 30, UNFINISHED])
    assert (found.mean, found.largest, found.of_means) == (0.5, 1.0, 0.0)
    assert found.ends() == ["flow 1 ends here alone", "flow 2 ends in ns-3 alone"]
    many = difference([10] * 12, [UNFINISHED] * 12)
    assert many.ends() == ["flows 0, 1, 2, 3, 4, 5, 6, 7 and 4 more end here alone"]


def test_a_case_with_missing_rows_runs_where_the_package_is_installed_in_editable_mode(case, tmp_path):
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(EDITABLE % str(ROOT))
    done = run(tmp_path, PYTHONPATH=str(site))
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("four/dctcp"))
    assert line.endswith("exact, flow 1 ends here alone, flow 2 ends in ns-3 alone")
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["finished_in_one"] == 2 and figures["exact_with_twin"] == figures["cases"] == 1
    assert figures["mean_fct_error"] == 0.5


def test_bad_answers_end_it_before_anything_runs(case, tmp_path):
    (case / "fct.txt").write_text(FCT.replace("2 0 1", "9 0 1"))
    done = run(tmp_path, PYTHONPATH=str(ROOT))
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.splitlines()[-1].endswith(
        "fct.txt: found '9 0 1 10002 100 1000000 2002000000 87091 88000'. Accepted: one row each of flows 0 to 3: "
        "flow src dst sport dport bytes start_ns fct_ns"
    )
