"""The README tells the truth where that can be checked: configs load, files exist, columns are those of the tables."""

import re
import tomllib
from pathlib import Path

import pytest

from pdes.config import NetworkConfig, PartitionConfig, load_config
from pdes.scenario import build_scenario

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
TOML_BLOCKS = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
REFERENCE = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "configuration.md").read_text(), re.DOTALL)
TUTORIAL = re.findall(r"```(python|toml)\n(.*?)```", (ROOT / "docs" / "congestion-control.md").read_text(), re.DOTALL)


def test_the_config_that_is_explained_is_the_quick_start(tmp_path: Path) -> None:
    assert tomllib.loads(TOML_BLOCKS[0]) == tomllib.loads((ROOT / "examples" / "quickstart.toml").read_text())


def test_the_defaults_are_the_defaults(tmp_path: Path) -> None:
    """The reference's block added to the quick start is the same config."""
    texts = {"plain": TOML_BLOCKS[0], "spelled": TOML_BLOCKS[0] + REFERENCE[0]}
    for name, text in texts.items():
        (tmp_path / f"{name}.toml").write_text(text)
    plain, spelled = (load_config(tmp_path / f"{name}.toml") for name in texts)
    assert plain.model_dump() == spelled.model_dump() and len(REFERENCE) == 1
    assert (spelled.network, spelled.partition) == (NetworkConfig(), PartitionConfig())


def test_the_other_config_of_the_readme_runs(tmp_path: Path) -> None:
    (tmp_path / "hpcc.toml").write_text(TOML_BLOCKS[0] + TOML_BLOCKS[1])
    assert build_scenario(load_config(tmp_path / "hpcc.toml")).parameters.law.name == "hpcc"


def test_the_tutorial_is_the_example_and_runs(tmp_path: Path) -> None:
    (language, code), (_, text) = TUTORIAL
    assert language == "python" and code == (ROOT / "examples" / "my_cc.py").read_text()
    (tmp_path / "my_cc.py").write_text(code)
    (tmp_path / "mine.toml").write_text(TOML_BLOCKS[0] + text)
    scenario = build_scenario(load_config(tmp_path / "mine.toml"))
    assert scenario.parameters.law_values["cut"] == 0.5


NAMED = sorted(set(re.findall(r"(?:examples|bench|scripts|pdes|models|docs|tests)/[\w/.-]*\w", README)))


@pytest.mark.parametrize("path", NAMED)
def test_what_is_named_exists(path: str) -> None:
    assert (ROOT / path).exists()
