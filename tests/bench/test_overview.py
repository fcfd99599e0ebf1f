"""The README's figure and the tables of docs/accuracy.md are what the benchmarks stored."""

import json
import re
from xml.etree import ElementTree

import pytest
from accuracy_table import BEGIN, COLUMNS, END, PAGE, cases, kind_of, put_into, table
from overview import FIGURE, KINDS, ROOT, figure
from speed_table import KEPT


def test_the_figure_is_of_what_was_measured() -> None:
    assert FIGURE.read_text() == figure(json.loads(KEPT.read_text()), cases())
    assert f"]({FIGURE.relative_to(ROOT).as_posix()})" in (ROOT / "README.md").read_text()


def test_the_figure_has_every_case_inside_it() -> None:
    drawn = ElementTree.fromstring(FIGURE.read_text())
    circles = [one for one in drawn if one.tag.endswith("circle")]
    assert len(circles) == len(cases())
    left, top, right, bottom = 370, 44, 610, 240
    for one in circles:
        assert left <= float(one.attrib["cx"]) <= right and top <= float(one.attrib["cy"]) <= bottom


def test_the_page_has_the_tables_that_were_measured() -> None:
    page = PAGE.read_text()
    assert put_into(page, table(cases())) == page


def test_every_case_is_in_one_table_with_all_its_figures() -> None:
    assert set(map(kind_of, cases())) == set(KINDS)
    rows = [line for line in table(cases()).splitlines() if re.match(r"\| (?:gpt|moe)-", line)]
    assert len(rows) == len(cases())
    for case in cases():
        assert set(case) == {*COLUMNS, "lanes_and_shares"}
        assert all(re.fullmatch(r"[\d.,]+(?: [%kMG])?", case[name]) for name in [*COLUMNS][4:] + ["tolerance"])


@pytest.mark.parametrize("text", ["", f"{BEGIN}", f"{BEGIN}{END}{BEGIN}{END}"])
def test_a_page_without_one_place_for_it_is_refused(text: str) -> None:
    with pytest.raises(SystemExit, match=r"docs/accuracy\.md needs one"):
        put_into(text, "new")
