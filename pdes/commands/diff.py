"""`pdes-sim diff A B`: where two results begin to differ, and what led to it."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdes.commands.parser import new_parser

if TYPE_CHECKING:
    from pdes.debug.differences import Difference, Row

SAME, DIFFERENT = 0, 1
MOST_KEYS = 10


def make_parser() -> argparse.ArgumentParser:
    """Its arguments."""
    text = "Print the first row, in simulated time, in which two results differ. Exit status: 0 same, 1 different."
    parser = new_parser("pdes-sim diff", text, diff)
    parser.add_argument("first", metavar="A", help="a result folder")
    parser.add_argument("second", metavar="B", help="another one")
    return parser


def diff(arguments: argparse.Namespace) -> int:
    """Compare, and print. Raises ConfigError."""
    from pdes.debug.differences import check_folder, compare
    from pdes.results.opened import read_facts, readable

    a, b = Path(arguments.first), Path(arguments.second)
    for folder in (a, b):
        check_folder(folder)
    results = [read_facts(folder, "result.json", ["config"]) for folder in (a, b)]
    for line in _config_lines(*results):
        print(line)
    with readable(f"{a} and {b}"):
        found = compare(a, b)
    for one in found:
        n_row = [("no table" if n is None else f"{n:,} rows") for n in (one.n_a, one.n_b)]
        size = n_row[0] if one.n_a == one.n_b else f"{n_row[0]} in A, {n_row[1]} in B"
        print(f"{one.table:<14} {size}, {'all the same' if not one.n_different else f'{one.n_different:,} differ'}")
    firsts = [one.first for one in found if one.first is not None]
    if firsts:
        _show(min(firsts, key=lambda difference: difference.time_ps), a, b)
        return DIFFERENT
    others = sorted(key for key in {*results[0], *results[1]} if results[0].get(key) != results[1].get(key))
    if others:
        print(f"result.json differs in {', '.join(others)}")
    return DIFFERENT if others or any(one.n_a != one.n_b for one in found) else SAME


def _config_lines(a: dict[str, Any], b: dict[str, Any]) -> list[str]:
    one, other = (_flat(result["config"]) for result in (a, b))
    keys = [key for key in dict.fromkeys([*one, *other]) if one.get(key) != other.get(key)]
    more = [f"  and {len(keys) - MOST_KEYS} more"] if len(keys) > MOST_KEYS else []
    lines = [f"  {key}: {json.dumps(one.get(key))} / {json.dumps(other.get(key))}" for key in keys[:MOST_KEYS]]
    return [*(["The configs differ (A / B):"] if keys else []), *lines, *more]


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {name: value}
    return {k: v for key, inner in value.items() for k, v in _flat(inner, f"{name}.{key}" if name else key).items()}


def _show(difference: "Difference", a: Path, b: Path) -> None:
    from pdes.debug.differences import NEVER_PS
    from pdes.debug.what_led import earlier_events, earlier_rows
    from pdes.units import format_duration

    key = ", ".join(f"{name} {value}" for name, value in difference.key.items())
    when = "over the whole run"
    if difference.time_ps < NEVER_PS:
        when = f"at {format_duration(difference.time_ps, 6)} ({difference.time_ps} ps)"
    print(f"\nFirst difference: {difference.table}, {key}, {when}")
    one, other = difference.a, difference.b
    if one is None or other is None:
        print(f"  only in {'A' if other is None else 'B'}")
    columns, rows = list(one or other or {}), (one or {}, other or {})
    cells = [("", "column", "A", "B")]
    cells += [
        ("*" if c in difference.columns else "", c, _text(rows[0].get(c)), _text(rows[1].get(c))) for c in columns
    ]
    width = [max(len(row[i]) for row in cells) for i in range(4)]
    for mark, column, left, right in cells:
        print(f"{mark:>1} {column:<{width[1]}}  {left:>{width[2]}}  {right:>{width[3]}}".rstrip())
    for what, find in (("Before it", earlier_rows), ("Events before it", earlier_events)):
        before = [find(folder, difference) for folder in (a, b)]
        if before[0] == before[1]:
            _table(f"{what}, the same in A and B", before[0])
        else:
            for name, earlier in zip("AB", before, strict=True):
                _table(f"{what} in {name}", earlier)


def _table(title: str, rows: "list[Row]") -> None:
    if not rows:
        return
    columns = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    cells = [columns, *([_text(row[name]) for name in columns] for row in rows)]
    width = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    print(f"\n{title}")
    for row in cells:
        print("  " + "  ".join(f"{cell:>{w}}" for cell, w in zip(row, width, strict=True)))


def _text(value: object) -> str:
    return "-" if value is None else str(value)
