"""The documentation says what there is: keys, commands, columns, links. What it shows is known; what is small runs."""

import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import site_pages
from pdes.cli import COMMANDS, _parse, main
from pdes.config import LAW_TABLES, load_config
from pdes.config.cluster.load import load_cluster
from pdes.config.keys import NAME
from pdes.explain import all_keys, control_keys, find
from pdes.results.iteration import TASK_KINDS
from pdes.results.tables import COLUMNS, STRING_COLUMNS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
TEXTS = {path.relative_to(DOCS).as_posix(): path.read_text() for path in sorted(DOCS.rglob("*.md"))}
TEXTS["README.md"] = (ROOT / "README.md").read_text()
PAGES = {name: make() for name, make in site_pages.PAGES.items()}
KEYS = all_keys()
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
CONFIGS = [
    (name, text) for name, page in TEXTS.items() for _, text in FENCED.findall(page) if re.search(r"^\[", text, re.M)
]
RUN_ELSEWHERE = ("congestion-control.md", "python.md")  # test_readme.py, test_docs_of_use.py
RUN = [name for name, page in TEXTS.items() if re.search(r"^```(sh|python)", page, re.M) and name not in RUN_ELSEWHERE]


def cells(row: str) -> list[str]:
    """Of a row of a table."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]


def rows(text: str) -> list[list[str]]:
    """Of the first table of a text, without its head."""
    lines = iter(text.splitlines())
    found = [next((line for line in lines if line.startswith("|")), "")]
    for line in lines:
        if not line.startswith("|"):
            break
        found.append(line)
    return [cells(line) for line in found[2:]]


def sections(text: str) -> dict[str, str]:
    """Heading to what stands below it."""
    parts = re.split(r"^##+ (.*)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


# Pages that are made of the code


def test_every_key_is_on_its_page_in_its_table() -> None:
    found = set()
    for heading, text in sections(PAGES["keys.md"]).items():
        table = re.match(r"\[+([\w.-]+)\]", heading)
        for row in rows(text):
            assert len(row) == 4 and all(row[1:]), row
            assert table is not None
            found.add(f"{table[1]}.{row[0].strip('`')}")
    controls = {key.name for table in LAW_TABLES for key in control_keys(table)}
    assert found == {key.name for key in KEYS if not key.is_table} | controls


def test_a_key_is_on_its_page_as_it_is() -> None:
    line = next(line for line in PAGES["keys.md"].splitlines() if line.startswith("| `payload` |"))
    assert cells(line)[:3] == ["`payload`", "of a full data packet", '`"1000B"`'] and '"4MB"' in cells(line)[3]


def test_every_option_is_on_the_page_of_commands() -> None:
    found = sections(PAGES["commands.md"])
    assert set(found) == {"pdes-sim", *(f"pdes-sim {name}" for name in COMMANDS)}
    for name, parser in site_pages.parsers().items():
        options = set(re.findall(r"^ +(-\w\b|--[\w-]+)|, (--[\w-]+)", parser.format_help(), re.MULTILINE))
        shown = {option for row in rows(found[name]) for option in re.findall(r"`(--?[\w-]+)", row[0])}
        assert shown == {one for pair in options for one in pair if one}, name
        assert all(row[1] for row in rows(found[name])), name


def test_every_page_has_one_title_and_says_something() -> None:
    for name, text in (TEXTS | PAGES).items():
        prose = FENCED.sub("", text)
        assert text.startswith("# ") and len(re.findall(r"^# ", prose, re.MULTILINE)) == 1, name
        assert len(text) > 500, name


def test_every_page_of_the_site_is_in_its_navigation_once() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    listed = re.findall(r"(\S+\.md)$", navigation, re.MULTILINE)
    assert sorted(listed) == sorted({*TEXTS, *PAGES} - {"README.md"})


# Columns


def documented(table: str) -> list[tuple[str, str, str]]:
    """(column, unit, meaning) of a table of a result folder."""
    found = []
    for names, unit, meaning in rows(sections(TEXTS["columns.md"])[table]):
        found += [(name, unit, meaning) for name in names.split(", ")]
    return found


@pytest.mark.parametrize("table", COLUMNS)
def test_every_column_has_its_unit_and_meaning(table: str) -> None:
    assert [column for column, _, _ in documented(table)] == list(COLUMNS[table])
    units = {"ps": "ps", "bytes": "bytes", "bps": "bit/s"}
    for column, unit, meaning in documented(table):
        assert meaning, column
        assert unit == units.get(column.rpartition("_")[2], unit), column
        assert column not in STRING_COLUMNS or not unit, column


def test_every_kind_of_a_task_is_named() -> None:
    meaning = next(meaning for column, _, meaning in documented("tasks") if column == "kind")
    assert re.findall(r"`([\w-]+)`", meaning) == list(TASK_KINDS)


def test_every_table_is_named() -> None:
    tables = [name for name in sections(TEXTS["columns.md"]) if name in COLUMNS]
    assert tables == list(COLUMNS)
    assert set(re.findall(r"`(\w+)\.parquet`", TEXTS["results.md"].partition("\n\n## ")[0])) == set(COLUMNS)


def test_every_key_of_the_json_files_is_described(tmp_path: Path) -> None:
    run, out = ROOT / "examples" / "allreduce.toml", tmp_path / "out"
    assert main([str(run), "--out", str(out), "--quiet"]) == 0
    text = sections(TEXTS["columns.md"])
    described = {one: when for cell, when, _ in rows(text["result.json"]) for one in re.findall(r"`(\w+)`", cell)}
    assert {name for name, when in described.items() if when == "always"} == set(
        json.loads((out / "result.json").read_text())
    )
    described_run = {one for row in rows(text["run.json"]) for one in re.findall(r"`(\w+)`", row[0])}
    assert described_run - {"memo"} == set(json.loads((out / "run.json").read_text()))


# Configs that are shown


SAME_AS = {  # tables with the keys of others
    ("job", "workload"): ("workload",),
    ("cluster", "runs", "kind", "workload"): ("workload",),
    ("cluster", "runs", "fabric"): ("topology",),
    ("cluster", "runs", "network"): ("network",),
    ("cluster", "runs", "wormhole"): ("wormhole",),
}
FREE_OF_CLUSTERS = ("options", "arrivals.gpus", "arrivals.tenants", "arrivals.priorities", "storage.parameters")


def is_known(path: tuple[str, ...]) -> bool:
    """Whether a key of this path exists."""
    if any(key.path == path for key in KEYS):
        return True
    for table, other in SAME_AS.items():
        if path[: len(table)] == table and len(path) > len(table):
            path = (*other, *path[len(table) :])
    if path[0] == "network" and len(path) == 3 and path[1] in LAW_TABLES:
        return any(key.path == path for key in control_keys(path[1]))
    fits = (key.path for key in KEYS if len(key.path) == len(path))
    return any(all(one in (part, NAME) for one, part in zip(key, path, strict=True)) for key in fits)


def unknown(value: Any, path: tuple[str, ...]) -> list[str]:
    """Keys in a table that do not exist. Free-form ones, such as weights, end the walk."""
    if isinstance(value, list):
        return [name for one in value for name in unknown(one, path)]
    if not isinstance(value, dict):
        return []
    of_jobs = [f"cluster.{name}" for name in FREE_OF_CLUSTERS]
    free = ("network.parameters", "network.scheduler.weights", "sweep.set", "search.set", *of_jobs)
    has_name = any(key.path == (*path, NAME) or key.path[: len(path) + 1] == (*path, NAME) for key in KEYS)
    found = []
    for key, inner in value.items():
        place = (*path, key)
        if ".".join(path) in free:
            continue
        if not has_name and not is_known(place):
            found.append(".".join(place))
        else:
            found += unknown(inner, place)
    return found


@pytest.mark.parametrize(("page", "text"), CONFIGS, ids=[f"{name}-{i}" for i, (name, _) in enumerate(CONFIGS)])
def test_a_config_that_is_shown_has_keys_that_exist(page: str, text: str) -> None:
    for part in re.split(r"^(?=\[)", text, flags=re.MULTILINE):
        assert unknown(tomllib.loads(part), ()) == [], page


def test_a_key_that_does_not_exist_is_noticed() -> None:
    assert unknown({"network": {"hpcc": {"min_rat": 1}, "payloud": 1, "pfc": {"frames": 1}}}, ()) == [
        *("network.hpcc.min_rat", "network.payloud", "network.pfc.frames"),
    ]
    assert unknown({"workload": {"devices": {"mine": {"flops": {"bf17": 1}}}}}, ()) == [
        "workload.devices.mine.flops.bf17"
    ]


ALL_AT_ONCE = ("training.md",)  # shows keys side by side of which a config has one or the other
WHOLE = [
    (name, text)
    for name, text in CONFIGS
    if re.search(r"^\[topology\]", text, re.M) and "[workload]" in text and name not in ALL_AT_ONCE
]


@pytest.mark.parametrize(("page", "text"), WHOLE, ids=[name for name, _ in WHOLE])
def test_a_config_that_is_whole_loads(page: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(text)
    assert load_config(tmp_path / "config.toml").topology.n_host > 0, page


def test_a_config_of_jobs_that_is_shown_loads(tmp_path: Path) -> None:
    (text,) = (text for name, text in CONFIGS if name == "cluster-level.md" and "[[cluster.pool]]" in text)
    (tmp_path / "config.toml").write_text(text)
    assert load_cluster(tmp_path / "config.toml", []).run.cluster.pool[0].servers == 4096


# Commands that are shown


def shown_commands() -> list[tuple[str, list[str]]]:
    """(page, arguments) of every command line, in blocks and in running text."""
    found = []
    for name, page in (TEXTS | PAGES).items():
        lines = [line for _, block in FENCED.findall(page) for line in block.splitlines()]
        rest = FENCED.sub("", page)
        lines += [line for line in rest.splitlines() if line.startswith("    ")] + re.findall(r"`([^`\n]+)`", rest)
        for line in lines:
            match = re.match(r"\s*(?:mpirun -n \d+ |srun )?pdes-sim (?!\.\.)(\S.*)", line)
            if match and name != "commands.md":
                words = shlex.split(re.sub(r" \[[^]]*\]|(?<=\s)\.\.+(?=\s|$)", " ", match[1]), comments=True)
                found.append((name, words))
    return found


SHOWN = shown_commands()


@pytest.mark.parametrize(("page", "words"), SHOWN, ids=[f"{page}-{' '.join(words)}"[:80] for page, words in SHOWN])
def test_a_command_that_is_shown_is_one(page: str, words: list[str]) -> None:
    if words in (["COMMAND", "--help"], *([name] for name in COMMANDS)):
        return
    is_option_alone = words[0].startswith("--") and words[0] != "--resume"
    found = _parse([*words, "config.toml"] if is_option_alone else words, is_silent=False)
    for override in getattr(found, "overrides", None) or []:
        assert find(override.partition("=")[0])
    if words[0] == "explain" and words[1] != "KEY":
        assert find(words[1])


@pytest.mark.parametrize("page", TEXTS)
def test_no_code_is_broken_over_lines(page: str) -> None:
    """A command that goes on in the next line would be found by nobody, this file included."""
    assert [line for line in FENCED.sub("", TEXTS[page]).splitlines() if line.count("`") % 2] == []


def test_commands_were_found() -> None:
    assert len(SHOWN) > 30 and {words[0] for _, words in SHOWN} > set(COMMANDS)


@pytest.mark.parametrize("page", RUN)
def test_what_a_page_shows_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commands, then its Python, one after the other, where the examples are."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    for language, block in FENCED.findall(TEXTS[page]):
        if language == "sh":
            for line in block.splitlines():
                program, *words = shlex.split(line)
                assert program in ("pip", "pdes-sim", "python"), line
                assert program != "pdes-sim" or main(words) == 0, line
                assert program != "python" or Path(words[0]).is_file(), line  # test_gallery.py runs it
        elif language == "python":
            (tmp_path / "shown.py").write_text(block)
            runpy.run_path(str(tmp_path / "shown.py"))


# The site


def anchors(text: str) -> set[str]:
    """Of the headings of a page, as mkdocs makes them."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", text), re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


@pytest.mark.parametrize("page", TEXTS)
def test_links_lead_somewhere(page: str) -> None:
    folder = ROOT if page == "README.md" else (DOCS / page).parent
    for target, anchor in re.findall(r"\]\(([^)#\s]+)#?([^)]*)\)", FENCED.sub("", TEXTS[page])):
        assert target.startswith("http") or (folder / target).exists() or target in PAGES, target
        assert not target.endswith("README.md"), "the site does not have it"
        name = (folder / target).resolve().relative_to(DOCS).as_posix() if target.endswith(".md") else ""
        if anchor and name:
            assert anchor in anchors((TEXTS | PAGES)[name]), f"{target}#{anchor}"


def test_the_site_is_built_and_needs_no_network(tmp_path: Path) -> None:
    pytest.importorskip("material")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {path.relative_to(tmp_path).as_posix(): path for path in tmp_path.rglob("*.html")}
    assert {f"{name.removesuffix('.md')}.html" for name in [*TEXTS, *PAGES] if name != "README.md"} <= set(pages)
    for path in pages.values():
        loads = re.findall(r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=\"?(https?:[^\" >]+)", path.read_text())
        assert loads == [], path.name
