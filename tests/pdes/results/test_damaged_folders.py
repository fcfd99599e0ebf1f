"""Result folders that something has damaged: each command that reads one says so in a line, with status 2."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from models.topology import leaf_spine
from pdes.cli import main
from pdes.errors import ConfigError
from pdes.result import Result
from pdes.results.folder import ResultFolder
from reference.result_folders import make_folder

MS = 10**9
STAR = leaf_spine(1, 0, 4, 10**11, 10**11, 10**6, 10**6)
FLOWS = [
    {"src": 0, "dst": 1, "size_bytes": 10**6, "start_ps": 0, "finish_ps": 5 * MS, "ideal_fct_ps": MS, "tag": "x"},
    {"src": 1, "dst": 2, "size_bytes": 10**3, "start_ps": 0, "finish_ps": 2 * MS, "ideal_fct_ps": MS},
]
Damage = Callable[[Path], object]


def change(folder: Path, name: str, **keys: object) -> None:
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text()) | keys))


def as_text(folder: Path, table: str, column: str) -> None:
    """Turn a column of numbers into text."""
    path = folder / f"{table}.parquet"
    found = pq.read_table(path)
    i = found.schema.get_field_index(column)
    pq.write_table(found.set_column(i, column, pa.array(["x"] * found.num_rows)), path)


def nested(folder: Path, name: str) -> None:
    (folder / name).write_text('{"a": ' + "[" * 20_000 + "]" * 20_000 + "}")


def unfinished(folder: Path, plan: str) -> None:
    """A commit that was killed half-way, whose plan says something else."""
    work = folder / ".pdes-work-1-abc"
    work.mkdir()
    (folder / "result.json").rename(work / "result.json")
    (work / "commit-plan.json").write_text(plan)


DAMAGES: dict[str, tuple[Damage, str]] = {
    "config is a number": (lambda f: change(f, "result.json", config=7), "result.json: config: found 7, not a table"),
    "ranks are text": (lambda f: change(f, "run.json", ranks="two"), 'run.json: ranks: found "two", not a whole'),
    "workload is a list": (lambda f: change(f, "result.json", workload=[1]), "workload: found [1], not a table"),
    "times are a number": (lambda f: change(f, "result.json", iteration_time_ps=1), "found 1, not a list"),
    "times are text": (lambda f: change(f, "result.json", iteration_time_ps=["x"]), "the results cannot be read"),
    "run.json is deep": (lambda f: nested(f, "run.json"), "run.json, line 1: the results cannot be read: is nested"),
    "result.json is deep": (lambda f: nested(f, "result.json"), "the results cannot be read: is nested more than"),
    "result.json is cut": (lambda f: (f / "result.json").write_text("{"), "the results cannot be read: is not JSON"),
    "a number is endless": (
        lambda f: (f / "result.json").write_text('{"config": ' + "9" * 5000 + "}"), "the results cannot be read: found"
    ),
    "sizes are text": (
        lambda f: as_text(f, "flows", "size_bytes"),
        "flows.parquet: column size_bytes: holds string, not whole numbers of 64 bits",
    ),
    "a table is text": (lambda f: (f / "flows.parquet").write_text("x"), "flows.parquet: is no Parquet table"),
    "the plan is no JSON": (lambda f: unfinished(f, "["), "commit-plan.json, line 1, column 2: is not JSON"),
    "the plan is a number": (lambda f: unfinished(f, "7"), "commit-plan.json: found 7. Accepted: a list of results"),
    "the plan is deep": (lambda f: unfinished(f, "[" * 20_000 + "]" * 20_000), "commit-plan.json, line 1: is nested"),
    "the plan names others": (
        lambda f: unfinished(f, '["result.json", "../x"]'), 'found [\'result.json\', \'../x\']. Accepted: a list of'
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("command", ["report", "compare", "timeline", "diff", "fct"])
def test_a_damaged_folder_is_refused(
    command: str, damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, other = (make_folder(tmp_path / name, STAR, None, FLOWS) for name in "ab")
    harm, expected = DAMAGES[damage]
    argv = {
        "report": ["report", str(folder)],
        "compare": ["report", str(other), str(folder), "--out", str(tmp_path / "c.html")],
        "timeline": ["timeline", str(folder), "-o", str(tmp_path / "t.json")],
        "diff": ["diff", str(other), str(folder)],
        "fct": ["export", "fct", str(folder), "-o", str(tmp_path / "fct.txt")],
    }[command]
    harm(folder)
    status = main(argv)
    said = capsys.readouterr().err
    assert "Traceback" not in said and len(said) < 2000
    readers = {"report", "compare", "timeline", "diff"} - ({"diff"} if "run.json" in expected else set())
    if damage == "times are text":
        readers = {"report", "compare"}
    if "flows.parquet" in expected:
        readers |= {"fct"}
    if command not in readers:
        return
    assert status == 2 and said.count("pdes-sim: error") == 1 and str(folder) in said, said
    assert expected in said, said


def test_a_run_does_not_begin_in_a_folder_with_a_damaged_plan(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "a", STAR, None, FLOWS)
    unfinished(folder, "7")
    with pytest.raises(ConfigError, match="commit-plan.json: found 7"):
        ResultFolder(folder).check()
    with pytest.raises(ConfigError, match="commit-plan.json: found 7"):
        Result(folder)
    assert (folder / ".pdes-work-1-abc" / "result.json").is_file()  # nothing is lost
