"""README's table of speed is what the benchmark wrote, of one version."""

import json

import pytest
from speed_table import BEGIN, BENCHES, END, KEPT, ROOT, ROWS, put_into, table


def test_the_readme_has_the_table_that_was_measured() -> None:
    readme = (ROOT / "README.md").read_text()
    kept = json.loads(KEPT.read_text())
    assert put_into(readme, table(kept)) == readme
    assert set(kept["figures"]) == set(BENCHES) == {row.bench for row in ROWS}
    assert len(kept["load"]) == len(BENCHES)


def test_another_table_takes_the_place_of_the_last_and_nothing_else() -> None:
    text = f"before\n{BEGIN}\n\nold\n\n{END}\nafter\n"
    new = put_into(text, "new")
    assert new == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n" and put_into(new, "new") == new


@pytest.mark.parametrize("text", ["", f"{BEGIN}", f"{BEGIN}{END}{BEGIN}{END}"])
def test_a_readme_without_one_place_for_it_is_refused(text: str) -> None:
    with pytest.raises(SystemExit, match=r"README\.md needs one"):
        put_into(text, "new")
