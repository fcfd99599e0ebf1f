"""One case, simulated: its jobs on a fabric of as many racks as they use, in packets or in flow mode.

The job that it is about runs some iterations, those beside it as many as last as long. Deviation from the cluster: its
other racks, and jobs that share nothing with this one, are not there.
"""

import hashlib
import json
import tempfile
from collections.abc import Mapping
from math import lcm
from typing import Any, NamedTuple

from pdes.cluster.iterations.fabric import topology_of
from pdes.cluster.iterations.memo import Entry
from pdes.cluster.iterations.shape import Part, Shape
from pdes.cluster.iterations.uplinks import without_uplinks

MOST_BESIDE = 200  # iterations of a job beside


class Bench(NamedTuple):
    """What cases of a pool run on. tables: of a config, but [topology] and jobs; rails: keys of [topology]. kinds:
    [workload] by kind. gpu: the pool's type, "" if workloads name theirs. folder: where file names are relative to.
    code: which program this is, as checkpoints have it.
    """

    tables: dict[str, Any]
    rails: dict[str, Any]
    kinds: Mapping[str, dict[str, Any]]
    gpus_per_server: int
    servers_per_rack: int
    gpu: str
    iterations: int
    folder: str
    code: str

    def key(self, shape: Shape) -> str:
        """A digest of all that the iteration time follows from."""
        kinds = {part.kind: self.kinds[part.kind] for part in shape.parts}
        found = [
            self.code, self.tables, self.rails, kinds, self.gpus_per_server, self.servers_per_rack,
            self.gpu, self.iterations, [part.where for part in shape.parts], [part.kind for part in shape.parts],
            *([shape.lost] if shape.lost else []),
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(found, sort_keys=True, default=str).encode()).hexdigest()[:32]


def tables_of(bench: Bench, shape: Shape, alone_ps: Mapping[int, int]) -> dict[str, Any]:
    """The config. alone_ps: what the parts beside, by number, take alone; for how often they run."""
    n_rack = 1 + max(rack for part in shape.parts for rack, _, _ in part.where)
    topology = topology_of(bench.rails, bench.gpus_per_server, bench.servers_per_rack, n_rack)
    taken: dict[tuple[int, int], int] = {}
    jobs = []
    for i, part in enumerate(shape.parts):
        iterations = bench.iterations
        if i:
            iterations = min(-(-bench.iterations * alone_ps[0] * 2 // max(alone_ps[i], 1)) + 1, MOST_BESIDE)
        jobs.append({
            "name": str(i), "gpus": _gpus(bench, part, taken), "iterations": iterations,
            "workload": _workload(bench, part),
        })  # fmt: skip
    output = {"dir": "results", "flows": False, "tasks": False}
    tables = bench.tables | {"topology": topology, "job": jobs, "output": output}
    return without_uplinks(tables, bench.folder, bench.servers_per_rack * bench.gpus_per_server, shape.lost)


def _gpus(bench: Bench, part: Part, taken: dict[tuple[int, int], int]) -> list[int]:
    """GPU numbers; of a server that several have, each takes the next ones."""
    found: list[int] = []
    for rack, server, n in part.where:
        first = (rack * bench.servers_per_rack + server) * bench.gpus_per_server + taken.get((rack, server), 0)
        found += range(first, first + n)
        taken[rack, server] = taken.get((rack, server), 0) + n
    return found


def _workload(bench: Bench, part: Part) -> dict[str, Any]:
    """The kind's, with as many replicas as there are GPUs for."""
    workload = json.loads(json.dumps(bench.kinds[part.kind]))
    parallel = workload["parallel"]
    parallel["dp"] = part.n_gpu // (parallel.get("tp", 1) * parallel.get("pp", 1) * parallel.get("cp", 1))
    if bench.gpu and "gpu" in workload.get("compute", {}):
        workload["compute"]["gpu"] = bench.gpu
    return workload


def share_of(workload: Mapping[str, Any]) -> int:
    """Of how many GPUs a job has a multiple: whole replicas, and whole groups of experts in every stage."""
    tp, pp, cp, ep, etp = (workload["parallel"].get(name, 1) for name in ("tp", "pp", "cp", "ep", "etp"))
    return pp * lcm(tp * cp, ep * etp)


def run(asked: tuple[dict[str, Any], str]) -> Entry:
    """Simulate a config's tables, and where its file names are relative to. Raises SimError. Called on any rank."""
    from pdes.config.values import make_config
    from pdes.results.fast_forward import how_sure_text
    from pdes.simulation import simulate

    tables, folder = asked
    with tempfile.TemporaryDirectory() as out:
        summary = simulate(make_config(tables, folder=folder), out).summary
    times_ps = summary["jobs"][0]["iteration_time_ps"]
    kept = times_ps[1:] or times_ps  # the first one fills pipelines
    return Entry(sum(kept) // len(kept), how_sure_text(summary) or "packets")
