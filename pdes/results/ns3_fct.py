"""Flow completion times in ns-3's fct.txt: `sip dip sport dport bytes start_ns fct_ns standalone_fct_ns`.

Addresses are 0b, the node's id in the middle two bytes, 01, as HPCC writes them. Source ports of flows count from 10000
per pair of hosts, in the order in which the flows started; 100 is the other port. Times are cut off to ns.
"""

from pathlib import Path

import numpy as np

from pdes.errors import ConfigError
from pdes.results.opened import readable
from pdes.results.tables import read_table
from pdes.units import PS_PER_NS

COLUMNS = ("src", "dst", "size_bytes", "start_ps", "finish_ps", "ideal_fct_ps")
FIRST_SPORT, DPORT = 10000, 100


def write_fct(folder: Path, output: Path) -> Path:
    """Write the flows of a result folder that have ended, in the order of their ends. Raises ConfigError."""
    path = folder / "flows.parquet"
    if not path.is_file():
        raise ConfigError(str(folder), "has no flows.parquet", "a result folder")
    with readable(folder):
        groups = list(read_table(path, COLUMNS))
    flows = {name: np.concatenate([np.zeros(0, np.int64), *(group[name] for group in groups)]) for name in COLUMNS}
    by_start = np.lexsort((np.arange(len(flows["src"])), flows["start_ps"]))
    sport, seen = np.zeros(len(by_start), np.int64), {}
    for i in by_start.tolist():
        key = int(flows["src"][i]), int(flows["dst"][i])
        seen[key] = seen.get(key, -1) + 1
        sport[i] = FIRST_SPORT + seen[key]
    ended = np.flatnonzero(flows["finish_ps"] >= 0)
    lines = []
    for i in ended[np.lexsort((ended, flows["finish_ps"][ended]))].tolist():
        src, dst, size_bytes, start_ps, finish_ps, ideal_ps = (int(flows[name][i]) for name in COLUMNS)
        times = start_ps // PS_PER_NS, (finish_ps - start_ps) // PS_PER_NS, ideal_ps // PS_PER_NS
        lines.append(f"{address(src)} {address(dst)} {sport[i]} {DPORT} {size_bytes} {times[0]} {times[1]} {times[2]}")
    try:
        output.write_text("".join(f"{line}\n" for line in lines))
    except OSError as error:
        raise ConfigError(str(output), f"cannot be written: {error.strerror}", "a file name in a folder") from error
    return output


def address(node: int) -> str:
    """A node's address as ns-3's scripts make it: 11.x.y.1 in hex, x and y from its id."""
    return f"0b{node // 256 % 256:02x}{node % 256:02x}01"
