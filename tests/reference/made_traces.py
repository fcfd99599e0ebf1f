"""Small traces in other tools' formats, made here: no file of those tools, but the same forms and the same traps."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from models.workload.importers import wire

COMP, SEND, RECV, COLL = 4, 5, 6, 7
STRING, INT32, INT64, UINT64, BOOL = 29, 7, 9, 13, 27
Node = tuple[int, str, int, Sequence[int], Mapping[str, int | str]]
"""id, name, type, data dependencies, attributes ("duration_micros" among them)."""


def node_bytes(node: Node, number_type: int = INT64, as_control: bool = False) -> bytes:
    """A Chakra node; an id of 0 is left out, as protobuf does. number_type: the oneof's member that numbers take."""
    node_id, name, kind, after, attributes = node
    content = (wire.number_field(1, node_id) if node_id else b"") + wire.bytes_field(2, name)
    content += wire.number_field(3, kind)
    if after and as_control:  # not packed, as proto2 writers do
        content += b"".join(wire.number_field(4, i) for i in after)
    elif after:
        content += wire.packed_field(5, list(after))
    if "duration_micros" in attributes:
        content += wire.number_field(7, int(attributes["duration_micros"]))
    content += wire.bytes_field(8, wire.bytes_field(1, "[[1, 2], 'tensors that nobody asks for']"))
    for key, value in attributes.items():
        if key != "duration_micros":
            inner = wire.bytes_field(1, key)
            if isinstance(value, str):
                inner += wire.bytes_field(STRING, value)
            else:
                inner += wire.number_field(BOOL if key == "is_cpu_op" else number_type, value)
            content += wire.bytes_field(10, inner)
    return content


def write_chakra(folder: Path, prefix: str, ranks: Sequence[Sequence[Node]], version: str = "0.0.4") -> Path:
    """Files of all ranks; their common part."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank, nodes in enumerate(ranks):
        parts = [wire.bytes_field(1, version), *map(node_bytes, nodes)]
        (folder / f"{prefix}.{rank}.et").write_bytes(b"".join(map(wire.message, parts)))
    return folder / prefix


def two_ranks() -> list[list[Node]]:
    """Rank 0 computes and sends 50 kB, rank 1 receives and computes; then both all-reduce 64 kB."""
    return [
        [
            (0, "forward", COMP, [], {"duration_micros": 10}),
            (7, "to the next", SEND, [0], {"comm_size": 50_000, "comm_dst": 1, "comm_tag": 3}),
            (9, "gradients", COLL, [7], {"comm_type": 0, "comm_size": 64_000}),
        ],
        [
            (4, "gradients", COLL, [2], {"comm_type": 0, "comm_size": 64_000}),
            (1, "from the last", RECV, [], {"comm_size": 50_000, "comm_src": 0, "comm_tag": 3}),
            (2, "forward", COMP, [1], {"duration_micros": 5}),
        ],
    ]


def write_stuck(folder: Path) -> None:
    """ "stuck" and groups.json: two ranks that enter two collectives in different orders."""
    ranks: list[list[Node]] = []
    for names in (("a", "b"), ("b", "a")):
        first, second = ({"comm_type": 0, "comm_size": 1000, "pg_name": name} for name in names)
        ranks.append([(1, "one", COLL, [], first), (2, "two", COLL, [1], second)])
    write_chakra(folder, "stuck", ranks)
    (folder / "groups.json").write_text('{"a": [0, 1], "b": [0, 1]}')


def hybrid_llama(folder: Path) -> Path:
    """Two stages of two tensor ranks each: communicators by name, and backward nodes before forward ones."""
    ranks: list[list[Node]] = []
    for rank in range(4):
        stage, pair = rank // 2, str(rank // 2)
        other = rank + 2 if stage == 0 else rank - 2
        nodes: list[Node] = [
            (30, "grad", COLL, [20], {"comm_type": 7, "comm_size": 8192, "pg_name": pair, "is_cpu_op": 0}),
            (5, "layer", COMP, [4] if stage else [], {"num_ops": 312_000_000, "tensor_size": 1000}),
            (6, "gather", COLL, [5], {"comm_type": 2, "comm_size": 4096, "pg_name": pair, "is_cpu_op": 0}),
            (20, "backward", COMP, [6] + ([] if stage else [9]), {"num_ops": 624_000_000, "tensor_size": 1000}),
        ]
        if stage == 0:
            nodes.append((8, "act", SEND, [6], {"comm_size": 6000, "comm_dst": other, "comm_tag": 587286}))
            nodes.append((9, "dact", RECV, [], {"comm_size": 6000, "comm_src": other, "comm_tag": 587282}))
        else:
            nodes.append((4, "act", RECV, [], {"comm_size": 6000, "comm_src": other, "comm_tag": 587286}))
            nodes.append((9, "dact", SEND, [20], {"comm_size": 6000, "comm_dst": other, "comm_tag": 587282}))
        ranks.append(nodes)
    prefix = write_chakra(folder, "llama", ranks, version="")
    (folder / "llama.json").write_text(json.dumps({"0": [0, 1], "1": [2, 3], "9": [0]}))
    return prefix


PYTORCH_JSON = {  # Chakra's older JSON: ids of parents that are not there, a collective without comm_type
    "workload_graph": [
        {"Id": 216, "Name": "flatten(0)", "NodeType": 4, "ctrlDeps": [3], "data_deps": [], "runtime": 318},
        {"Id": 432, "Name": "broadcast_(0)", "NodeType": 7, "ctrlDeps": [3], "data_deps": [], "runtime": 85},
        {"Id": 435, "Name": "kernel", "NodeType": 7, "ctrlDeps": [434], "data_deps": [432, 216], "runtime": 28},
    ],
    "ngpus": 8,
}

GOAL_RING = """\
num_ranks 3 // three ranks
/* every rank sends to the next
   and receives from the last */
