"""The README tells the truth where that can be checked: configs load, files exist, columns are those of the tables."""

import re
import tomllib
from pathlib import Path

import pytest

from pdes.config import NetworkConfig, PartitionConfig, load_config
from pdes.results.tables import COLUMNS

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
TOML_BLOCKS = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)


def test_the_config_that_is_explained_is_the_quick_start(tmp_path: Path) -> None:
    assert tomllib.loads(TOML_BLOCKS[0]) == tomllib.loads((ROOT / "examples" / "quickstart.toml").read_text())


def test_the_defaults_are_the_defaults(tmp_path: Path) -> None:
    """The second block added to the first one is the same config."""
    texts = {"plain": TOML_BLOCKS[0], "spelled": TOML_BLOCKS[0] + TOML_BLOCKS[1]}
    for name, text in texts.items():
        (tmp_path / f"{name}.toml").write_text(text)
    plain, spelled = (load_config(tmp_path / f"{name}.toml") for name in texts)
    assert plain.model_dump() == spelled.model_dump() and len(TOML_BLOCKS) == 2
    assert (spelled.network, spelled.partition) == (NetworkConfig(), PartitionConfig())


@pytest.mark.parametrize("table", COLUMNS)
def test_the_columns_are_those_of_the_tables(table: str) -> None:
    text = README.partition(f"`{table}.parquet`, a row")[2].partition("\n\n`")[0]
    cells = re.findall(r"^\| ([a-z_, ]+) \|", text, re.MULTILINE)
    assert [name for cell in cells[1:] for name in cell.split(", ")] == list(COLUMNS[table])


@pytest.mark.parametrize("path", sorted(set(re.findall(r"(?:examples|bench|scripts|pdes|models)/[\w/.-]*\w", README))))
def test_what_is_named_exists(path: str) -> None:
    assert (ROOT / path).exists()
