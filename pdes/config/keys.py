"""Every key of the schema, with what it means, its unit, default and what it accepts. Nothing is said twice: types,
bounds and defaults are the schema's own, and what is accepted is what an error would say.
"""

import inspect
import typing
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from pdes.config.cluster.table import ClusterConfig, ClusterRun
from pdes.config.faults import faults_of
from pdes.config.root import Config
from pdes.config.search import SearchConfig, SearchFile
from pdes.config.sweep import SweepConfig, SweepFile
from pdes.config.tables.fields import Table
from pdes.config.tables.jobs import InputConfig, JobConfig, JobsConfig
from pdes.config.tables.topology import BY_GPUS, TOPOLOGY_KINDS
from pdes.config.tables.workload import WORKLOAD_KINDS
from pdes.units import exact_duration, exact_long_duration, exact_rate, exact_size, shown

UNITS = {"_ps": "a duration", "_us": "a duration", "_bytes": "a size", "_bps": "a rate"}
_EXACT = {"_ps": exact_duration, "_us": exact_long_duration, "_bytes": exact_size, "_bps": exact_rate}
_BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
NAME = "NAME"  # stands for one that the user chooses


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
        kinds = {
            "topology": [*TOPOLOGY_KINDS.items(), *BY_GPUS.items()], "workload": [*WORKLOAD_KINDS.items()],
        }.get(name)  # fmt: skip
        tables = kinds or [("", field.annotation)]
        found[name,] = Key((name,), (), field.description or "", "", "", "a table", _source(Config), True)
        for kind, table in tables:
            assert isinstance(table, type) and issubclass(table, Table)
            for key in _keys_of(table, (name,), kind):
                same = (key.path, key.meaning, key.unit, key.default, key.accepted, key.source)
                before = found.get(same)
                found[same] = key if before is None else _with_kinds(before, key.kinds)
    found["job",] = Key(("job",), (), JobsConfig.MEANING["job"], "", "", "a list of tables", _source(JobsConfig), True)
    found |= {key.path: key for key in _keys_of(JobConfig, ("job",), "") if key.path[2:] == ()}  # of [workload]: there
    found |= {key.path: key for key in _keys_of(InputConfig, ("job", "workload"), "input")}
    meaning = ClusterRun.MEANING["cluster"]
    found["cluster",] = Key(("cluster",), (), meaning, "", "", "a table", _source(ClusterRun), True)
    for key in _keys_of(ClusterConfig, ("cluster",), ""):
        found[key.path] = key
    for name, file, config in (("sweep", SweepFile, SweepConfig), ("search", SearchFile, SearchConfig)):
        found[name,] = Key((name,), (), file.MEANING[name], "", "", "a table", _source(file), True)
        found |= {key.path: key for key in _keys_of(config, (name,), "")}
    return list(found.values())


def _with_kinds(key: Key, kinds: tuple[str, ...]) -> Key:
    return replace(key, kinds=tuple(dict.fromkeys((*key.kinds, *kinds))))


def _keys_of(table: type[Table], path: tuple[str, ...], kind: str) -> Iterator[Key]:
    for name, field in sorted(table.model_fields.items(), key=lambda item: item[0] != "kind"):
        key = field.alias or name
        inner, is_named = _table_in(field.annotation)
        place = (*path, key)
        yield Key(
            place, (kind,) if kind else (), field.description or "", "" if inner else _unit(name, field),
            _default(table, name, field, inner is not None), _accepted(table, name, field, inner),
            _source(_home(table, name)),
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


def _home(table: type[Table], name: str) -> type[BaseModel]:
    """The class that a table has a field from."""
    return next(base for base in table.__mro__ if name in inspect.get_annotations(base))


def _source(table: type[BaseModel]) -> str:
    return f"{table.__module__.replace('.', '/')}.py, {table.__name__}"
