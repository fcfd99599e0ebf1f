"""The number of ranks, the placement and the compiler never change a byte of the results (design R1 to R6)."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq
import pytest

from pdes.config import load_config
from pdes.scenario import build_scenario

TABLES = ("flows.parquet", "tasks.parquet", "ports.parquet")
FILES = ("result.json", *TABLES)
BREAKDOWN = "breakdown.parquet"  # of training jobs
SLOW = pytest.mark.slow  # two ranks, in either placement, are not
SHARES = [
    (2, "metis"), (2, "round-robin"), pytest.param(3, "round-robin", marks=SLOW), pytest.param(4, "metis", marks=SLOW),
]  # fmt: skip


class Case(NamedTuple):
    """A config, its results on one rank, and a delay threshold that cuts it in another way than its own."""

    name: str
    config: Path
    alone: Path
    other_threshold: str


def write_flows(path: Path, rows: list[tuple[int, int, int, int]]) -> None:
    """A flow list; rows: (src, dst, size_bytes, start_ps)."""
    lines = ["src,dst,size_bytes,start_ps,tag", *(f"{a},{b},{n},{t},burst{t % 3}" for a, b, n, t in rows)]
    path.write_text("\n".join(lines) + "\n")


def random_flows(folder: Path) -> str:
    """64 random flows on a fat-tree; a third start together, so that ties must be broken, and ECN draws numbers."""
    draw = random.Random(20)
    rows = []
    for i in range(64):
        src, dst = draw.sample(range(16), 2)
        rows.append((src, dst, draw.randrange(1, 40_000), 0 if i % 3 == 0 else draw.randrange(8_000_000)))
    write_flows(folder / "flows.csv", rows)
    return """
        [simulation]
        seed = 7
        [topology]
        kind = "fat-tree"
        k = 4
        host_delay = "500ns"
        [network]
        ecn_kmin = "5kB"
        ecn_kmax = "40kB"
        ecn_pmax = 0.5
        [workload]
        kind = "flows"
        file = "flows.csv"
        [partition]
        delay_threshold = "500ns"
    """


def incast(folder: Path) -> str:
    """15 hosts send to one over a leaf-spine, two messages each, on shared queue pairs."""
    write_flows(folder / "flows.csv", [(src, 0, 30_000 + src, t) for src in range(1, 16) for t in (0, 2_000_000)])
    return """
        [topology]
        kind = "leaf-spine"
        leaves = 4
        spines = 2
        hosts_per_leaf = 4
        spine_rate = "40Gbps"
        host_delay = "600ns"
        spine_delay = "1us"
        [network]
        ecn_kmin = "20kB"
        ecn_kmax = "20kB"
        [workload]
        kind = "flows"
        file = "flows.csv"
        queue_pairs = "per-pair"
        [partition]
        delay_threshold = "600ns"
    """


def gpt(folder: Path) -> str:
    """Two iterations of a GPT on 16 GPUs, tensor parallelism as packets inside the servers."""
    return """
        [simulation]
        iterations = 2
        [topology]
        kind = "roft"
        gpus = 16
        nvlink = "packets"
        [workload]
        kind = "training"
        tp = "packets"
        [workload.model]
        layers = 2
        hidden = 64
        vocabulary = 256
        sequence = 64
        [workload.parallel]
        tp = 4
        dp = 2
        pp = 2
        [partition]
        delay_threshold = "500ns"
    """


def rails(folder: Path) -> str:
    """The same with timed collectives inside the servers, to which GPUs come at different times: rails part."""
    return gpt(folder).replace('nvlink = "packets"', 'gpus_per_server = 4').replace(
        'tp = "packets"', 'tp = "alpha-beta"\n        start_jitter = "3us"'
    )  # fmt: skip


def stages(folder: Path) -> str:
    """Two stages below each rail switch. Cut at 1.5 us only what the middle ones exchange crosses."""
    return """
        [topology]
        kind = "roft"
        gpus = 32
        gpus_per_server = 4
        servers_per_rail_switch = 4
        [workload]
        kind = "training"
        [workload.model]
        layers = 4
        hidden = 256
        vocabulary = 256
        sequence = 128
        [workload.parallel]
        tp = 4
        dp = 2
        pp = 4
        [partition]
        delay_threshold = "500ns"
    """


def experts(folder: Path) -> str:
    """A mixture of experts on 16 GPUs: all-to-alls between servers, expert gradients inside and between them."""
    return """
        [topology]
        kind = "roft"
        gpus = 16
        gpus_per_server = 2
        [workload]
        kind = "training"
        [workload.model]
        layers = 2
        hidden = 64
        vocabulary = 256
        sequence = 64
        experts = 4
        [workload.parallel]
        tp = 2
        dp = 8
        pp = 1
        ep = 2
        [partition]
        delay_threshold = "500ns"
    """


def compiled(folder: Path) -> str:
    """Two iterations of a job compiled kernel by kernel: interleaved, gradients and parameters beside the passes, which
    slow them, begun by all stages together, in shards with copies, and computing times that are drawn."""
    return """
        [simulation]
        iterations = 2
        [topology]
        kind = "roft"
        gpus = 16
        gpus_per_server = 2
        [workload]
        kind = "training"
        zero = 1
        sequence_parallel = true
        [workload.model]
        layers = 6
        hidden = 64
        heads = 4
        vocabulary = 256
        sequence = 64
        [workload.parallel]
        tp = 2
        dp = 4
        pp = 2
        vpp = 3
        shard = 2
        [workload.compute]
        gpu = "h100"
        jitter = 0.05
        [partition]
        delay_threshold = "500ns"
    """


def tuned(folder: Path) -> str:
    """Two iterations with gradients summed along trees in four channels beside the backward pass, tokens to experts in
    fp8, and a server of GPUs that the config describes, with a file of measured kernels."""
    (folder / "slow.csv").write_text("kind,bytes,time_us\nnorm,16384,40\n")
    return """
        [simulation]
        iterations = 2
        [topology]
        kind = "roft"
        gpus = 8
        gpus_per_server = 1
        [workload]
        kind = "training"
        [workload.model]
        layers = 2
        hidden = 64
        heads = 4
        vocabulary = 256
        sequence = 64
        experts = 8
        [workload.parallel]
        tp = 1
        dp = 8
        pp = 1
        ep = 4
        [workload.compute]
        gpu = "h100"
        [workload.dtypes]
        dispatch = "fp8"
        reduce = "bf16"
        [workload.nccl.all-reduce]
        algorithm = "tree"
        channels = 4
        [[workload.gpus]]
        servers = [3]
        gpu = "slow"
        [workload.devices.slow]
        like = "a100-40g"
        nvlink_latency = "5us"
        kernels = "slow.csv"
        [partition]
        delay_threshold = "500ns"
    """


def dual(folder: Path) -> str:
    """A pipeline from both ends, with tokens of one direction on their way while the other computes."""
    return """
        [topology]
        kind = "roft"
        gpus = 8
        gpus_per_server = 1
        [workload]
        kind = "training"
        schedule = "dualpipe"
        microbatches = 8
        [workload.model]
        layers = 4
        hidden = 64
        heads = 4
        vocabulary = 256
        sequence = 64
        experts = 8
        [workload.parallel]
        tp = 1
        dp = 2
        pp = 4
        ep = 2
        [workload.compute]
        gpu = "h100"
        [partition]
        delay_threshold = "500ns"
    """


def planned(folder: Path) -> str:
    """Collectives as NCCL plans them, inside servers of two and between them; one by an MSCCL file."""
    steps = '<step s="0" type="s"/><step s="1" type="rrc"/>'
    gpus = (f'<gpu id="{g}"><tb id="0" send="{1 - g}" recv="{1 - g}" chan="0">{steps}</tb></gpu>' for g in (0, 1))
    text = '<algo coll="allreduce" ngpus="2" nchunksperloop="1" inplace="1">' + "".join(gpus) + "</algo>"
    (folder / "swap.xml").write_text(text)
    jobs = (
        ("all-reduce", 'algorithm = "tree"'), ("all-reduce", 'algorithm = "ring"\nchannels = 4'), ("all-to-all", ""),
        ("broadcast", ""), ("all-reduce", 'msccl = "swap.xml"\ngpus = [1, 4]'),
        ("all-reduce", 'msccl = "swap.xml"\ngpus = [6, 7]'),
    )  # fmt: skip
    return """
        [topology]
        kind = "roft"
        gpus = 8
        gpus_per_server = 2
        nic_rate = "400Gbps"
        [workload]
        kind = "collectives"
        gpu = "h100"
    """ + "".join(
        f'[[workload.collective]]\nname = "{i}"\nsize = "90kB"\noperation = "{operation}"\n{keys}\n'
        for i, (operation, keys) in enumerate(jobs)
    )


def collectives(folder: Path) -> str:
    """Every collective on a fat-tree, some behind others."""
    kinds = ("all-reduce", "all-to-all", "all-gather", "reduce-scatter")
    rows = [
        f'[[workload.collective]]\nname = "c{i}"\noperation = "{kind}"\nsize = "64kB"\ngpus = [{i}, 5, 9, 14]\n'
        f'start = "{i}us"\nafter = {["c0"] if i == 2 else []}\n'
        for i, kind in enumerate(kinds)
    ]
    head = '[topology]\nkind = "fat-tree"\nk = 4\nhost_delay = "500ns"\n[partition]\ndelay_threshold = "500ns"\n'
    return head + '[workload]\nkind = "collectives"\n' + "".join(rows)


MAKERS: dict[str, tuple[Callable[[Path], str], str]] = {
    "fat-tree": (random_flows, "1us"),
    "incast": (incast, "700ns"),
    "gpt": (gpt, "1.5us"),
    "rails": (rails, "1.5us"),
    "stages": (stages, "1.5us"),
    "planned": (planned, "1.5us"),
    "compiled": (compiled, "1.5us"),
    "tuned": (tuned, "1.5us"),
    "dual": (dual, "1.5us"),
    "experts": (experts, "1.5us"),
    "collectives": (collectives, "1us"),
}


@pytest.fixture(scope="module", params=MAKERS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, simulate: Callable) -> Case:
    make, other_threshold = MAKERS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    config = folder / "config.toml"
    config.write_text("\n".join(line.strip() for line in make(folder).splitlines()))
    simulate(1, config, folder / "alone")
    return Case(request.param, config, folder / "alone", other_threshold)


def different(one: Path, other: Path, names: tuple[str, ...] = FILES) -> list[str]:
    """Names of the files that are not the same bytes in both folders; with the breakdown, if either has one."""
    accounts = [BREAKDOWN] if (one / BREAKDOWN).exists() or (other / BREAKDOWN).exists() else []
    return [name for name in (*names, *accounts) if (one / name).read_bytes() != (other / name).read_bytes()]


def test_the_cases_are_worth_comparing(case: Case) -> None:
    result = json.loads((case.alone / "result.json").read_text())
    flows = pq.read_table(case.alone / "flows.parquet")
    assert result["packet_hops"] > 2_000 and result["logical_processes"] >= 10
    assert flows.num_rows == result["flows"] and flows["finish_ps"].null_count == 0
    if case.name in ("fat-tree", "incast"):
        assert sum(flows["ecn_marks"].to_pylist()) > 10
    if case.name == "gpt":
        assert len(result["iteration_time_ps"]) == 2 and pq.read_table(case.alone / "tasks.parquet").num_rows > 100


@pytest.mark.parametrize(("n_rank", "placement"), SHARES)
def test_ranks_and_placement_never_change_a_byte(
    case: Case, n_rank: int, placement: str, tmp_path: Path, simulate: Callable
) -> None:
    simulate(n_rank, case.config, tmp_path, f"partition.placement={placement}")
    run = json.loads((tmp_path / "run.json").read_text())
    assert run["ranks"] == n_rank and set(run["rank_of_lp"]) == set(range(n_rank))
    assert different(case.alone, tmp_path) == []


def test_the_same_run_twice_is_the_same_bytes(case: Case, tmp_path: Path, simulate: Callable) -> None:
    simulate(1, case.config, tmp_path)
    assert different(case.alone, tmp_path) == []


@pytest.mark.parametrize("n_rank", [pytest.param(1, marks=SLOW), 2])
def test_another_threshold_changes_the_cut_and_no_table(
    case: Case, n_rank: int, tmp_path: Path, simulate: Callable
) -> None:
    simulate(n_rank, case.config, tmp_path, f"partition.delay_threshold={case.other_threshold}")
    n_lp = [json.loads((d / "result.json").read_text())["logical_processes"] for d in (case.alone, tmp_path)]
    assert n_lp[0] > n_lp[1]
    assert different(case.alone, tmp_path, TABLES) == []


def test_another_seed_changes_what_is_drawn_and_nothing_else(case: Case, tmp_path: Path, simulate: Callable) -> None:
    """Only the fat-tree case marks with a probability below 1, and so draws. The compiled one draws computing times.

    That of rails draws when GPUs begin.
    """
    simulate(1, case.config, tmp_path, "simulation.seed=8")
    changed = {"flows.parquet", "ports.parquet"} if case.name == "fat-tree" else set()
    if case.name in ("compiled", "rails"):
        changed = {*TABLES, BREAKDOWN}
    assert set(different(case.alone, tmp_path, TABLES)) == changed


TINY = """\
[topology]
kind = "leaf-spine"
leaves = 2
spines = 1
hosts_per_leaf = 2
host_delay = "500ns"
[network]
ecn_kmin = "1kB"
ecn_kmax = "4kB"
ecn_pmax = 0.5
[workload]
kind = "flows"
file = "flows.csv"
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    write_flows(tmp_path / "flows.csv", [(0, 2, 9_000, 0), (1, 2, 9_000, 0), (3, 1, 4_000, 500_000), (0, 3, 1, 0)])
    config = tmp_path / "tiny.toml"
    config.write_text(TINY)
    return config


