"""ASTRA-sim's own times of collectives (analytical backends, 192 runs), and ours of the same inputs, packet by packet.

Used by `importers.py`. A ratio is ours over ASTRA-sim's congestion-aware backend where it has one (one dimension), else
over the unaware one, which lets messages that share a link each have the whole of it. Why they differ: ASTRA-sim sends
a message's bytes at once (here packets of 4096 B follow each other, and a hop ends a packet later); it delays each step
by the endpoint (10 ns) and a reduction by its way through memory (local-mem-bw), here neither; its double binary tree
is another than ours, and parts of a collective (4chunk) overlap over two dimensions there, here they do not.
"""

import csv
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from pdes import simulation
from pdes.config import load_config
from pdes.convert.astra_network import convert

PS_PER_NS = 1000
AWARE, UNAWARE = "cycles_ns_congestion_aware", "cycles_ns_congestion_unaware"


class Compared(NamedTuple):
    """One run."""

    network: str
    system: str
    collective: str
    size_bytes: int
    astra_ns: int
    is_aware: bool
    ours_ns: float

    @property
    def ratio(self) -> float:
        """Ours over ASTRA-sim's."""
        return self.ours_ns / self.astra_ns


def compare(folder: Path, largest_bytes: int) -> Iterator[Compared]:
    """Run every row of the golden results up to a size. folder: with et, net, sys and the results."""
    with (folder / "astra_analytical_golden.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        size_bytes, is_aware = int(row["size_bytes"]), row[AWARE].isdecimal()
        if size_bytes <= largest_bytes:
            yield Compared(
                row["network"], row["system"], row["collective"], size_bytes,
                int(row[AWARE if is_aware else UNAWARE]), is_aware, _run(folder, row) / PS_PER_NS,
            )  # fmt: skip


def _run(folder: Path, row: dict[str, str]) -> int:
    is_two = row["network"].startswith("switch8xring2")
    n_npu = 16 if is_two else 8
    with tempfile.TemporaryDirectory() as work:
        config = Path(work) / "case.toml"
        convert(
            folder / "net" / f"{row['network']}.yml",
            config,
            folder / "et" / f"{row['collective']}_{n_npu}n_{row['size_bytes']}",
            "chakra",
            system=folder / "sys" / f"{row['system']}_{2 if is_two else 1}d.json",
        )
        simulation.simulate(load_config(config, [f"output.dir={work}/out"]))
        return json.loads((Path(work) / "out" / "result.json").read_text())["iteration_time_ps"][0]


def summary(found: list[Compared]) -> dict[str, tuple[float, float, float, int]]:
    """(least, mean, largest ratio, runs) by system and collective."""
    keys = sorted({(c.system, c.collective) for c in found})
    ratios = {key: [c.ratio for c in found if (c.system, c.collective) == key] for key in keys}
    return {f"{s} {c}": (min(r), mean(r), max(r), len(r)) for (s, c), r in ratios.items()}
