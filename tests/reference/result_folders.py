"""Result folders made by hand, of any size, for what reads them; and what a report's page has in it."""

import base64
import gzip
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from models.topology.graph import Topology
from pdes.results.iteration import TASK_KINDS
from pdes.results.summary import write_json
from pdes.results.tables import COLUMNS, UNWRITTEN, write_table

MS = 10**9
NETWORK = {"payload_bytes": 1000, "header_bytes": 48, "congestion_control": "dctcp"}
RUN = {"wall_seconds": 12.34, "loop_seconds": 10.0, "ranks": 2, "packet_hops_per_second": 3.12e7, "rounds": 99,
       "compute_seconds": [6.0, 4.0], "wait_seconds": [1.0, 3.0], "exchange_seconds": [0.5, 0.5]}  # fmt: skip
RESULT = {
    "simulated_time_ps": 100 * MS, "packet_hops": 312_000_000, "skipped_packet_hops": 0, "events": 400_000_000,
    "flows": 0, "iteration_time_ps": [], "topology": "made by hand", "workload": {"kind": "flows"},
    "config": {"network": NETWORK, "topology": {}, "workload": {}},
}  # fmt: skip


def make_folder(
    folder: Path,
    topology: Topology,
    result: Mapping[str, Any] | None = None,
    flows: Sequence[Mapping[str, Any]] = (),
    tasks: Sequence[tuple] = (),
    ports: Mapping[str, np.ndarray] | None = None,
    samples: Sequence[tuple[int, ...]] = (),
    run: Mapping[str, Any] | None = None,
) -> Path:
    """A complete folder. tasks: (gpu, iteration, kind, start_ps, end_ps). ports: columns that are not zero.

    flows: columns, zero if not given. samples: (time_ps, port_id, queue_bytes, paused), and
    tx_bytes, zero if not given.
    """
    folder.mkdir(parents=True, exist_ok=True)
    n_port, names = topology.n_port, list(topology.node_name)
    columns = {name: np.zeros(n_port, np.int64) for name in COLUMNS["ports"]} | {
        "port_id": np.arange(n_port), "node": topology.port_src, "peer": topology.port_dst,
        "rate_bps": topology.port_rate_bps,
    } | dict(ports or {})  # fmt: skip
    write_table(folder / "ports.parquet", "ports", [columns], {"node": names, "peer": names})
    _write_flows(folder / "flows.parquet", flows)
    task_columns = dict(zip(("gpu", "iteration", "kind", "start_ps", "end_ps"), _columns(tasks, 5), strict=True))
    task_columns["kind"] = np.array([TASK_KINDS.index(kind) for kind in task_columns["kind"].tolist()], np.int64)
    task_columns |= {"stream": np.zeros(len(tasks), np.int64), "bytes": np.zeros(len(tasks), np.int64)}
    write_table(folder / "tasks.parquet", "tasks", [task_columns], {"kind": TASK_KINDS, "stream": ["main"]})
    if samples:
        names = ("time_ps", "port_id", "queue_bytes", "paused", "tx_bytes")
        rows = [row + (0,) * (len(names) - len(row)) for row in samples]
        sampled = dict(zip(names, _columns(rows, len(names)), strict=True))
        write_table(folder / "samples_ports.parquet", "samples_ports", [sampled])
    write_json(folder / "run.json", RUN | dict(run or {}))
    write_json(folder / "result.json", RESULT | {"flows": len(flows)} | dict(result or {}))
    return folder


def _columns(rows: Sequence[tuple], n: int) -> list[np.ndarray]:
    return [np.array(column) for column in zip(*rows, strict=True)] if rows else [np.zeros(0, np.int64)] * n


def _write_flows(path: Path, flows: Sequence[Mapping[str, Any]]) -> None:
    tags = list(dict.fromkeys(flow.get("tag", "") for flow in flows)) or [""]
    columns = {
        name: np.array([flow.get(name, 0) for flow in flows], np.int64)
        for name in COLUMNS["flows"] if name not in ("tag", "flow_id", "fct_ps", "delivered_ps")
    }  # fmt: skip
    columns["tag"] = np.array([tags.index(flow.get("tag", "")) for flow in flows], np.int64)
    columns["delivered_ps"] = np.array([flow.get("delivered_ps", flow.get("finish_ps", UNWRITTEN)) for flow in flows])
    write_table(path, "flows", [{name: column.astype(np.int64) for name, column in columns.items()}], {"tag": tags})


def plots_of(page: str) -> dict[str, Any]:
    """The data of a page's plots."""
    return json.loads(unpacked(page, "plots"))


def unpacked(page: str, name: str) -> str:
    """Text that lies in a page packed."""
    found = re.search(rf'<script type="text/plain" id="{name}">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return gzip.decompress(base64.b64decode(found[1])).decode()


def rows_of(page: str) -> Iterable[list[str]]:
    """Text of the cells of every table row of a page."""
    for row in re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL):
        yield re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL)
