"""Reading a config file: TOML, then overrides of single keys, then every table by itself, then all of them together."""

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pdes.config.byte_rates import byte_rate_warnings
from pdes.config.checks.together import cross_faults
from pdes.config.faults import faults_of, nearest, place_of, report
from pdes.config.overrides import override
from pdes.config.places import Path as KeyPath
from pdes.config.places import lines_of
from pdes.config.root import Config
from pdes.config.tables.fields import Fault, Table
from pdes.config.tables.network import NetworkConfig
from pdes.config.tables.sections import (
    CheckpointConfig,
    OutputConfig,
    PartitionConfig,
    RunConfig,
    SimulationConfig,
)
from pdes.config.tables.topology import TOPOLOGY_KINDS
from pdes.config.tables.workload import WORKLOAD_KINDS
from pdes.config.toml_file import read_toml
from pdes.config.wormhole.old_keys import renew
from pdes.config.wormhole.table import WormholeConfig
from pdes.errors import suggestion
from pdes.files import excesses
from pdes.units import shown

WITHIN = "Accepted: whole numbers of 64 bits, and tables as deep as the keys of a config"
ONLY_JOBS = "Accepted: a config without [cluster]; `pdes-sim config.toml` and `plan` take one with it"
Lines = dict[KeyPath, int]

_PLAIN_TABLES: dict[str, type[Table]] = {
    "simulation": SimulationConfig,
    "network": NetworkConfig,
    "partition": PartitionConfig,
    "wormhole": WormholeConfig,
    "checkpoint": CheckpointConfig,
    "run": RunConfig,
    "output": OutputConfig,
}
_KIND_TABLES = {"topology": TOPOLOGY_KINDS, "workload": WORKLOAD_KINDS}


def load_config(path: str | Path, overrides: list[str] | None = None) -> Config:
    """Read, override and check a config. overrides: "table.key=value", as after --set.

    Raises one ConfigError that lists every fault: file, table and key, what was found, what is accepted.
    """
    source = Path(path)
    data, text = read_toml(source)
    overridden = {override(data, text) for text in overrides or []}
    return config_from_dict(data, source, overridden, lines_of(text))


def config_from_dict(
    data: dict[str, Any],
    source: Path = Path("config.toml"),
    overridden: set[tuple[str, ...]] | None = None,
    lines: Lines | None = None,
) -> Config:
    """Check tables as TOML gives them. source: for texts and relative file names. Raises ConfigError as load_config.

    lines: where keys are in the file, as `places.lines_of` finds them.
    """
    extreme = [Fault(place if overridden else place[:4], f"is {found}", WITHIN) for place, found in excesses(data)]
    if extreme:
        raise report(source, extreme, overridden or set(), lines or {})
    if "cluster" in data:
        found = "jobs on a cluster have no packets, which this needs"
        raise report(source, [Fault(("cluster",), found, ONLY_JOBS)], overridden or set(), lines or {})
    names = [*_KIND_TABLES, *_PLAIN_TABLES]
    faults = [Fault((name,), "unknown table", _advice(name, names)) for name in data if name not in names]
    tables: dict[str, Table] = {}
    renewed = renew(data, overridden or set())
    for name in names:
        faults += _check_table(name, renewed.data, tables)
    faults += [*renewed.faults, *cross_faults(tables, source.parent)]
    faults = [_at_home(fault._replace(path=renewed.moved.get(fault.path, fault.path))) for fault in faults]
    if faults:
        raise report(source, faults, overridden or set(), lines or {})
    config = Config(**tables)  # pyright: ignore[reportArgumentType]
    config._source, config._lines = source, lines or {}
    config._warnings = byte_rate_warnings(data, source, overridden or set(), lines or {})
    for path, text in renewed.warnings:
        config._warnings.append(f"{place_of(source, path, overridden or set(), lines or {})}: {text}")
    return config


def _check_table(name: str, data: dict[str, Any], tables: dict[str, Table]) -> list[Fault]:
    """Validate one table; put it into `tables` if it is right, else return its faults."""
    content = data.get(name, {} if name in _PLAIN_TABLES else None)
    if content is None:
        return [Fault((name,), "this table is missing", _kind_choice(name))]
    if not isinstance(content, dict):
        return [Fault((name,), f"found {shown(content)}", f"Accepted: a table, [{name}]")]
    table = _PLAIN_TABLES.get(name) or _KIND_TABLES[name].get(str(content.get("kind")))
    if table is None:
        found = f"found {shown(content['kind'])}" if "kind" in content else "missing, and it has no default"
        meant = suggestion(content.get("kind"), _KIND_TABLES[name])
        return [Fault((name, "kind"), found, _kind_choice(name) + meant)]
    try:
        tables[name] = table.model_validate(content)
    except ValidationError as error:
        return faults_of(error, table, name)
    return []


def _advice(name: str, known: list[str]) -> str:
    below = [f"{home.removesuffix(']')}.{name}]" for home in _homes(name)]
    return f"It goes below another table: {' or '.join(below)}" if below else nearest(name, known)


def _at_home(fault: Fault) -> Fault:
    """Of a key that is unknown where it is, but known elsewhere, say where; of another kind's, which kinds have it."""
    homes = _homes(str(fault.path[-1])) if fault.found == "unknown key" else {}
    if not homes:
        return fault
    own = f"[{'.'.join(map(str, fault.path[:-1]))}]"
    places = [f"{home} of kind {' or '.join(map(shown, kinds))}" if home == own and kinds else home
              for home, kinds in homes.items()]  # fmt: skip
    likely = f"{fault.accepted} " if fault.accepted.startswith("Did you mean") else ""
    return fault._replace(accepted=f"{likely}It is a key of {' and of '.join(places)}")


def _homes(name: str) -> dict[str, list[str]]:
    """The one or two tables that have a key of this very name, and kinds that do. It takes a while: only of faults."""
    from pdes.config.keys import all_keys

    places: dict[str, list[str]] = {}
    for key in all_keys():
        if key.path[-1] == name and key.path[:-1]:
            kinds = places.setdefault(f"[{'.'.join(key.path[:-1])}]", [])
            kinds += [kind for kind in key.kinds if kind not in kinds]
    return places if len(places) <= 2 else {}


def _kind_choice(name: str) -> str:
    return "Accepted: kind = " + ", ".join(shown(kind) for kind in _KIND_TABLES[name])
