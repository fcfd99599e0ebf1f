"""From pydantic's errors to faults, and from faults to one ConfigError with a line for each."""

import re
import typing
from pathlib import Path

from pydantic import BaseModel, ValidationError

from pdes.config.places import line_of
from pdes.config.tables.fields import Fault
from pdes.errors import ConfigError, closest, suggestion
from pdes.units import shown

_EXPECTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "text in quotes",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "dict_type": "a table",
    "finite_number": "a finite number",
}
_BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}


def faults_of(error: ValidationError, table: type[BaseModel], root: str) -> list[Fault]:
    """The faults that pydantic found in the table named `root`, in file order."""
    return [
        _fault(dict(entry), table, root) for entry in error.errors() if entry["type"] != "default_factory_not_called"
    ]


def _fault(entry: dict, table: type[BaseModel], root: str) -> Fault:
    path = (root, *entry["loc"])
    kind, context, value = entry["type"], entry.get("ctx", {}), entry.get("input")
    if kind == "extra_forbidden":
        return Fault(path, "unknown key", nearest(str(path[-1]), _keys_at(table, entry["loc"][:-1])))
    if kind == "missing":
        return Fault(path, "missing, and it has no default")
    if kind == "value_error":
        return Fault(path, context["error"].found, context["error"].accepted)
    if kind == "literal_error":
        names, meant = context["expected"].replace("'", '"'), re.findall(r"'([^']*)'", context["expected"])
        return Fault(path, f"found {shown(value)}", f"Accepted: {names}{suggestion(value, meant)}")
    if kind == "list_type" and isinstance(value, dict):
        name = ".".join(str(part) for part in path if not isinstance(part, int))
        return Fault(path, "is one table", f"Accepted: a list of tables, each under [[{name}]], with two brackets")
    if kind in _EXPECTED:
        return Fault(path, f"found {shown(value)}", f"Accepted: {_EXPECTED[kind]}")
    if kind in ("too_short", "string_too_short"):
        return Fault(path, "is empty", "Accepted: at least one element or character")
    bounds = [f"{text} {shown(context[name])}" for name, text in _BOUNDS.items() if name in context]
    return Fault(path, f"found {shown(value)}", "Accepted: " + (bounds[0] if bounds else entry["msg"]))


def nearest(word: str, known: list[str]) -> str:
    """Advice for an unknown name: the known one most like it, or all of them when none is alike."""
    close = closest(word, known)
    return f'Did you mean "{close}"?' if close else f"Known: {', '.join(sorted(known))}"


def _keys_at(table: type[BaseModel], loc: tuple) -> list[str]:
    """The keys that the table reached from `table` along `loc` (keys and list positions) accepts."""
    is_name = False  # the key is one that the user chose
    for key in loc:
        if isinstance(key, str) and not is_name:
            fields = {field.alias or name: field for name, field in table.model_fields.items()}
            annotation = fields[key].annotation
            table = _table_in(annotation) or table
            is_name = typing.get_origin(annotation) is dict
        elif isinstance(key, str):
            is_name = False
    return [field.alias or name for name, field in table.model_fields.items()]


def _table_in(annotation: object) -> type[BaseModel] | None:
    """The table class inside an annotation such as `list[Table]` or `Table | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inner = (_table_in(argument) for argument in typing.get_args(annotation))
    return next((table for table in inner if table is not None), None)


def key_text(path: tuple[str | int, ...]) -> str:
    """How a file shows a key: ("network", "dctcp", "gain") is `[network.dctcp] gain`."""
    numbers = [i for i, part in enumerate(path) if isinstance(part, int)]
    if numbers:
        i = numbers[0]
        key = ".".join(str(part) for part in path[i + 1 :])
        return f"[[{'.'.join(map(str, path[:i]))}]] {int(path[i]) + 1}{': ' + key if key else ''}"
    *table, key = map(str, path)
    return f"[{'.'.join(table)}] {key}" if table else f"[{key}]"


def place_of(
    source: Path, path: tuple[str | int, ...], overridden: set[tuple[str, ...]], lines: dict[tuple[str | int, ...], int]
) -> str:
    """Where a key is: its file, line, table and name, or the --set that it came from."""
    words = tuple(map(str, path))
    if any(words[: len(keys)] == keys for keys in overridden):
        return f"--set {'.'.join(words)}"
    line = line_of(path, lines)
    return f"{source}:{line}: {key_text(path)}" if line else f"{source}: {key_text(path)}"


def report(
    source: Path, faults: list[Fault], overridden: set[tuple[str, ...]], lines: dict[tuple[str | int, ...], int]
) -> ConfigError:  # fmt: skip
    """One error for all faults; a key that came from the command line is shown as its --set. lines: of the file."""
    entries = []
    for fault in dict.fromkeys(faults):
        where = place_of(source, fault.path, overridden, lines)
        entries.append(ConfigError(where, fault.found, fault.accepted))
    if len(entries) == 1:
        return entries[0]
    return ConfigError(str(source), f"{len(entries)} faults" + "".join(f"\n  {entry}" for entry in entries))
