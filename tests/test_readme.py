"""README and docs tell the truth where that can be checked: configs load, defaults are the defaults, files exist."""

import re
import tomllib
from pathlib import Path

import pytest

from pdes.config import NetworkConfig, PartitionConfig, load_config
from pdes.scenario import build_scenario

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text() for path in PAGES}


def blocks(page: str, languages: str = "toml") -> list[tuple[str, str]]:
    """(language, text) of a page's blocks."""
    return re.findall(rf"```({languages})\n(.*?)```", TEXTS[page], re.DOTALL)


((_, QUICK_START),) = blocks("README.md")
REFERENCE = [blocks(f"docs/configuration/{name}.md") for name in ("network", "run", "wormhole")]
TUTORIAL = blocks("docs/congestion-control.md", "python|toml")


def test_the_config_that_is_explained_is_the_quick_start(tmp_path: Path) -> None:
    assert tomllib.loads(QUICK_START) == tomllib.loads((ROOT / "examples" / "quickstart.toml").read_text())


def test_the_defaults_are_the_defaults(tmp_path: Path) -> None:
    """The blocks of the reference, one per page, added to the quick start are the same config."""
    assert [len(of_page) for of_page in REFERENCE] == [1, 1, 1]
    texts = {"plain": QUICK_START, "spelled": QUICK_START + "".join(text for ((_, text),) in REFERENCE)}
    tables = {"network", "partition", "checkpoint", "wormhole"}
    assert tables <= set(tomllib.loads(texts["spelled"])) and not tables & set(tomllib.loads(QUICK_START))
    for name, text in texts.items():
        (tmp_path / f"{name}.toml").write_text(text)
    plain, spelled = (load_config(tmp_path / f"{name}.toml") for name in texts)
    assert plain.model_dump() == spelled.model_dump()
    assert (spelled.network, spelled.partition) == (NetworkConfig(), PartitionConfig())


def test_the_example_of_the_configuration_runs(tmp_path: Path) -> None:
    ((_, hpcc),) = blocks("docs/configuration.md")
    (tmp_path / "hpcc.toml").write_text(QUICK_START + hpcc)
    assert build_scenario(load_config(tmp_path / "hpcc.toml")).parameters.law.name == "hpcc"


def test_the_tutorial_is_the_example_and_runs(tmp_path: Path) -> None:
    (language, code), (_, text) = TUTORIAL
    assert language == "python" and code == (ROOT / "examples" / "my_cc.py").read_text()
    (tmp_path / "my_cc.py").write_text(code)
    (tmp_path / "mine.toml").write_text(QUICK_START + text)
    scenario = build_scenario(load_config(tmp_path / "mine.toml"))
    assert scenario.parameters.law_values["cut"] == 0.5


NAMED = sorted(
    {
        path
        for text in TEXTS.values()
        for path in re.findall(r"(?<![\w./-])(?:examples|bench|scripts|pdes|models|docs|tests)/[\w/.-]*\w", text)
        if "NAME" not in path
    }
)


@pytest.mark.parametrize("path", NAMED)
def test_what_is_named_exists(path: str) -> None:
    assert (ROOT / path).exists()


def test_the_two_commands_of_the_readme_are_those_of_the_check() -> None:
    """What .ci/run runs on a bare machine is what the README says."""
    commands = re.findall(r"^    (sh scripts/\w+)", TEXTS["README.md"], re.MULTILINE)
    assert commands == ["sh scripts/run", "sh scripts/test"]
    assert all(re.search(rf"^{command}\b", (ROOT / ".ci" / "run").read_text(), re.MULTILINE) for command in commands)


LIMITS = {"README.md": 8_000} | {
    name: 10_000 for name in TEXTS if name != "README.md" and not name.startswith("docs/experiments/")
}


@pytest.mark.parametrize("page", LIMITS)
def test_a_page_is_short(page: str) -> None:
    assert len(TEXTS[page].encode()) <= LIMITS[page]
