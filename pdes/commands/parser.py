"""What the parsers of several commands have in common."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pdes.config import Config


def new_parser(name: str, description: str, command: Any, **kwargs: Any) -> argparse.ArgumentParser:
    """A parser that leaves the command's function in `command`."""
    parser = argparse.ArgumentParser(prog=name, description=description, allow_abbrev=False, **kwargs)
    parser.set_defaults(command=command)
    return parser


def add_config(parser: argparse.ArgumentParser, **keys: Any) -> None:
    """The config and what overrides it."""
    parser.add_argument("config", metavar="config.toml", help="what to simulate", **keys)
    text = "override one key of the config; may be repeated"
    parser.add_argument("--set", metavar="TABLE.KEY=VALUE", dest="overrides", action="append", default=[], help=text)
    text = "of a trace: leave out what some tools write wrong, and warn; the same as --set workload.tolerant=true"
    parser.add_argument("--tolerant", action="store_true", help=text)


def load(arguments: argparse.Namespace) -> "Config":
    """The config that the arguments name, overridden. Raises ConfigError."""
    from pdes.config import load_config

    overrides = list(arguments.overrides)
    if arguments.tolerant:
        overrides.append("workload.tolerant=true")
    if getattr(arguments, "out", None) is not None:
        overrides.append(f"output.dir={_quoted(arguments.out)}")
    if getattr(arguments, "until", None) is not None:
        overrides.append(f"simulation.stop_time={_quoted(arguments.until)}")
    return with_warnings(load_config(arguments.config, overrides))


def with_warnings(config: "Config") -> "Config":
    """The same config, once its warnings are on stderr."""
    for text in config.warnings:
        print(f"pdes-sim: warning: {text}", file=sys.stderr)
    return config


def _quoted(text: str) -> str:
    import json

    return json.dumps(text, ensure_ascii=False)
