"""What the keys of a config mean, read from the schema itself: for `pdes-sim explain` and for documentation.

Nothing is said twice: types, bounds and defaults are the schema's own, and what is accepted is what an error would say.
"""

import difflib
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from pdes.config import LAW_TABLES, Config
from pdes.config.faults import faults_of
from pdes.config.fields import Table
from pdes.config.topology import TOPOLOGY_KINDS
from pdes.config.workload import WORKLOAD_KINDS
from pdes.errors import ConfigError
from pdes.units import exact_duration, exact_rate, exact_size, shown

UNITS = {"_ps": "a duration", "_bytes": "a size", "_bps": "a rate"}
_EXACT = {"_ps": exact_duration, "_bytes": exact_size, "_bps": exact_rate}
_BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
NAME = "NAME"  # stands for one that the user chooses
MOST_NEAR = 4


@dataclass(frozen=True)
class Key:
    """One key. path: table and keys. kinds: of the topology or the workload that have it, () if all.

    default: as a file would write it; "" if there is none and the key has to be given. source: where the schema has it.
    """

    path: tuple[str, ...]
    kinds: tuple[str, ...]
    meaning: str
    unit: str
    default: str
    accepted: str
    source: str
    is_table: bool

    @property
    def name(self) -> str:
        """ "network.payload"."""
        return ".".join(self.path)


class _Nonsense:
    """A value that nothing accepts."""

    def __repr__(self) -> str:
        return "nonsense"


def all_keys() -> list[Key]:
    """Every key, in the order of the schema; one for each kind that has it with another meaning."""
    found: dict[tuple[Any, ...], Key] = {}
    for name, field in Config.model_fields.items():
        kinds = {"topology": TOPOLOGY_KINDS, "workload": WORKLOAD_KINDS}.get(name)
        tables = kinds.items() if kinds else [("", field.annotation)]
        found[name,] = Key((name,), (), field.description or "", "", "", "a table", _source(Config), True)
        for kind, table in tables:
            assert isinstance(table, type) and issubclass(table, Table)
            for key in _keys_of(table, (name,), kind):
                same = (key.path, key.meaning, key.unit, key.default, key.accepted, key.source)
                before = found.get(same)
                found[same] = key if before is None else _with_kinds(before, key.kinds)
    return list(found.values())


def _with_kinds(key: Key, kinds: tuple[str, ...]) -> Key:
    from dataclasses import replace

    return replace(key, kinds=(*key.kinds, *kinds))


def _keys_of(table: type[Table], path: tuple[str, ...], kind: str) -> Iterator[Key]:
    for name, field in table.model_fields.items():
        key = field.alias or name
        inner, is_named = _table_in(field.annotation)
        place = (*path, key)
        yield Key(
            place, (kind,) if kind else (), field.description or "", "" if inner else _unit(name, field),
            _default(table, name, field, inner is not None), _accepted(table, name, field, inner), _source(table),
            inner is not None,
        )  # fmt: skip
        if inner is not None:
            yield from _keys_of(inner, (*place, NAME) if is_named else place, kind)


def _table_in(annotation: Any) -> tuple[type[Table] | None, bool]:
    """(the table class inside an annotation, whether it is one of several that the user names)."""
    if isinstance(annotation, type) and issubclass(annotation, Table):
        return annotation, False
    is_named = typing.get_origin(annotation) is dict
    for argument in typing.get_args(annotation):
        table, is_inner_named = _table_in(argument)
        if table is not None:
            return table, is_named or is_inner_named
    return None, False


def _unit(name: str, field: FieldInfo) -> str:
    for suffix, unit in UNITS.items():
        if name.endswith(suffix):
            return unit
    return "operations per second" if "flops" in name.lower() and _accepts_text(field) else ""


def _accepts_text(field: FieldInfo) -> bool:
    return any("parse_flops" in repr(getattr(one, "func", one)) for one in _metadata(field))


def _metadata(field: FieldInfo) -> list[Any]:
    """Of the field and of what it annotates."""
    found, open_ones = list(field.metadata), [field.annotation]
    while open_ones:
        one = open_ones.pop()
        found += getattr(one, "__metadata__", ())
        open_ones += typing.get_args(one)
    return found


