"""Measured collectives as cases: which cluster ran them, and which rows the simulator's constants were fitted to."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MIB = 2**20
PEAK_BYTES = 2**34  # for rows that state a peak and no size


@dataclass(frozen=True)
class Cluster:
    """nic_gbps: per GPU. options: keys of the collective."""

    gpu: str
    n_server: int
    per_server: int
    nic_gbps: int = 400
    transport: str = "infiniband"
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Case:
    """A measured row. is_fitted: constants were fitted to it, so that it proves little."""

    dataset: str
    cluster: Cluster
    operation: str
    size_bytes: int
    busbw_gb_per_s: float  # 0: not stated
    time_us: float
    is_fitted: bool

    @property
    def bus_factor(self) -> float:
        """Bus bandwidth over size / time, as nccl-tests has it."""
        n = self.cluster.n_server * self.cluster.per_server
        half = (n - 1) / n
        return {"all-reduce": 2 * half, "point-to-point": 1.0}.get(self.operation, half)


RING = (("algorithm", '"ring"'), ("nvls", "false"))
NVLS = (("algorithm", '"nvls"'),)
TREE = (("algorithm", '"tree"'),)
SHARP = (("algorithm", '"sharp"'),)
FITTED = {"A100-8", "H100-8", "H200-8", "B200-8", "B200-4x8", "H100-2x8-GCP-A3mega", "nccl-1368-ring", "nccl-1368-tree"}
MEASURED = {"a100", "h100", "h200", "b200"}  # any all-reduce over eight of these in one server is what was fitted
MULTI = {  # dataset: NIC per GPU, transport; nccl-1368 has one NIC of 400 Gbps for two GPUs
    "B200-4x8": (400, "efa"),
    "H100-2x8-GCP-A3mega": (200, "tcpxo"),
    "H100-HGX-309": (400, "infiniband"),
    "nccl-1368-ring": (200, "roce"),
    "nccl-1368-tree": (200, "roce"),
    "nccl-1469": (400, "infiniband"),
}
NOT_COVERED = {
    "A100-4x8-older": "the speed of its NICs is not stated",
}
PEAKS = {  # of NVIDIA-GTC24-S62129, by the GPU column
    "V100": Cluster("v100", 1, 8),
    "A100": Cluster("a100", 1, 8),
    "H100": Cluster("h100", 1, 8, options=RING),
    "H100 SHARP": Cluster("h100", 1, 8, options=NVLS),
    "DGX A100 8x200G": Cluster("a100", 4, 8, 200),
    "DGX H100 8x400G": Cluster("h100", 4, 8, 400),
    "DGX H100 8x400G SHARP": Cluster("h100", 4, 8, 400, options=SHARP),
}


def read_cases(path: Path) -> tuple[list[Case], dict[str, str]]:
    """Cases of a file, and the datasets that are not covered with the reason."""
    cases, left_out = [], {}
    with path.open() as file:
        for row in csv.DictReader(file):
            reason = NOT_COVERED.get(row["dataset"], "")
            if reason:
                left_out[row["dataset"]] = reason
            else:
                cases.append(_case(row))
    return cases, left_out


def _case(row: dict[str, str]) -> Case:
    name = row["dataset"]
    size_bytes = int(row["size_bytes"]) if row["size_bytes"].isdigit() else PEAK_BYTES
    operation = row["collective"].replace("_", "-").replace("sendrecv", "point-to-point")
    cluster = _cluster(row)
    same = operation == "all-reduce" and (cluster.gpu in MEASURED, cluster.n_server, cluster.per_server) == (True, 1, 8)
    fitted = name in FITTED or same or (name == "A100-sendrecv" and size_bytes >= 512 * MIB)
    return Case(name, cluster, operation, size_bytes, float(row["busbw_GBps"] or 0), float(row["time_us"] or 0), fitted)


def _cluster(row: dict[str, str]) -> Cluster:
    if row["nodes"] in ("1", ">1") and row["gpu"] in PEAKS and row["size_bytes"] == "large":
        return PEAKS[row["gpu"]]
    gpu, options = row["gpu"].split()[0].lower(), ()
    algorithm = row["algo"].lower()
    if row["collective"] == "all_reduce" and algorithm.startswith(("ring", "tree", "nvls")):
        options = {"r": RING, "t": TREE, "n": NVLS}[algorithm[0]]
    nic_gbps, transport = MULTI.get(row["dataset"], (400, "infiniband"))
    n_gpu = 2 if row["collective"] == "sendrecv" else int(row["gpus_per_node"])
    return Cluster(gpu, int(row["nodes"]), n_gpu, nic_gbps, transport, options)


@dataclass(frozen=True)
class Exchange:
    """A row of DeepEP: bytes that a GPU sends to all, and what was measured: time, or bytes over time."""

    name: str
    cluster: Cluster
    size_bytes: int
    time_us: float
    gb_per_s: float


def read_exchanges(path: Path) -> Iterator[Exchange]:
    """Dispatch and combine of each row. Dispatch has 8 bits per value and a scale of 4 bytes per 128, combine 16."""
    with path.open() as file:
        for row in csv.DictReader(file):
            n, values = int(row["ep"]), int(row["tokens_per_rank"]) * int(row["topk"]) * int(row["hidden"])
            low = "low-latency RDMA" in row["kernel"]
            if not low and "normal" not in row["kernel"]:
                continue
            cluster = Cluster("h800", n, 1) if low else Cluster("h800", -(-n // 8), 8)
            for part, size_bytes in (("dispatch", values * 33 // 32), ("combine", values * 2)):
                time_us, rate = float(row[f"{part}_us"] or 0), float(row[f"{part}_GBps"] or 0)
                yield Exchange(f"{row['kernel']} EP{n} {part}", cluster, size_bytes, time_us, rate)
