"""Claims about SimAI's and ASTRA-sim 1's layer tables and htsim's connections: order, groups, triggers, faults."""

from pathlib import Path

import numpy as np
import pytest

from models.workload.importers.formats import TraceSource, read_trace
from models.workload.trace.graph import COLLECTIVE, COLLECTIVES, COMPUTE, NOTHING, RECEIVE, SEND, TraceGraph
from pdes.errors import ConfigError
from reference import made_traces as made


def read(form: str, path: Path, text: str, gpus: int | None = None, n_host: int = 8) -> TraceGraph:
    path.write_text(text)
    return read_trace(TraceSource(form, path, gpus=gpus), n_host)[0]


def collectives(graph: TraceGraph, rank: int) -> list[tuple[str, int, tuple[int, ...]]]:
    """(operation, bytes, ranks) of a rank in the order of the file."""
    begin, end = graph.rank_start[rank : rank + 2].tolist()
    mine = [k for k in range(begin, end) if graph.kind[k] == COLLECTIVE]
    return [
        (COLLECTIVES[graph.operation[k]], int(graph.size_bytes[k]), graph.communicators[graph.communicator[k]])
        for k in mine
    ]


def test_simai_s_groups_and_its_order_forth_and_back(tmp_path: Path) -> None:
    graph = read("simai", tmp_path / "w.txt", made.SIMAI, n_host=2)
    assert graph.n_rank == 8  # all_gpus
    assert collectives(graph, 3) == [
        ("broadcast", 16384, (2, 3)),
        ("all-gather", 8192, (2, 3)),  # SimAI counts what is gathered
        ("all-to-all", 8000, (1, 3)),
        ("all-to-all", 8000, (1, 3)),
        ("reduce-scatter", 6000, (3, 7)),
        ("reduce-scatter", 8192, (2, 3)),
        ("all-reduce", 4000, (1, 3, 5, 7)),
    ]
    assert graph.left_out == {"pp_comm, the pipeline's messages, not modelled": 1}


def test_a_layer_waits_for_the_forward_collective_and_its_update(tmp_path: Path) -> None:
    graph = read("simai", tmp_path / "w.txt", made.SIMAI)
    names = [graph.names[graph.label[k]] for k in range(int(graph.rank_start[1]))]
    moe = names.index("moe")
    (before,) = graph.dep[graph.dep_start[moe] : graph.dep_start[moe + 1]].tolist()
    assert (names[before], graph.kind[before], graph.duration_ps[before]) == ("attention update", NOTHING, 100_000)


def test_astra_s_data_parallel_pass(tmp_path: Path) -> None:
    graph = read("astra-sim-text", tmp_path / "w.txt", made.ASTRA_DATA, n_host=4)
    mine = range(int(graph.rank_start[1]))
    computed = [
        (graph.names[graph.label[k]], int(graph.duration_ps[k]) // 1000) for k in mine if graph.kind[k] == COMPUTE
    ]
    assert computed == [
        ("conv1", 1000), ("fc", 100), ("fc weight gradient", 300), ("fc input gradient", 200),
        ("conv1 weight gradient", 3000),
    ]  # fmt: skip
    assert [c[:2] for c in collectives(graph, 0)] == [("all-reduce", 4096), ("all-reduce", 8192)]
    waited_for = set(graph.dep.tolist())
    last = [k for k in mine if graph.names[graph.label[k]].endswith("update")]
    assert not waited_for & set(last)  # nobody waits for weight gradients


def test_astra_counts_a_shard_where_simai_counts_the_whole(tmp_path: Path) -> None:
    text = made.ASTRA_DATA.replace("ALLREDUCE\t4096", "ALLGATHER\t4096")
    assert collectives(read("astra-sim-text", tmp_path / "w.txt", text, n_host=4), 0)[0][1] == 4 * 4096
    assert collectives(read("simai", tmp_path / "w.txt", text, n_host=4), 0)[0][1] == 4096


def test_checkpoints_compute_the_forward_pass_again(tmp_path: Path) -> None:
    rows = "".join(f"l{i} -1 10 NONE 0 20 NONE 0 30 NONE 0 0\n" for i in range(4))
    head = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 1 checkpoints: 1 1 checkpoint_initiates: 1 3\n4\n"
    graph = read("simai", tmp_path / "w.txt", head + rows, gpus=1)
    names = [graph.names[label] for label in graph.label.tolist()]
    assert names[:7] == ["l0", "l1", "l2", "l3", "l1", "l2", "l3 input gradient"]


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("HYBRID_TRANSFORMER_FWD_IN_BCKWD", "train_iter:10", r"line 1: found 'train_iter:10'"),
        ("\n3\n", "\nthree\n", r"line 2: found 'three'"),
        ("\n3\n", "\n4\n", r"line 5: the file ends with 3 of the 4 layers that line 2 promises"),
        ("REDUCESCATTER_DP_EP", "REDUCE_EP", r"line 5: the collective 'REDUCE_EP'"),
        ("\t3000\t", "\t3e3\t", r"line 4: compute time '3e3'"),
        ("all_gpus: 8", "all_gpus: 6", r"line 1: TP 2 x EP 2 x PP 1 on 6 GPUs"),
        ("\t6000\t0\n", "\t6000\n", r"line 5: 11 words"),
    ],
)
def test_what_is_wrong_with_a_table_names_the_line(old: str, new: str, found: str, tmp_path: Path) -> None:
    assert old in made.SIMAI
    with pytest.raises(ConfigError, match=r"w\.txt, " + found):
        read("simai", tmp_path / "w.txt", made.SIMAI.replace(old, new, 1))


def test_triggers_are_dependencies_and_messages(tmp_path: Path) -> None:
    graph = read("htsim", tmp_path / "c.cm", made.HTSIM_SERIAL)
    assert (graph.n_rank, graph.waits_for_ack) == (4, True)
    assert np.bincount(graph.kind, minlength=5).tolist() == [0, 5, 5, 0, 1]
    second = next(k for k in range(graph.n_node) if graph.tag[k] == 1 and graph.kind[k] == SEND)
    first = next(k for k in range(graph.n_node) if graph.tag[k] == 0 and graph.kind[k] == SEND)
    assert graph.dep[graph.dep_start[second] : graph.dep_start[second + 1]].tolist() == [first]
    told = [k for k in range(graph.n_node) if graph.names[graph.label[k]] == "trigger"]
    assert [(int(graph.kind[k]), int(graph.size_bytes[k]), graph.rank_of(k)) for k in told] == [
        (SEND, 1, 0), (RECEIVE, 1, 3),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("Connections 4", "Connections 5", r"line 10: the file ends with 4 of 5 Connections"),
        ("Triggers 2", "Triggers 3", r"line 10: the file ends with 2 of 3 Triggers"),
        ("0->2", "0->4", r"line 5: a connection 0->4"),
        ("id 2 trigger 1", "id 2 trigger 7", r"line 5: trigger 7\. Accepted: a trigger that the file lists"),
        ("size 20000 send_done_trigger 2", "size 20000", r"line 6: trigger 2, which no connection fires"),
        ("start 5000000 size 1", "size 1", r"line 7: found 'size 1'"),
        ("id 3 trigger", "id 3 prio 4 trigger", r"line 6: the word 'prio'"),
    ],
)
def test_what_is_wrong_with_connections_names_the_line(old: str, new: str, found: str, tmp_path: Path) -> None:
    assert old in made.HTSIM_SERIAL
    with pytest.raises(ConfigError, match=r"c\.cm, " + found):
        read("htsim", tmp_path / "c.cm", made.HTSIM_SERIAL.replace(old, new, 1))