def _default(table: type[Table], name: str, field: FieldInfo, is_table: bool) -> str:
    extra = field.json_schema_extra
    if isinstance(extra, dict) and "same_as" in extra:
        return f"as {table.model_fields[str(extra['same_as'])].alias or extra['same_as']}"
    value = field.default
    if value is PydanticUndefined or is_table:
        return ""
    if value is None:
        return shown("auto") if "auto" in _accepted(table, name, field, None) else "not given"
    if isinstance(value, int) and not isinstance(value, bool):
        suffix = next((end for end in _EXACT if name.endswith(end)), None)
        return shown(_EXACT[suffix](value)) if suffix else shown(value)
    return shown(list(value)) if isinstance(value, tuple) else shown(value)


def _accepted(table: type[Table], name: str, field: FieldInfo, inner: type[Table] | None) -> str:
    """What an error about this key would say, with its bounds."""
    if inner is not None:
        return "a list of tables" if "list[" in str(field.annotation) else "a table"
    key = field.alias or name
    try:
        table.model_validate({key: _Nonsense()})
    except ValidationError as error:
        mine = [fault for fault in faults_of(error, table, "x") if fault.path[1:2] == (key,)]
        text = mine[0].accepted.removeprefix("Accepted: ") if mine else ""
    else:
        text = ""
    bounds = [f"{words} {shown(getattr(one, end))}" for one in _metadata(field) for end, words in _BOUNDS.items()
              if getattr(one, end, None) is not None]  # fmt: skip
    return ", ".join([text, *dict.fromkeys(bounds)]) if text else ", ".join(bounds)


def _source(table: type[BaseModel]) -> str:
    return f"{table.__module__.replace('.', '/')}.py, {table.__name__}"


def find(text: str) -> list[Key]:
    """The keys that a text names: "network.payload", "[network] payload", "payload", or a table, with all in it.

    Raises ConfigError that names the nearest ones.
    """
    keys, wanted = all_keys(), text.replace("[", " ").replace("]", " ").strip().replace(" ", ".")
    parts = tuple(part for part in wanted.split(".") if part)
    if parts[:1] == ("network",) and parts[1:2] and parts[1] in LAW_TABLES:
        keys += _control_keys(parts[1])
    exact = [key for key in keys if _fits(key.path, parts)]
    if exact and exact[0].is_table:
        return [key for key in keys if _fits(key.path[: len(parts)], parts)]
    found = exact or [key for key in keys if len(parts) and _fits(key.path[-len(parts) :], parts)]
    if found:
        return found
    raise ConfigError(f"explain {text}", "no such key", f"Accepted: {', '.join(_near(parts, keys))}")


def _control_keys(table: str) -> list[Key]:
    """Parameters of a built-in congestion control, as its class has them."""
    from models.congestion.law import find_law
    from models.congestion.parameters import key_of, unit_of

    control, found = find_law(table).control, []
    source = f"{control.__module__.replace('.', '/')}.py, {control.__name__}"
    for name, default in control.parameters.items():
        scaled = getattr(default, "at_100g", None)
        text = shown(default) if scaled is None else f"{shown(scaled)} at 100 Gbps, in proportion to the line rate"
        unit = UNITS.get(unit_of(name, default), "")
        meaning, accepted = f"parameter {name} of {control.__name__}; its file says more", unit or "as the default"
        found.append(Key(("network", table, key_of(name, default)), (), meaning, unit, text, accepted, source, False))
    return found


def _fits(path: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    return len(path) == len(parts) and all(one in (other, NAME) for one, other in zip(path, parts, strict=True))


def _near(parts: tuple[str, ...], keys: list[Key]) -> list[str]:
    """Names of keys that are spelled alike, by their last part and then in whole; the tables if none is."""
    last = parts[-1] if parts else ""
    lasts = difflib.get_close_matches(last, {key.path[-1] for key in keys}, n=MOST_NEAR, cutoff=0.6)
    names = [key.name for one in lasts for key in keys if key.path[-1] == one]
    names += difflib.get_close_matches(".".join(parts), [key.name for key in keys], n=MOST_NEAR, cutoff=0.7)
    return list(dict.fromkeys(names))[:MOST_NEAR] or [key.name for key in keys if len(key.path) == 1]
