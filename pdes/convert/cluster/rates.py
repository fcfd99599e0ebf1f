"""How fast the jobs of a trace are, by tables that belong to it: written as speeds.csv.

A rate is in steps per second of a kind of job on so many GPUs of a type.
"""

import csv
from collections.abc import Iterable
from typing import NamedTuple, TextIO

from pdes.convert.cluster.jobs import JobTable

COLUMNS = ("kind", "gpus", "gpu", "steps_per_s")
SPREAD = "spread_steps_per_s"
Key = tuple[str, int, str]
"""Kind, GPUs, type of GPU."""


class Rates(NamedTuple):
    """file: that has them. table: rates, above 0. spread: over more servers than needed. elastic: ranges by kind."""

    file: str
    table: dict[Key, float]
    spread: dict[Key, float] = {}
    elastic: dict[str, tuple[int, int]] = {}

    def types(self) -> list[str]:
        """Of GPU."""
        return sorted({gpu for _, _, gpu in self.table})

    def of(self, table: JobTable, rows: Iterable[int]) -> list[Key]:
        """The rates that these jobs ask for, in order; all of elastic kinds."""
        names = table.kind.names()
        asked = {(names[table.kind.column[i]], table.gpus[i]) for i in rows}
        kinds = {kind for kind, _ in asked}
        return sorted(key for key in self.table if key[:2] in asked or (key[0] in kinds and key[0] in self.elastic))


def write(file: TextIO, keys: Iterable[Key], rates: Rates) -> None:
    """The table of speeds that [cluster] takes; with a column of its own if speeds over several servers are known."""
    writer, chosen = csv.writer(file, lineterminator="\n"), list(keys)
    has_spread = any(key in rates.spread for key in chosen)
    writer.writerow((*COLUMNS, SPREAD) if has_spread else COLUMNS)
    for key in chosen:
        more = (rates.spread.get(key, ""),) if has_spread else ()
        writer.writerow((*key, rates.table[key], *more))
