"""Running one ns-3 case: on the engine through `pdes-sim convert`, and on the plain twin, whose results are kept."""

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from models.network.model import LogicalProcesses, NetworkModel
from models.network.state.records import FLOW_COLUMNS, PACKET_HOPS
from models.network.watch.results import port_columns
from pdes.config import load_config
from pdes.convert.ns3 import convert
from pdes.engine.exchange import World
from pdes.engine.round import make_loop, run_rounds
from pdes.engine.time_index import NEVER
from pdes.errors import ConfigError
from pdes.scenario import Scenario, build_scenario
from reference.ns3_twin import read_case, simulate

HERE = Path(__file__).resolve().parent

CASE_FILES = ("config.txt", "flow.txt", "nexthops.txt", "paths.txt", "topology.txt")
TWIN_SOURCES = (*sorted((HERE / "ns3_twin").glob("*.py")), HERE.parents[1] / "pdes" / "engine" / "rng.py")
FORMAT = "3"  # of a cached result
PS_PER_NS = 1000
UNFINISHED = -1


@dataclass(frozen=True)
class Outcome:
    """What a run gave. Per flow, in the order of flow.txt: fct_ns, UNFINISHED if so; dropped: per node; the rest: per
    port, by the engine's ids.
    """

    fct_ns: list[int]
    dropped: list[int]  # packets that found no buffer: the engine books them at the port out, the twin at the port in
    lost: list[int]  # on the port's link
    pauses: list[int]  # pause frames that the port got
    marked: list[int]
    seconds: float


def find_cases(folder: Path) -> list[Path]:
    """All FOLDER/<case>/<cc>/ with the files that `convert` needs, sorted."""
    return sorted(path.parent for path in folder.glob("*/*/config.txt") if (path.parent / "flow.txt").is_file())


def work_of(case: Path) -> int:
    """Bytes times hops of a case, as far as its paths are known: what a run costs."""
    sizes = [int(line.split()[4]) for line in (case / "flow.txt").read_text().splitlines() if len(line.split()) >= 6]
    paths = case / "paths.txt"
    hops = [line.split()[5].count("-") for line in _rows(paths)] if paths.is_file() else []
    return sum(size * (hops[i] if i < len(hops) else 1) for i, size in enumerate(sizes))


def answers_of(case: Path) -> list[int] | None:
    """ns-3's own fct of every flow of flow.txt, by fct.txt; None: the folder has no answers.

    UNFINISHED where fct.txt says so, or has no row: ns-3 writes a row when a flow ends. ConfigError: the two differ.
    """
    path = case / "fct.txt"
    if not path.is_file():
        return None
    n_flow = int((case / "flow.txt").read_text().split()[0])
    found: dict[int, int] = {}
    for row in map(str.split, _rows(path)):
        if len(row) < 8 or not row[0].isdecimal() or int(row[0]) >= n_flow or int(row[0]) in found:
            accepted = f"one row each of flows 0 to {n_flow - 1}: flow src dst sport dport bytes start_ns fct_ns"
            raise ConfigError(str(path), f"found '{' '.join(row)}'", f"Accepted: {accepted}")
        found[int(row[0])] = int(row[7]) if row[7].isdecimal() else UNFINISHED
    return [found.get(flow, UNFINISHED) for flow in range(n_flow)]


def _rows(path: Path) -> Iterable[str]:
    return (line for line in path.read_text().splitlines() if line.strip() and not line.startswith("#"))


def run_engine(case: Path, is_native: bool = False) -> tuple[Outcome, int]:
    """(results, packet-hops) of a case on one rank, by ns-3's rules or by our own. Compiling does not count."""
    with tempfile.TemporaryDirectory() as folder:
        convert(case, Path(folder) / "case.toml", is_native)
        scenario = build_scenario(load_config(Path(folder) / "case.toml"))
    fct_ns = [UNFINISHED] * scenario.plan.n_flow
    start, finish = FLOW_COLUMNS.index("start_ps"), FLOW_COLUMNS.index("finish_ps")

    def take_rows(flow: np.ndarray, arrival: np.ndarray, task: np.ndarray, spent: np.ndarray) -> None:
        for row in flow.tolist():
            fct_ns[row[0]] = (row[finish] - row[start]) // PS_PER_NS

    model = _model(scenario, take_rows)
    model.compile()
    loop = make_loop(scenario.lookahead_ps, NEVER - 1 if scenario.stop_ps is None else scenario.stop_ps)
    begin_s = time.perf_counter()
    run_rounds(model, loop, model.exchange)
    model.flush()
    seconds = time.perf_counter() - begin_s
    ports = port_columns(model.state, scenario.topology, model.rank_of_node, 0)
    columns = [ports[name].tolist() for name in ("drops_loss", "pause_frames", "ecn_marks")]
    dropped = _by_node(scenario.topology.port_src, ports["drops_buffer"], scenario.topology.n_node)
    return Outcome(fct_ns, dropped, *columns, seconds=seconds), int(model.state.fabric.counters[PACKET_HOPS])


def _by_node(node: Sequence[int] | np.ndarray, count: Sequence[int] | np.ndarray, n_node: int) -> list[int]:
    total = np.zeros(n_node, np.int64)
    np.add.at(total, np.asarray(node), np.asarray(count))
    return total.tolist()


def _model(s: Scenario, take_rows) -> NetworkModel:
    rank_of_lp = np.zeros(s.n_lp, np.int64)
    return NetworkModel(
        s.topology,
        s.paths,
        s.plan,
        s.max_window_bytes,
        LogicalProcesses(s.lp_of_node, rank_of_lp, s.lookahead_ps),
        World(),
        s.parameters,
        take_rows,
    )


def run_twin(case: Path, tie: str, cache: Path) -> Outcome:
    """The twin's results under a tie rule, from the cache if twin and case are the same. ValueError: not its kind."""
    place = cache / f"{_digest(case, tie)}.json"
    if place.is_file():
        return Outcome(**json.loads(place.read_text()))
    begin_s = time.perf_counter()
    ns3_case = read_case(case)
    result = simulate(ns3_case, tie=tie)
    ports = result.ports
    outcome = Outcome(
        fct_ns=list(result.fct_ns),
        dropped=_by_node([port.dst for port in ports], [port.dropped for port in ports], ns3_case.n_node),
        lost=[port.lost for port in ports],
        pauses=[port.pauses_received for port in ports],
        marked=[port.marked for port in ports],
        seconds=time.perf_counter() - begin_s,
    )
    cache.mkdir(parents=True, exist_ok=True)
    unfinished = place.with_suffix(f".{os.getpid()}")
    unfinished.write_text(json.dumps(asdict(outcome)))
    unfinished.replace(place)
    return outcome


def _digest(case: Path, tie: str) -> str:
    """Of all that decides the twin's results."""
    digest = hashlib.sha256(f"{FORMAT} {tie}".encode())
    for path in (*TWIN_SOURCES, *(case / name for name in CASE_FILES)):
        digest.update(path.name.encode() + b"\0" + (path.read_bytes() if path.is_file() else b"") + b"\0")
    return digest.hexdigest()
