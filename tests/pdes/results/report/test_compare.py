"""A comparison says what differs, and by how much, in the right direction."""

from pathlib import Path

import pytest

from models.topology import leaf_spine
from pdes.cli import main
from pdes.errors import ConfigError
from pdes.results.report import write_comparison
from pdes.results.report.compare import change_text, config_rows
from pdes.results.report.headline import Figure
from reference.result_folders import RESULT, make_folder, plots_of, rows_of

STAR = leaf_spine(1, 0, 4, 10**11, 10**11, 10**6, 10**6)


@pytest.mark.parametrize(
    "first, other, is_less_better, text",
    [
        (100.0, 110.0, True, "+10 % worse"), (100.0, 110.0, False, "+10 % better"), (100.0, 50.0, True, "-50 % better"),
        (100.0, 50.0, None, "-50 %"), (100.0, 100.0, True, "the same"), (1.0, 20.0, True, "x 20 worse"),
        (0.0, 5.0, True, "five"), (None, 5.0, True, "-"), (5.0, None, True, "-"),
    ],
)  # fmt: skip
def test_changes_are_against_the_first_run(first, other, is_less_better, text) -> None:
    figures = [Figure("x", value, "five", is_less_better=is_less_better) for value in (first, other)]
    assert change_text(*figures) == text


def test_only_keys_that_differ_are_shown() -> None:
    configs = [{"a": {"b": 1, "c": [1, 2]}, "d": {}}, {"a": {"b": 1, "c": [1, 3]}, "d": {"e": None}}]
    assert config_rows(configs) == [("a.c", "[1, 2]", "[1, 3]"), ("d", "{}", "-"), ("d.e", "-", "None")]
    assert config_rows([configs[0]] * 3) == []


def folders(tmp_path: Path, *fct_ps: int) -> list[Path]:
    found = []
    for i, time_ps in enumerate(fct_ps):
        flow = {"src": 0, "dst": 1, "size_bytes": 10**6, "finish_ps": time_ps, "ideal_fct_ps": 10**6}
        result = {"simulated_time_ps": time_ps, "config": RESULT["config"] | {"simulation": {"seed": i // 2}}}
        found.append(make_folder(tmp_path / f"run{i}", STAR, result, [flow] * 3))
    return found


def test_differences_come_first(tmp_path: Path) -> None:
    found = folders(tmp_path, 10**7, 2 * 10**7, 10**7)
    page = write_comparison(found, tmp_path / "page.html").read_text()
    rows = list(rows_of(page))
    assert rows[0] == ["figure", "run0", "run1", "run2", "run1 against run0", "run2 against run0"]
    assert rows[1] == ["simulated time", "10 us", "20 us", "10 us", "+100 % worse", "the same"]
    names = [row[0] for row in rows]
    assert names.index("median slowdown") < names.index("flows finished")  # which all runs have alike
    assert ["simulation.seed", "0", "0", "1"] in rows
    traces = plots_of(page)["slowdown"]["data"]
    found_x = [(trace["name"], trace["x"]) for trace in traces]
    assert found_x == [("run0", [10] * 3), ("run1", [20] * 3), ("run2", [10] * 3)]


def test_the_command_compares_and_says_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = [str(folder) for folder in folders(tmp_path, 10**7, 3 * 10**7)]
    assert main(["report", *found, "--out", str(tmp_path / "both.html")]) == 0
    printed = capsys.readouterr().out
    assert f"report in {tmp_path / 'both.html'}" in printed and "+200 % worse" in printed
    assert main(["report", found[0], str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err.startswith(f"pdes-sim: error: {tmp_path / 'none'}: is not a folder")


def test_runs_of_the_same_name_are_told_apart_and_too_many_are_refused(tmp_path: Path) -> None:
    first, second = folders(tmp_path / "a", 10**7)[0], folders(tmp_path / "b", 10**7)[0]
    page = write_comparison([first, second], tmp_path / "page.html").read_text()
    assert str(first) in page and "The configs are the same." in page
    with pytest.raises(ConfigError, match="17 folders"):
        write_comparison([first] * 17, tmp_path / "page.html")