rank 0 {
l1: send 1000b to 1 tag 5
l2: recv 1000b from 2 tag 5 cpu 0
l3: calc 100 cpu 0 nic 0
l3 requires l1
l3 requires l2
}
rank 1 {
a: recv 1000b from 0 tag 5
b: send 2000b to 2 tag 5 nic 0
b requires a
}
rank 2 {
x: recv 2000b from -1 tag -1
y: calc 50
z: send 1000b to 0 tag 5
y requires x
z irequires y
}
"""

SIMAI = """\
HYBRID_TRANSFORMER_FWD_IN_BCKWD\tmodel_parallel_NPU_group: 2 ep: 2 pp: 1 vpp: 1 ga: 1 all_gpus: 8 checkpoints: 0 \
checkpoint_initiates: 0 pp_comm 4096
3
norm\t-1\t0\tBROADCAST\t16384\t1\tNONE\t0\t1\tNONE\t0\t100
attention\t-1\t 2000\tALLGATHER   8192\t3000\tREDUCESCATTER\t8192\t 1\tALLREDUCE\t4000\t100
moe\t-1\t1000\tALLTOALL_EP\t8000\t1000\tALLTOALL_EP\t8000\t1000\tREDUCESCATTER_DP_EP\t6000\t0
"""

ASTRA_DATA = "DATA\n2\nconv1\t-1\t1000\tNONE\t0\t2000\tNONE\t0\t3000\tALLREDUCE\t8192\t10\n" + (
    "fc\t-1\t100\tNONE\t0\t200\tNONE\t0\t300\tALLREDUCE\t4096\t10\n"
)

HTSIM_SERIAL = """\
Nodes 4
Connections 4
Triggers 2
0->1 id 1 start 0 size 20000 send_done_trigger 1
0->2 id 2 trigger 1 size 20000 send_done_trigger 2
3->2 id 3 trigger 2 size 10000
2->3 start 5000000 size 1
trigger id 1 oneshot
trigger id 2 barrier

"""

HTSIM_TREE = """\
# three tiers, one of them of bundles
Nodes 8
Tiers 3
Podsize 4

Tier 0
Downlink_speed_Gbps 200
Radix_Down 2
Radix_Up 2
Downlink_Latency_ns 1000

Tier 1
Downlink_speed_Gbps 200
Radix_Down 2
Radix_Up 4
Downlink_Latency_ns 1000
Bundle 1

Tier 2
Downlink_speed_Gbps 100
Radix_Down 4
Downlink_Latency_ns 1000
Bundle 2
"""
