"""Reading a config of the cluster level: as `pdes.config.load` does it, with the tables of its own."""

from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from pdes.config.cluster.table import ClusterRun
from pdes.config.faults import faults_of, nearest, place_of, report
from pdes.config.overrides import override
from pdes.config.places import lines_of, path_of
from pdes.config.tables.fields import Fault
from pdes.config.toml_file import read_toml
from pdes.errors import ConfigError
from pdes.files import excesses

TABLES = tuple(ClusterRun.model_fields)
WITHIN = "Accepted: whole numbers of 64 bits, and tables as deep as the keys of a config"


class Loaded(NamedTuple):
    """A checked config, and where it is from. stored: copies of files that it names, which a checkpoint has."""

    run: ClusterRun
    source: Path
    overridden: set[tuple[str, ...]]
    lines: dict[tuple[str | int, ...], int]
    stored: dict[str, Path] = {}

    def fault(self, key: str, found: str, accepted: str) -> ConfigError:
        """An error at a key such as "[cluster] jobs"."""
        where = place_of(self.source, path_of(key) or (key,), self.overridden, self.lines)
        return ConfigError(where, found, accepted)

    def input_path(self, name: str) -> Path:
        """A file that the config names, relative to its folder."""
        return self.stored.get(name) or self.source.parent / name

    def input_names(self) -> list[str]:
        """The files that it names."""
        cluster = self.run.cluster
        drawn = [failure for each in cluster.failure for failure in (each.gap, each.detection, each.repair)]
        files = [None if each is None else each.file for each in drawn]
        if cluster.arrivals is not None:
            files.append(cluster.arrivals.duration.file)
        scheduler, colon, _ = cluster.scheduler.rpartition(":")
        files += [cluster.jobs, cluster.speeds, scheduler if colon else None]
        return sorted({name for name in files if name is not None})


def is_cluster_config(path: str | Path) -> bool:
    """Whether the file is readable and has the table [cluster]; what is wrong with it is said elsewhere."""
    try:
        data, _ = read_toml(Path(path))
    except ConfigError:
        return False
    return "cluster" in data


def load_cluster(path: str | Path, overrides: list[str]) -> Loaded:
    """Read, override and check. Raises one ConfigError that lists every fault."""
    source = Path(path)
    data, text = read_toml(source)
    overridden = {override(data, word) for word in overrides}
    return cluster_from_dict(data, source, overridden, lines_of(text))


def cluster_from_dict(
    data: dict[str, Any], source: Path, overridden: set[tuple[str, ...]], lines: dict[tuple[str | int, ...], int]
) -> Loaded:  # fmt: skip
    """Check tables as TOML gives them. Raises ConfigError as load_cluster."""
    faults = [Fault(place[:4], f"is {found}", WITHIN) for place, found in excesses(data)]
    faults += [Fault((name,), "unknown table", nearest(name, list(TABLES))) for name in data if name not in TABLES]
    run = None if faults else _check(data, faults)
    if run is None:
        raise report(source, faults, overridden, lines)
    return Loaded(run, source, overridden, lines)


def _check(data: dict[str, Any], faults: list[Fault]) -> ClusterRun | None:
    for name in TABLES:
        if name in data and not isinstance(data[name], dict):
            faults.append(Fault((name,), f"found {data[name]!r}", f"Accepted: a table, [{name}]"))
    if faults:
        return None
    try:
        return ClusterRun.model_validate(data)
    except ValidationError as error:
        faults += [fault._replace(path=fault.path[1:]) for fault in faults_of(error, ClusterRun, "")]
        return None
