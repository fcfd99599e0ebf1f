"""Iteration times of jobs come from runs on the kind of fabric that is asked for, with racks and pods as they are."""

from pathlib import Path
from typing import Any

import pytest

import pdes
from models.cluster.job import Job, Request
from pdes.cluster.build import build
from pdes.cluster.iterations.fabric import racks_per_pod, topology_of
from pdes.cluster.run import run_cluster
from pdes.config.cluster.load import load_cluster
from pdes.config.values import make_config
from pdes.errors import ConfigError
from pdes.scenario.topology import build_topology
from reference.run_jobs import training_job, write

THREE = 'kind = "three-tier", edges_per_pod = 2, aggregations_per_pod = 2, cores = 2, link_rate = "100Gbps"'
FABRICS = {
    "roft": ('kind = "roft", nic_rate = "100Gbps", oversubscription = 2.0', {"servers_per_rail_switch": 2}),
    "dual-plane": (
        'kind = "dual-plane", nic_rate = "100Gbps", oversubscription = 2.0', {"servers_per_rail_switch": 2},
    ),
    "leaf-spine": (
        'kind = "leaf-spine", nic_rate = "100Gbps", oversubscription = 2.0', {"servers_per_rail_switch": 4},
    ),
    "fat-tree": ('kind = "fat-tree", nic_rate = "100Gbps", oversubscription = 2.0', {"servers_per_rail_switch": 4}),
    "three-tier": (THREE, {"hosts_per_edge": 4}),
}  # fmt: skip
JOBS = "job,submit_s,gpus,duration_s,kind\na,0,6,1000,dense\nc,0,6,1000,deep\n"


def simulate(config: Path, *sets: str) -> dict[str, Any]:
    return run_cluster(load_cluster(config, list(sets)), is_quiet=True)


def of_fabric(folder: Path, fabric: str, jobs: str = JOBS) -> Path:
    """The small cluster of 8 servers, 2 to a rack, on another fabric."""
    path = write(folder, jobs)
    text = path.read_text()
    path.write_text(text.replace('nic_rate = "100Gbps", oversubscription = 2.0', fabric))
    assert fabric in path.read_text()
    return path


