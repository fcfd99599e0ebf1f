"""Pages of the documentation site that are made of the code: every key of a config and every command.

mkdocs calls `on_files` (mkdocs.yml, hooks). `python scripts/site_pages.py` prints the pages.
"""

import argparse
from importlib import import_module
from itertools import groupby
from typing import Any

from pdes.cli import COMMANDS, EPILOG
from pdes.commands import run
from pdes.config import LAW_TABLES
from pdes.explain import Key, all_keys, control_keys

KEYS_HEAD = """\
# Every key of a config

Made of the schema, as is what `pdes-sim explain KEY` prints. A default of "-" means that the key has to be given if its
table is there, "not given" that it may be left out. Quantities are text with a unit. Examples with comments are in
[Configuration in examples](configuration.md).
"""
COMMANDS_HEAD = """\
# Commands

Made of what `pdes-sim COMMAND --help` prints. Exit status of all of them: 0 done, 2 bad input, 75 stopped by SIGTERM
after a checkpoint, 1 anything else; of `diff` 1 also if results differ. Under `mpirun -n N` a simulation runs on N
ranks.
"""


def on_files(files: Any, config: Any) -> Any:
    """Add the pages to the site."""
    from mkdocs.structure.files import File

    for name, text in PAGES.items():
        files.append(File.generated(config, name, content=text()))
    return files


def keys_page() -> str:
    """Every key, table by table, and the parameters of every congestion control."""
    found, tables, parts = all_keys(), {}, [KEYS_HEAD]
    for key in found:
        if key.is_table:
            tables.setdefault(key.path, key)
    for name in dict.fromkeys(key.path[0] for key in found):
        parts.append(f"## [{name}]\n\n{_sentence(tables[(name,)].meaning)}\n")
        mine = [key for key in found if key.path[0] == name and not key.is_table]
        for (table, kinds), group in groupby(_together(mine), _place):
            if len(table) > 1 or kinds:
                parts.append(f"### {_heading(table, kinds, tables)}\n")
            if len(table) > 1:
                parts.append(_sentence(_meaning(table, tables)) + "\n")
            parts.append(_key_table(group))
    parts.append("## Parameters of congestion controls\n")
    for table in LAW_TABLES:
        if keys := control_keys(table):
            parts += [f"### [network.{table}]\n", f"In `{keys[0].source.split(',')[0]}`.\n", _key_table(keys)]
    return "\n".join(parts)


def commands_page() -> str:
    """Every command with all its arguments."""
    parts = [COMMANDS_HEAD, "```\n" + EPILOG.partition("\n\nExit")[0] + "\n```\n"]
    for name, parser in parsers().items():
        parts.append(
            f"## {name}\n\n{_cell(parser.description or '')}\n\n| argument | meaning | default |\n| --- | --- | --- |"
        )
        actions = [action for action in parser._actions if action.help != argparse.SUPPRESS]
        parts += [f"| {_argument(one)} | {_cell(_help(one))} | {_default(one)} |" for one in actions]
        parts.append("")
    return "\n".join(parts)


def parsers() -> dict[str, argparse.ArgumentParser]:
    """The parser of each command, that of a simulation first."""
    found = {"pdes-sim": run.make_parser("")}
    return found | {f"pdes-sim {name}": import_module(f"pdes.commands.{name}").make_parser() for name in COMMANDS}


def _together(keys: list[Key]) -> list[Key]:
    """Keys of one table and of the same kinds side by side, in the order of the schema."""
    places = list(dict.fromkeys(map(_place, keys)))
    return sorted(keys, key=lambda key: places.index(_place(key)))


def _place(key: Key) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return key.path[:-1], key.kinds


def _heading(table: tuple[str, ...], kinds: tuple[str, ...], tables: dict[tuple[str, ...], Key]) -> str:
    name = ".".join(table)
    is_list = table in tables and tables[table].accepted.startswith("a list")
    text = f"[[{name}]]" if is_list else f"[{name}]"
    return text + (f" of kind {', '.join(kinds)}" if kinds else "")


def _meaning(table: tuple[str, ...], tables: dict[tuple[str, ...], Key]) -> str:
    """Of a table; of one that the user names, that of what holds it."""
    return tables[table if table in tables else table[:-1]].meaning


def _key_table(keys: Any) -> str:
    rows = [
        f"| `{key.path[-1]}` | {_cell(key.meaning)} | {_code(key.default)} | {_cell(key.accepted)} |" for key in keys
    ]
    return "\n".join(["| key | meaning | default | accepted |", "| --- | --- | --- | --- |", *rows, ""])


def _argument(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else str(action.metavar or action.dest if action.choices is None else "FORMAT")
    names = [f"{name} {value}".strip() for name in action.option_strings] or [value]
    return ", ".join(f"`{name}`" for name in names)


def _help(action: argparse.Action) -> str:
    text = (action.help or "") % {"default": action.default}
    return f"{text}. One of {', '.join(map(str, action.choices))}" if action.choices else text


def _default(action: argparse.Action) -> str:
    is_said = action.option_strings and action.nargs != 0 and action.default not in (None, [], argparse.SUPPRESS)
    return f"`{action.default}`" if is_said else ""


def _code(text: str) -> str:
    return f"`{_cell(text)}`" if text else "-"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


PAGES = {"keys.md": keys_page, "commands.md": commands_page}

if __name__ == "__main__":
    for page in PAGES.values():
        print(page())
