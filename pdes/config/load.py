"""Reading a config file: TOML, then overrides of single keys, then every table by itself, then all of them together."""

from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pdes.config.byte_rates import byte_rate_warnings
from pdes.config.calibration import with_calibration
from pdes.config.checks.together import cross_faults
from pdes.config.faults import faults_of, nearest, place_of, report
from pdes.config.overrides import override
from pdes.config.places import Path as KeyPath
from pdes.config.places import lines_of
from pdes.config.root import Config
from pdes.config.tables.fields import Fault, Table
from pdes.config.tables.jobs import JOB_KINDS, JobConfig, JobsConfig
from pdes.config.tables.network import NetworkConfig
from pdes.config.tables.sections import (
    CheckpointConfig,
    OutputConfig,
    PartitionConfig,
    RunConfig,
    SimulationConfig,
)
from pdes.config.tables.topology import BY_GPUS, TOPOLOGY_KINDS, topology_table
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
    calibrated = with_calibration(data, source)
    data, has_jobs = calibrated.data, "job" in data
    names = [name for name in (*_KIND_TABLES, *_PLAIN_TABLES) if not (has_jobs and name == "workload")]
    faults = [Fault((name,), "unknown table", _advice(name, names)) for name in data if name not in (*names, "job")]
    tables: dict[str, Table] = {}
    renewed = renew(data, overridden or set())
    for name in names:
        faults += _check_table(name, renewed.data, tables)
    if has_jobs:
        faults += _check_jobs(data, tables)
    faults += [*renewed.faults, *cross_faults(tables, source.parent)]
    faults = [_at_home(fault._replace(path=renewed.moved.get(fault.path, fault.path))) for fault in faults]
    if calibrated.file is not None and (theirs := [fault for fault in faults if calibrated.has(fault.path)]):
        raise report(calibrated.file, theirs, set(), calibrated.lines)
    if faults:
        raise report(source, faults, overridden or set(), lines or {})
    config = Config(**tables)  # pyright: ignore[reportArgumentType]
    config._source, config._lines, config._alignment = source, lines or {}, calibrated.alignment
    config._warnings = byte_rate_warnings(data, source, overridden or set(), lines or {})
    for path in calibrated.kept:
        where = place_of(source, path, overridden or set(), lines or {})
        config._warnings.append(f"{where}: stands, though {calibrated.file} has another value")
    for path, text in renewed.warnings:
        config._warnings.append(f"{place_of(source, path, overridden or set(), lines or {})}: {text}")
    return config


def _check_jobs(data: dict[str, Any], tables: dict[str, Table]) -> list[Fault]:
    """Validate [[job]], each with its workload by kind, and put them into `tables` as the workload."""
    if "workload" in data:
        return [Fault(("workload",), "is there, and so is [[job]]", "Accepted: one of the two")]
    rows, faults, jobs = data["job"], [], []
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        return [Fault(("job",), f"found {shown(rows)}", "Accepted: tables, each under [[job]], with two brackets")]
    for i, row in enumerate(rows):
        own: dict[str, Table] = {}
        found = _check_kind("workload", row.get("workload"), own, JOB_KINDS)
        faults += [fault._replace(path=("job", i, *fault.path)) for fault in found]
        try:
            rest = {key: value for key, value in row.items() if key != "workload"}
            jobs.append(JobConfig.model_validate(rest | ({"workload": own["workload"]} if own else {})))
        except ValidationError as error:
            wrong = [fault._replace(path=("job", i, *fault.path[1:])) for fault in faults_of(error, JobConfig, "job")]
            faults += [fault for fault in wrong if fault.path != ("job", i, "workload")]
    if not faults:
        tables["workload"] = JobsConfig(job=jobs)
    return faults


def _check_table(name: str, data: dict[str, Any], tables: dict[str, Table]) -> list[Fault]:
    """Validate one table; put it into `tables` if it is right, else return its faults."""
    content = data.get(name, {} if name in _PLAIN_TABLES else None)
    return _check_kind(name, content, tables, _KIND_TABLES.get(name, {}))


def _check_kind(name: str, content: Any, tables: dict[str, Table], kinds: dict[str, type[Table]]) -> list[Fault]:
    """Validate what may be a table, by its kind if it is of a name that has some."""
    if content is None:
        return [Fault((name,), "this table is missing", _kind_choice(kinds))]
    if not isinstance(content, dict):
        return [Fault((name,), f"found {shown(content)}", f"Accepted: a table, [{name}]")]
    of_kind = topology_table(content) if name == "topology" else kinds.get(str(content.get("kind")))
    table = _PLAIN_TABLES.get(name) or of_kind
    if table is None:
        found = f"found {shown(content['kind'])}" if "kind" in content else "missing, and it has no default"
        meant = suggestion(content.get("kind"), kinds)
        return [Fault((name, "kind"), found, _kind_choice(kinds) + meant)]
    try:
        tables[name] = _validated(table, _Content(content))
    except ValidationError as error:
        return [_of_other_form(fault, name, content) for fault in faults_of(error, table, name)]
    return []


class _Content:
    """What a config says of a table, to be looked up by: of two that are written alike, types of values too."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.content, self.text = content, repr(content)

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Content) and self.text == other.text and _is_plain(self.content)


def _is_plain(value: Any) -> bool:
    """Whether its text tells all of it."""
    if type(value) is dict:
        return all(type(key) is str and _is_plain(inner) for key, inner in value.items())
    return all(map(_is_plain, value)) if type(value) is list else type(value) in (str, int, float, bool)


@lru_cache(maxsize=256)
def _validated(table: type[Table], given: _Content) -> Table:
    """A table, one for all configs that say the same of it: tables do not change. Raises ValidationError."""
    given.content = deepcopy(given.content)  # the caller's may change
    return table.model_validate(given.content)


def _of_other_form(fault: Fault, name: str, content: dict[str, Any]) -> Fault:
    """Of a topology whose sizes follow from its GPUs: keys that give the sizes themselves; of one without, its keys."""
    if name != "topology" or fault.found != "unknown key":
        return fault
    other = (TOPOLOGY_KINDS if "gpus" in content else BY_GPUS).get(str(content.get("kind")))
    if other is None or fault.path[-1] not in _names(other):
        return fault
    if "gpus" in content:
        return fault._replace(found="is there, and so is gpus", accepted="Accepted: one of the two")
    return fault._replace(found="is there, and gpus is not", accepted="Accepted: with gpus, which sizes follow from")


def _names(table: type[Table]) -> set[str]:
    return {field.alias or name for name, field in table.model_fields.items()}


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


def _kind_choice(kinds: dict[str, type[Table]]) -> str:
    return "Accepted: kind = " + ", ".join(map(shown, kinds))