@pytest.mark.parametrize("kind", FABRICS)
def test_times_are_those_of_runs_on_such_a_fabric(tmp_path: Path, kind: str) -> None:
    """Of a in racks 0 and 1, alone and beside c in racks 1 and 2: run here by hand on a fabric that is written out."""
    fabric, sizes = FABRICS[kind]
    result = simulate(of_fabric(tmp_path, fabric))
    times = {name: one["iteration_s"] for name, one in result["iteration_times"].items()}

    def mean_s(n_rack: int, *jobs: dict[str, Any]) -> float:
        rates = {"nic_rate": "100Gbps", "oversubscription": 2.0}
        if kind == "three-tier":
            rates = {"edges_per_pod": 2, "aggregations_per_pod": 2, "cores": 2, "link_rate": "100Gbps"}
        n_gpu = {} if kind == "three-tier" else {"gpus": 4 * n_rack}
        n_pod = {"pods": -(-n_rack // 2)} if kind == "three-tier" else {}
        topology = {"kind": kind, "gpus_per_server": 2, **rates, **sizes, **n_gpu, **n_pod}
        config = make_config({"topology": topology, "wormhole": {"mode": "flow"}, "job": list(jobs)})
        first = pdes.simulate(config, tmp_path / "by-hand").summary["jobs"][0]
        return sum(first["iteration_time_ps"][1:]) / 2e12

    assert times["dense 6 (rack 0: 2+2, rack 1: 2)"] == pytest.approx(
        mean_s(2, training_job("a", [*range(6)], 1, 3)), rel=1e-9
    )
    beside = next(name for name in times if name.startswith("dense") and "beside" in name)
    place = {"rack 2: 2+2, rack 1: 2": [8, 9, 10, 11, 6, 7]}
    (own,) = (gpus for text, gpus in place.items() if f"beside deep 6 ({text})" in beside)
    together = mean_s(3, training_job("a", [*range(6)], 1, 3), training_job("c", own, 2, 40))
    assert times[beside] == pytest.approx(together, rel=1e-9)


def test_a_rack_is_what_hangs_on_one_switch_and_pods_are_those_of_the_fabric() -> None:
    for kind in ("leaf-spine", "fat-tree", "three-tier"):
        rails = {"kind": kind} | (
            {"edges_per_pod": 2, "aggregations_per_pod": 1, "cores": 1} if kind == "three-tier" else {}
        )
        topology = build_topology(make_config({
            "topology": topology_of(rails, 8, 3, 4),
            "workload": {"kind": "poisson", "sizes": "web-search", "load": 0.1, "flows": 1},
        }))  # fmt: skip
        switch_of_host = {
            int(src): int(dst) for src, dst in zip(topology.port_src, topology.port_dst, strict=True)
            if not topology.is_switch[src]
        }  # fmt: skip
        of_rack = [{switch_of_host[int(topology.host[24 * rack + i])] for i in range(24)} for rack in range(4)]
        assert all(len(found) == 1 for found in of_rack) and len(set.union(*of_rack)) == 4
    assert racks_per_pod({"kind": "fat-tree"}, 8, 4) == 32  # as many edge switches in a pod as uplinks of each
    assert racks_per_pod({"kind": "fat-tree", "oversubscription": 4.0, "spine_rate": "400Gbps"}, 8, 4) == 2
    assert racks_per_pod({"kind": "three-tier", "edges_per_pod": 5}, 8, 4) == 5
    assert racks_per_pod({}, 8, 4) == racks_per_pod({"kind": "leaf-spine"}, 8, 4) == 0


def test_jobs_of_the_same_pods_slow_each_other_at_the_cores(tmp_path: Path) -> None:
    """Two pods of two racks: jobs without a common rack meet at the cores, and would not on a leaf-spine."""
    slowdown = {}
    for kind, fabric in (("three-tier", THREE), ("leaf-spine", 'kind = "leaf-spine", nic_rate = "100Gbps"')):
        built = build(load_cluster(of_fabric(tmp_path / kind, fabric), []))
        assert built.sharing is not None and built.runs is not None
        jobs = [Job(Request(i, str(i), 0, 8, 100, kind="dense")) for i in range(2)]
        for job, servers in zip(jobs, [(0, 1, 4, 5), (2, 3, 6, 7)], strict=True):
            job.place, job.n_held, job.pool = [(server, 2) for server in servers], 8, 0
            built.sharing.add(job)
        (beside,) = built.runs([built.sharing.case(jobs[0])])
        slowdown[kind] = built.runs.alone(jobs[0].request, 0, jobs[0].place) / beside
    assert slowdown["leaf-spine"] == 1.0 and slowdown["three-tier"] > 1.05


FAULTS = [
    ('kind = "torus", dims = [4, 4]', "[cluster.runs.fabric] kind", 'found "torus"'),
    ('kind = "file", file = "x"', "[cluster.runs.fabric] kind", "grow by racks"),
    ('kind = "fat-tree", k = 8', "[cluster.runs.fabric] k", "how many racks a case has"),
    ('kind = "leaf-spine", leaves = 8', "[cluster.runs.fabric] leaves", "how many racks a case has"),
    ('kind = "three-tier", pods = 8', "[cluster.runs.fabric] pods", "follows from the pools"),
    ('kind = "fat-tree", gpus = 8', "[cluster.runs.fabric] gpus", "follows from the pools"),
    ('kind = "fat-tree", nic_rate = "8"', "[cluster.runs.fabric] nic_rate", "8"),
    ('kind = "three-tier", cores = 2', "[[cluster.runs.kind]] 1", "edges_per_pod"),
    ('kind = "dual-plane", planes = 1', "[[cluster.runs.kind]] 1", "planes"),
]


@pytest.mark.parametrize(("fabric", "where", "found"), FAULTS)
def test_what_a_pool_cannot_have_is_said(tmp_path: Path, fabric: str, where: str, found: str) -> None:
    with pytest.raises(ConfigError) as error:
        simulate(of_fabric(tmp_path, fabric))
    assert where in str(error.value) and found in str(error.value)
