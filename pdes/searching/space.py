"""All candidates: every choice of the axes, and on it every layout that is asked for."""

import copy
import json
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

from pdes.config.overrides import put
from pdes.config.search import LAYOUT_TABLE, MOST_CANDIDATES, WORDS
from pdes.errors import ConfigError
from pdes.searching.fabric import Fabric, make_fabric
from pdes.searching.load import Search

SIZES = ("tp", "pp", "cp", "dp")
MOST_MICROBATCH = 64


class Candidate(NamedTuple):
    """fabric: None if its axes are refused, for `reason`. values: key of the config -> value, of all that is free."""

    fabric: Fabric | None
    values: dict[str, Any]
    reason: str = ""

    @property
    def text(self) -> str:
        """Its values as JSON."""
        return json.dumps(self.values, default=str)


def tables_of(search: Search, values: dict[str, Any]) -> dict[str, Any]:
    """The config of a candidate."""
    data = copy.deepcopy(search.base)
    for key, value in values.items():
        put(data, tuple(key.split(".")), value, f"{search.where}: {key}")
    return data


def candidates(search: Search) -> list[Candidate]:
    """In a fixed order. ConfigError: there are none, or too many, or a key does not exist."""
    found = []
    for candidate in _all(search):
        found.append(candidate)
        if len(found) > MOST_CANDIDATES:
            raise ConfigError(
                f"{search.where}: [search]", f"more than {MOST_CANDIDATES:,} candidates", "fewer values, or `where`"
            )
    if not any(candidate.fabric for candidate in found):
        reason = f": {found[0].reason}" if found else ""
        raise ConfigError(f"{search.where}: [search]", f"there is no candidate{reason}", "a layout that fits the GPUs")
    return found


def _all(search: Search) -> Iterator[Candidate]:
    for point in product(*(axis.values for axis in search.axes)):
        pairs = zip(search.axes, point, strict=True)
        values = {key: own for axis, value in pairs for key, own in axis.items(value)}
        tables = tables_of(search, values)
        try:
            fabric = make_fabric(search, tables, values)
        except ConfigError as error:
            if error.found in ("unknown key", "unknown table"):
                raise
            yield Candidate(None, values, str(error))
            continue
        for layout in _layouts(search, fabric, tables["workload"]):
            own = values | {LAYOUT_TABLE[name]: value for name, value in layout.items()}
            if _holds(search, own, tables):
                yield Candidate(fabric, own)


def _holds(search: Search, values: dict[str, Any], tables: dict[str, Any]) -> bool:
    def value_of(key: str) -> Any:
        if key in values:
            return values[key]
        found: Any = tables
        for part in key.split("."):
            if not isinstance(found, dict) or part not in found:
                raise KeyError(key)
            found = found[part]
        return found

    return all(condition.holds(value_of) for condition in search.conditions)


def _layouts(search: Search, fabric: Fabric, workload: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Name -> value of what is free, and of dp where it follows from what is."""
    free = search.config.layout.free()
    rest = [name for name in ("etp", "ep", "microbatch", "vpp", "recompute", "zero", "placement") if name in free]
    for sizes in _sizes(free, fabric, workload.get("parallel") or {}):
        known = (workload.get("parallel") or {}) | {"microbatch": workload.get("microbatch", 1)} | sizes
        yield from _rest(rest, free, fabric, known, sizes)


def _sizes(free: dict[str, Any], fabric: Fabric, parallel: dict[str, Any]) -> Iterator[dict[str, int]]:
    n_gpu, layers = fabric.topology.n_host, fabric.shape.layers
    if not any(name in free for name in SIZES):
        yield {}
        return
    auto = {
        "tp": divisors(fabric.per_server), "cp": divisors(fabric.per_server),
        "pp": [n for n in divisors(n_gpu) if n <= layers],
    }  # fmt: skip

    def choices(name: str) -> Sequence[int]:
        chosen = free.get(name, [parallel.get(name, 1)])
        return auto[name] if chosen == "auto" else chosen

    asked = free.get("dp", "auto")
    for tp, pp, cp in product(*(choices(name) for name in ("tp", "pp", "cp"))):
        dp, left = divmod(n_gpu, tp * pp * cp)
        if not left and dp and (asked == "auto" or dp in asked):
            own = {"tp": tp, "pp": pp, "cp": cp}
            yield {name: size for name, size in own.items() if name in free} | {"dp": dp}


def _rest(
    names: list[str], free: dict[str, Any], fabric: Fabric, known: dict[str, Any], own: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """What is left, one after the other, as what is possible of one depends on those before."""
    if not names:
        yield own
        return
    name, choice = names[0], free[names[0]]
    for value in _auto(name, fabric, known) if choice == "auto" else choice:
        yield from _rest(names[1:], free, fabric, known | {name: value}, own | {name: value})


def _auto(name: str, fabric: Fabric, known: dict[str, Any]) -> Sequence[Any]:
    """What there is to choose from. Values that change nothing are left out."""
    shape = fabric.shape
    tp, pp, cp, dp, ep, etp = (known.get(size, 1) for size in ("tp", "pp", "cp", "dp", "ep", "etp"))
    if name == "etp":
        fitting = [n for n in divisors(fabric.per_server) if shape.d_expert % n == 0 == tp * cp * dp % n]
        return [1] if shape.is_dense else fitting
    if name == "ep":
        return [1] if shape.is_dense else [n for n in divisors(shape.n_expert) if tp * cp * dp // etp % n == 0]
    if name == "microbatch":
        most = fabric.batch // dp if fabric.batch else MOST_MICROBATCH // 8
        return [2**i for i in range(MOST_MICROBATCH.bit_length()) if 2**i <= most and most % 2**i == 0] or [1]
    if name == "vpp":
        size = known["microbatch"] if isinstance(known["microbatch"], int) else 1
        n_microbatch = fabric.batch // (dp * size) if fabric.batch else pp
        is_even = shape.layers % pp == 0 and n_microbatch % pp == 0
        return divisors(shape.layers // pp) if pp > 1 and fabric.schedule == "1f1b" and is_even else [1]
    if name == "recompute":
        return [word for word in WORDS[name] if word != "selective" or not fabric.is_flash]
    if name == "zero":
        has_copies = dp * cp > 1 or (not shape.is_dense and tp * dp * cp // (ep * etp) > 1)
        return (0, 1) if fabric.schedule == "dualpipe" and has_copies else (0, 1, 2, 3) if has_copies else (0,)
    return WORDS["placement"]


def divisors(n: int) -> list[int]:
    """Of a whole number from 1, ascending."""
    return [i for i in range(1, n + 1) if n % i == 0]