def test_compiled_or_not_is_the_same_bytes(tiny: Path, tmp_path: Path, simulate: Callable) -> None:
    simulate(1, tiny, tmp_path / "compiled")
    for n_rank in (1, 2):
        simulate(n_rank, tiny, tmp_path / f"plain{n_rank}", NUMBA_DISABLE_JIT="1")
        assert different(tmp_path / "compiled", tmp_path / f"plain{n_rank}") == []


@pytest.mark.parametrize(("n_rank", "idle"), [(2, "1 rank has"), pytest.param(4, "3 ranks have", marks=SLOW)])
def test_ranks_without_work_are_a_warning_and_the_same_bytes(
    n_rank: int, idle: str, tiny: Path, tmp_path: Path, simulate: Callable
) -> None:
    """A threshold above every delay leaves one LP: the other ranks idle."""
    one_lp = "partition.delay_threshold=2us"
    simulate(1, tiny, tmp_path / "one", one_lp)
    done = simulate(n_rank, tiny, tmp_path / "many", one_lp)
    assert done.stderr.count("warning") == 1 and f"{n_rank} ranks for 1 LP: {idle} nothing to do" in done.stderr
    assert different(tmp_path / "one", tmp_path / "many") == []


def test_gpus_of_a_server_are_on_different_ranks_where_their_collectives_take_long(
    tmp_path: Path, simulate: Callable, rank_counts: Callable
) -> None:
    """Placed round-robin, every group has members on each rank; a threshold above its duration keeps it together."""
    config = tmp_path / "config.toml"
    config.write_text(rails(tmp_path))
    topology = build_scenario(load_config(config)).topology
    server = topology.server[topology.host]
    for n_rank, threshold, n_lp_of_server in rank_counts((3, "500ns", 4), (2, "500ns", 4), (2, "20ms", 1)):
        sets = [f"partition.delay_threshold={threshold}", "partition.placement=round-robin"]
        scenario = build_scenario(load_config(config, sets))
        lp = scenario.lp_of_node[topology.host]
        assert {len(set(lp[server == one].tolist())) for one in range(4)} == {n_lp_of_server}
        simulate(1, config, tmp_path / "alone", *sets)
        simulate(n_rank, config, tmp_path / f"{n_rank}{threshold}", *sets)
        assert different(tmp_path / "alone", tmp_path / f"{n_rank}{threshold}") == []
        if n_lp_of_server > 1:
            run = json.loads((tmp_path / f"{n_rank}{threshold}" / "run.json").read_text())
            rank = np.array(run["rank_of_lp"])[lp]
            assert all(set(rank[server == one].tolist()) == set(range(n_rank)) for one in range(4))


def test_a_run_that_stops_early_counts_what_is_whole_and_nothing_else(tmp_path: Path, simulate: Callable) -> None:
    config = tmp_path / "config.toml"
    config.write_text(gpt(tmp_path))
    simulate(1, config, tmp_path / "whole")
    whole = json.loads((tmp_path / "whole" / "result.json").read_text())
    first_ps, second_ps = whole["iteration_time_ps"]
    for name, stop_ps, times in (("early", first_ps // 2, []), ("late", first_ps + second_ps // 2, [first_ps])):
        stop = f"simulation.stop_time={stop_ps}ps"
        simulate(1, config, tmp_path / name, stop)
        simulate(2, config, tmp_path / f"{name}2", stop)
        assert different(tmp_path / name, tmp_path / f"{name}2") == []
        result = json.loads((tmp_path / name / "result.json").read_text())
        flows = pq.read_table(tmp_path / name / "flows.parquet")
        assert result["iteration_time_ps"] == times and result["simulated_time_ps"] <= stop_ps
        assert 0 < result["flows_finished"] == result["flows"] - flows["finish_ps"].null_count < result["flows"]
