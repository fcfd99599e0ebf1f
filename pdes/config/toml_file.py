"""A TOML file as tables, or a message with the line and the column where it is none."""

import difflib
import re
import tomllib
from pathlib import Path
from typing import Any

from pdes.errors import ConfigError
from pdes.files import DEEP, LONG_NUMBER, excess, read_text


def read_toml(source: Path) -> tuple[dict[str, Any], str]:
    """(the tables, the text). ConfigError names the file, and the line where it stops being TOML."""
    text = ""
    try:
        text = read_text(source)
        return tomllib.loads(text), text
    except OSError as error:
        known = [path.name for path in source.parent.glob("*.toml")] if source.parent.is_dir() else []
        close = difflib.get_close_matches(source.name, known, n=1, cutoff=0.7)
        advice = f'. Did you mean "{source.parent / close[0]}"?' if close and not source.exists() else ""
        raise ConfigError(str(source), f"cannot be read: {error.strerror}", f"Accepted: a TOML file{advice}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{source}: byte {error.start}", "is not UTF-8 text", "Accepted: a TOML file") from error
    except tomllib.TOMLDecodeError as error:
        place = re.fullmatch(r"(.*) \(at (?:line (\d+), column (\d+)|(end of document))\)", str(error), re.DOTALL)
        if place is None:
            raise ConfigError(str(source), f"is not TOML: {error}") from error
        text, line, column, _end = place.groups()
        text = _in_words(text)
        where = f"{source}: line {line}, column {column}" if line else f"{source}: end of file"
        raise ConfigError(where, f"is not TOML: {text}", 'Accepted: lines such as link_rate = "100Gbps"') from error
    except (RecursionError, ValueError) as error:
        raise excess(source, text, error) from error


def read_value(text: str, where: str) -> object:
    """A value as TOML has it; text that is none is taken as a string. ConfigError: it is too long or too deep."""
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    except (RecursionError, ValueError) as error:
        found = DEEP if isinstance(error, RecursionError) else LONG_NUMBER
        raise ConfigError(where, f"is {found}", "Accepted: a value such as those in a config") from error
    return value if isinstance(value, bool | int | float | str | list | dict) else text


def _in_words(text: str) -> str:
    """What the TOML parser says, where people should not have to know Python."""
    twice = re.fullmatch(r"Cannot declare \((.*?),?\) twice", text)
    if twice:
        return f"the table [{twice[1].replace(', ', '.').replace(chr(39), '')}] is there twice: put its keys together"
    if text == "Invalid value":
        return "no value that TOML has: text is in quotes, yes and no are true and false"
    return text
