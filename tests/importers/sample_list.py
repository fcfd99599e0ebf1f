"""Samples of other tools' own files, by their place in a folder of them: what must run, and how many nodes it has.

They are not in this repository; `bench/importers.py --samples DIR` runs them. `made_traces` makes files with the same
forms and traps for the tests.
"""

from typing import NamedTuple


class Sample(NamedTuple):
    """A trace. path: of the file, or of the ranks' common part; topology: another file of the folder, or a number."""

    path: str
    format: str
    n_node: int
    topology: str | int
    keys: tuple[tuple[str, object], ...] = ()
    is_long: bool = False


SPECTRUM = "simai/topology/Spectrum-X_16g_8gps_400Gbps_H100"
HPN = "simai/topology/AlibabaHPN_64g_8gps_DualToR_DualPlane_200Gbps_H100"
DCN = "simai/topology/DCN+DualToR_32g_8gps_200Gbps_H100"
RING_8, HGX = "astra-sim/network/Ring_8npus.yml", "astra-sim/network/HGX-H100-validated.yml"
LLAMA = "chakra/stage_llama_dp2tp2pp2/workload"
TREE, LEAVES = "htsim/fat_tree_128_1os.topo", "htsim/leaf_spine_tiny.topo"
CHUNKS = (("system", "astra-sim/system/Ring_4chunks.json"),)
H100 = (("system", "astra-sim/system/HGX-H100-validated.json"),)
TOLERANT = (("tolerant", True),)

SAMPLES = (
    Sample("astra-sim/workload/all_reduce_8npus_1MB/all_reduce", "chakra", 8, RING_8, CHUNKS),
    Sample("astra-sim/workload/all_reduce_8npus_1MB/all_reduce", "chakra", 8, HGX, H100),
    Sample("astra-sim/workload/custom_ring_allreduce_8npus_1MB/custom_allreduce", "chakra", 280, RING_8),
    Sample(LLAMA, "chakra", 2816, "astra-sim/network/hgx_h100_8gpu.yml", (("communicators", f"{LLAMA}.json"),)),
    Sample("chakra/et/feeder_test_chakra.0.et", "chakra", 3664, 2, TOLERANT),
    Sample("chakra/json/small_chakra.0.json", "chakra", 7, 2, TOLERANT),
    Sample("goal/allreduce_recdoub_8_1MB.goal", "goal", 104, 8),
    Sample("goal/allreduce_recdoub_8_1MB.bin", "goal", 104, 8),
    Sample("goal/allreduce_ring_8_1MB.goal", "goal", 232, 8),
    Sample("goal/allreduce_ring_8_1MB.bin", "goal", 232, 8),
    Sample("goal/alltoall_linear_8_64KB.goal", "goal", 112, 8),
    Sample("goal/alltoall_linear_8_64KB.bin", "goal", 112, 8),
    Sample("goal/binary_tree_32.goal", "goal", 62, 32),
    Sample("goal/binary_tree_32.bin", "goal", 62, 32),
    Sample("simai/workload/microAllReduce.txt", "simai", 80, SPECTRUM),
    Sample("simai/workload/all_gather.txt", "simai", 896, SPECTRUM),
    Sample("simai/workload/all_reduce.txt", "simai", 896, SPECTRUM),
    Sample("simai/workload/all_to_all.txt", "simai", 896, SPECTRUM),
    Sample("simai/workload/muti_all_reduce.txt", "simai", 1520, SPECTRUM),
    Sample("simai/workload/L7B-D1-C02_Llama7B_deepspeed_zero3_A100.txt", "simai", 608, SPECTRUM),
    Sample("simai/workload/L7B-M1-C04_Llama7B_megatron_tp2_pp1_mbs1_A100.txt", "simai", 9232, SPECTRUM),
    Sample("simai/workload/G13B-M1-C02_GPT13B_megatron_tp8_pp1_mbs1_sp_A100.txt", "simai", 21520, SPECTRUM),
    Sample("simai/workload/workload_analytical.txt", "simai", 432864, DCN, (("gpus", 32),), is_long=True),
    Sample("astra-sim/text_workloads_v1/microAllReduce.txt", "astra-sim-text", 32, SPECTRUM),
    Sample("astra-sim/text_workloads_v1/DLRM_HybridParallel.txt", "astra-sim-text", 688, SPECTRUM),
    Sample("astra-sim/text_workloads_v1/Resnet50_DataParallel.txt", "astra-sim-text", 4304, SPECTRUM),
    Sample("astra-sim/text_workloads_v1/Transformer_HybridParallel_Fwd_In_Bckwd.txt", "astra-sim-text", 2272, SPECTRUM),
    Sample("htsim/one.cm", "htsim", 2, LEAVES),
    Sample("htsim/perm_32n_32c_2MB.cm", "htsim", 64, LEAVES),
    Sample("htsim/alltoall_serial_16n.cm", "htsim", 480, LEAVES),
    Sample("htsim/incast_128.cm", "htsim", 254, TREE),
)

TOPOLOGIES = {  # hosts, nodes and links of each; those of ASTRA-sim have a router per NPU, but on one switch
    "astra-sim/network/8nodes.topo": (8, 20, 32),
    "astra-sim/network/HGX-H100-validated.yml": (8, 9, 8),
    "astra-sim/network/Ring_4npus.yml": (4, 8, 8),
    "astra-sim/network/Ring_8npus.yml": (8, 16, 16),
    "astra-sim/network/Ring_16npus.yml": (16, 32, 32),
    "astra-sim/network/hgx_h100_8gpu.yml": (8, 9, 8),
    "astra-sim/network/hgx_h100_16gpu.yml": (16, 34, 40),
    "astra-sim/network/hgx_h100_32gpu.yml": (32, 68, 96),
    "astra-sim/network/tpu_v3_32_2dtorus.yml": (32, 64, 96),
    "htsim/fat_tree_128_1os.topo": (128, 208, 384),
    "htsim/leaf_spine_tiny.topo": (32, 38, 40),
    HPN: (64, 104, 320),
    DCN: (32, 40, 100),
    SPECTRUM: (16, 27, 40),
    "ns3-astra/128_nodes_16_switch_topology.txt": (128, 144, 192),
    "ns3-astra/8_nodes_1_switch_topology.txt": (8, 9, 8),
    "ns3-astra/8nodes_ring_topology.txt": (8, 8, 8),
    "hpcc/topology.txt": (65, 66, 65),
    "conweave/fat_k4_100G_OS2.txt": (32, 52, 64),
    "conweave/leaf_spine_128_100G_OS2.txt": (128, 144, 192),
}
INCOMPLETE = {  # as they are in the folder: (format, what the message says)
    "multiverse/npu.0_first120.json": ("chakra", "node 2 .*a send with rank 32"),
    "simai/workload/aiob_Example.txt": ("simai", "line 1: found 'train_iter:10'"),
    "hpcc/fat_head400.txt": ("topology", "ends after .* links"),
}
