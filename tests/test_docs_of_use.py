"""The pages on debugging and on use from Python say what there is: names, options, quantities, code that runs."""

import re
from pathlib import Path

import pytest

import pdes
from models.network.watch.tracing import KINDS
from pdes.commands.run import make_parser
from pdes.debug.conditions import QUANTITIES, parse_condition
from pdes.explain import find

ROOT = Path(__file__).resolve().parents[1]
PYTHON, DEBUGGING = ((ROOT / name).read_text() for name in ("docs/python.md", "docs/debugging.md"))
EVERYWHERE = "\n".join(path.read_text() for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))])


def first_cells(text: str, heading: str) -> set[str]:
    """What stands in backquotes in the first column of the table with this heading."""
    rows = text.partition(f"| {heading} |")[2].partition("\n\n")[0].splitlines()
    return {name for row in rows[2:] for name in re.findall(r"`([^`]+)`", row.split("|")[1])}


def test_every_public_name_is_described() -> None:
    assert first_cells(PYTHON, "name") == set(pdes.__all__)


def test_what_is_said_of_a_result_is_there() -> None:
    row = next(line for line in PYTHON.splitlines() if line.startswith("| `Result`"))
    names = {name.partition("(")[0] for name in re.findall(r"`(\w+(?:\(NAME\))?)`", row.split("|")[2])}
    assert names == {name for name in dir(pdes.Result) if not name.startswith("_")}


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(re.findall(r"```python\n(.*?)```", PYTHON, re.DOTALL)[0], "docs/python.md", "exec"), {})
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["dctcp", "hpcc"]


def test_every_option_of_looking_into_a_run_is_described() -> None:
    group = next(g for g in make_parser("")._action_groups if g.title and "looking into a run" in g.title)
    options = {option for action in group._group_actions for option in action.option_strings}
    assert {cell.split()[0] for cell in first_cells(DEBUGGING, "option")} == options


def test_every_event_is_described() -> None:
    assert first_cells(DEBUGGING, "event") == set(KINDS)


def test_every_quantity_is_described() -> None:
    cells = re.findall(r"^\| (`.*?) \|", DEBUGGING.partition("| quantity |")[2], re.MULTILINE)
    names = set()
    for cell in cells:
        for name in re.findall(r"`([^`]+)`", cell):
            function = re.sub(r"\([A-Z]+\)", "", name)
            names.add(f"flow{function}" if function.startswith(".") else function)
    assert names == set(QUANTITIES)


def test_the_condition_that_is_shown_is_one() -> None:
    found = re.findall(r"--break '([^']+)'", EVERYWHERE)
    assert len(found) > 1
    for text in found:
        parse_condition(text)


def test_the_keys_that_are_explained_are_there() -> None:
    found = re.findall(r"pdes-sim explain ([a-z][\w.]*)", EVERYWHERE)
    assert len(found) > 2 and all(find(text) for text in found)
