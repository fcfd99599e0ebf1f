"""A search from its file, or from Python values; all that can be wrong with the whole of it is said here."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pdes.config.overrides import keys_of, override, put
from pdes.config.places import lines_of
from pdes.config.search import LAYOUT_TABLE, SearchConfig, SearchFile
from pdes.config.sweep import SweepConfig
from pdes.config.toml_file import read_toml
from pdes.errors import ConfigError
from pdes.sweeps.design import Axis, axes_of
from pdes.sweeps.expression import Expression
from pdes.sweeps.load import checked_file, rows_of
from pdes.units import shown

ACCEPTED = "Accepted: table.key of the config, such as topology.nic_rate"


class Search(NamedTuple):
    """base: the config's tables, with `set`. source: its file. where: the search's own file."""

    config: SearchConfig
    base: dict[str, Any]
    source: Path
    axes: list[Axis]
    conditions: list[Expression]
    directory: Path
    where: str

    def overridden(self) -> set[tuple[str, ...]]:
        """Keys that the search sets."""
        return {tuple(key.split(".")) for key in (*LAYOUT_TABLE.values(), *(k for a in self.axes for k in a.keys))}


def load_search(path: str | Path, out: str | Path | None = None, overrides: list[str] | None = None) -> Search:
    """From a file. overrides: "search.final=3", as after --set. Raises ConfigError."""
    source = Path(path)
    data, text = read_toml(source)
    overridden = {override(data, word) for word in overrides or []}
    config = checked_file(SearchFile, data, source, overridden, lines_of(text)).search
    base_path = source.parent / config.config
    base, _ = read_toml(base_path)
    return make_search(config, base, base_path, Path(out or config.dir or Path("results") / source.stem), source)


def search_of(
    base: Mapping[str, Any], source: Path, layout: Mapping[str, Any], axes: Mapping[str, Any], out: str | Path,
    more: Mapping[str, Any],
) -> Search:  # fmt: skip
    """From Python values. layout: of [search.layout]. axes: values by key. more: keys of [search]."""
    where, own = Path("search"), {"config": str(source), "layout": dict(layout), "axis": rows_of(axes)}
    config = checked_file(SearchFile, {"search": own | dict(more)}, where, set(), {}).search
    return make_search(config, copy.deepcopy(dict(base)), source, Path(out), where)


def make_search(config: SearchConfig, base: dict[str, Any], base_path: Path, directory: Path, source: Path) -> Search:
    """ConfigError: something is wrong."""
    where = str(source)
    for key, value in config.set.items():
        put(base, keys_of(key, f"{where}: [search] set", ACCEPTED), value, f"{where}: [search] set, {key}")
    axes = _axes(config, where)
    for axis in axes:
        for key in axis.keys:
            keys_of(key, f"{where}: [[search.axis]]", ACCEPTED)
            if key in LAYOUT_TABLE.values():
                raise ConfigError(
                    f"{where}: [[search.axis]]", f"found {key}", "[search.layout] has what is of the layout"
                )
    if not axes and not config.layout.free():
        raise ConfigError(f"{where}: [search]", "nothing is free", "[search.layout], or [[search.axis]]")
    _check_base(base, base_path)
    conditions = [Expression(text, f"{where}: [search] where {i + 1}") for i, text in enumerate(config.where)]
    return Search(config, base, base_path, axes, conditions, directory, where)


def _axes(config: SearchConfig, where: str) -> list[Axis]:
    for i, axis in enumerate(config.axis):
        if axis.low is not None and axis.count is None:
            raise ConfigError(f"{where}: [[search.axis]] {i + 1}", "a range without `count`", "`count` of every range")
    if not config.axis:
        return []
    try:
        return axes_of(SweepConfig.model_construct(axis=config.axis), where)
    except ConfigError as error:
        raise ConfigError(error.where.replace("[[sweep.", "[[search."), error.found, error.accepted) from error


def _check_base(base: dict[str, Any], path: Path) -> None:
    """A search is for one training job whose computing is known kernel by kernel, and is run with packets at last."""
    workload = base.get("workload")
    if not isinstance(workload, dict) or workload.get("kind") != "training":
        found = "no training job" if not isinstance(workload, dict) else f"found {shown(workload.get('kind'))}"
        raise ConfigError(f"{path}: [workload] kind", found, '"training", for a search')
    compute = workload.get("compute")
    if not isinstance(compute, dict) or "gpu" not in compute:
        raise ConfigError(
            f"{path}: [workload.compute] gpu", "is missing", "a GPU type, whose memory a layout has to fit"
        )
    parallel = workload.get("parallel")
    if isinstance(parallel, dict) and "stage_tp" in parallel:
        found = "is there, and no closed form knows unequal tensor-parallel sizes"
        raise ConfigError(f"{path}: [workload.parallel] stage_tp", found, "none, for a search")
    wormhole = base.get("wormhole")
    if isinstance(wormhole, dict) and wormhole.get("mode") == "flow":
        raise ConfigError(
            f"{path}: [wormhole] mode", 'found "flow"', 'one with packets, such as "exact": a search ends with them'
        )
