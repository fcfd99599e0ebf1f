"""The tables of speed in docs/benchmarks.md are what the benchmark wrote, of one version."""

import json

import pytest
from speed_table import BEGIN, BENCHES, END, KEPT, PAGE, ROOT, ROWS, put_into, table


def test_the_page_has_the_tables_that_were_measured() -> None:
    page, kept = PAGE.read_text(), json.loads(KEPT.read_text())
    assert PAGE == ROOT / "docs" / "benchmarks.md" and put_into(page, table(kept)) == page
    assert set(kept["figures"]) == set(BENCHES) == {row.bench for row in ROWS}
    assert len(kept["load"]) == len(BENCHES)


def test_another_table_takes_the_place_of_the_last_and_nothing_else() -> None:
    text = f"before\n{BEGIN}\n\nold\n\n{END}\nafter\n"
    new = put_into(text, "new")
    assert new == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n" and put_into(new, "new") == new


@pytest.mark.parametrize("text", ["", f"{BEGIN}", f"{BEGIN}{END}{BEGIN}{END}"])
def test_a_page_without_one_place_for_it_is_refused(text: str) -> None:
    with pytest.raises(SystemExit, match=r"docs/benchmarks\.md needs one"):
        put_into(text, "new")


def test_every_row_has_a_figure_per_column() -> None:
    kept = json.loads(KEPT.read_text())
    for row in ROWS:
        found = row.rows(kept["figures"][row.bench])
        assert found and all(len(cells) == len(row.head) and all(cells) for cells in found), row.title
        assert all(";" not in cell for cells in found for cell in cells), row.title
