"""What Sailor's plans and profiles leave to the reader: sizes of models, data sheets, and the links of servers.

Models: those of its llm_info.json, by their parameters and what a layer gives the next one; without dropout, as what it
says that a layer keeps has the scores of attention once. GPUs: NVIDIA's data sheets, dense peaks with sums in fp32.
Servers: Alps Clariden has four GH200 in a node, each with a Slingshot NIC of 200 Gb/s; servers with RTX GPUs sum
gradients at 1 Gb/s (`red_grads` of the plans), which is gigabit Ethernet; Google's a2-highgpu have 100 Gb/s, n1 with
V100 32 Gb/s.
"""

from typing import NamedTuple


class Model(NamedTuple):
    """A GPT by its sizes."""

    layers: int
    hidden: int
    heads: int
    vocabulary: int
    sequence: int

    def table(self) -> dict[str, object]:
        """[workload.model]."""
        sizes = ("layers", "hidden", "heads", "vocabulary", "sequence")
        return {**{name: getattr(self, name) for name in sizes}, "dropout": False}


MODELS = {
    "OPT-350": Model(24, 1024, 16, 50304, 2048),
    "GPT-Neo-2.7": Model(32, 2560, 20, 50304, 2048),
    "OPT-30": Model(48, 7168, 56, 50304, 2048),
}
"""By the name of the folder of profiles."""


class Gpu(NamedTuple):
    """A type and the servers that have it. has_own_nics: a NIC for each GPU, else one for all of them."""

    name: str
    like: str
    memory: str
    memory_bandwidth: str
    bf16: str
    nvlink: str
    nic_rate: str
    has_own_nics: bool = False

    def table(self) -> dict[str, object]:
        """[workload.devices.NAME]."""
        links: dict[str, object] = {"memory": self.memory, "memory_bandwidth": self.memory_bandwidth}
        if self.like:
            return {"like": self.like, **links}
        return {"nvlink": self.nvlink, **links}


GPUS = {
    "GH-96": Gpu("gh200-96g", "gh200", "96GB", "4TBps", "", "", "200Gbps", True),
    "A100-40": Gpu("a100-40g-gcp", "a100-40g", "40GB", "1555GBps", "", "", "100Gbps"),
    "A100-80": Gpu("a100-80g-gcp", "a100-80g", "80GB", "2039GBps", "", "", "100Gbps"),
    "V100-16": Gpu("v100-16g", "", "16GB", "900GBps", "125Tflops", "150GBps", "32Gbps"),
    "RTX-2080": Gpu("rtx-2080", "", "11GB", "616GBps", "53.8Tflops", "16GBps", "1Gbps"),
    "RTX-3090": Gpu("rtx-3090", "", "24GB", "936GBps", "71Tflops", "16GBps", "1Gbps"),
    "Titan-RTX": Gpu("titan-rtx", "", "24GB", "672GBps", "65.2Tflops", "16GBps", "1Gbps"),
}
"""By Sailor's names. Without NVLink: a PCIe 3.0 slot of 16 lanes. Sums in fp32: half of the peak that RTX cards have in
fp16. RTX 2080: of those with 11 GB (2080 Ti), as their measured memory is above the 8 GB of the others."""
