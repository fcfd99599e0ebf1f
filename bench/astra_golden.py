"""ASTRA-sim's own times of collectives (analytical backends, 192 runs), and ours of the same inputs, packet by packet.

Used by `importers.py`. Ratios are ours over ASTRA-sim's, of both its backends. Why they differ: ASTRA-sim delays each
step by the endpoint (10 ns) and a reduction by its way through memory (local-mem-bw), here neither; here a message is
packets of 4096 B that follow each other, there the congestion-aware backend passes a message on when all of it is there
(twice the time over a switch, and over n links n times), and the unaware one lets messages that share a link each have
the whole of it. Its double binary tree is another than ours. Parts of a collective (4chunk) overlap over two dimensions
there, here they do not.
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
    """One run. aware_ns: 0 where that backend cannot run it."""

    network: str
    system: str
    collective: str
    size_bytes: int
    unaware_ns: int
    aware_ns: int
    ours_ns: float

    @property
    def ratios(self) -> list[float]:
        """Ours over ASTRA-sim's: the unaware backend, then the aware one if it has run this."""
        return [self.ours_ns / ns for ns in (self.unaware_ns, self.aware_ns) if ns]

    @property
    def is_near(self) -> bool:
        """Within 10 % of one of them."""
        return any(0.9 <= ratio <= 1.1 for ratio in self.ratios)


def compare(folder: Path, largest_bytes: int) -> Iterator[Compared]:
    """Run every row of the golden results up to a size. folder: with et, net, sys and the results."""
    with (folder / "astra_analytical_golden.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        aware_ns = int(row[AWARE]) if row[AWARE].isdecimal() else 0
        if int(row["size_bytes"]) <= largest_bytes:
            yield Compared(
                row["network"], row["system"], row["collective"], int(row["size_bytes"]), int(row[UNAWARE]), aware_ns,
                _run(folder, row) / PS_PER_NS,
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


def summary(found: list[Compared]) -> dict[tuple[str, str], tuple[int, float, float, int]]:
    """By network and system: runs, mean ratio to the unaware backend, to the aware one (0: none), runs near to one."""
    groups: dict[tuple[str, str], list[Compared]] = {}
    for one in found:
        groups.setdefault((one.network, one.system), []).append(one)
    return {
        key: (
            len(ones),
            mean(c.ratios[0] for c in ones),
            mean([c.ratios[1] for c in ones if c.aware_ns] or [0.0]),
            sum(c.is_near for c in ones),
        )
        for key, ones in groups.items()
    }
