"""The [topology] of a job of so many GPUs, where what is converted says nothing about the network."""

from dataclasses import dataclass

from pdes.errors import ConfigError

KINDS = ("roft", "fat-tree", "leaf-spine", "dual-plane")  # those whose sizes follow from the number of GPUs
USUAL_SERVER = 8


@dataclass(frozen=True)
class Fabric:
    """What the options say. gpus_per_server None: 8, or as many as divide the job's GPUs. nic_rate: of a GPU's NIC."""

    kind: str = "roft"
    gpus_per_server: int | None = None
    nic_rate: str = "400Gbps"


def topology_table(n_gpu: int, fabric: Fabric, usual: int | None = None) -> dict[str, object]:
    """The table. usual: GPUs of a server as the job's launch has them. ConfigError: servers that are not whole."""
    size = fabric.gpus_per_server or usual
    if size is None:
        size = max(n for n in range(1, USUAL_SERVER + 1) if n_gpu % n == 0)
    if size < 1 or n_gpu % size:
        raise ConfigError("--gpus-per-server", f"{size}, and the job has {n_gpu} GPUs", "a divisor of that")
    table: dict[str, object] = {"kind": fabric.kind, "gpus": n_gpu, "gpus_per_server": size}
    table |= {"nic_rate": fabric.nic_rate, "spine_rate": fabric.nic_rate}
    return table | ({"nvlink": "packets"} if size > 1 else {})
