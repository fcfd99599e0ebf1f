"""`pdes-sim explain KEY`: what a key of the config means."""

import argparse
from typing import TYPE_CHECKING

from pdes.commands.parser import new_parser

if TYPE_CHECKING:
    from pdes.explain import Key


def make_parser() -> argparse.ArgumentParser:
    """Its arguments."""
    text = "Print what a key of the config means, its unit, its default and what it accepts; of a table, all its keys."
    parser = new_parser("pdes-sim explain", text, explain)
    text = "such as network.payload, payload, or network; without one, all tables"
    parser.add_argument("key", metavar="KEY", nargs="?", help=text)
    return parser


def explain(arguments: argparse.Namespace) -> int:
    """Print it. Raises ConfigError."""
    from pdes.explain import all_keys, find

    keys = [key for key in all_keys() if len(key.path) == 1] if arguments.key is None else find(arguments.key)
    table = keys[0].path
    if arguments.key is None or any(key.path[: len(table)] == table != key.path for key in keys):
        _print_table(keys)
        return 0
    for i, key in enumerate(keys):
        print("\n" * (i > 0) + _text(key))
    return 0


def _text(key: "Key") -> str:
    *table, last = key.path
    kinds = f"   (kind {', '.join(key.kinds)})" if key.kinds else ""
    facts = {
        "means": key.meaning,
        "unit": key.unit,
        "default": key.default or ("" if key.is_table else "none: it has to be given"),
        "accepted": key.accepted,
        "set it": f"--set {key.name}=..." if not key.is_table else "",
        "source": key.source,
    }
    heading = f"[{'.'.join(table)}] {last}" if table else f"[{last}]"
    return "\n".join([heading + kinds, *(f"  {name:<9} {text}" for name, text in facts.items() if text)])


def _print_table(keys: "list[Key]") -> None:
    width = max(len(key.name) for key in keys)
    for key in keys:
        default = f" [{key.default}]" if key.default else ""
        kinds = f" (kind {', '.join(key.kinds)})" if key.kinds else ""
        print(f"{key.name:<{width}}  {key.meaning}{default}{kinds}")
